//go:build !windows

package resilientwrite

func isSharingViolation(error) bool { return false }

func platformDetail(error) Detail { return "" }
