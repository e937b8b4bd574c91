//go:build !linux

// Command record is the benchmark of record. It kills tools within system calls
// and limits the file size of running processes, which is implemented only for
// Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "record: this benchmark needs Linux")
	os.Exit(1)
}
