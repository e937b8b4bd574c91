// Package demo is what several examples need besides the library.
package demo

import (
	"bytes"
	"hash/crc32"
	"io"
	"io/fs"
	"log"
	"os"
	"path"
)

// Main runs an example in a temporary directory.
func Main(name string, run func(out io.Writer, dir string) error) {
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := run(os.Stdout, dir); err != nil {
		log.Fatal(err)
	}
}

// Secret returns a token that was never issued but has the correct format, so
// that no file contains one: 30 characters and their checksum.
func Secret(seed uint32) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	random, sum := make([]byte, 30), make([]byte, 6)
	for i, x := 0, seed; i < len(random); i++ {
		x = x*1664525 + 1013904223
		random[i] = digits[(x>>16)%62]
	}
	for i, x := len(sum)-1, crc32.ChecksumIEEE(random); i >= 0; i, x = i-1, x/62 {
		sum[i] = digits[x%62]
	}
	return "gh" + "p_" + string(random) + string(sum)
}

// Find returns the directories of a workspace in which a file contains text.
func Find(workspace, text string) (list []string, err error) {
	root := os.DirFS(workspace)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		if bytes.Contains(data, []byte(text)) {
			list = append(list, path.Dir(name))
		}
		return err
	})
	return list, err
}
