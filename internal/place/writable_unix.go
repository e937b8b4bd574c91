//go:build unix

package place

import "golang.org/x/sys/unix"

// Writable fails where this process may not write.
func Writable(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
