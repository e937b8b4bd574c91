package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var ctx = context.Background()

// tables opens n lock tables on one file: kernel locks distinguish them as they
// distinguish processes.
func tables(t testing.TB, n int) []*lock.Table {
	t.Helper()
	dir := testbed.Must(fsx.OpenRoot(t.TempDir()))(t)
	var list []*lock.Table
	for i := range n {
		x := testbed.Must(lock.Open(dir, "locks", lock.Owner{Writer: fmt.Sprintf("w%d", i), PID: 100 + i}))(t)
		t.Cleanup(func() { x.Close() })
		list = append(list, x)
	}
	return list
}

// TestCrossingKeysNeverDeadlock: sixty-four goroutines over four tables lock
// random sets of keys; each key has one holder at a time.
func TestCrossingKeysNeverDeadlock(t *testing.T) {
	list := tables(t, 4)
	var held [6]int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for range 30 {
				set := rng.Perm(6)[:1+rng.IntN(3)]
				var keys []string
				for _, k := range set {
					keys = append(keys, fmt.Sprint(k))
				}
				unlock, err := list[g%4].Keys(ctx, time.Minute, "test", append(keys, keys[0])...)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, k := range set {
					if held[k]++; held[k] != 1 {
						t.Errorf("key %d has %d holders", k, held[k])
					}
				}
				mu.Unlock()
				mu.Lock()
				for _, k := range set {
					held[k]--
				}
				mu.Unlock()
				unlock()
				unlock() // once more is harmless
			}
		})
	}
	wg.Wait()
}

func TestTimeoutNamesTheHolder(t *testing.T) {
	list := tables(t, 2)
	unlock, err := list[0].Keys(ctx, time.Second, "safe_write", "a")
	testbed.NoErr(t, err)
	for i, x := range list { // within the process, and from another one
		_, err := x.Keys(ctx, 30*time.Millisecond, "other", "a")
		var timeout *lock.TimeoutError
		testbed.Expect(t, errors.As(err, &timeout) && timeout.Holder.PID == 100 && timeout.Holder.What == "safe_write", "%d: %v", i, err)
	}
	canceled, cancel := context.WithCancel(ctx)
	time.AfterFunc(10*time.Millisecond, cancel)
	testbed.Fails(list[1].Keys(canceled, time.Minute, "other", "a"))(t, context.Canceled)
	unlock()
	for _, x := range list {
		unlock := testbed.Must(x.Keys(ctx, time.Second, "next", "a", "b"))(t)
		unlock()
	}
}

// TestTreeIsNotKeptOut: two tables that are always at work, each with several
// keys at a time, do not keep a third one from the tree.
func TestTreeIsNotKeptOut(t *testing.T) {
	list := tables(t, 3)
	stop := make(chan struct{})
	var alone atomic.Bool
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				unlock, err := list[g%2].Keys(ctx, time.Minute, "keys", fmt.Sprint(g))
				if err != nil {
					t.Error(err)
					return
				}
				testbed.Expect(t, !alone.Load(), "a key is held beside the tree")
				time.Sleep(time.Millisecond) // held most of the time, by one of them
				unlock()
			}
		})
	}
	for range 20 {
		unlock := testbed.Must(list[2].Tree(ctx, time.Minute, "move"))(t)
		alone.Store(true)
		time.Sleep(time.Millisecond)
		alone.Store(false)
		unlock()
	}
	close(stop)
	wg.Wait()
}

// TestNamesDoNotWaitForTheTree: its owner takes them while it has it.
func TestNamesDoNotWaitForTheTree(t *testing.T) {
	list := tables(t, 2)
	tree, err := list[0].Tree(ctx, time.Second, "move")
	testbed.NoErr(t, err)
	defer tree()
	for _, x := range list {
		unlock := testbed.Must(x.Names(ctx, time.Minute, "names", "a"))(t)
		_, err := list[0].Names(ctx, 30*time.Millisecond, "names", "a")
		testbed.Expect(t, err != nil, "a name has two holders")
		unlock()
	}
}

func TestTreeWaitsForKeys(t *testing.T) {
	list := tables(t, 2)
	for _, x := range list {
		keys, err := list[0].Keys(ctx, time.Second, "keys", "a")
		testbed.NoErr(t, err)
		_, err = x.Tree(ctx, 30*time.Millisecond, "move")
		testbed.Expect(t, err != nil, "the tree was locked beside a key")
		keys()
		tree := testbed.Must(x.Tree(ctx, time.Second, "move"))(t)
		for _, y := range list {
			_, err := y.Keys(ctx, 30*time.Millisecond, "keys", "b")
			testbed.Expect(t, err != nil, "a key was locked beside the tree")
		}
		tree()
	}
}

// readOnly is a directory as it is on a file system that is mounted read-only.
type readOnly struct{ fsx.Dir }

func (d readOnly) Open(name string, flag fsx.Flag, perm uint32) (fsx.File, error) {
	if flag&^fsx.Read != 0 {
		return nil, syscall.EROFS
	}
	return d.Dir.Open(name, flag, perm)
}

// TestLiveness: everyone sees which writers live, also who may not write.
func TestLiveness(t *testing.T) {
	dir := testbed.Must(fsx.OpenRoot(t.TempDir()))(t)
	_, release, err := lock.Register(dir, "writer1")
	testbed.NoErr(t, err)
	for _, seen := range []fsx.Dir{dir, readOnly{dir}, dir} {
		live, err := lock.Alive(seen, "writer1")
		testbed.Expect(t, err == nil && live, "%v %v", live, err)
	}
	list, _ := lock.Writers(dir)
	testbed.Expect(t, fmt.Sprint(list) == "[writer1]", "%v", list)
	release()
	live, err := lock.Alive(dir, "writer1")
	testbed.Expect(t, err == nil && !live, "%v %v", live, err)
	err = lock.Forget(dir, "writer1")
	testbed.Expect(t, err == nil, "%v", err)
}

func BenchmarkKeys(b *testing.B) {
	x := tables(b, 1)[0]
	b.ReportAllocs()
	for range b.N {
		unlock := testbed.Must(x.Keys(ctx, time.Second, "bench", "a"))(b)
		unlock()
	}
}

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
			list := testbed.Must(lock.Reported(readOnly{dir}))(t)
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
		testbed.Expect(t, c.Op == fmt.Sprint("op", 2*i) && c.PID == os.Getpid() && c.Since != 0 && len(c.Paths) == 2, "%+v", c)
	}
	long := calls.Begin(func() lock.Call { return lock.Call{Op: "long", Paths: []string{strings.Repeat("x", 9000)}} })
	ends = append(ends, calls.Begin(func() lock.Call { return lock.Call{Op: "short"} }))
	published(3)
	long()
	for _, i := range []int{0, 2, 3} {
		ends[i]()
	}
	published(0)
	rest := bytes.Trim(testbed.Must(os.ReadFile(filepath.Join(place, "w-w0")))(t)[64:], "\n\x00")
	testbed.Expect(t, len(rest) == 0, "of calls that have ended %q is left", rest)
	for _, text := range []string{"{", "null", "[]", `{"o":1}`, strings.Repeat("[", 9000), "\x00"} {
		f := testbed.Must(os.OpenFile(filepath.Join(place, "w-w0"), os.O_RDWR, 0))(t)
		f.WriteAt([]byte(text+"\n"), 64)
		f.Close()
		list, err := lock.Reported(dir)
		testbed.Expect(t, err == nil && len(list) <= 1, "%q: %v %+v", text, err, list)
	}
	end := calls.Begin(func() lock.Call { return lock.Call{Op: "last"} })
	published(1)
	testbed.NoErr(t, release())
	published(0)
	end()
	var none *lock.Calls
	none.Begin(nil)()
}
