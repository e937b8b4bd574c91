package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
)

// erasure is one file of the state directory that is removed or overwritten. A note
// records it before.
type erasure struct {
	place string
	path  string // below the state directory
	was   string
	now   string // "" when it is removed
	dir   fsx.Dir
	apply func() error
}

// carry writes the note and then applies the erasures. Erasures in one directory are
// flushed together.
func (e *eraser) carry(ctx context.Context, list []erasure) error {
	if len(list) == 0 {
		return nil
	}
	for _, x := range list {
		e.count(x.place, 1)
	}
	if e.DryRun {
		return nil
	}
	var changes []journal.Change
	for _, x := range list {
		changes = append(changes, journal.Change{Path: e.shown(engine.StateDirName + "/" + x.path), Was: x.was, Now: x.now})
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

// withLocks runs fn with some names of the lock table held.
func (e *eraser) withLocks(ctx context.Context, keys []string, fn func() error) error {
	unlock, err := e.Engine.Locks.Names(ctx, e.LockTimeout, "erase", keys...)
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}

// inPart carries the erasures that find returns for the names of a directory of the
// state directory. Some names of the lock table are held.
func (e *eraser) inPart(ctx context.Context, part string, keys []string, find func(dir fsx.Dir, names []string) ([]erasure, error)) error {
	dir, err := e.Engine.StatePart(part)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	return e.withLocks(ctx, keys, func() error {
		names, err := dir.Names()
		if err != nil {
			return err
		}
		list, err := find(dir, names)
		if err != nil {
			return err
		}
		return e.carry(ctx, list)
	})
}

// removeIf adds the erasure of a whole file if it is to be erased.
func (e *eraser) removeIf(list *[]erasure, place, part string, dir fsx.Dir, name string) (hit bool, err error) {
	if hit, err = e.holds(dir, name); !hit || err != nil {
		return false, err
	}
	x, err := e.removal(place, part, dir, name)
	*list = append(*list, x)
	return true, err
}

// removal is the erasure of a whole file.
func (e *eraser) removal(place, part string, dir fsx.Dir, name string) (erasure, error) {
	x := erasure{place: place, path: engine.JoinPath(part, name), dir: dir, apply: func() error { return dir.Remove(name) }}
	f, st, err := engine.OpenIfThere(dir, name)
	if err != nil || f == nil {
		return x, err
	}
	defer f.Close()
	x.was, err = engine.ShaOf(f, st.Size)
	return x, err
}

// rewriting is the erasure of the secret in a file that stays. The new file is
// written aside first; nil when the file does not hold the secret.
func (e *eraser) rewriting(place, part string, dir fsx.Dir, name string, asJSON bool) (*erasure, error) {
	f, st, err := engine.OpenIfThere(dir, name)
	if err != nil || f == nil {
		return nil, err
	}
	defer f.Close()
	if e.n == nil {
		sha, err := engine.ShaOf(f, st.Size)
		if err != nil || sha != e.sha {
			return nil, err
		}
		x, err := e.removal(place, part, dir, name)
		return &x, err
	}
	if asJSON && st.Size <= maskInMem { // escapes may hide the secret
		text, err := durable.ReadFile(dir, name, maskInMem)
		if err != nil {
			return nil, err
		}
		if out := e.masked(text); !bytes.Equal(out, text) {
			return e.replaced(place, part, dir, name, text, out)
		}
		return nil, nil
	}
	found, err := e.n.In(f)
	if err != nil || !found {
		return nil, err
	}
	x := &erasure{place: place, path: engine.JoinPath(part, name), dir: dir}
	if x.was, err = engine.ShaOf(f, st.Size); err != nil || e.DryRun {
		return x, err
	}
	tmp := e.tempName()
	if x.now, err = e.writeMasked(tmp, dir, name, st.Mode); err != nil {
		return nil, err
	}
	x.apply = func() error { return e.Engine.Disk.Staging.Rename(tmp, dir, name) }
	return x, nil
}

// maskInMem is the maximum size of a file that is read as JSON.
const maskInMem = 64 << 20

// writeMasked writes a copy without the secret to staging/ and returns its
// hash.
func (e *eraser) writeMasked(tmp string, dir fsx.Dir, name string, mode uint32) (sha string, err error) {
	in, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := e.createTemp(tmp)
	if err != nil {
		return "", err
	}
	defer out.Close()
	d := engine.NewDigest()
	if _, err = e.n.MaskStream(multiWriter{out, d}, in); err == nil {
		err = e.finishTemp(out, nil, mode)
	}
	return d.Hex(), err
}

// multiWriter writes to a file and hashes the written bytes.
type multiWriter struct {
	f fsx.File
	d engine.Digest
}

func (w multiWriter) Write(p []byte) (int, error) {
	w.d.Write(p)
	return w.f.Write(p)
}

func (e *eraser) finishTemp(out fsx.File, data []byte, mode uint32) error {
	_, err := out.Write(data)
	if err == nil {
		err = out.Chmod(mode)
	}
	if err == nil {
		err = out.Sync()
	}
	return err
}

// versions erases kept versions: an object cannot be changed without becoming
// another one, so it goes as a whole.
func (e *eraser) versions(ctx context.Context) error {
	if e.Engine.History == nil {
		return nil
	}
	var list []erasure
	var shas []string
	err := e.Engine.History.Each(func(name string, _ fsx.Stat, ok bool) error {
		e.Meter.One()
		if !ok {
			return ctx.Err() // the rest looks into it
		}
		hit := name == e.sha
		if e.n != nil {
			f, err := e.Engine.History.Open(name)
			if engine.IsAbsent(err) {
				return nil
			}
			if err != nil {
				return err
			}
			hit, err = e.n.In(f)
			f.Close()
			if err != nil {
				return err
			}
		}
		if hit {
			shas = append(shas, name)
			list = append(list, erasure{place: "history", path: "history/" + name[:2] + "/" + name, was: name, apply: func() error { return nil }})
		}
		return ctx.Err()
	})
	if err != nil || len(list) == 0 {
		return err
	}
	if err := e.carry(ctx, list); err != nil || e.DryRun {
		e.tellVersions(shas)
		return err
	}
	e.tellVersions(shas)
	return e.Engine.History.Erase(shas)
}

func (e *eraser) tellVersions(shas []string) {
	for _, sha := range shas {
		if len(e.out.Versions) < maxNamed {
			e.out.Versions = append(e.out.Versions, sha)
		}
	}
}

// scratch erases objects of the scratchpad with their entries, and the secret
// in the entries of others.
func (e *eraser) scratch(ctx context.Context) error {
	keys := []string{engine.PathLock(engine.StateDirName + "/" + scratch.Index)}
	return e.inPart(ctx, scratch.Dir, keys, func(dir fsx.Dir, names []string) (list []erasure, err error) {
		gone := map[string]bool{}
		for _, name := range names {
			sha, ok := strings.CutSuffix(name, scratch.BinSuffix)
			if !ok || !engine.ValidSHA256(sha) {
				continue
			}
			if gone[sha], err = e.removeIf(&list, "scratch", scratch.Dir, dir, name); err != nil {
				return nil, err
			}
		}
		for _, name := range names {
			if sha, beside := scratch.FactsOf(name); beside {
				if err := e.scratchLines(&list, dir, name, gone, gone[sha]); err != nil {
					return nil, err
				}
			}
		}
		// The index follows the objects that it lists: if only the index were written,
		// an object that a power failure restores would have lost its entry.
		if err := e.carry(ctx, list); err != nil {
			return nil, err
		}
		list = nil
		err = e.scratchLines(&list, dir, scratch.IndexFile, gone, false)
		return list, err
	})
}

// scratchLines adds the change to the index or to the facts file of an object. It
// drops the entries of erased objects and masks the secret in the other ones. The facts
// file of an erased object is removed.
func (e *eraser) scratchLines(list *[]erasure, dir fsx.Dir, name string, gone map[string]bool, goes bool) error {
	if goes {
		x, err := e.removal("scratch", scratch.Dir, dir, name)
		*list = append(*list, x)
		return err
	}
	text, err := durable.ReadFile(dir, name, maskInMem)
	if engine.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, line := range bytes.SplitAfter(text, []byte("\n")) {
		var row struct {
			SHA256 string `json:"sha256"`
		}
		if json.Unmarshal(line, &row) == nil && gone[strings.ToLower(row.SHA256)] {
			continue
		}
		out.Write(e.masked(line))
	}
	if bytes.Equal(out.Bytes(), text) {
		return nil
	}
	x, err := e.replaced("scratch", scratch.Dir, dir, name, text, out.Bytes())
	if err == nil {
		*list = append(*list, *x)
	}
	return err
}

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

// drafts erases refused drafts, facts first as every removal of a draft does.
func (e *eraser) drafts(ctx context.Context) error {
	return e.inPart(ctx, quarantineName, []string{"state"}, func(dir fsx.Dir, names []string) (list []erasure, err error) {
		for _, name := range names {
			ref, ok := strings.CutSuffix(name, drafts.BytesSuffix)
			if !ok || !strings.HasPrefix(ref, drafts.Prefix) {
				continue
			}
			hit, err := e.holds(dir, name)
			if err == nil && !hit && e.n != nil {
				hit, err = e.holds(dir, ref+drafts.FactsSuffix)
			}
			if err != nil {
				return nil, err
			}
			if !hit {
				continue
			}
			x, err := e.removal(quarantineName, quarantineName, dir, name)
			if err != nil {
				return nil, err
			}
			x.apply = func() error { return drafts.Remove(dir, ref) }
			list = append(list, x)
		}
		return list, nil
	})
}

// cache erases files that can be lost: cursors, snapshots of the index.
func (e *eraser) cache(ctx context.Context, part string) error {
	return e.inPart(ctx, part, []string{"state"}, func(dir fsx.Dir, names []string) (list []erasure, err error) {
		for _, name := range names {
			if _, err := e.removeIf(&list, part, part, dir, name); err != nil {
				return nil, err
			}
		}
		return list, nil
	})
}

// budgets erases the counts of failed calls.
func (e *eraser) budgets(ctx context.Context) error {
	return e.withLocks(ctx, []string{"state"}, func() error {
		defer e.Budgets.Lock()()
		var list []erasure
		if _, err := e.removeIf(&list, "budgets", "", e.Engine.Disk.State, budget.Name); err != nil {
			return err
		}
		return e.carry(ctx, list)
	})
}
