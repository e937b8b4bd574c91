package lock

import "golang.org/x/sys/unix"

func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}
