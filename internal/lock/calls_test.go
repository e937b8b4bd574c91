package lock_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestPublishedCalls: calls that last are published by live processes, with room for a few
// hundred paths, and no foreign content of the file is taken for
// one.
func TestPublishedCalls(t *testing.T) {
	lock.PublishAtOnce(t)
	place := t.TempDir()
	dir := testbed.Must(fsx.OpenRoot(place))(t)
	defer dir.Close()
	calls, release, err := lock.Register(dir, "w0")
	testbed.NoErr(t, err)
	published := func(n int) []lock.Call {
		t.Helper()
		for {
			list := testbed.Must(lock.Reported(dir))(t)
			if len(list) == n {
				return list
			}
			runtime.Gosched()
		}
	}
	var ends []func()
	for i := range 3 {
		ends = append(ends, calls.Begin(func() lock.Call {
			return lock.Call{Op: fmt.Sprint("op", i), Paths: []string{"a\nb", "c"}, Caller: "x"}
		}))
		published(i + 1)
	}
	ends[1]()
	for i, c := range published(2) {
		if c.Op != fmt.Sprint("op", 2*i) || c.PID != os.Getpid() || c.Since == 0 || len(c.Paths) != 2 {
			t.Errorf("%+v", c)
		}
	}
	long := calls.Begin(func() lock.Call { return lock.Call{Op: "long", Paths: []string{strings.Repeat("x", 9000)}} })
	ends = append(ends, calls.Begin(func() lock.Call { return lock.Call{Op: "short"} }))
	published(3)
	long()
	for _, i := range []int{0, 2, 3} {
		ends[i]()
	}
	published(0)
	for _, text := range []string{"{", "null", "[]", `{"o":1}`, strings.Repeat("[", 9000), "\x00"} {
		f := testbed.Must(os.OpenFile(filepath.Join(place, "w-w0"), os.O_RDWR, 0))(t)
		f.WriteAt([]byte(text+"\n"), 64)
		f.Close()
		if list, err := lock.Reported(dir); err != nil || len(list) > 1 {
			t.Errorf("%q: %v %+v", text, err, list)
		}
	}
	end := calls.Begin(func() lock.Call { return lock.Call{Op: "last"} })
	published(1)
	testbed.NoErr(t, release())
	published(0)
	end()
	var none *lock.Calls
	none.Begin(nil)()
}
