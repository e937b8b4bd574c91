//go:build !windows

package publish

func isSharingViolation(error) bool { return false }
