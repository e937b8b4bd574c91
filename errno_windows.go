package resilientwrite

import (
	"errors"
	"syscall"
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

func platformDetail(err error) Detail {
	var n syscall.Errno
	if !errors.As(err, &n) {
		return ""
	}
	switch n {
	case errorDiskFull, errorHandleDiskFull:
		return DiskFull
	case errorWriteProtect:
		return ReadOnlyVolume
	case errorSharingViolation, errorLockViolation:
		return IOBusy
	case errorAccessDenied:
		return PermissionError
	case errorInvalidName:
		return InvalidPath
	case errorFilenameTooLong:
		return PathTooLong
	case errorTooManyOpen:
		return TooManyFiles
	case errorDirectory:
		return NotADirectory
	}
	return ""
}
