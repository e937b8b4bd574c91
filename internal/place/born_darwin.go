package place

import "golang.org/x/sys/unix"

// born is when a directory was made, 0 where the file system does not record it.
func born(dir string) int64 {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0
	}
	return st.Btim.Nano()
}
