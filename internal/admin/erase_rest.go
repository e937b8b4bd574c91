package admin

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
)

// stateWalk calls fn for every file of the state directory; part is where it
// is. Symbolic links are not followed.
func (s *Store) walk(fn func(dir fsx.Dir, part, name string, st fsx.Stat) error) error {
	return walkDir(s.Engine.Disk.State, "", maxDepth, fn)
}

// maxDepth is how deep a directory is looked into; ours are three levels deep.
const maxDepth = 64

func walkDir(dir fsx.Dir, part string, depth int, fn func(fsx.Dir, string, string, fsx.Stat) error) error {
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
		if err := fn(dir, part, name, st); err != nil {
			return err
		}
	}
	return nil
}

// ownPlaces are files that have an eraser of their own, or that hold nothing
// that anyone wrote.
var ownPlaces = regexp.MustCompile(`^((journal|archive)/[0-9]{20}\.jsonl|history/[0-9a-f]{2}/[0-9a-f]{64}(\.[0-9-]+\.tmp)?|scratch/[0-9a-f]{64}\.bin|chunks/[^/]+/part-[0-9]+\.txt|tx/.+|locks/.+|index/.+|manifests/.+|observe/index|observe/snapshots/[^/]+\.index|meta\.json|slots\.json|reserve|poisoned|\.gitignore|policy\.yaml)$`)

// rest overwrites the secret in everything else: archived handoffs, quarantined files,
// foreign files, the journal of the Python implementation.
func (e *eraser) rest(ctx context.Context) error {
	return e.withLocks(ctx, []string{"state", handoff.Lock}, func() error {
		return e.walk(func(dir fsx.Dir, part, name string, st fsx.Stat) error {
			path := engine.JoinPath(part, name)
			switch {
			case st.Kind != fsx.Regular, ownPlaces.MatchString(path), part == "staging" && engine.OwnStaging(name):
				return nil
			case path == engine.LegacyName:
				return e.legacy(ctx, dir)
			}
			e.Meter.One()
			place := "others"
			if part != "" {
				place, _, _ = strings.Cut(part, "/")
			}
			x, err := e.rewriting(place, part, dir, name, strings.HasSuffix(name, ".json"))
			if err != nil || x == nil {
				return err
			}
			return e.carry(ctx, []erasure{*x})
		})
	})
}

// legacy overwrites the secret in the journal of the Python implementation, in place:
// its rows are identified by their offset, and that program may be adding rows.
func (e *eraser) legacy(ctx context.Context, dir fsx.Dir) error {
	if e.n == nil {
		return nil
	}
	f, err := dir.Open(engine.LegacyName, fsx.Read|fsx.Write, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	type piece struct {
		at   int64
		text []byte
	}
	var pieces []piece
	was, now := engine.NewDigest(), engine.NewDigest()
	in := bufio.NewReaderSize(io.NewSectionReader(f, 0, st.Size), 64<<10)
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
	return e.carry(ctx, []erasure{{place: "journal", path: engine.LegacyName, was: was.Hex(), now: now.Hex(), apply: func() error {
		for _, p := range pieces {
			if _, err := f.WriteAt(p.text, p.at); err != nil {
				return err
			}
		}
		return f.Sync()
	}}})
}

// names renames files and directories whose names contain the secret. The paths in the
// journal were overwritten in the same way, so they still refer to these files.
func (e *eraser) names(ctx context.Context) error {
	if e.n == nil {
		return nil
	}
	return e.withLocks(ctx, []string{"state", handoff.Lock}, func() error {
		return e.walk(func(dir fsx.Dir, part, name string, _ fsx.Stat) error {
			to := e.shown(name)
			if to == name {
				return nil
			}
			place, _, _ := strings.Cut(engine.JoinPath(part, name), "/")
			e.count(e.shown(place), 1)
			if e.DryRun {
				return nil
			}
			change := journal.Change{Path: e.shown(engine.StateDirName + "/" + engine.JoinPath(part, name))}
			if err := e.noteChanges(ctx, journal.NoteErased, e.reason, []journal.Change{change}); err != nil {
				return err
			}
			return renameAway(dir, name, to)
		})
	})
}

// renameAway gives a file another name, with something added to it when that
// is taken.
func renameAway(dir fsx.Dir, name, to string) error {
	for free := to; ; free += "_" {
		if _, err := dir.Lstat(free); err == nil {
			continue
		} else if !engine.IsAbsent(err) {
			return err
		}
		if err := dir.Rename(name, dir, free); err != nil {
			return err
		}
		return dir.Sync()
	}
}

// untouched are files that no eraser looks into.
var untouched = regexp.MustCompile(`^(locks/.+|staging/.+|meta\.json|slots\.json|reserve|poisoned|\.gitignore|policy\.yaml)$`)

// whatIsLeft searches the files that no round has searched and, if the last round still
// found something, all files again.
func (e *eraser) whatIsLeft() error {
	return e.walk(func(dir fsx.Dir, part, name string, st fsx.Stat) error {
		path := engine.JoinPath(part, name)
		if e.found == 0 && !untouched.MatchString(path) || strings.HasPrefix(path, "history/") && strings.HasSuffix(path, durable.TempSuffix) {
			return nil
		}
		hit := e.n != nil && e.n.Within([]byte(name))
		if !hit && st.Kind == fsx.Regular {
			var err error
			if hit, err = e.holds(dir, name); err != nil {
				return err
			}
		}
		if hit && len(e.out.Left) < maxNamed {
			e.out.Left = append(e.out.Left, e.shown(path))
		}
		return nil
	})
}

// maxNamed is how many files of a kind a result names.
const maxNamed = 1000

// searchWorkspace lists the files of the workspace that still hold the secret.
func (e *eraser) searchWorkspace(ctx context.Context) error {
	state, err := e.Engine.Disk.State.Stat()
	if err != nil {
		return err
	}
	e.Meter.Things(StepFiles, 0, "searching the workspace")
	err = e.searchDir(ctx, e.Engine.Disk.Root, "", maxDepth, state)
	slices.Sort(e.out.Workspace)
	return err
}

func (e *eraser) searchDir(ctx context.Context, dir fsx.Dir, at string, depth int, state fsx.Stat) error {
	names, err := dir.Names()
	if err != nil || depth == 0 {
		e.out.Unreadable++
		return nil
	}
	for _, name := range names {
		if err := canceled(ctx); err != nil {
			return err
		}
		st, err := dir.Lstat(name)
		if err != nil || st.SameFile(state) || name == ".git" {
			continue
		}
		path := engine.JoinPath(at, name)
		switch st.Kind {
		case fsx.Directory:
			sub, err := dir.OpenDir(name)
			if err != nil {
				e.out.Unreadable++
				continue
			}
			err = e.searchDir(ctx, sub, path, depth-1, state)
			sub.Close()
			if err != nil {
				return err
			}
		case fsx.Regular:
			e.Meter.One()
			hit, err := e.holds(dir, name)
			if err != nil {
				e.out.Unreadable++
			}
			if hit = hit || e.n != nil && e.n.Within([]byte(path)); !hit {
				continue
			}
			if len(e.out.Workspace) == maxNamed {
				e.out.WorkspaceMore = true
				continue
			}
			e.out.Workspace = append(e.out.Workspace, e.shown(path))
		}
	}
	return nil
}
