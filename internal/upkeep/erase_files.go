package upkeep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
)

// file is a file of the state directory, in the directory that is part below it.
type file struct {
	dir        fsx.Dir
	part, name string
}

func (f file) path() string { return engine.JoinPath(f.part, f.name) }

// place returns the name under which the file is counted.
func (f file) place() string {
	switch {
	case f.part != "":
		top, _, _ := strings.Cut(f.part, "/")
		return top
	case f.name == engine.LegacyName:
		return "journal"
	case f.name == budget.Name:
		return "budgets"
	}
	return "others"
}

// erasure is one file of the state directory that is removed or overwritten. A note
// records it before.
type erasure struct {
	file
	place string
	was   string
	now   string // "" when it is removed
	whole bool   // the object is removed, not overwritten
	apply func() error
}

// carry writes the note and then applies the pending erasures. Erasures in one
// directory are flushed together.
func (e *eraser) carry(ctx context.Context) error {
	list := e.pending
	if e.pending = nil; len(list) == 0 {
		return nil
	}
	for _, x := range list {
		name := e.shown(engine.StateDirName + "/" + x.path())
		again := e.known[name]
		if e.known[name] = true; again && e.DryRun {
			continue
		}
		e.count(e.shown(x.place), 1)
		if x.whole && !again && len(e.out.Removed) < maxNamed {
			e.out.Removed = append(e.out.Removed, name)
		}
	}
	if e.DryRun {
		return nil
	}
	var changes []journal.Change
	for _, x := range list {
		changes = append(changes, journal.Change{Path: e.shown(engine.StateDirName + "/" + x.path()), Was: x.was, Now: x.now})
	}
	if err := e.noteChanges(ctx, journal.NoteErased, e.reason, changes); err != nil {
		return err
	}
	dirs := map[fsx.Dir]bool{}
	for _, x := range list {
		if err := x.apply(); err != nil && !engine.IsAbsent(err) {
			return err
		}
		if x.dir != nil {
			dirs[x.dir] = true
		}
	}
	for d := range dirs {
		if err := d.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// withLocks runs fn, and the erasures that it adds, with some names of the lock table held.
func (e *eraser) withLocks(ctx context.Context, fn func() error, keys ...string) error {
	unlock, err := e.Engine.Locks.Names(ctx, e.LockTimeout, "erase", keys...)
	if err != nil {
		return err
	}
	defer unlock()
	if err := fn(); err != nil {
		return err
	}
	return e.carry(ctx)
}

// add adds an erasure.
func (e *eraser) add(f file, was string, apply func() error) *erasure {
	x := &erasure{file: f, place: f.place(), was: was, apply: apply}
	e.pending = append(e.pending, x)
	return x
}

// remove adds the removal of a file, if it is there.
func (e *eraser) remove(f file) error {
	st, err := f.dir.Lstat(f.name)
	if err != nil {
		return ignoreAbsent(err)
	}
	x := e.add(f, "", func() error { return f.dir.Remove(f.name) })
	x.whole = true
	if st.Kind == fsx.Regular {
		x.was, err = fileSHA(f)
	}
	return err
}

func fileSHA(f file) (string, error) {
	in, _, err := engine.OpenIfThere(f.dir, f.name)
	if err != nil || in == nil {
		return "", err
	}
	defer in.Close()
	sha, _, err := engine.HashFile(in)
	return sha, err
}

// drop removes an object if hit is set or if one of its files holds the secret. The
// object exists as long as its first file does, so that file goes first.
func (e *eraser) drop(ctx context.Context, hit bool, files ...file) (err error) {
	for i := 0; i < len(files) && !hit; i++ {
		if hit, err = e.holds(files[i]); err != nil {
			return err
		}
	}
	if !hit {
		return nil
	}
	for i, f := range files {
		if err := e.remove(f); err != nil {
			return err
		}
		if i == 0 {
			if err := e.carry(ctx); err != nil {
				return err
			}
		}
	}
	return e.carry(ctx)
}

// replace adds the erasure that gives a file other bytes, unless they are the same.
// They are written to staging/, and take their place when the erasure is applied.
func (e *eraser) replace(f file, old, data []byte) error {
	if bytes.Equal(old, data) {
		return nil
	}
	x := e.add(f, engine.HashOf(old), nil)
	if e.DryRun {
		return nil
	}
	tmp := e.tempName()
	out, err := e.createTemp(tmp)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err = out.Write(data); err == nil {
		err = out.Sync()
	}
	x.now, x.apply = engine.HashOf(data), func() error { return e.Engine.Disk.Staging.Rename(tmp, x.dir, x.name) }
	return err
}

// contains reports whether the bytes of a file are to be erased.
func (e *eraser) contains(f file) (bool, error) {
	if st, err := f.dir.Lstat(f.name); err != nil || st.Kind != fsx.Regular {
		return false, ignoreAbsent(err)
	}
	if e.n == nil {
		sha, err := fileSHA(f)
		return sha == e.sha, err
	}
	in, _, err := engine.OpenIfThere(f.dir, f.name)
	if err != nil || in == nil {
		return false, err
	}
	defer in.Close()
	return e.n.In(in)
}

// holds reports whether a file of the state directory is to be erased, also for the
// strings of a JSON document, which escapes may hide, and for the content that it stores
// or describes.
func (e *eraser) holds(f file) (bool, error) {
	hit, err := e.contains(f)
	if hit || err != nil || !strings.HasSuffix(f.name, ".json") {
		return hit, err
	}
	text, err := durable.ReadFile(f.dir, f.name, staged.MaxOp)
	if err != nil { // larger ones are not of this program
		return false, nil
	}
	if e.n != nil {
		return e.in(text), nil
	}
	var of struct {
		SHA256  string
		Content []byte
	}
	return json.Unmarshal(text, &of) == nil && (of.SHA256 == e.sha || engine.HashOf(of.Content) == e.sha), nil
}

// in reports whether a text contains the secret. The strings of a JSON text are compared
// without their escapes.
func (e *eraser) in(text []byte) bool { return e.n != nil && !bytes.Equal(e.masked(text), text) }

// masked is a text without the secret, JSON or not.
func (e *eraser) masked(text []byte) []byte {
	if json.Valid(text) {
		if out, _, err := e.n.MaskJSON(text, nil); err == nil {
			return out
		}
	}
	out, _ := e.n.Mask(text)
	return out
}

// named reports whether the path of a file contains the secret.
func (e *eraser) named(f file) bool { return e.n != nil && e.n.Within([]byte(f.path())) }

// maxDepth is how deep a directory is looked into; ours are three levels deep.
const maxDepth = 64

// walk calls fn for every file below a directory, and for each directory after its files.
// It passes over those for which skip is true, and follows no symbolic links. For a
// directory that cannot be listed, or is too deep, fn gets a file without a name.
func walk(dir fsx.Dir, part string, depth int, skip func(string, fsx.Stat) bool, fn func(file, fsx.Stat, error) error) error {
	names, err := dir.Names()
	if err != nil || depth == 0 {
		return fn(file{dir, part, ""}, fsx.Stat{}, err)
	}
	for _, name := range names {
		f := file{dir, part, name}
		st, err := dir.Lstat(name)
		if engine.IsAbsent(err) || err == nil && skip(name, st) {
			continue
		}
		if err == nil && st.Kind == fsx.Directory {
			var sub fsx.Dir
			if sub, err = dir.OpenDir(name); engine.IsAbsent(err) {
				continue
			}
			if err == nil {
				below := walk(sub, f.path(), depth-1, skip, fn)
				sub.Close()
				if below != nil {
					return below
				}
			}
		}
		if err := fn(f, st, err); err != nil {
			return err
		}
	}
	return nil
}

// walkState calls fn for every file of the state directory.
func (e *eraser) walkState(ctx context.Context, fn func(file, fsx.Stat) error) error {
	all := func(string, fsx.Stat) bool { return false }
	return walk(e.Engine.Disk.State, "", maxDepth, all, func(f file, st fsx.Stat, err error) error {
		if err == nil {
			err = canceled(ctx)
		}
		if err != nil || f.name == "" {
			return err
		}
		return fn(f, st)
	})
}

// plainFiles hold nothing that anyone wrote, or are no files of the store.
const plainFiles = `locks/.+|meta\.json|slots\.json|reserve|poisoned|\.gitignore|policy\.yaml`

// ownPlaces are those, and the files that an eraser of their own treats.
var ownPlaces = sync.OnceValue(func() *regexp.Regexp {
	all := plainFiles + `|(journal|archive)/[0-9]{20}\.jsonl|manifests/.+|observe/index|observe/snapshots/[^/]+\.index`
	for _, part := range parts {
		if part.own != "" {
			all += "|" + part.name + "/" + part.own
		}
	}
	return regexp.MustCompile("^(" + all + ")$")
})

// untouched are files that no eraser looks into.
var untouched = regexp.MustCompile(`^(staging/.+|` + plainFiles + `)$`)

// files erases what no part erases: caches, drafts, archived handoffs and all files that
// are not known, and the directories that are named by the secret.
func (e *eraser) files(ctx context.Context) error {
	defer e.Engine.Log.ForgetManifest()
	return e.withLocks(ctx, func() error {
		return e.walkState(ctx, func(f file, st fsx.Stat) error {
			if st.Kind == fsx.Directory {
				return e.emptied(ctx, f)
			}
			e.Meter.One()
			if err := e.file(ctx, f); err != nil {
				return err
			}
			return e.carry(ctx)
		})
	}, "state", handoff.Lock)
}

func (e *eraser) file(ctx context.Context, f file) error {
	path := f.path()
	switch {
	case path == engine.LegacyName:
		return e.legacy(f)
	case path == budget.Name:
		defer e.Budgets.Lock()()
	case f.place() == engine.ManifestDir && engine.ValidSHA256(f.name):
		return e.manifest(f)
	case f.place() == observe.Dir && strings.HasSuffix(f.name, "index"):
		return e.observed(ctx, f)
	case !e.named(f) && (f.place() == observe.Dir || path == handoff.Dir+"/"+handoff.ReadName):
		return e.maskLines(f) // what it records of others is kept
	case ownPlaces().MatchString(path), f.part == "staging" && engine.OwnStaging(f.name):
		return nil
	case f.part == quarantineName && strings.HasPrefix(f.name, drafts.Prefix):
		if ref := strings.TrimSuffix(strings.TrimSuffix(f.name, drafts.BytesSuffix), drafts.FactsSuffix); drafts.ValidRef(ref) {
			return e.drop(ctx, false, file{f.dir, f.part, ref + drafts.FactsSuffix}, file{f.dir, f.part, ref + drafts.BytesSuffix})
		}
	}
	return e.drop(ctx, e.named(f), f)
}

// emptied removes a directory whose path contains the secret, if it has become empty.
func (e *eraser) emptied(ctx context.Context, f file) error {
	if !e.named(f) {
		return nil
	}
	dir, err := f.dir.OpenDir(f.name)
	if err != nil {
		return ignoreAbsent(err)
	}
	names, err := dir.Names()
	dir.Close()
	if err != nil || len(names) > 0 && !e.DryRun {
		return err
	}
	e.add(f, "", func() error { return f.dir.Rmdir(f.name) })
	return e.carry(ctx)
}

// maskLines overwrites the secret in a file of JSON texts, one a line.
func (e *eraser) maskLines(f file) error {
	old, masked, err := e.lines(f)
	if err != nil {
		return err
	}
	return e.replace(f, old, masked)
}

// lines returns such a file, and its bytes without the secret.
func (e *eraser) lines(f file) (old, masked []byte, err error) {
	if e.n == nil {
		return nil, nil, nil
	}
	old, err = durable.ReadFile(f.dir, f.name, math.MaxInt64-1)
	for line := range bytes.Lines(old) {
		masked = append(masked, e.masked(line)...)
	}
	return old, masked, ignoreAbsent(err)
}

// manifest overwrites the secret in the mutations of a long row, as in those of other
// rows. A manifest keeps its name; the file next to it contains its hash.
func (e *eraser) manifest(f file) error {
	if err := e.maskLines(f); err != nil || len(e.pending) == 0 {
		return err
	}
	x := e.pending[0]
	replace := x.apply
	x.apply = func() error {
		if err := durable.WriteFile(f.dir, f.name+engine.ManifestMasked, []byte(x.now), 0o600); err != nil {
			return err
		}
		return replace()
	}
	return nil
}

// observed removes the files whose paths contain the secret from the stat index or a
// snapshot. A damaged one is removed.
func (e *eraser) observed(ctx context.Context, f file) error {
	if e.n == nil {
		return nil
	}
	text, err := durable.ReadFile(f.dir, f.name, observe.MaxIndex)
	if err != nil {
		return err
	}
	out, err := observe.Without(text, func(path string) bool { return e.n.Within([]byte(path)) })
	if err != nil || e.n.Within(out) {
		return e.drop(ctx, false, f)
	}
	return e.replace(f, text, out)
}

// legacy overwrites the secret in the journal of the Python implementation, in place:
// its rows are identified by their offset, and that program may be adding rows.
func (e *eraser) legacy(f file) error {
	old, masked, err := e.lines(f)
	if err != nil || bytes.Equal(old, masked) {
		return err
	}
	e.add(f, engine.HashOf(old), func() error {
		out, err := f.dir.Open(f.name, fsx.Read|fsx.Write, 0)
		if err != nil {
			return err
		}
		defer out.Close()
		if _, err := out.WriteAt(masked, 0); err != nil {
			return err
		}
		return out.Sync()
	}).now = engine.HashOf(masked)
	return nil
}

// ignoreAbsent returns nil for the error of a file that is absent.
func ignoreAbsent(err error) error {
	if engine.IsAbsent(err) {
		return nil
	}
	return err
}

// maxNamed is how many files of a kind a result names.
const maxNamed = 1000

// whatIsLeft searches the files that no round has searched and, if the last round still
// found something, all files again.
func (e *eraser) whatIsLeft(ctx context.Context) error {
	return e.walkState(ctx, func(f file, st fsx.Stat) error {
		path := f.path()
		if e.found == 0 && !untouched.MatchString(path) || strings.HasPrefix(path, "history/") && strings.HasSuffix(path, durable.TempSuffix) {
			return nil
		}
		hit, err := e.holds(f)
		if (hit || e.n != nil && e.n.Within([]byte(f.name))) && len(e.out.Left) < maxNamed {
			e.out.Left = append(e.out.Left, e.shown(path))
		}
		return err
	})
}

// searchWorkspace lists the files of the workspace that still hold the secret.
func (e *eraser) searchWorkspace(ctx context.Context) error {
	state, err := e.Engine.Disk.State.Stat()
	if err != nil {
		return err
	}
	e.Meter.Things(StepFiles, 0, "searching the workspace")
	skip := func(name string, st fsx.Stat) bool { return name == ".git" || st.SameFile(state) }
	err = walk(e.Engine.Disk.Root, "", maxDepth, skip, func(f file, st fsx.Stat, err error) error {
		if ctx := canceled(ctx); ctx != nil {
			return ctx
		}
		hit := false
		if err == nil && st.Kind == fsx.Regular {
			e.Meter.One()
			hit, err = e.contains(f)
			hit = hit || e.named(f)
		}
		if err != nil || f.name == "" {
			e.out.Unreadable++
		}
		if hit && len(e.out.Workspace) < maxNamed {
			e.out.Workspace = append(e.out.Workspace, e.shown(f.path()))
		} else if hit {
			e.out.WorkspaceMore = true
		}
		return nil
	})
	slices.Sort(e.out.Workspace)
	return err
}

// versions erases kept versions.
func (e *eraser) versions(ctx context.Context) error {
	if e.Engine.History == nil {
		return nil
	}
	var shas []string
	err := e.Engine.History.Each(func(name string, _ fsx.Stat, ok bool) error {
		e.Meter.One()
		if !ok {
			return ctx.Err() // files looks into it
		}
		hit := name == e.sha
		if e.n != nil {
			f, err := e.Engine.History.Open(name)
			if err != nil {
				return ignoreAbsent(err)
			}
			hit, err = e.n.In(f)
			f.Close()
			if err != nil {
				return err
			}
		}
		if hit {
			shas = append(shas, name)
			e.add(file{part: "history/" + name[:2], name: name}, name, func() error { return nil })
		}
		return ctx.Err()
	})
	if err != nil || len(shas) == 0 {
		return err
	}
	if !e.DryRun { // no sweep removes what only is the beginning of these
		unlock, err := e.Engine.Locks.ShareHistory(ctx, e.LockTimeout)
		if err != nil {
			return err
		}
		defer unlock()
		if err := e.keepBeginnings(ctx, shas); err != nil {
			return err
		}
	}
	err = e.carry(ctx)
	e.out.Versions = append(e.out.Versions, shas[:min(len(shas), maxNamed-len(e.out.Versions))]...)
	if err != nil || e.DryRun {
		return err
	}
	return e.Engine.History.Erase(shas)
}

// keepBeginnings keeps the states before appends that history only has as the beginning of
// versions that are to be erased, unless they are to be erased too. The caller holds a share
// of the lock of history.
func (e *eraser) keepBeginnings(ctx context.Context, shas []string) error {
	type added struct {
		before, after string
		bytes         int64 // of the former
	}
	var list []added
	err := e.Engine.Log.SkimPrevious(1, func(rec *journal.Record) error {
		for i := range rec.Muts {
			if m := &rec.Muts[i]; m.Class == "" && m.PaySHA256 != "" && m.PrevSHA256 != "" {
				list = append(list, added{m.PrevSHA256, m.SHA256, m.PrevBytes})
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	in, kept := map[string]string{}, map[string]bool{} // by hash: the version that begins with it; it need not be looked at
	for _, sha := range shas {
		in[sha] = sha
	}
	for _, a := range slices.Backward(list) {
		whole, goes := in[a.after]
		if _, known := in[a.before]; !goes || known || a.before == e.sha {
			continue
		}
		if in[a.before] = whole; kept[a.after] {
			kept[a.before] = true
		} else if kept[a.before], err = e.keepBeginning(whole, a.before, a.bytes); err != nil {
			return err
		}
	}
	return nil
}

// keepBeginning makes the first bytes of a version one of their own, unless they contain the
// secret or are not those that the journal knows. One that is there is not removed by a sweep
// that has found it dispensable before.
func (e *eraser) keepBeginning(whole, sha string, size int64) (kept bool, err error) {
	f, err := e.Engine.History.Open(whole)
	if err != nil {
		return false, ignoreAbsent(err)
	}
	defer f.Close()
	if e.n != nil {
		if hit, err := e.n.In(io.NewSectionReader(f, 0, size)); hit || err != nil {
			return false, err
		}
	}
	err = e.Engine.History.Save(io.NewSectionReader(f, 0, size), size, sha)
	if errors.Is(err, blob.ErrDamaged) {
		return false, nil
	}
	return err == nil, err
}

// scratch erases the objects of the scratchpad whose bytes, labels or notes hold the
// secret, with their entries.
func (e *eraser) scratch(ctx context.Context) error {
	dir, err := e.Engine.StatePart(scratch.Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	of := func(name string) file { return file{dir, scratch.Dir, name} }
	return e.withLocks(ctx, func() error {
		index, err := durable.ReadFile(dir, scratch.IndexFile, maxIndex)
		if ignoreAbsent(err) != nil {
			return err
		}
		gone := map[string]bool{}
		for line := range bytes.Lines(index) {
			if e.in(line) {
				gone[objectOf(line)] = true
			}
		}
		names, err := dir.Names()
		if err != nil {
			return err
		}
		for _, name := range names {
			sha, isObject := strings.CutSuffix(name, scratch.BinSuffix)
			if facts, ok := scratch.FactsOf(name); ok {
				sha = facts
			} else if !isObject || !engine.ValidSHA256(sha) {
				continue
			}
			hit, err := e.holds(of(name))
			if err != nil {
				return err
			}
			gone[sha] = gone[sha] || hit
		}
		for _, name := range []func(string) string{scratch.BinName, scratch.FactsName} {
			for _, sha := range slices.Sorted(maps.Keys(gone)) {
				if !gone[sha] || sha == "" {
					continue
				}
				if err := e.remove(of(name(sha))); err != nil {
					return err
				}
			}
			// The index follows the objects that it lists: if only the index were written,
			// an object that a power failure restores would have lost its entry.
			if err := e.carry(ctx); err != nil {
				return err
			}
		}
		var kept []byte
		for line := range bytes.Lines(index) {
			if sha := objectOf(line); !e.in(line) && (sha == "" || !gone[sha]) {
				kept = append(kept, line...)
			}
		}
		return e.replace(of(scratch.IndexFile), index, kept)
	}, engine.PathLock(engine.StateDirName+"/"+scratch.Index))
}

// maxIndex is the size up to which the index of the scratchpad is read.
const maxIndex = 64 << 20

// objectOf returns the object of a line of the index, "" if it names none.
func objectOf(line []byte) string {
	var row struct {
		SHA256 string `json:"sha256"`
	}
	json.Unmarshal(line, &row)
	if sha := strings.ToLower(row.SHA256); engine.ValidSHA256(sha) {
		return sha
	}
	return ""
}

// eachLocked calls fn with each directory in a part of the state directory, while its
// lock is held, and carries out the erasures that it adds. Its files are returned with
// their names sorted.
func (e *eraser) eachLocked(ctx context.Context, part string, lock func(string) string, fn func([]file) error) error {
	return e.Engine.EachIn(part, func(all fsx.Dir, name string) error {
		dir, err := all.OpenDir(name)
		if err != nil {
			return nil // a foreign file, which files looks into
		}
		defer dir.Close()
		return e.withLocks(ctx, func() error {
			names, err := dir.Names()
			if err != nil {
				return err
			}
			list := make([]file, len(names))
			for i := range names {
				list[i] = file{dir, part + "/" + name, names[i]}
			}
			return fn(list)
		}, lock(name))
	})
}

// sessions erases chunks, and what is recorded about their sessions. A chunk with a part
// removed would be composed into a file that no caller wrote, so the whole chunk is
// removed and has to be sent again.
func (e *eraser) sessions(ctx context.Context) error {
	return e.eachLocked(ctx, chunks.Dir, chunks.Lock, func(files []file) error {
		hit, err := e.spans(files)
		if err != nil {
			return err
		}
		for _, f := range files {
			in := hit[f.name] || e.named(f)
			if !in {
				if in, err = e.holds(f); err != nil {
					return err
				}
			}
			if in {
				if err := e.remove(f); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// spans returns the chunks that contain the secret together with those next to them: the
// end of one and the beginning of the next.
func (e *eraser) spans(files []file) (map[string]bool, error) {
	hit := map[string]bool{}
	if e.n == nil {
		return hit, nil
	}
	order := func(a, b file) int { return chunks.IndexOf(a.name) - chunks.IndexOf(b.name) }
	var starts []int64 // of the chunks that were read
	var read []string
	find := e.n.Finder(func(from, to int64) {
		for i := len(starts) - 1; i >= 0; i-- {
			if starts[i] < to {
				hit[read[i]] = true
			}
			if starts[i] <= from {
				break
			}
		}
	})
	at := int64(0)
	for _, f := range slices.SortedFunc(slices.Values(files), order) {
		if st, err := f.dir.Lstat(f.name); err != nil || st.Kind != fsx.Regular || chunks.IndexOf(f.name) == 0 {
			continue
		}
		in, st, err := engine.OpenIfThere(f.dir, f.name)
		if err != nil || in == nil {
			return hit, err
		}
		if st.Size > 0 {
			starts, read = append(starts, at), append(read, f.name)
		}
		n, err := io.Copy(find, io.NewSectionReader(in, 0, st.Size))
		in.Close()
		if at += n; err != nil {
			return hit, err
		}
	}
	return hit, find.Flush()
}

// transactions drops the staged transactions that contain the secret. If they were
// committed without a part, they would write content that no caller requested.
func (e *eraser) transactions(ctx context.Context) error {
	return e.eachLocked(ctx, staged.Dir, staged.Lock, func(files []file) error {
		if i := slices.IndexFunc(files, func(f file) bool { return f.name == staged.Begin }); i > 0 {
			files[0], files[i] = files[i], files[0] // a transaction exists as long as this file does
		}
		return e.drop(ctx, false, files...)
	})
}

// checkpoints drops the checkpoints that contain the secret, and data of earlier saves.
func (e *eraser) checkpoints(ctx context.Context) error {
	names, err := e.Checkpoints.List()
	if len(names) == 0 || err != nil {
		return err
	}
	dir, err := e.Engine.StatePart(checkpoint.Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range names {
		err := e.withLocks(ctx, func() error {
			c, err := e.Checkpoints.Read(name, true)
			if err != nil {
				return ignoreAbsent(err)
			}
			files := []file{{dir, checkpoint.Dir, name + checkpoint.FileSuffix}}
			for _, blob := range c.Blobs {
				f := file{dir, checkpoint.Dir, blob}
				if blob == checkpoint.BlobName(name, c.SHA256) {
					files = append(files, f)
				} else if err := e.drop(ctx, false, f); err != nil {
					return err
				}
			}
			return e.drop(ctx, e.named(files[0]), files...)
		}, engine.PathLock(checkpoint.Path(name)))
		if err != nil {
			return err
		}
	}
	return nil
}
