//go:build unix

package object

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestProcesses: four processes add to one number. Two of them are stopped and continued all the
// time, and one is killed in the middle. No two wrote the same number, and none is missing except
// numbers that the killed one had not printed.
func TestProcesses(t *testing.T) {
	root := t.TempDir()
	seen := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var total atomic.Int64
	for i := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), countIn+"="+root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := 0
		wg.Go(func() {
			for in := bufio.NewScanner(out); in.Scan(); {
				text, ok := strings.CutPrefix(in.Text(), "number ")
				if !ok {
					continue
				}
				n, _ := strconv.Atoi(text)
				mu.Lock()
				seen[n]++
				mu.Unlock()
				switch lines++; {
				case i == 0 && lines == 20:
					cmd.Process.Kill()
				case i < 3 && lines%10 == 0:
					cmd.Process.Signal(syscall.SIGSTOP)
					for at, end := total.Load(), time.Now().Add(100*time.Millisecond); total.Load() < at+5 && time.Now().Before(end); {
						time.Sleep(time.Millisecond) // the others continue, unless it was stopped with the lock
					}
					cmd.Process.Signal(syscall.SIGCONT)
				}
				total.Add(1)
			}
			if err := cmd.Wait(); err != nil && i > 0 {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := mustOpen(t, root)
	data, _, err := s.Get(ctx, "number")
	if err != nil {
		t.Fatal(err)
	}
	last, _ := strconv.Atoi(string(data))
	missing := 0
	for n := 1; n <= last; n++ {
		switch seen[n] {
		case 0:
			missing++
		case 1:
		default:
			t.Errorf("%d was written %d times", n, seen[n])
		}
	}
	if missing > 1 || len(seen) > last || last < 200 {
		t.Errorf("%d is there, %d were written, %d are missing", last, len(seen), missing)
	}
}
