//go:build !linux

// Command record is the benchmark of record. It breaks tools off inside
// system calls and limits files of running processes, which it knows how to
// do on Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "record: this benchmark needs Linux")
	os.Exit(1)
}
