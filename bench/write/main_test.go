//go:build linux

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestNothingIsLeft: however a run ends, its mounts and its files are gone.
func TestNothingIsLeft(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	program := filepath.Join(t.TempDir(), "write")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for name, end := range map[string]func(cmd *exec.Cmd, out *os.File){
		"interrupted":    func(cmd *exec.Cmd, _ *os.File) { cmd.Process.Signal(syscall.SIGTERM) },
		"output closed":  func(_ *exec.Cmd, out *os.File) { out.Close() },
		"run to its end": func(*exec.Cmd, *os.File) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(program, "-image", "64", "-only", "1 KiB × 1", "-rounds", "1", "-time", "1ms")
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			out, in, err := os.Pipe()
			testbed.NoErr(t, err)
			defer out.Close()
			var errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = in, &errs
			testbed.NoErr(t, cmd.Start())
			in.Close()
			lines := bufio.NewReader(out)
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatalf("%v %s", err, errs.Bytes())
			}
			end(cmd, out)
			lines.WriteTo(new(bytes.Buffer))
			cmd.Wait()
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			testbed.Expect(t, err == nil && !bytes.Contains(mounts, []byte(dir)), "%v, mounted:\n%s", err, mounts)
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}
