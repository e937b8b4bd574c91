package upkeep

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
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
		e.count(x.place, 1)
		if name := e.shown(engine.StateDirName + "/" + x.path()); x.whole && len(e.out.Removed) < maxNamed && !slices.Contains(e.out.Removed, name) {
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

// remove adds the erasure of a whole file.
func (e *eraser) remove(f file) (*erasure, error) {
	x := e.add(f, "", func() error { return f.dir.Remove(f.name) })
	x.whole = true
	in, st, err := engine.OpenIfThere(f.dir, f.name)
	if err != nil || in == nil {
		return x, err
	}
	defer in.Close()
	x.was, err = engine.ShaOf(in, st.Size)
	return x, err
}

// removeIf adds the erasure of a whole file if it is to be erased.
func (e *eraser) removeIf(f file) (hit bool, err error) {
	if hit, err = e.holds(f); !hit || err != nil {
		return false, err
	}
	_, err = e.remove(f)
	return true, err
}

// replace adds the erasure that gives a file other bytes, which fit in memory, unless
// they are the same.
func (e *eraser) replace(f file, old, data []byte) error {
	if bytes.Equal(old, data) {
		return nil
	}
	return e.rewrite(e.add(f, engine.HashOf(old), nil), 0o600, writing(data))
}

func writing(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// rewrite writes the new content of a file to staging/, which takes its place when the
// erasure is applied.
func (e *eraser) rewrite(x *erasure, mode uint32, write func(io.Writer) error) error {
	if e.DryRun {
		return nil
	}
	tmp := e.tempName()
	out, err := e.createTemp(tmp)
	if err != nil {
		return err
	}
	defer out.Close()
	d := engine.NewDigest()
	if err = write(io.MultiWriter(out, d)); err == nil {
		err = out.Chmod(mode)
	}
	if err == nil {
		err = out.Sync()
	}
	x.now, x.apply = d.Hex(), func() error { return e.Engine.Disk.Staging.Rename(tmp, x.dir, x.name) }
	return err
}

// maskInMem is the maximum size of a file that is read as JSON.
const maskInMem = 64 << 20

// masked is a text without the secret, JSON or not.
func (e *eraser) masked(text []byte) []byte {
	if e.n == nil {
		return text
	}
	if json.Valid(text) {
		if out, _, err := e.n.MaskJSON(text, nil); err == nil {
			return out
		}
	}
	out, _ := e.n.Mask(text)
	return out
}

// walk calls fn for every file of the state directory, and for each directory after
// its files. Symbolic links are not followed.
func (s *Store) walk(fn func(file, fsx.Stat) error) error {
	return walkDir(s.Engine.Disk.State, "", maxDepth, fn)
}

// maxDepth is how deep a directory is looked into; ours are three levels deep.
const maxDepth = 64

func walkDir(dir fsx.Dir, part string, depth int, fn func(file, fsx.Stat) error) error {
	names, err := dir.Names()
	if err != nil || depth == 0 {
		return err
	}
	for _, name := range names {
		st, err := dir.Lstat(name)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if st.Kind == fsx.Directory {
			sub, err := dir.OpenDir(name)
			if engine.IsAbsent(err) {
				continue
			}
			if err != nil {
				return err
			}
			err = walkDir(sub, engine.JoinPath(part, name), depth-1, fn)
			sub.Close()
			if err != nil {
				return err
			}
		}
		if err := fn(file{dir, part, name}, st); err != nil {
			return err
		}
	}
	return nil
}

// ownPlaces are files that a part erases, or that hold nothing that anyone wrote.
var ownPlaces = regexp.MustCompile(`^((journal|archive)/[0-9]{20}\.jsonl|history/[0-9a-f]{2}/[0-9a-f]{64}(\.[0-9-]+\.tmp)?|scratch/[0-9a-f]{64}\.bin|chunks/[^/]+/part-[0-9]+\.txt|tx/.+|locks/.+|index/.+|manifests/.+|observe/index|observe/snapshots/[^/]+\.index|meta\.json|slots\.json|reserve|poisoned|\.gitignore|policy\.yaml)$`)

// files erases what no part erases: caches, drafts, and all files that are not known.
// Then it renames the files and directories whose names contain the secret.
func (e *eraser) files(ctx context.Context) error {
	defer e.Engine.Log.ForgetManifest()
	return e.withLocks(ctx, func() error {
		return e.walk(func(f file, st fsx.Stat) error {
			if err := canceled(ctx); err != nil {
				return err
			}
			if st.Kind == fsx.Regular {
				if err := e.file(ctx, f); err != nil {
					return err
				}
			}
			return e.rename(ctx, f)
		})
	}, "state", handoff.Lock)
}

func (e *eraser) file(ctx context.Context, f file) error {
	path := f.path()
	ref, isDraft := strings.CutSuffix(f.name, drafts.BytesSuffix)
	erase := e.unknown
	switch {
	case path == engine.LegacyName:
		erase = func(f file) error { return e.legacy(ctx, f) }
	case path == budget.Name:
		defer e.Budgets.Lock()()
		erase = e.cache
	case f.part == "index" || f.part == "cursors":
		erase = e.cache
	case f.part == quarantineName && isDraft && strings.HasPrefix(ref, drafts.Prefix):
		erase = func(f file) error { return e.draft(f, ref) }
	case f.place() == engine.ManifestDir && engine.ValidSHA256(f.name):
		erase = e.manifest
	case f.place() == observe.Dir && strings.HasSuffix(f.name, "index"):
		erase = e.observed
	case ownPlaces.MatchString(path), f.part == "staging" && engine.OwnStaging(f.name):
		return nil
	}
	e.Meter.One()
	if err := erase(f); err != nil {
		return err
	}
	return e.carry(ctx)
}

// cache erases a file that can be lost: a cursor, a snapshot of the index, the counts of
// failed calls.
func (e *eraser) cache(f file) error {
	_, err := e.removeIf(f)
	return err
}

// draft erases a refused draft, facts first as every removal of a draft does.
func (e *eraser) draft(f file, ref string) error {
	hit, err := e.holds(f)
	if err == nil && !hit && e.n != nil {
		hit, err = e.holds(file{f.dir, f.part, ref + drafts.FactsSuffix})
	}
	if !hit || err != nil {
		return err
	}
	x, err := e.remove(f)
	x.apply = func() error { return drafts.Remove(f.dir, ref) }
	return err
}

// manifest overwrites the secret in the mutations of a long row, as in those of other
// rows. A manifest keeps its name; the file next to it contains its hash.
func (e *eraser) manifest(f file) error {
	if e.n == nil {
		return nil
	}
	text, err := durable.ReadFile(f.dir, f.name, journal.MaxManifest)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		if e.n.Within(line) {
			line = e.masked(line)
		}
		out.Write(line)
	}
	if err := e.replace(f, text, out.Bytes()); err != nil || len(e.pending) == 0 {
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
// snapshot.
func (e *eraser) observed(f file) error {
	if e.n == nil {
		return nil
	}
	text, err := durable.ReadFile(f.dir, f.name, observe.MaxIndex)
	if err != nil {
		return err
	}
	out, err := observe.Without(text, func(path string) bool { return e.n.Within([]byte(path)) })
	switch {
	case err == nil && !e.n.Within(out):
		return e.replace(f, text, out)
	case !e.n.Within(text):
		return nil // it is damaged, and no code reads it
	}
	_, err = e.remove(f)
	return err
}

// unknown overwrites the secret in any other file: archived handoffs, quarantined and
// foreign files. The new file is written aside first.
func (e *eraser) unknown(f file) error {
	if e.n == nil {
		_, err := e.removeIf(f)
		return err
	}
	in, st, err := engine.OpenIfThere(f.dir, f.name)
	if err != nil || in == nil {
		return err
	}
	defer in.Close()
	if strings.HasSuffix(f.name, ".json") && st.Size <= maskInMem { // escapes may hide the secret
		text, err := durable.ReadFile(f.dir, f.name, maskInMem)
		if err != nil {
			return err
		}
		return e.replace(f, text, e.masked(text))
	}
	if found, err := e.n.In(in); err != nil || !found {
		return err
	}
	was, err := engine.ShaOf(in, st.Size)
	if err != nil {
		return err
	}
	return e.rewrite(e.add(f, was, nil), st.Mode, func(w io.Writer) error {
		_, err := e.n.MaskStream(w, io.NewSectionReader(in, 0, st.Size))
		return err
	})
}

// legacy overwrites the secret in the journal of the Python implementation, in place:
// its rows are identified by their offset, and that program may be adding rows.
func (e *eraser) legacy(ctx context.Context, f file) error {
	if e.n == nil {
		return nil
	}
	journal, err := f.dir.Open(f.name, fsx.Read|fsx.Write, 0)
	if err != nil {
		return err
	}
	defer journal.Close()
	st, err := journal.Stat()
	if err != nil {
		return err
	}
	type piece struct {
		at   int64
		text []byte
	}
	var pieces []piece
	was, now := engine.NewDigest(), engine.NewDigest()
	in := bufio.NewReaderSize(io.NewSectionReader(journal, 0, st.Size), 64<<10)
	for at := int64(0); at < st.Size; {
		line, err := in.ReadBytes('\n')
		out := e.masked(line)
		was.Write(line)
		now.Write(out)
		if string(out) != string(line) {
			pieces = append(pieces, piece{at, out})
		}
		at += int64(len(line))
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if len(pieces) == 0 {
		return nil
	}
	e.add(f, was.Hex(), func() error {
		for _, p := range pieces {
			if _, err := journal.WriteAt(p.text, p.at); err != nil {
				return err
			}
		}
		return journal.Sync()
	}).now = now.Hex()
	return e.carry(ctx)
}

// rename renames a file or directory whose name contains the secret. The paths in the
// journal were overwritten in the same way, so they still refer to it.
func (e *eraser) rename(ctx context.Context, f file) error {
	to := e.shown(f.name)
	if to == f.name {
		return nil
	}
	if _, err := f.dir.Lstat(f.name); err != nil {
		return ignoreAbsent(err) // it was removed
	}
	place, _, _ := strings.Cut(f.path(), "/")
	e.count(e.shown(place), 1)
	if e.DryRun {
		return nil
	}
	change := journal.Change{Path: e.shown(engine.StateDirName + "/" + f.path())}
	if err := e.noteChanges(ctx, journal.NoteErased, e.reason, []journal.Change{change}); err != nil {
		return err
	}
	return renameAway(f.dir, f.name, to)
}

// ignoreAbsent returns nil for the error of a file that is absent.
func ignoreAbsent(err error) error {
	if engine.IsAbsent(err) {
		return nil
	}
	return err
}
