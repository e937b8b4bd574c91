//go:build !linux

package testbed

// RAM is "": there is no such file system.
func RAM() string { return "" }

// Memory does nothing where no memory file system is usable by all users.
func Memory() (remove func()) { return func() {} }
