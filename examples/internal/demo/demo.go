// Package demo is what several examples need besides the library.
package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path"

	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// Main runs an example in a temporary directory. The state of its stores is in another
// one.
func Main(name string, run func(out io.Writer, dir string) error) {
	err := within(name, func(dir string) error {
		return within(name+"-state", func(state string) error {
			os.Setenv("XDG_STATE_HOME", state)
			return run(os.Stdout, dir)
		})
	})
	if err != nil {
		log.Fatal(err)
	}
}

// within calls run with a new directory, and removes that.
func within(name string, run func(dir string) error) error {
	dir, err := os.MkdirTemp("", name)
	if err != nil {
		return err
	}
	return errors.Join(run(dir), os.RemoveAll(dir))
}

// crashIn is the variable with the directory of a process that is to crash.
const crashIn = "EXAMPLE_CRASH_IN"

// crashed is the exit code of such a process.
const crashed = 3

// Crashes runs crash if this process is one that [Crash] started.
func Crashes(crash func(dir string)) bool {
	dir := os.Getenv(crashIn)
	if dir != "" {
		crash(dir)
	}
	return dir != ""
}

// Crash runs this program again, as a process that dies at work in a directory.
func Crash(dir string) error {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashIn+"="+dir)
	if err := child.Run(); child.ProcessState.ExitCode() != crashed {
		return fmt.Errorf("the child did not crash: %v", err)
	}
	return nil
}

// DieAt ends this process, without any cleanup, when it comes to a point of a write for
// the nth time.
func DieAt(point string, n int) {
	failpoint.Arm(func(at string) {
		if at != point {
			return
		}
		if n--; n == 0 {
			os.Exit(crashed)
		}
	})
}

// Secret returns a token that was never issued but has the correct format, so
// that no file contains one: 30 characters and their checksum.
func Secret(seed uint32) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	random := make([]byte, 30)
	for i, x := 0, seed; i < len(random); i++ {
		x = x*1664525 + 1013904223
		random[i] = digits[(x>>16)%62]
	}
	return "gh" + "p_" + string(random) + scan.Checksum(string(random))
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
