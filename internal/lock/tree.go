package lock

import (
	"context"
	"sync"
	"time"
)

// Who wants the tree lock for itself first closes the gate, which everybody who
// wants a share of it passes: otherwise processes that are always at work would
// keep it out for ever.

// treeState is the tree lock within this process: many sharers or one owner.
// The kernel lock is held once for all sharers.
type treeState struct {
	cond    sync.Cond
	shared  int
	waiting int // exclusive callers that wait; they keep new sharers out
	busy    bool
	kernel  bool // the shared kernel lock is held
	asking  bool // somebody is asking the kernel for it
}

// Tree takes the tree lock alone: it waits for every holder of keys in every
// process and keeps new ones out. Moving or removing a directory needs it.
func (t *Table) Tree(ctx context.Context, timeout time.Duration, what string) (unlock func(), err error) {
	deadline := time.Now().Add(timeout)
	t.mu.Lock()
	t.tree.waiting++
	err = t.waitTree(ctx, deadline, func() bool { return t.tree.shared == 0 && !t.tree.busy && !t.tree.asking })
	t.tree.waiting--
	if err == nil {
		t.tree.busy = true
	}
	t.tree.cond.Broadcast()
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var had []int64
	for _, at := range []int64{gateByte, treeByte} {
		ok, err := t.poll(ctx, deadline, at, true)
		if err == nil && !ok {
			err = &TimeoutError{Key: "tree", Holder: t.holders.read(treeByte)}
		}
		if err != nil {
			t.endTree(had)
			return nil, err
		}
		had = append(had, at)
	}
	t.holders.write(treeByte, Holder{Writer: t.owner.Writer, PID: t.owner.PID, Since: time.Now(), What: what})
	return sync.OnceFunc(func() {
		t.holders.clear(treeByte)
		t.endTree(had)
	}), nil
}

// endTree gives the kernel's locks back and lets the others in.
func (t *Table) endTree(had []int64) {
	for _, at := range had {
		t.file.Unlock(at, 1)
	}
	t.mu.Lock()
	t.tree.busy = false
	t.tree.cond.Broadcast()
	t.mu.Unlock()
}

// enterTree joins the sharers of the tree lock. The first one asks the kernel.
func (t *Table) enterTree(ctx context.Context, deadline time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.waitTree(ctx, deadline, func() bool { return !t.tree.busy && t.tree.waiting == 0 && !t.tree.asking })
	if err != nil {
		return err
	}
	open, err := t.file.TryLock(gateByte, 1, false)
	if err != nil {
		return err
	}
	if !open || !t.tree.kernel {
		err = t.askTree(ctx, deadline, open)
	}
	t.file.Unlock(gateByte, 1)
	if err != nil {
		return err
	}
	t.tree.shared++
	return nil
}

// askTree waits for the gate to be open and takes the kernel's share of the
// tree lock, if this process has none. It gives t.mu up meanwhile; nobody joins
// while it asks, but sharers leave.
func (t *Table) askTree(ctx context.Context, deadline time.Time, open bool) (err error) {
	t.tree.asking = true
	defer func() {
		t.tree.asking = false
		t.tree.cond.Broadcast()
	}()
	ask := func(at int64) (ok bool) {
		t.mu.Unlock()
		defer t.mu.Lock()
		ok, err = t.poll(ctx, deadline, at, false)
		return ok && err == nil
	}
	if open || ask(gateByte) {
		if t.tree.kernel = t.tree.kernel || ask(treeByte); t.tree.kernel {
			return nil
		}
	}
	if err == nil {
		err = &TimeoutError{Key: "tree", Holder: t.holders.read(treeByte)}
	}
	return err
}

func (t *Table) leaveTree() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tree.shared--
	if t.tree.shared == 0 {
		t.file.Unlock(treeByte, 1)
		t.tree.kernel = false
		t.tree.cond.Broadcast()
	}
}

// waitTree waits, with t.mu held, until free reports true.
func (t *Table) waitTree(ctx context.Context, deadline time.Time, free func() bool) error {
	if free() {
		return nil
	}
	// A condition variable knows no time, so the end of the wait wakes it up.
	wake := func() {
		t.mu.Lock()
		t.tree.cond.Broadcast()
		t.mu.Unlock()
	}
	stop := context.AfterFunc(ctx, wake)
	defer stop()
	timer := time.AfterFunc(time.Until(deadline), wake)
	defer timer.Stop()
	for !free() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !time.Now().Before(deadline) {
			return &TimeoutError{Key: "tree", Holder: t.holders.read(treeByte)}
		}
		t.tree.cond.Wait()
	}
	return nil
}
