//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
)

// anchor measures one durable replace in the directory of the workspaces: the
// median of fifty files of 4 KiB, written as the defensive arm does. The times
// of the tables are to be compared with it.
func anchor(dir string) (time.Duration, error) {
	var list []time.Duration
	text := make([]byte, 4<<10)
	for range 50 {
		began := time.Now()
		if err := renameOver(filepath.Join(dir, "anchor.txt"), text); err != nil {
			return 0, err
		}
		list = append(list, time.Since(began))
	}
	return median(list), nil
}

// host describes the machine of the measurement.
func host() string {
	var u unix.Utsname
	release := "unknown"
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
		if parts := strings.SplitN(release, ".", 3); len(parts) == 3 {
			release = parts[0] + "." + parts[1]
		}
	}
	return fmt.Sprintf("%d cores (%s, Linux %s, %s, %s, load %s at the end)", runtime.NumCPU(), runtime.GOARCH, release, volume(os.TempDir()), runtime.Version(), page.Load())
}

// volume returns the file system of a directory.
func volume(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return "unknown file system"
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	}
	return fmt.Sprintf("file system %#x", st.Type)
}
