package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// TestDescriptors: the result and the progress go to open descriptors of the
// caller; each run's events are a pair with whatever came between.
func TestDescriptors(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("descriptors cannot be passed on")
	}
	dir := t.TempDir()
	cmd := exec.Command(build(t), "write", "a.txt", "--root", dir, "--result-fd", "3", "--progress-fd", "4")
	cmd.Stdin = strings.NewReader("hello\n")
	results, progress := pipe(t), pipe(t)
	cmd.ExtraFiles = []*os.File{results.w, progress.w}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var r result
	if err := json.Unmarshal([]byte(results.all()), &r); err != nil || r.Command != "write" || !bytes.Contains(r.Receipt, []byte(`"succeeded"`)) {
		t.Errorf("%v %+v", err, r)
	}
	lines := strings.Split(strings.TrimSpace(progress.all()), "\n")
	var first, last progressEvent
	json.Unmarshal([]byte(lines[0]), &first)
	json.Unmarshal([]byte(lines[len(lines)-1]), &last)
	if first.Event != "begin" || last.Event != "end" || last.Code == nil || *last.Code != 0 || first.Command != "write" {
		t.Errorf("%v", lines)
	}
}

type ends struct {
	t    testing.TB
	r, w *os.File
}

func pipe(t testing.TB) ends {
	r, w, err := os.Pipe()
	noErr(t, err)
	return ends{t, r, w}
}

func (e ends) all() string {
	e.w.Close()
	var b bytes.Buffer
	b.ReadFrom(e.r)
	e.r.Close()
	return b.String()
}
