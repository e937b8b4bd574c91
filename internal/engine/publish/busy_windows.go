package publish

import (
	"errors"
	"syscall"
)

// isSharingViolation reports ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION and
// ERROR_USER_MAPPED_FILE (winerror.h).
func isSharingViolation(err error) bool {
	for _, no := range []syscall.Errno{32, 33, 1224} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
