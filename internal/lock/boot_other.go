//go:build !linux && !darwin

package lock

func bootID() string { return "" }
