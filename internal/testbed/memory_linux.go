package testbed

import (
	"os"

	"golang.org/x/sys/unix"
)

// room is the free memory that a memory file system must have.
const room = 2 << 30

// RAM returns the directory of a memory file system that has space for the directories
// of tests and can run programs, or "" if there is none. In a container it often exists
// and is far too small.
func RAM() string {
	const shm = "/dev/shm"
	var fs unix.Statfs_t
	switch err := unix.Statfs(shm, &fs); {
	case err != nil || fs.Type != unix.TMPFS_MAGIC || fs.Flags&(unix.ST_NOEXEC|unix.ST_RDONLY) != 0:
		return ""
	case fs.Bavail*uint64(fs.Bsize) < room:
		return ""
	}
	return shm
}

// Memory puts the temporary directories of this process into memory, where making and
// removing the hundreds of directories of a new store costs little, and returns the
// function that removes them. The files that a dead process leaves are the same there;
// tests of a disk use a directory of their own. Nothing happens in a long run, when
// TMPDIR is set, or when /dev/shm is not a memory file system with room for them that
// can run programs.
func Memory() (remove func()) {
	shm := RAM()
	if shm == "" || Long() || os.Getenv("TMPDIR") != "" {
		return func() {}
	}
	dir, err := os.MkdirTemp(shm, "rw-tests-")
	if err != nil {
		return func() {}
	}
	os.Setenv("TMPDIR", dir)
	return func() { os.RemoveAll(dir) }
}
