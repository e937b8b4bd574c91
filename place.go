package resilientwrite

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/place"
)

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
	s.workspace, s.placed, s.engine.StatePlace = w, at.Place, at.Path
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

// policyOfTree opens the policy file in the workspace if the state directory is
// elsewhere.
func (s *Store) policyOfTree() (fsx.File, error) {
	d, err := s.engine.Disk.Root.OpenDir(engine.StateDirName)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	c, err := s.engine.NewCustody()
	if err != nil {
		return nil, err
	}
	if st, err := d.Stat(); err != nil || !c.Fine(st) {
		return nil, fault.New(fault.BadStateDir).Because(err).With("part", engine.StateDirName).
			Hintf("other users own or can write %s in the workspace, whose policy applies; check its content, then run: chmod go-w %[1]s", engine.StateDirName)
	}
	return d.Open(policyName, fsx.Read, 0)
}

// policyFiles returns the places of the policy file when no option names one.
func (s *Store) policyFiles() (list []string) {
	if s.engine.StatePlace == "" {
		return nil
	}
	list = []string{filepath.Join(s.engine.StatePlace, policyName)}
	if s.workspace != nil {
		list = append(list, filepath.Join(s.engine.RealRoot, engine.StateDirName, policyName))
	}
	return list
}
