package engine

import (
	"errors"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// Error numbers of Windows (winerror.h) that package syscall has no portable
// name for.
const (
	errorWriteProtect     = syscall.Errno(19)
	errorSharingViolation = syscall.Errno(32)
	errorLockViolation    = syscall.Errno(33)
	errorHandleDiskFull   = syscall.Errno(39)
	errorDiskFull         = syscall.Errno(112)
	errorInvalidName      = syscall.Errno(123)
	errorFilenameTooLong  = syscall.Errno(206)
	errorTooManyOpen      = syscall.Errno(4)
	errorAccessDenied     = syscall.Errno(5)
	errorDirectory        = syscall.Errno(267)
)

func platformDetail(err error) fault.Code {
	var n syscall.Errno
	if !errors.As(err, &n) {
		return ""
	}
	switch n {
	case errorDiskFull, errorHandleDiskFull:
		return fault.DiskFull
	case errorWriteProtect:
		return fault.ReadOnlyVolume
	case errorSharingViolation, errorLockViolation:
		return fault.IOBusy
	case errorAccessDenied:
		return fault.PermissionError
	case errorInvalidName:
		return fault.InvalidPath
	case errorFilenameTooLong:
		return fault.PathTooLong
	case errorTooManyOpen:
		return fault.TooManyFiles
	case errorDirectory:
		return fault.NotADirectory
	}
	return ""
}
