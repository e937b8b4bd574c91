package resilientwrite

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// errnos gives every error number a deliberate meaning. Order matters only
// where a platform gives two names one number.
var errnos = []struct {
	errno  error
	detail Detail
}{
	{syscall.ENOSPC, DiskFull},
	{syscall.EDQUOT, DiskFull},
	{syscall.EFBIG, FileTooBig},
	{syscall.EMFILE, TooManyFiles},
	{syscall.ENFILE, TooManyFiles},
	{syscall.EIO, IOError},
	{syscall.EROFS, ReadOnlyVolume},
	{syscall.EACCES, PermissionError},
	{syscall.EPERM, PermissionError},
	{syscall.ELOOP, SymlinkLoop},
	{syscall.ENAMETOOLONG, PathTooLong},
	{syscall.ENOTDIR, NotADirectory},
	{syscall.EISDIR, IsADirectory},
	{syscall.EXDEV, CrossDevice},
	{syscall.EBUSY, IOBusy},
	{syscall.ETXTBSY, IOBusy},
	{syscall.EAGAIN, IOBusy},
	{syscall.ENOENT, NotFound},
	{syscall.ENOTEMPTY, IOBusy},
	{syscall.ENOMEM, TooManyFiles},
	{syscall.EINVAL, InvalidPath},
}

// causes gives the errors of the internal packages a meaning.
var causes = []struct {
	err    error
	detail Detail
}{
	{relpath.ErrEmpty, EmptyPath},
	{relpath.ErrInvalid, InvalidPath},
	{relpath.ErrTooLong, PathTooLong},
	{relpath.ErrAbsolute, AbsolutePathRejected},
	{relpath.ErrEscapes, EscapesWorkspace},
	{relpath.ErrProtected, ProtectedPath},
	{relpath.ErrReserved, ReservedName},
	{relpath.ErrDirectory, IsADirectory},
	{relpath.ErrLoop, SymlinkLoop},
	{journal.ErrLocked, LockTimeout},
	{journal.ErrPoisoned, StorePoisoned},
	{journal.ErrGone, StorePoisoned},
	{journal.ErrTooLarge, TooLarge},
	{journal.ErrNotFound, JournalDamaged},
	{context.Canceled, Canceled},
	{context.DeadlineExceeded, Canceled},
	{fs.ErrNotExist, NotFound},
	{fs.ErrExist, FileAlreadyExists},
	{fs.ErrPermission, PermissionError},
}

// errorOf gives any error of the layers below a kind, a detail and a next
// step. An *Error is returned as a copy, so that its fields can be set. That
// something is not there is not told of a file when the store itself is gone.
func (s *Store) errorOf(err error) *Error {
	var costly *scan.CostlyError
	if errors.As(err, &costly) {
		err = s.costly(costly)
	}
	return s.explain(classify(err))
}

func classify(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		own := *e
		return &own
	}
	var timeout *lock.TimeoutError
	if errors.As(err, &timeout) {
		return lockTimeout(timeout).because(err)
	}
	var kind *fsx.TypeError
	if errors.As(err, &kind) {
		if kind.Kind == fsx.Directory {
			return fail(IsADirectory).because(err)
		}
		return fail(NotARegularFile).because(err)
	}
	for _, row := range causes {
		if errors.Is(err, row.err) && !isErrno(err) {
			return fail(row.detail).because(err)
		}
	}
	for _, row := range errnos {
		if errors.Is(err, row.errno) {
			return fail(row.detail).because(err)
		}
	}
	if d := platformDetail(err); d != "" {
		return fail(d).because(err)
	}
	for _, row := range causes {
		if errors.Is(err, row.err) {
			return fail(row.detail).because(err)
		}
	}
	return fail(DetailInternal).because(err)
}

// isErrno reports whether an error number is behind err: numbers are more
// exact than the classes of package fs.
func isErrno(err error) bool {
	var n syscall.Errno
	return errors.As(err, &n)
}

// lockTimeout tells a waiter who holds the path.
func lockTimeout(t *lock.TimeoutError) *Error {
	e := fail(LockTimeout)
	if t.Holder.Writer == "" {
		return e
	}
	e.with("holder", map[string]any{
		"writer": t.Holder.Writer, "pid": t.Holder.PID, "op": t.Holder.What,
		"since": t.Holder.Since.UTC().Format(timeFormat),
	})
	return e.hint("process %d holds the path (%s); try again later", t.Holder.PID, t.Holder.What)
}

// verbError is errorOf for calls that do not go through commit.
func (s *Store) verbError(op string, err error) *Error {
	e := s.errorOf(err)
	e.Op = op
	if e.Effect == "" {
		e.Effect = EffectNone
	}
	s.hideIn(e)
	return e
}

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
func isExist(err error) bool  { return errors.Is(err, fs.ErrExist) }
