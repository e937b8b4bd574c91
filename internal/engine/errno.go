package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// errnos gives every error number a deliberate meaning. Order matters only
// where a platform gives two names one number.
var errnos = []struct {
	errno  error
	detail fault.Code
}{
	{syscall.ENOSPC, fault.DiskFull},
	{syscall.EDQUOT, fault.DiskFull},
	{syscall.EFBIG, fault.FileTooBig},
	{syscall.EMFILE, fault.TooManyFiles},
	{syscall.ENFILE, fault.TooManyFiles},
	{syscall.EIO, fault.IOError},
	{syscall.ENXIO, fault.IOError},
	{syscall.EBADMSG, fault.IOError},
	{syscall.EROFS, fault.ReadOnlyVolume},
	{syscall.EACCES, fault.PermissionError},
	{syscall.EPERM, fault.PermissionError},
	{syscall.ELOOP, fault.SymlinkLoop},
	{syscall.ENAMETOOLONG, fault.PathTooLong},
	{syscall.ENOTDIR, fault.NotADirectory},
	{syscall.EISDIR, fault.IsADirectory},
	{syscall.EXDEV, fault.CrossDevice},
	{syscall.EBUSY, fault.IOBusy},
	{syscall.ETXTBSY, fault.IOBusy},
	{syscall.EAGAIN, fault.IOBusy},
	{syscall.ENOENT, fault.NotFound},
	{syscall.ENOTEMPTY, fault.IOBusy},
	{syscall.ENOMEM, fault.IOBusy},
	{syscall.EINVAL, fault.InvalidPath},
	{syscall.EBADF, fault.Internal},
}

// hints are those of error numbers that say more than their code.
var hints = map[error]string{
	syscall.EPERM:      "the process lacks the permission; the file or its directory may be immutable or append-only (lsattr), or the file another user's in a sticky directory; ask the user",
	fsx.ErrUnsupported: "the file system does not support this operation; where it can neither make links nor rename without replacing, no file can be created; ask the user to choose a workspace on another file system",
	syscall.ENOMEM:     "the system has too little memory at the moment; try again later",
	// A move between two mounts is refused before.
	syscall.EXDEV: "the file system lets no file be renamed into this directory, which may have a project for quotas or a key for encryption of its own; ask the user to give the whole workspace the same",
}

// causes gives the errors of the internal packages a meaning.
var causes = []struct {
	err    error
	detail fault.Code
}{
	{relpath.ErrEmpty, fault.EmptyPath},
	{relpath.ErrInvalid, fault.InvalidPath},
	{relpath.ErrTooLong, fault.PathTooLong},
	{relpath.ErrAbsolute, fault.AbsolutePathRejected},
	{relpath.ErrEscapes, fault.EscapesWorkspace},
	{relpath.ErrProtected, fault.ProtectedPath},
	{relpath.ErrReserved, fault.ReservedName},
	{relpath.ErrDirectory, fault.IsADirectory},
	{relpath.ErrLoop, fault.SymlinkLoop},
	{journal.ErrLocked, fault.LockTimeout},
	{journal.ErrPoisoned, fault.StorePoisoned},
	{journal.ErrGone, fault.StorePoisoned},
	{journal.ErrTooLarge, fault.TooLarge},
	{journal.ErrNotFound, fault.JournalDamaged},
	{durable.ErrTooLong, fault.BadStateDir},
	{context.Canceled, fault.Canceled},
	{context.DeadlineExceeded, fault.Canceled},
	{fs.ErrNotExist, fault.NotFound},
	{fs.ErrExist, fault.FileAlreadyExists},
	{fs.ErrPermission, fault.PermissionError},
}

// ErrorOf gives any error of the lower layers a kind, a detail and a next step.
// An *Error is returned as a copy, so that its fields can be set. If the store
// itself is gone, a missing file is reported as that.
func (s *Engine) ErrorOf(err error) *fault.Fault {
	return s.explain(classify(s.Host.Translate(err)))
}

func classify(err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		own := *f
		return &own
	}
	var timeout *lock.TimeoutError
	if errors.As(err, &timeout) {
		return lockTimeout(timeout).Because(err)
	}
	var kind *fsx.TypeError
	if errors.As(err, &kind) {
		if kind.Kind == fsx.Directory {
			return fault.New(fault.IsADirectory).Because(err)
		}
		return fault.New(fault.NotARegularFile).Because(err)
	}
	for _, row := range causes {
		if errors.Is(err, row.err) && !isErrno(err) {
			return fault.New(row.detail).Because(err)
		}
	}
	for _, row := range errnos {
		if errors.Is(err, row.errno) && (row.detail != fault.InvalidPath || takesName(err)) {
			e := fault.New(row.detail).Because(err)
			hint := hints[row.errno]
			if errors.Is(err, fsx.ErrUnsupported) {
				hint = hints[fsx.ErrUnsupported]
			}
			if hint != "" {
				e.Hintf("%s", hint)
			}
			return e
		}
	}
	if d := platformDetail(err); d != "" {
		return fault.New(d).Because(err)
	}
	for _, row := range causes {
		if errors.Is(err, row.err) {
			return fault.New(row.detail).Because(err)
		}
	}
	if isErrno(err) { // of a server or a driver: ESTALE, ENOLCK, EUCLEAN …
		return fault.New(fault.IOError).Because(err)
	}
	return fault.New(fault.Internal).Because(err)
}

// takesName reports whether an operation failed that takes a name. EINVAL is only then
// about the name, which the file system does not allow; a flush, for example, fails with it
// where it is not supported.
func takesName(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && slices.Contains([]string{"open", "opendir", "stat", "mkdir", "symlink", "link", "rename"}, at.Op)
}

// isErrno reports whether err wraps an error number: numbers are more
// exact than the classes of package fs.
func isErrno(err error) bool {
	var n syscall.Errno
	return errors.As(err, &n)
}

// lockTimeout returns an error for a waiter that names the holder of the path.
func lockTimeout(t *lock.TimeoutError) *fault.Fault {
	e := fault.New(fault.LockTimeout)
	if t.Holder.Writer == "" {
		return e
	}
	if t.Holder.What == recovering {
		e = fault.New(fault.IOBusy)
	}
	e.With("holder", map[string]any{
		"writer": t.Holder.Writer, "pid": t.Holder.PID, "op": t.Holder.What,
		"since": stamp.Text(t.Holder.Since),
	})
	if e.Code == fault.IOBusy {
		return e.Hintf("process %d is completing a commit of this file that a dead process left; try again later, or end that process if it was stopped", t.Holder.PID)
	}
	return e.Hintf("process %d holds the path (%s); try again later", t.Holder.PID, t.Holder.What)
}

func (s *Engine) VerbFault(op string, err error) *fault.Fault {
	e := s.ErrorOf(err)
	e.Op = op
	var at *fs.PathError
	if e.Code == fault.PermissionError && e.Path == "" && errors.As(err, &at) {
		if e.With("part", path.Base(at.Path)); op == "open" {
			e.Hintf("the process lacks a permission for %s of the store; ask the user to give the state directory to its user again (chown -R, chmod -R u+rwX), and to set a umask that leaves these rights", path.Base(at.Path))
		}
	}
	if (op == "open" || op == "check") && errors.As(err, &at) && slices.Contains([]fault.Code{fault.IsADirectory, fault.NotADirectory, fault.NotARegularFile}, e.Code) {
		name := s.partOf(path.Base(at.Path))
		e = fault.New(fault.BadStateDir).Because(err).With("part", name).
			Hintf("%s in the state directory is a link, or has another type than what belongs there; ask the user to move it to another place", name)
		e.Op = op
	}
	e.Effect = cmp.Or(e.Effect, fault.EffectNone)
	s.Host.HideIn(e)
	return e
}

// partOf is the path of an entry in the state directory that an error names.
func (s *Engine) partOf(name string) string {
	for _, part := range openedParts {
		if _, err := s.LstatPart(part, name); err == nil {
			return part + "/" + name
		}
	}
	return name
}

// IsShortage reports whether an error says that the process, or the system, has too little
// of something at the moment. It says nothing of the file that was to be used.
func IsShortage(err error) bool {
	return err != nil && (classify(err).Code == fault.TooManyFiles || errors.Is(err, syscall.ENOMEM))
}

// IsOdd reports whether an error of reading a file says that what has its name cannot be
// ours: it is no file, or too long.
func IsOdd(err error) bool {
	var kind *fsx.TypeError
	return errors.As(err, &kind) || errors.Is(err, durable.ErrTooLong)
}

// IsUnread reports whether an error of reading a file says nothing of the file, which may
// be whole: the file is neither absent nor odd.
func IsUnread(err error) bool { return err != nil && !IsAbsent(err) && !IsOdd(err) }

// IsNoPart reports whether an error says that a part of the state directory is no directory.
func (s *Engine) IsNoPart(err error) bool {
	return err != nil && s.ErrorOf(err).Code == fault.BadStateDir
}

func IsAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
func IsExist(err error) bool  { return errors.Is(err, fs.ErrExist) }
