package hub

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// TestFollow: what is written reaches the hub without being asked for, an
// unreachable hub is tried again, and the loss of the task ends it.
func TestFollow(t *testing.T) {
	f := newFrail()
	a := openMachine(t, New(f), filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	type told struct {
		out Shipped
		err error
	}
	calls, ended := make(chan told, 100), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		ended <- a.Follow(ctx, 100*time.Millisecond, &PublishRequest{Task: "t", Root: a.root}, func(out Shipped, err error) { calls <- told{out, err} })
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
	b := openMachine(t, New(f), filepath.Join(t.TempDir(), "b"))
	if _, err := b.Resume(t.Context(), ResumeRequest{Task: "t", Force: true}); err != nil {
		t.Fatal(err)
	}
	a.write("c.txt", "late")
	if err := <-ended; !IsCode(err, Fenced) {
		t.Fatal(err)
	}
}
