//go:build !linux

package testbed

// Memory does nothing where there is no memory file system for everybody.
func Memory() (remove func()) { return func() {} }
