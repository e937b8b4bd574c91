package upkeep

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

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
	"github.com/resilientwrite/resilientwrite/internal/needle"
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
	var changes []journal.Change
	for _, x := range list {
		name := e.shown(engine.StateDirName + "/" + x.path())
		changes = append(changes, journal.Change{Path: name, Was: x.was, Now: x.now})
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
		if err := e.Engine.SyncDir(d); err != nil {
			return err
		}
	}
	return nil
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

// replace adds the erasure that gives a file other bytes, unless they are the same.
func (e *eraser) replace(f file, old, data []byte) {
	if bytes.Equal(old, data) {
		return
	}
	x := e.add(f, engine.HashOf(old), nil)
	x.now = engine.HashOf(data)
	x.apply = func() error {
		if f.path() == engine.LegacyName {
			// Its rows are identified by their offset, and the Python implementation may
			// be adding rows.
			return overwrite(f, data)
		}
		if isManifest(f) { // it keeps its name; the file next to it contains its hash
			if err := durable.WriteFile(f.dir, f.name+engine.ManifestMasked, []byte(x.now), 0o600); err != nil {
				return err
			}
		}
		return durable.WriteFrom(e.Engine.Disk.Staging, e.tempName(), f.dir, f.name, data, 0o600)
	}
}

// overwrite writes over the beginning of a file.
func overwrite(f file, data []byte) error {
	out, err := f.dir.Open(f.name, fsx.Read|fsx.Write, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := out.WriteAt(data, 0); err != nil {
		return err
	}
	return out.Sync()
}

// contains reports whether the bytes of a file are to be erased.
func (e *eraser) contains(f file) (bool, error) {
	if st, err := f.dir.Lstat(f.name); err != nil || st.Kind != fsx.Regular {
		return false, ignoreAbsent(err)
	}
	if e.n == nil && isVersion(f) {
		return f.name == e.sha, nil
	}
	in, _, err := engine.OpenIfThere(f.dir, f.name)
	if err != nil || in == nil {
		return false, err
	}
	defer in.Close()
	if e.n == nil {
		sha, _, err := engine.HashFile(in)
		return sha == e.sha, err
	}
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
	if engine.IsUnread(err) {
		return false, err
	}
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

// entry is a file or a directory that a walk has found.
type entry struct {
	file
	kind fsx.Kind
	err  error
}

// walk calls fn with the entries of each directory below one, and then with those of the
// directory itself. It passes over those for which skip is true, and follows no symbolic
// links. For a directory that cannot be listed, or is too deep, the entry has no name.
func walk(dir fsx.Dir, part string, depth int, skip func(string, fsx.Stat) bool, fn func([]entry) error) error {
	names, err := dir.Names()
	if err != nil || depth == 0 {
		return fn([]entry{{file: file{dir, part, ""}, err: err}})
	}
	list := make([]entry, 0, len(names))
	for _, name := range names {
		st, err := dir.Lstat(name)
		if engine.IsAbsent(err) || err == nil && skip(name, st) {
			continue
		}
		f := file{dir, part, name}
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
		list = append(list, entry{f, st.Kind, err})
	}
	return fn(list)
}

// walkState calls fn with the entries of each directory of the state directory.
func (e *eraser) walkState(ctx context.Context, fn func([]entry) error) error {
	all := func(string, fsx.Stat) bool { return false }
	return walk(e.Engine.Disk.State, "", maxDepth, all, func(list []entry) error {
		for _, f := range list {
			if f.err != nil {
				return f.err
			}
		}
		if err := canceled(ctx); err != nil || len(list) == 0 || list[0].name == "" {
			return err
		}
		return fn(list)
	})
}

// plainFiles hold nothing that anyone wrote, or are no files of the store.
const plainFiles = `locks/.+|meta\.json|slots\.json|reserve|poisoned|\.gitignore|policy\.yaml`

var (
	// untouched are files that no eraser looks into.
	untouched = regexp.MustCompile(`^(staging/.+|` + plainFiles + `)$`)
	// elsewhere are those, and the files that other steps of a round treat.
	elsewhere = regexp.MustCompile(`^(` + plainFiles + `|(journal|archive)/[0-9]{20}\.jsonl|manifests/.+|history/[0-9a-f]{2}/[0-9a-f]{64}\.[0-9-]+\.tmp)$`)
)

// files erases objects, caches and all files that are not known, and the directories that
// are named by the secret. It finds the kept versions that contain it.
func (e *eraser) files(ctx context.Context) error {
	defer e.Engine.Log.ForgetManifest()
	return e.walkState(ctx, func(list []entry) error {
		unlock, err := e.Engine.Locks.Names(ctx, e.LockTimeout, "erase", locks(list)...)
		if err != nil {
			return err
		}
		defer unlock()
		return e.directory(ctx, list)
	})
}

// locks returns the locks with which the files of a directory are changed. Versions are
// only read.
func locks(list []entry) (keys []string) {
	part, below, _ := strings.Cut(list[0].part, "/")
	switch part {
	case "history":
	case scratch.Dir:
		keys = append(keys, engine.PathLock(engine.StateDirName+"/"+scratch.Index))
	case chunks.Dir:
		keys = append(keys, chunks.Lock(below))
	case staged.Dir:
		keys = append(keys, staged.Lock(below))
	case checkpoint.Dir:
		for _, f := range list {
			name, _ := checkpoint.NameOf(f.name)
			keys = append(keys, engine.PathLock(checkpoint.Path(name)))
		}
	default:
		keys = append(keys, "state", handoff.Lock)
	}
	return keys
}

// directory erases what is in one directory, while its locks are held: the objects of
// which a file contains the secret, then the secret in the files that are kept.
func (e *eraser) directory(ctx context.Context, list []entry) error {
	if list[0].part == "" {
		defer e.Budgets.Lock()()
	}
	e.hit = map[string]bool{}
	var err error
	switch list[0].place() { // what contains the secret only together with another file
	case chunks.Dir:
		err = e.spans(list)
	case scratch.Dir:
		err = e.listed(list[0].dir)
	}
	for _, f := range list {
		if err != nil {
			return err
		}
		if f.kind == fsx.Directory || e.edit(f.file) != nil || elsewhere.MatchString(f.path()) || f.part == "staging" && engine.OwnStaging(f.name) {
			continue
		}
		e.Meter.One()
		in := false
		switch in, err = e.holds(f.file); {
		case in && isVersion(f.file):
			e.shas = append(e.shas, f.name)
		case in || e.named(f.file) && !isVersion(f.file):
			e.hit[e.firstOf(f.file)] = true
		}
		err = cmp.Or(err, canceled(ctx))
	}
	if err == nil {
		err = e.drop(ctx, list)
	}
	for _, f := range list {
		switch edit := e.edit(f.file); {
		case err != nil:
			return err
		case f.kind == fsx.Directory:
			err = e.empty(f.file)
		case edit != nil:
			err = e.edited(f.file, edit)
		}
		if err == nil {
			err = e.carry(ctx)
		}
	}
	return err
}

// drop removes the objects that are hit. An object exists as long as its first file does,
// so that file goes first.
func (e *eraser) drop(ctx context.Context, list []entry) error {
	if len(e.hit) == 0 {
		return nil
	}
	var order [2][]file
	for _, f := range list {
		first := e.firstOf(f.file)
		switch {
		case f.kind == fsx.Directory || !e.hit[first]:
		case first == f.name:
			order[0] = append(order[0], f.file)
		default:
			order[1] = append(order[1], f.file)
		}
	}
	for _, files := range order {
		for _, f := range files {
			if err := e.remove(f); err != nil {
				return err
			}
		}
		if err := e.carry(ctx); err != nil {
			return err
		}
	}
	return nil
}

// empty adds the removal of a directory whose path contains the secret, if it has become
// empty.
func (e *eraser) empty(f file) error {
	if !e.named(f) {
		return nil
	}
	dir, err := f.dir.OpenDir(f.name)
	if err != nil {
		return ignoreAbsent(err)
	}
	names, err := dir.Names()
	dir.Close()
	if err == nil && (len(names) == 0 || e.DryRun) {
		e.add(f, "", func() error { return f.dir.Rmdir(f.name) })
	}
	return err
}

// isVersion reports whether a file is a kept version.
func isVersion(f file) bool { return f.place() == "history" && engine.ValidSHA256(f.name) }

// isManifest reports whether a file holds the mutations of a long row.
func isManifest(f file) bool {
	return f.place() == engine.ManifestDir && engine.ValidSHA256(f.name)
}

// edit returns the function that takes the secret out of a file that is not removed as a
// whole: one that records something else as well. nil is for the other files.
func (e *eraser) edit(f file) func(text []byte) ([]byte, error) {
	path := f.path()
	switch {
	case path == scratch.Index:
		return e.entries
	case f.place() == observe.Dir && strings.HasSuffix(f.name, "index"):
		return e.observed
	case path == engine.LegacyName, isManifest(f), !e.named(f) && (f.place() == observe.Dir || path == handoff.Dir+"/"+handoff.ReadName):
		return e.lines
	}
	return nil
}

// maxEdited is the size in bytes up to which a file is edited.
const maxEdited = 1 << 30

// edited adds the erasure that edits a file. One that cannot be read is removed.
func (e *eraser) edited(f file, edit func([]byte) ([]byte, error)) error {
	if e.n == nil && f.path() != scratch.Index {
		return nil
	}
	old, err := durable.ReadFile(f.dir, f.name, maxEdited)
	if engine.IsOdd(err) { // not one of ours
		if hit, herr := e.contains(f); !hit {
			return herr
		}
	}
	if err != nil {
		return ignoreAbsent(err)
	}
	out, err := edit(old)
	if err != nil {
		return e.remove(f)
	}
	e.replace(f, old, out)
	return nil
}

// lines overwrites the secret in a file of JSON texts, one a line.
func (e *eraser) lines(text []byte) (masked []byte, err error) {
	for line := range bytes.Lines(text) {
		masked = append(masked, e.masked(line)...)
	}
	return masked, nil
}

// observed removes the files whose paths contain the secret from the stat index or a
// snapshot.
func (e *eraser) observed(text []byte) ([]byte, error) {
	out, err := observe.Without(text, func(path string) bool { return e.n.Within([]byte(path)) })
	if err == nil && e.n.Within(out) {
		err = needle.ErrStructure
	}
	return out, err
}

// entries removes the lines that contain the secret, and those of removed objects, from
// the index of the scratchpad.
func (e *eraser) entries(index []byte) (kept []byte, err error) {
	for line := range bytes.Lines(index) {
		if !e.in(line) && !e.hit[objectOf(line)] {
			kept = append(kept, line...)
		}
	}
	return kept, nil
}

// listed hits the objects of the scratchpad that the index describes with the secret.
func (e *eraser) listed(dir fsx.Dir) error {
	index, err := durable.ReadFile(dir, scratch.IndexFile, maxEdited)
	if engine.IsOdd(err) {
		return nil
	}
	for line := range bytes.Lines(index) {
		if name := objectOf(line); name != "" && e.in(line) {
			e.hit[name] = true
		}
	}
	return ignoreAbsent(err)
}

// objectOf returns the file of the object of a line of the index, "" if it names none.
func objectOf(line []byte) string {
	var row struct {
		SHA256 string `json:"sha256"`
	}
	json.Unmarshal(line, &row)
	if sha := strings.ToLower(row.SHA256); engine.ValidSHA256(sha) {
		return scratch.BinName(sha)
	}
	return ""
}

// firstOf returns the first file of the object that a file is a part of.
func (e *eraser) firstOf(f file) string {
	switch f.place() {
	case scratch.Dir:
		if sha, ok := scratch.FactsOf(f.name); ok {
			return scratch.BinName(sha)
		}
	case staged.Dir:
		if f.part != staged.Dir {
			return staged.Begin
		}
	case quarantineName:
		if ref := strings.TrimSuffix(strings.TrimSuffix(f.name, drafts.BytesSuffix), drafts.FactsSuffix); drafts.ValidRef(ref) {
			return ref + drafts.FactsSuffix
		}
	case checkpoint.Dir:
		if name, isData := checkpoint.NameOf(f.name); isData {
			// Data of an earlier save is an object of its own.
			if c, err := e.Checkpoints.Read(name, false); err == nil && checkpoint.BlobName(name, c.SHA256) == f.name {
				return name + checkpoint.FileSuffix
			}
		}
	}
	return f.name
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
	return e.walkState(ctx, func(list []entry) error {
		for _, f := range list {
			path := f.path()
			if e.found == 0 && !untouched.MatchString(path) || strings.HasPrefix(path, "history/") && strings.HasSuffix(path, durable.TempSuffix) {
				continue
			}
			hit, err := e.holds(f.file)
			if err != nil {
				return err
			}
			if (hit || e.n != nil && e.n.Within([]byte(f.name))) && len(e.out.Left) < maxNamed {
				e.out.Left = append(e.out.Left, e.shown(path))
			}
		}
		return canceled(ctx)
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
	err = walk(e.Engine.Disk.Root, "", maxDepth, skip, func(list []entry) error {
		for _, f := range list {
			if err := canceled(ctx); err != nil {
				return err
			}
			hit, err := false, f.err
			if err == nil && f.kind == fsx.Regular {
				e.Meter.One()
				hit, err = e.contains(f.file)
				hit = hit || e.named(f.file)
			}
			if err != nil || f.name == "" {
				e.out.Unreadable++
			}
			if hit && len(e.out.Workspace) < maxNamed {
				e.out.Workspace = append(e.out.Workspace, e.shown(f.path()))
			} else if hit {
				e.out.WorkspaceMore = true
			}
		}
		return nil
	})
	slices.Sort(e.out.Workspace)
	return err
}

// versions erases the kept versions that files has found.
func (e *eraser) versions(ctx context.Context) error {
	shas := e.shas
	if e.shas = nil; len(shas) == 0 {
		return nil
	}
	for _, sha := range shas {
		e.add(file{part: "history/" + sha[:2], name: sha}, sha, func() error { return nil })
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
	err := e.carry(ctx)
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

// spans hits the chunks that contain the secret together with those next to them: the
// end of one and the beginning of the next.
func (e *eraser) spans(list []entry) error {
	if e.n == nil {
		return nil
	}
	order := func(a, b entry) int { return chunks.IndexOf(a.name) - chunks.IndexOf(b.name) }
	var starts []int64 // of the chunks that were read
	var read []string
	find := e.n.Finder(func(from, to int64) {
		for i := len(starts) - 1; i >= 0; i-- {
			if starts[i] < to {
				e.hit[read[i]] = true
			}
			if starts[i] <= from {
				break
			}
		}
	})
	at := int64(0)
	for _, f := range slices.SortedFunc(slices.Values(list), order) {
		if f.kind != fsx.Regular || chunks.IndexOf(f.name) == 0 {
			continue
		}
		in, st, err := engine.OpenIfThere(f.dir, f.name)
		if err != nil || in == nil {
			return err
		}
		if st.Size > 0 {
			starts, read = append(starts, at), append(read, f.name)
		}
		n, err := io.Copy(find, io.NewSectionReader(in, 0, st.Size))
		in.Close()
		if at += n; err != nil {
			return err
		}
	}
	return find.Flush()
}
