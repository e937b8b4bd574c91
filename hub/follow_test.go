package hub

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// TestFollow: Follow ships writes by itself, tries an unreachable hub again,
// and ends when the task is lost.
func TestFollow(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	type call struct {
		out Shipped
		err error
	}
	calls, ended := make(chan call, 100), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		ended <- a.Follow(ctx, 100*time.Millisecond, &PublishRequest{Task: "t", Root: a.root}, func(out Shipped, err error) { calls <- call{out, err} })
	}()
	if c := <-calls; c.err != nil || c.out.Rows != 1 || c.out.Published.Files != 1 {
		t.Fatalf("%+v", c)
	}
	f.mu.Lock()
	f.dead = true
	f.mu.Unlock()
	a.write("b.txt", "two")
	if c := <-calls; !IsCode(c.err, Unreachable) {
		t.Fatalf("%+v", c)
	}
	f.mu.Lock()
	f.dead = false
	f.mu.Unlock()
	c := <-calls
	for c.err != nil {
		c = <-calls
	}
	if c.out.Rows != 1 || c.out.Published.Files != 2 {
		t.Fatalf("%+v", c)
	}
	resumed(t, f.hub(), "t")
	a.write("c.txt", "late")
	if err := <-ended; !IsCode(err, Fenced) {
		t.Fatal(err)
	}
	if err := a.Follow(ctx, time.Minute, nil, func(out Shipped, _ error) { c.out = out; cancel() }); err != nil || c.out.Rows == 0 || c.out.Published != nil {
		t.Fatalf("%v %+v", err, c.out)
	}
}

// TestDue: an object store that does not answer gets one attempt per interval,
// however many rows wait.
func TestDue(t *testing.T) {
	const every = time.Minute
	for _, c := range []struct {
		waiting      uint64
		idle         time.Duration
		first, renew bool
		tried        error
		want         bool
	}{
		{0, 0, true, false, nil, true},
		{0, every, false, false, nil, false},
		{1, every - 1, false, false, nil, false},
		{1, every, false, false, nil, true},
		{followRows, 0, false, false, nil, true},
		{0, 0, false, true, nil, true},
		{followRows, every - 1, false, true, errDied, false},
		{0, every, false, false, errDied, true},
	} {
		if got := due(c.waiting, c.idle, every, c.first, c.renew, c.tried); got != c.want {
			t.Errorf("%+v", c)
		}
	}
}
