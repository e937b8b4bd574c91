package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// bars prints the size of a tree, next to the target sizes.
func bars(w io.Writer, dir string) error {
	var production, tests, root, files int
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && strings.HasPrefix(d.Name(), ".") || ownModules[path] {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		lines := bytes.Count(data, []byte("\n"))
		switch {
		case strings.HasSuffix(path, "_test.go"):
			tests += lines
		case filepath.Dir(path) == ".":
			root, files = root+lines, files+1
			fallthrough
		default:
			production += lines
		}
		return nil
	})
	if err != nil {
		return err
	}
	all, err := goDoc(dir, "-all")
	if err != nil {
		return err
	}
	short, err := goDoc(dir, "-short")
	if err != nil {
		return err
	}
	wide := 0
	for line := range strings.Lines(string(all)) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 100 {
			wide++
		}
	}
	for _, bar := range []struct {
		what      string
		have, max int
	}{
		{"production lines", production, 60_000},
		{"test lines", tests, 45_000},
		{"production lines of the root package", root, 7_000},
		{"production files of the root package", files, 30},
		{"lines of go doc -all .", bytes.Count(all, []byte("\n")), 3_000},
		{"lines of go doc -all . over 100 columns", wide, 0},
		{"lines of go doc -short .", bytes.Count(short, []byte("\n")), 230},
	} {
		fmt.Fprintf(w, "%-42s %7d  at most %d\n", bar.what, bar.have, bar.max)
	}
	return nil
}

func goDoc(dir, how string) ([]byte, error) {
	cmd := exec.Command("go", "doc", how, ".")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go doc %s: %w", how, err)
	}
	return out, nil
}

// ownModules are directories that the sizes leave out.
var ownModules = map[string]bool{"adapters": true, "bench": true, "interop": true, "report": true, "hub": true, "testdata": true}
