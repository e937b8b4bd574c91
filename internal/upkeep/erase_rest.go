package upkeep

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

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
	return e.walk(func(f file, st fsx.Stat) error {
		path := f.path()
		if e.found == 0 && !untouched.MatchString(path) || strings.HasPrefix(path, "history/") && strings.HasSuffix(path, durable.TempSuffix) {
			return nil
		}
		hit := e.n != nil && e.n.Within([]byte(f.name))
		if !hit && st.Kind == fsx.Regular {
			var err error
			if hit, err = e.holds(f); err != nil {
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
			hit, err := e.holds(file{dir, at, name})
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
