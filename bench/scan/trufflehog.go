package main

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// trufflehog has its own license (AGPL-3.0) and is in no go.mod of this
// repository. It is built in a temporary directory, from a pinned version, and
// driven through a pipe.

// pinned is the go.mod of the child.
const pinned = `module child

go 1.25.0

require github.com/trufflesecurity/trufflehog/v3 v3.90.0
`

//go:embed child.go.txt
var childSource []byte

// trufflehog builds and starts the child. Its error is one line.
func trufflehog(mod string) (arm, error) {
	dir, err := os.MkdirTemp("", "trufflehog")
	if err != nil {
		return arm{}, err
	}
	bin, err := build(dir, mod)
	if err != nil {
		os.RemoveAll(dir)
		return arm{}, err
	}
	cmd := exec.Command(bin)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmp.Or(err1, err2, cmd.Start()); err != nil {
		os.RemoveAll(dir)
		return arm{}, fmt.Errorf("it does not start: %w", err)
	}
	c := &child{in: bufio.NewWriter(in), out: bufio.NewReader(out)}
	return arm{name: "trufflehog", most: 1 << 30, scan: c.scan, stop: func() {
		in.Close()
		cmd.Wait()
		os.RemoveAll(dir)
	}}, nil
}

// build writes the module of the child and compiles it.
func build(dir, mod string) (string, error) {
	err := cmp.Or(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), childSource, 0o600))
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "child")
	cmd := exec.Command("go", "build", "-o", bin, ".")
	cmd.Dir = dir
	// The versions are taken from its go.mod, so the build does not depend on the date.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if said, err := cmd.CombinedOutput(); err != nil {
		last := strings.Split(strings.TrimSpace(string(bytes.ReplaceAll(said, []byte(dir), nil))), "\n")
		return "", fmt.Errorf("it cannot be built here (%s)", last[len(last)-1])
	}
	return bin, nil
}

// child is the running process: it takes the length of a text and the text,
// and answers with its CPU time in nanoseconds and the number of findings,
// eight bytes each.
type child struct {
	in  *bufio.Writer
	out io.Reader
}

func (c *child) scan(text []byte) (time.Duration, int, error) {
	var answer [2]uint64
	err := cmp.Or(
		binary.Write(c.in, binary.BigEndian, uint64(len(text))),
		binary.Write(c.in, binary.BigEndian, text),
		c.in.Flush(),
		binary.Read(c.out, binary.BigEndian, &answer))
	return time.Duration(answer[0]), int(answer[1]), err
}
