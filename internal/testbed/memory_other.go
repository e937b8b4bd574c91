//go:build !linux

package testbed

// RAM is "": there is no such file system.
func RAM() string { return "" }

// Memory does nothing where there is no memory file system for everybody.
func Memory() (remove func()) { return func() {} }
