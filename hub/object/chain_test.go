package object

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
)

// A chain is the sequence of contents of one key. Each content names the one that it replaced, so
// the last content and the attempts determine the whole chain, and what each call should have
// returned.

type outcome int

const (
	applied outcome = iota
	refused
	unknown
	seen // by Get
)

// attempt is one call; its content is id.
type attempt struct {
	key, id, parent string
	outcome         outcome
	start, end      int64 // by a clock of the test
}

// history records the attempts of concurrent clients.
type history struct {
	mu    sync.Mutex
	clock atomic.Int64
	list  []attempt
}

func (h *history) add(a attempt) {
	a.end = h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, a)
}

// contend makes a client replace the contents of the keys, again and again. After an error that the
// interface does not list, nothing may have been written.
func (h *history) contend(s Store, name string, keys, rounds int) {
	rng := rand.New(rand.NewPCG(uint64(len(name)), uint64(name[0])))
	for i := range rounds {
		a := attempt{key: fmt.Sprintf("race/%d", rng.IntN(keys)), start: h.clock.Add(1), outcome: seen}
		data, etag, err := s.Get(ctx, a.key)
		switch {
		case err == nil:
			a.id, _, _ = strings.Cut(string(data), "<")
		case !errors.Is(err, ErrNotFound):
			continue
		}
		h.add(a)
		runtime.Gosched() // let another client run in between
		a = attempt{key: a.key, id: fmt.Sprintf("%s-%d", name, i), parent: a.id, start: h.clock.Add(1)}
		content := []byte(a.id + "<" + a.parent)
		if a.parent == "" && i%2 == 0 {
			_, err = s.PutIfAbsent(ctx, a.key, content)
		} else {
			_, err = s.CompareAndSwap(ctx, a.key, etag, content)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrUncertain):
			a.outcome = unknown
		default:
			a.outcome = refused
		}
		h.add(a)
	}
}

// check compares the results of the calls with the chains that end with the current contents. It
// returns what is wrong, and how many attempts had each outcome.
func (h *history) check(s Store, keys int) (wrong []string, count [4]int) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	parent := map[string]string{}
	for _, a := range h.list {
		count[a.outcome]++
		if a.outcome != seen {
			parent[a.id] = a.parent
		}
	}
	for k := range keys {
		key := fmt.Sprintf("race/%d", k)
		data, _, err := s.Get(ctx, key)
		if err != nil {
			complain("%s: %v", key, err)
			continue
		}
		var chain []string
		for id, _, _ := strings.Cut(string(data), "<"); id != ""; id = parent[id] {
			chain = append(chain, id)
		}
		slices.Reverse(chain)
		at := map[string]int{"": -1}
		for i, id := range chain {
			at[id] = i
		}
		var done []attempt // in the order of their ends
		for _, a := range h.list {
			if a.key != key {
				continue
			}
			i, there := at[a.id]
			switch {
			case a.outcome == applied && !there:
				complain("%s: %s was written, and is lost", key, a.id)
			case a.outcome == refused && there:
				complain("%s: %s was refused, and written", key, a.id)
			case a.outcome == seen && !there:
				complain("%s: %s was seen, and is no part of the chain", key, a.id)
			}
			if a.outcome != applied && a.outcome != seen {
				continue
			}
			for _, before := range done {
				if j := at[before.id]; before.end < a.start && (j > i || j == i && a.outcome == applied) {
					complain("%s: %s came after %s in time, and before it in the chain", key, a.id, before.id)
				}
			}
			done = append(done, a)
		}
	}
	return wrong, count
}

// race makes clients contend, and checks their history with a client that has no
// faults.
func race(t *testing.T, clients []Store, last func() Store, keys, rounds int) {
	t.Helper()
	var h history
	var wg sync.WaitGroup
	for i, s := range clients {
		wg.Go(func() { h.contend(s, string(rune('a'+i))+strings.Repeat("x", i), keys, rounds) })
	}
	wg.Wait()
	wrong, count := h.check(last(), keys)
	for _, w := range wrong {
		t.Error(w)
	}
	t.Logf("%d applied, %d refused, %d unknown, %d seen", count[applied], count[refused], count[unknown], count[seen])
	if count[applied] < keys || count[refused] < keys {
		t.Error("the clients did not meet")
	}
}

func TestDirectoryIsLinear(t *testing.T) {
	root := t.TempDir()
	var clients []Store
	for range 4 { // kernel locks treat them like separate processes
		s := mustOpen(t, root)
		clients = append(clients, s, s)
	}
	race(t, clients, func() Store { return clients[0] }, 2, 60)
}

func TestS3IsLinear(t *testing.T) {
	for _, often := range []int{1 << 30, 6, 2} {
		p := &s3test.Proxy{Next: &s3test.Server{}, Choose: s3test.Random(uint64(often), often)}
		var clients []Store
		for range 6 {
			clients = append(clients, serve(t, p))
		}
		race(t, clients, func() Store {
			p.Flush()
			return serve(t, p.Next)
		}, 2, 100)
	}
}

// TestChainsShowFaults checks that stores that are not linearizable are
// detected.
func TestChainsShowFaults(t *testing.T) {
	inner := mustOpen(t, t.TempDir())
	n := 0
	for want, s := range map[string]faulty{
		"is lost": {swap: func(key, etag string, data []byte) (string, error) { return forced(inner, key, data) }},
		"was refused, and written": {swap: func(key, etag string, data []byte) (string, error) {
			forced(inner, key, data)
			return "", ErrChanged
		}},
		"before it in the chain": {get: func(key string) ([]byte, string, error) {
			data, tag, err := inner.Get(ctx, key)
			if n++; n%5 == 0 {
				return nil, "", ErrNotFound
			}
			return data, tag, err
		}},
	} {
		inner.Delete(ctx, "race/0")
		s.Store = inner
		var h history
		var wg sync.WaitGroup
		if n = 0; want == "is lost" {
			// One client writes between the read and the write of the other.
			h.contend(inner, "b", 1, 3)
			s.get = func(key string) ([]byte, string, error) {
				data, tag, err := inner.Get(ctx, key)
				h.contend(inner, fmt.Sprint("c", n), 1, 1)
				n++
				return data, tag, err
			}
		}
		wg.Go(func() { h.contend(s, "a", 1, 20) })
		wg.Wait()
		if wrong, _ := h.check(inner, 1); !strings.Contains(fmt.Sprint(wrong), want) {
			t.Errorf("%s: %q", want, wrong)
		}
	}
}
