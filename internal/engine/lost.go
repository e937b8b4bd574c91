package engine

import (
	"errors"
	"os"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// An open store uses directory handles, not names: another program can remove the
// state directory, or replace it, and every handle continues to work. A process
// that opens the workspace then finds another journal and other locks. So before
// a call is admitted, and before a row is written, the name of the state
// directory must still lead to the open one. Once it did not, the store stays
// closed to everything that needs the state, even if the directory comes back:
// another process may have written meanwhile.

// loss is what happened to the state directory.
type loss struct{ what, hint string }

const openAgain = "then restart the server, or close the store and open it again"

var (
	stateGone     = &loss{"state_dir_gone", "the state directory was removed or moved while the store was open; restore it, or continue without its content, " + openAgain}
	stateReplaced = &loss{"state_dir_replaced", "the open state directory was replaced by another one; if that was not intended, restore the original, " + openAgain}
	stateEmptied  = &loss{"state_dir_emptied", "parts of the state directory were removed or replaced while the store was open; restore them, or continue without their content, " + openAgain}
	rootGone      = &loss{"workspace_gone", "the workspace directory was removed or replaced while the store was open; create or restore it, " + openAgain}
)

// Stateless are the verbs that need nothing from the state directory. They
// continue to work when it is lost.
var Stateless = map[string]bool{"read": true, "diff": true, "validate": true, "risk_score": true, "redact": true}

// Present fails when the state directory of the open store, or history in it, is no
// longer where others find it. It costs one lookup.
//
//	fstatat(parent, .resilient_write/history)
func (s *Engine) Present() error {
	_, err := s.leads("history", s.Disk.historyStat)
	return err
}

// locksPresent is Present before a row is written: a process that finds another file of
// locks writes rows at the same time.
//
//	fstatat(parent, .resilient_write/locks/journal)
func (s *Engine) locksPresent() error {
	_, err := s.leads("locks/journal", s.Disk.lockStat)
	return err
}

// leads reports whether the name of a part of the state directory leads to it. It fails if
// the state directory, or a directory in it, is lost.
func (s *Engine) leads(part string, own fsx.Stat) (bool, error) {
	if l := s.lost.Load(); l != nil {
		return false, l.failure()
	}
	if s.Disk.State == nil || s.Disk.above == nil {
		return true, nil
	}
	if s.Disk.above != s.Disk.Root && s.rootIsRemoved() {
		return false, s.lose(rootGone) // the state directory is elsewhere and is intact
	}
	if st, err := fsx.Look(s.Disk.above, s.Disk.stateName+"/"+part); err == nil && st.SameFile(own) {
		return true, nil
	}
	return false, s.find()
}

// find fails when the state directory or one of its parts is lost.
func (s *Engine) find() error {
	st, err := s.Disk.above.Lstat(s.Disk.stateName)
	switch {
	case err == nil && isDir(st, s.Disk.stateStat):
		return s.partsPresent()
	case err == nil:
		// Some file systems number a directory again; the handle shows that.
		if own, serr := s.Disk.State.Stat(); serr != nil || isDir(st, own) {
			return s.partsPresent()
		}
		return s.lose(stateReplaced)
	case !IsAbsent(err):
		return nil // not known; what needs it will say what is wrong
	}
	if s.rootIsGone() {
		return s.lose(rootGone)
	}
	return s.lose(stateGone)
}

// isDir reports whether the entry that a name leads to is the directory own. If
// names do not report the identity of a directory, an open directory cannot be
// replaced.
func isDir(st, own fsx.Stat) bool { return st.SameFile(own) || st.Kind == fsx.Directory && st.Ino == 0 }

// rootIsRemoved reports whether the workspace directory no longer has a name. One
// that was moved remains the workspace.
func (s *Engine) rootIsRemoved() bool {
	if s.Disk.Root == nil {
		return false
	}
	st, err := s.Disk.Root.Stat()
	return err == nil && st.Nlink == 0
}

// rootIsGone reports whether the path of the workspace leads to nothing, or to
// another directory.
func (s *Engine) rootIsGone() bool {
	if s.RealRoot == "" {
		return false
	}
	if _, err := os.Lstat(s.RealRoot); IsAbsent(err) {
		return true
	}
	now, err := fsx.OpenRoot(s.RealRoot)
	if err != nil {
		return false
	}
	defer now.Close()
	there, err := now.Stat()
	own, oerr := s.Disk.Root.Stat()
	return err == nil && oerr == nil && !there.SameFile(own)
}

// lose stops admitting calls that need the state.
func (s *Engine) lose(l *loss) *fault.Fault {
	s.lost.CompareAndSwap(nil, l)
	return s.lost.Load().failure()
}

func (l *loss) failure() *fault.Fault {
	return fault.New(fault.StorePoisoned).With("lost", l.what).Hintf("%s", l.hint)
}

// partsPresent fails when an open directory of the state directory, or the file of the
// journal's lock, is no longer the one that its name leads to.
func (s *Engine) partsPresent() error {
	if s.Disk.State == nil {
		return nil
	}
	for _, part := range []struct {
		name string
		dir  fsx.Dir
	}{{"journal", s.Disk.journal}, {"staging", s.Disk.Staging}, {"locks", s.Disk.locks}, {"history", s.Disk.history}} {
		if part.dir == nil {
			continue
		}
		own, err := part.dir.Stat()
		if err != nil {
			continue
		}
		if st, err := s.Disk.State.Lstat(part.name); IsAbsent(err) || err == nil && !isDir(st, own) {
			return s.lose(stateEmptied)
		}
	}
	if s.Disk.lockf == nil {
		return nil
	}
	own, err := s.Disk.lockf.Stat()
	if err != nil {
		return nil
	}
	if st, err := s.Disk.locks.Lstat("journal"); IsAbsent(err) || err == nil && st.Ino != 0 && !st.SameFile(own) {
		return s.lose(stateEmptied)
	}
	return nil
}

// explain replaces a not-found error by the actual error when the store itself is
// lost.
func (s *Engine) explain(e *fault.Fault) *fault.Fault {
	gone := errors.Is(e.Err, journal.ErrGone)
	if e.Code.Class().Exit != fault.CodeNotFound && e.Code != fault.JournalDamaged && !gone {
		return e
	}
	err := s.Present()
	if err == nil && s.rootIsRemoved() {
		err = s.lose(rootGone)
	}
	if err == nil {
		err = s.partsPresent()
	}
	if err == nil && gone {
		err = s.lose(stateEmptied)
	}
	var lost *fault.Fault
	if !errors.As(err, &lost) {
		return e
	}
	lost.Path, lost.Stage, lost.Effect, lost.Err = e.Path, e.Stage, e.Effect, e.Err
	return lost
}
