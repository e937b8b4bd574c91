// Package lock keeps the writers of one workspace from each other's paths:
// goroutines by a table in memory, processes by byte ranges of one lock file.
// The kernel gives a range back when its holder dies, so a crash leaves no
// lock held.
package lock

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Name is the name of the lock file of a store.
const Name = "paths"

// ErrClosed is returned after Close.
var ErrClosed = errors.New("lock table is closed")

// Owner is reported to callers that wait for one of our locks in vain.
type Owner struct {
	Writer string
	PID    int
}

// Holder is who has a lock.
type Holder struct {
	Writer string
	PID    int
	Since  time.Time
	What   string
}

// TimeoutError reports that a lock could not be had in time.
type TimeoutError struct {
	Holder Holder // zero when unknown
}

func (e *TimeoutError) Error() string {
	if e.Holder.Writer == "" {
		return "lock timeout"
	}
	return fmt.Sprintf("lock timeout: held by process %d (%s)", e.Holder.PID, e.Holder.What)
}

// Layout of the lock file, in bytes: the tree lock, then its gate, the same for
// history, the table of holders, then one byte per possible key.
const (
	treeByte    = 0
	treeGate    = 1
	historyByte = 2
	historyGate = 3
	markAt      = 16           // of a number of eight bytes
	moveByte    = firstKey - 1 // beyond what any file holds, so that it can be copied

	firstKey = 1 << 20
	keyMask  = 1<<61 - 1
	waitMost = 5 * time.Millisecond
)

// Table is the locks of one process on one workspace. It is safe for
// concurrent use.
type Table struct {
	file    fsx.File
	holders holders
	owner   Owner

	mu      sync.Mutex
	held    map[int64]*entry
	tree    shared
	history shared
	closed  bool
}

// entry is one key that a caller in this process has or waits for.
type entry struct {
	holder Holder
	queue  []chan struct{} // waiters in order of arrival; closing a channel hands over
}

// Open opens the lock file name in dir, and makes it when it is absent.
func Open(dir fsx.Dir, name string, owner Owner) (*Table, error) {
	f, err := dir.Open(name, fsx.Read|fsx.Write|fsx.Create, 0o600)
	if err != nil {
		return nil, err
	}
	t := &Table{file: f, owner: owner, held: map[int64]*entry{}}
	t.holders.file = f
	t.tree = shared{at: treeByte, gate: treeGate}
	t.history = shared{at: historyByte, gate: historyGate}
	t.tree.cond.L, t.history.cond.L = &t.mu, &t.mu
	return t, nil
}

// Close gives every lock up.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	return t.file.Close()
}

// Moving locks the store whose lock file is in dir against writers that open it from now
// on: it is to be moved. ok is false if another process moves it.
func Moving(dir fsx.Dir) (release func() error, ok bool, err error) {
	f, err := dir.Open(Name, fsx.Read|fsx.Write|fsx.Create, 0o600)
	if err != nil {
		return nil, false, err
	}
	if ok, err = f.TryLock(moveByte, 1, true); err != nil || !ok {
		return nil, false, errors.Join(err, f.Close())
	}
	return f.Close, true, nil
}

// Moves reports whether a process moves the store. A writer asks after it has
// registered, and a process that moves it looks for writers after it has locked it: of
// two that begin at once not both go on.
func (t *Table) Moves() (bool, error) {
	ok, err := t.file.TryLock(moveByte, 1, false)
	if err == nil && ok {
		err = t.file.Unlock(moveByte, 1)
	}
	return err == nil && !ok, err
}

// Mark is the number that [Table.SetMark] has left for all processes, 0 before.
// It is not flushed.
func (t *Table) Mark() uint64 {
	var b [8]byte
	if n, _ := t.file.ReadAt(b[:], markAt); n < len(b) {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

// SetMark leaves a number.
func (t *Table) SetMark(n uint64) error {
	_, err := t.file.WriteAt(binary.LittleEndian.AppendUint64(nil, n), markAt)
	return err
}

// slotsOf returns the bytes of some keys in the lock file, in the order in which all
// processes lock them, so that no two callers can wait for each other. Keys with the same
// byte are one lock.
func slotsOf(keys []string) []int64 {
	list := make([]int64, 0, len(keys))
	for _, k := range keys {
		h := fnv.New64a()
		h.Write([]byte(k))
		list = append(list, firstKey+int64(h.Sum64()&keyMask))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Keys locks all keys, and the tree in shared mode. It waits until timeout or
// until ctx ends. unlock may be called more than once.
func (t *Table) Keys(ctx context.Context, timeout time.Duration, what string, keys ...string) (unlock func(), err error) {
	deadline := time.Now().Add(timeout)
	if err := t.share(ctx, deadline, &t.tree); err != nil {
		return nil, err
	}
	release, err := t.all(ctx, deadline, what, keys)
	if err != nil {
		t.unshare(&t.tree)
		return nil, err
	}
	return sync.OnceFunc(func() {
		release()
		t.unshare(&t.tree)
	}), nil
}

// Names is Keys for names that are no paths of the workspace: they are locked
// without a share in the tree lock, so that its owner can lock them, too.
func (t *Table) Names(ctx context.Context, timeout time.Duration, what string, names ...string) (unlock func(), err error) {
	release, err := t.all(ctx, time.Now().Add(timeout), what, names)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(release), nil
}

// all takes the locks of some keys.
func (t *Table) all(ctx context.Context, deadline time.Time, what string, keys []string) (release func(), err error) {
	list := slotsOf(keys)
	for i, slot := range list {
		if err := t.lockOne(ctx, deadline, what, slot); err != nil {
			t.release(list[:i])
			return nil, err
		}
	}
	return func() { t.release(list) }, nil
}

// release leaves the records of the holder: they are read only by those who wait for a
// key, and the next holder writes its own.
func (t *Table) release(list []int64) {
	for _, slot := range slices.Backward(list) {
		t.file.Unlock(slot, 1)
		t.handOver(slot)
	}
}

// lockOne takes one key: first from the goroutines of this process, then from
// the other processes.
func (t *Table) lockOne(ctx context.Context, deadline time.Time, what string, slot int64) error {
	if err := t.queue(ctx, deadline, slot); err != nil {
		return err
	}
	ok, err := t.poll(ctx, deadline, slot, true)
	if err == nil && !ok {
		err = &TimeoutError{Holder: t.holders.read(slot)}
	}
	if err != nil {
		t.handOver(slot)
		return err
	}
	me := Holder{Writer: t.owner.Writer, PID: t.owner.PID, Since: time.Now(), What: what}
	t.mu.Lock()
	t.held[slot].holder = me
	t.mu.Unlock()
	t.holders.write(slot, me)
	return nil
}

// queue waits for the turn of this goroutine.
func (t *Table) queue(ctx context.Context, deadline time.Time, slot int64) error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return ErrClosed
	}
	e := t.held[slot]
	if e == nil {
		t.held[slot] = &entry{}
		t.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	e.queue = append(e.queue, turn)
	t.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	var cause error
	select {
	case <-turn:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		cause = ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(e.queue, turn)
	if i < 0 {
		return nil // the turn came at the last moment
	}
	e.queue = slices.Delete(e.queue, i, i+1)
	return cmp.Or(cause, error(&TimeoutError{Holder: e.holder}))
}

// handOver gives the key to the next goroutine that waits.
func (t *Table) handOver(slot int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.held[slot]
	if len(e.queue) == 0 {
		delete(t.held, slot)
		return
	}
	close(e.queue[0])
	e.queue = e.queue[1:]
}

// poll tries the kernel lock until it is acquired, the deadline passes or ctx ends.
func (t *Table) poll(ctx context.Context, deadline time.Time, slot int64, exclusive bool) (bool, error) {
	return Poll(ctx, t.file, slot, exclusive, deadline, waitMost)
}

// Poll tries to lock one byte of a file until it is locked, the deadline passes or ctx ends,
// at intervals that grow up to most.
func Poll(ctx context.Context, f fsx.File, at int64, exclusive bool, deadline time.Time, most time.Duration) (bool, error) {
	wait := most / 100
	for {
		ok, err := f.TryLock(at, 1, exclusive)
		if ok || err != nil {
			return ok, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		// A random part keeps waiters of several processes apart.
		pause := min(left, wait/2+rand.N(wait))
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		}
		wait = min(2*wait, most)
	}
}
