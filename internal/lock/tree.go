package lock

import (
	"context"
	"sync"
	"time"
)

// The tree lock and the lock of history are each shared by many holders or owned by
// one. A caller that wants exclusive ownership first closes the gate, through which
// every caller passes that requests a share. Otherwise processes that are always at
// work could keep it waiting for ever.

// shared is one of these locks within this process: many sharers or one owner.
// The kernel lock is held once for all sharers.
type shared struct {
	at, gate int64 // its bytes in the lock file, side by side
	cond     sync.Cond
	sharers  int
	waiting  int // exclusive callers that wait; they keep new sharers out
	busy     bool
	kernel   bool      // the shared kernel lock is held
	passed   time.Time // when a sharer went through the gate last
	asking   bool      // a caller is asking the kernel for it
}

// Tree takes the tree lock alone: it waits for every holder of keys in every
// process and keeps new ones out. Moving or removing a directory needs it.
func (t *Table) Tree(ctx context.Context, timeout time.Duration, what string) (unlock func(), err error) {
	return t.own(ctx, timeout, what, &t.tree)
}

// History takes the lock of history alone, for a sweep: no version is added
// meanwhile.
func (t *Table) History(ctx context.Context, timeout time.Duration, what string) (unlock func(), err error) {
	return t.own(ctx, timeout, what, &t.history)
}

// ShareHistory keeps sweeps of history out. Several callers may hold a share at the
// same time.
func (t *Table) ShareHistory(ctx context.Context, timeout time.Duration) (unlock func(), err error) {
	if err := t.share(ctx, time.Now().Add(timeout), &t.history); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { t.unshare(&t.history) }), nil
}

func (t *Table) own(ctx context.Context, timeout time.Duration, what string, l *shared) (unlock func(), err error) {
	deadline := time.Now().Add(timeout)
	t.mu.Lock()
	l.waiting++
	err = t.waitFor(ctx, deadline, l, func() bool { return l.sharers == 0 && !l.busy && !l.asking })
	l.waiting--
	if err == nil {
		l.busy = true
	}
	l.cond.Broadcast()
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var had []int64
	for _, at := range []int64{l.gate, l.at} {
		ok, err := t.poll(ctx, deadline, at, true)
		if err == nil && !ok {
			err = t.timeout(l)
		}
		if err != nil {
			t.disown(l, had)
			return nil, err
		}
		had = append(had, at)
	}
	t.holders.write(l.at, Holder{Writer: t.owner.Writer, PID: t.owner.PID, Since: time.Now(), What: what})
	return sync.OnceFunc(func() {
		t.holders.clear(l.at)
		t.disown(l, had)
	}), nil
}

func (t *Table) timeout(l *shared) error {
	return &TimeoutError{Holder: t.holders.read(l.at)}
}

// disown gives the kernel's locks back and lets the others in.
func (t *Table) disown(l *shared, had []int64) {
	for _, at := range had {
		t.file.Unlock(at, 1)
	}
	t.mu.Lock()
	l.busy = false
	l.cond.Broadcast()
	t.mu.Unlock()
}

// share joins the sharers of a lock. The first one takes the kernel lock.
func (t *Table) share(ctx context.Context, deadline time.Time, l *shared) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.waitFor(ctx, deadline, l, func() bool { return !l.busy && l.waiting == 0 && !l.asking })
	if err != nil {
		return err
	}
	if !l.kernel || time.Since(l.passed) > passAgain {
		if err := t.pass(ctx, deadline, l); err != nil {
			return err
		}
	}
	l.sharers++
	return nil
}

// passAgain is how long the sharers of a lock, as long as there are any, do not
// look at its gate again.
const passAgain = time.Millisecond

// pass goes through the gate, and takes the kernel's share of the lock if this
// process has none.
func (t *Table) pass(ctx context.Context, deadline time.Time, l *shared) error {
	from, n := l.gate, int64(1)
	if !l.kernel {
		from, n = l.at, 2
	}
	ok, err := t.file.TryLock(from, n, false)
	switch {
	case err != nil:
		return err
	case ok:
		l.kernel = true
	default:
		if err := t.ask(ctx, deadline, l); err != nil {
			t.file.Unlock(l.gate, 1)
			return err
		}
	}
	l.passed = time.Now()
	return t.file.Unlock(l.gate, 1)
}

// ask waits for the gate to be open and takes the kernel's share of the lock, if this
// process has none. It releases t.mu during the wait; no caller can join then, but
// sharers can leave.
func (t *Table) ask(ctx context.Context, deadline time.Time, l *shared) (err error) {
	l.asking = true
	defer func() {
		l.asking = false
		l.cond.Broadcast()
	}()
	get := func(at int64) (ok bool) {
		t.mu.Unlock()
		defer t.mu.Lock()
		ok, err = t.poll(ctx, deadline, at, false)
		return ok && err == nil
	}
	if get(l.gate) {
		if l.kernel = l.kernel || get(l.at); l.kernel {
			return nil
		}
	}
	if err == nil {
		err = t.timeout(l)
	}
	return err
}

func (t *Table) unshare(l *shared) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.sharers--
	if l.sharers == 0 {
		t.file.Unlock(l.at, 1)
		l.kernel = false
		l.cond.Broadcast()
	}
}

// waitFor waits, with t.mu held, until free reports true.
func (t *Table) waitFor(ctx context.Context, deadline time.Time, l *shared, free func() bool) error {
	if free() {
		return nil
	}
	// A condition variable has no timeout, so a timer wakes it up at the deadline.
	wake := func() {
		t.mu.Lock()
		l.cond.Broadcast()
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
			return t.timeout(l)
		}
		l.cond.Wait()
	}
	return nil
}
