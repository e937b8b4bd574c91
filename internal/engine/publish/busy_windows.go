package publish

import (
	"errors"
	"slices"
	"syscall"
)

// isSharingViolation reports ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION and
// ERROR_USER_MAPPED_FILE (winerror.h).
func isSharingViolation(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{32, 33, 1224}, func(no syscall.Errno) bool { return errors.Is(err, no) })
}
