//go:build linux

package resilientwrite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestSystemCallsOfTheRealProcess compares the system calls of a real process with the
// order that the trace goldens pin on the simulator: nothing is published before the
// slot and the journal are flushed, and nothing is acknowledged before the directory
// is.
func TestSystemCallsOfTheRealProcess(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	dir := workspace(t)
	s := open(t, dir, nil) // so that the child makes nothing but its writes
	write(t, s, "seed.txt", "x", rw.ModeCreate)
	s.Close(background)
	log := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-y", "-s", "64", "-o", log, "-e", "trace=fsync,fdatasync,renameat2,linkat,write", os.Args[0])
	cmd.Env = append(os.Environ(), "RW_CHILD=trace", "RW_DIR="+dir, "RW_LEVEL=full")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "ptrace") {
			t.Skip("tracing is not allowed here")
		}
		t.Fatalf("%v: %s", err, out)
	}
	data := must(os.ReadFile(log))(t)
	calls := finished(string(data))
	for _, row := range []struct{ from, to, publish, after string }{
		{"begin", "created", "renameat2", "dir"}, {"created", "replaced", "renameat2", "dir"}, {"replaced", "appended", "renameat2", "dir"},
	} {
		part := between(calls, row.from, row.to)
		at := first(part, row.publish)
		for _, flush := range []string{"sync staged", "sync journal"} {
			if i := first(part, flush); i < 0 || at < 0 || i > at {
				t.Errorf("%s: %q at %d, published at %d: %v", row.to, flush, i, at, part)
			}
		}
		if i := first(part[max(at, 0):], "sync "+row.after); i < 0 {
			t.Errorf("%s: acknowledged before %s was flushed: %v", row.to, row.after, part)
		}
	}
}

var (
	begun   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished`)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed`)
	whole   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += `)
)

// finished lists the calls in the order in which they ended.
func finished(log string) []string {
	open := map[string]string{}
	var list []string
	for _, line := range strings.Split(log, "\n") {
		if m := begun.FindStringSubmatch(line); m != nil {
			open[m[1]+m[2]] = m[3]
		} else if m := resumed.FindStringSubmatch(line); m != nil {
			list = append(list, named(m[2], open[m[1]+m[2]]))
		} else if m := whole.FindStringSubmatch(line); m != nil {
			list = append(list, named(m[2], m[3]))
		}
	}
	return list
}

// named returns the purpose of a call.
func named(call, args string) string {
	switch {
	case call == "write" && strings.Contains(args, "MARK "):
		return strings.TrimSpace(strings.SplitN(strings.SplitN(args, "MARK ", 2)[1], `\n`, 2)[0])
	case call == "fdatasync" && strings.Contains(args, "/journal/"):
		return "sync journal"
	case call == "fsync" && strings.Contains(args, "/staging/"):
		return "sync staged"
	case call == "fsync" && strings.HasSuffix(args, "/staging>"):
		return "sync staging"
	case call == "fsync" && strings.HasSuffix(args, "/sub>"):
		return "sync dir"
	case call == "renameat2" && strings.Contains(args, "/sub>"):
		return call
	}
	return ""
}

func first(list []string, what string) int {
	for i, s := range list {
		if s == what {
			return i
		}
	}
	return -1
}

func between(list []string, from, to string) []string {
	i, j := first(list, from), first(list, to)
	if i < 0 || j < i {
		return nil
	}
	return list[i:j]
}
