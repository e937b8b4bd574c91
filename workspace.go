package resilientwrite

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/place"
)

// Within reports whether the workspace is the directory dir or is below it, after
// resolving symbolic links. A host can use it to check whether the workspace is
// in a directory that its user chose. It returns false for a directory that is
// not absolute or does not exist.
func (s *Store) Within(dir string) bool {
	if s.engine.RealRoot == "" || !filepath.IsAbs(dir) {
		return false
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(real, s.engine.RealRoot)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// openPlaced opens the state directory of the workspace real at the place that
// package place determines.
func (s *Store) openPlaced(real string) error {
	w, err := place.Look(real)
	if err != nil {
		return err
	}
	at, err := placeFor(w, s.opts.ReadOnly)
	if err != nil {
		return s.unwritable(at.Path, err)
	}
	s.workspace, s.placed, s.engine.StatePlace, s.gate.Placed = w, at.Place, at.Path, true
	if at.Kind == place.Git {
		s.engine.Beside = filepath.Dir(at.Path)
	}
	parent := at.Parent
	if parent == nil {
		parent = s.engine.Disk.Root
	}
	if err := s.engine.OpenState(parent, at.Name); err != nil {
		return s.unwritable(at.Path, err)
	}
	for _, reason := range at.Notes {
		s.engine.Report.Warn(reason)
	}
	if s.opts.ReadOnly {
		return nil
	}
	return s.unwritable(at.Path, place.Writable(at.Path))
}

// placeFor chooses the place. Tests replace it.
var placeFor = func(w *place.Workspace, readOnly bool) (place.Opened, error) { return w.Open(readOnly) }

// unwritable returns the error of a state directory that exists and cannot be
// used. No other one is made in its place.
func (s *Store) unwritable(dir string, err error) error {
	forbidden := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
	if !forbidden || s.opts.ReadOnly || place.Writable(dir) == nil {
		return err
	}
	return fault.New(fault.StateNotWritable).Because(err)
}

// noteRoot records in the state directory to which workspace it belongs. If that
// fails, the next open tries again.
func (s *Store) noteRoot() {
	if s.workspace != nil {
		s.engine.Alone("open", func() error { return s.workspace.Note(s.placed, s.engine.Disk.State) })
	}
}
