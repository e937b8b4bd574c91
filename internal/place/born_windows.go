package place

import (
	"os"
	"syscall"
)

// born is when a directory was made, 0 where the file system does not record it.
func born(dir string) int64 {
	st, err := os.Stat(dir)
	if err != nil {
		return 0
	}
	if own, ok := st.Sys().(*syscall.Win32FileAttributeData); ok {
		return own.CreationTime.Nanoseconds()
	}
	return 0
}

// Writable fails if this process may not write. On this system only the write itself
// shows it, so Writable returns nil.
func Writable(string) error { return nil }
