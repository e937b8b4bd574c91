package bench

import (
	"os"

	"golang.org/x/sys/unix"
)

// topDir is FS_TOPDIR_FL of <linux/fs.h>: what is made in the directory is
// unrelated, and belongs far apart on the disk.
const topDir = 0x00020000

// spread gives every directory made in dir inodes of its own, where the file
// system can. ext4 passes over inodes that were freed in the last minutes, one
// by one, whenever it looks for a free one: without this, an arm that removes
// files slows down all that are measured after it.
func spread(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	flags, err := unix.IoctlGetInt(int(d.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		unix.IoctlSetPointerInt(int(d.Fd()), unix.FS_IOC_SETFLAGS, flags|topDir)
	}
}
