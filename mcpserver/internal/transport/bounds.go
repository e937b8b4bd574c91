package transport

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
)

// Messages that a client sends ahead of the replies are held in memory, and replies
// that it does not read block the calls that write them. Both have bounds.

const (
	maxWaiting      = 1024     // calls that came and are not answered
	maxWaitingBytes = 64 << 20 // of their messages
	stallTime       = 2 * time.Second
	giveUpTime      = 10 * time.Second
)

// waiting counts the calls that were received and are not answered. At its bound the
// reader stops, as long as calls are answered. If no call is answered for stallTime,
// calls are refused until one is: they may wait for a message that has not been read
// yet.
type waiting struct {
	patience time.Duration

	mu      sync.Mutex
	calls   int
	bytes   int
	stalled bool
	left    chan struct{} // closed when a call has left, then replaced
}

func newWaiting() *waiting { return &waiting{patience: stallTime, left: make(chan struct{})} }

// enter takes a place for a call; false when none gets free.
func (w *waiting) enter(size int) bool {
	for {
		w.mu.Lock()
		if w.calls == 0 || w.calls < maxWaiting && w.bytes+size <= maxWaitingBytes {
			w.calls++
			w.bytes += size
			w.mu.Unlock()
			return true
		}
		left, stalled := w.left, w.stalled
		w.mu.Unlock()
		if stalled {
			return false
		}
		timer := time.NewTimer(w.patience)
		select {
		case <-left:
			timer.Stop()
		case <-timer.C:
			w.mu.Lock()
			w.stalled = w.left == left // else one left at the last moment
			w.mu.Unlock()
		}
	}
}

func (w *waiting) leave(size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls--
	w.bytes -= size
	w.stalled = false
	close(w.left)
	w.left = make(chan struct{})
}

// busy refuses a request for which there is no capacity. A refused call of a tool is
// answered with the envelope that asks to try later, and was not executed.
func (l *loop) busy(m *message) {
	e := rw.NewError("call", rw.ErrRateLimited, "too many calls wait for their replies; read those first, then send this one again", nil)
	if m.Method == string(mcp.MethodToolsCall) {
		l.write(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": m.ID, "result": l.server.Refusal(e)})
	} else {
		l.write(problem(m.ID, mcp.INTERNAL_ERROR, string(e.Detail)+": "+e.Hint))
	}
}

// output writes whole lines. After a line that could not be written it writes
// nothing more: what follows half a line would be read as part of it.
type output struct {
	to     io.Writer
	mu     sync.Mutex
	broken chan struct{} // closed after a failure
	failed error
	since  atomic.Int64 // when the write that runs began, 0 for none
}

func (o *output) line(data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed != nil {
		return
	}
	o.since.Store(time.Now().UnixNano())
	defer o.since.Store(0)
	n, err := o.to.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		o.failed = err
		close(o.broken)
	}
}

// err is why the output is broken.
func (o *output) err() error {
	select {
	case <-o.broken:
		return o.failed
	default:
		return nil
	}
}

// stuck returns how long the current write has taken so far.
func (o *output) stuck() time.Duration {
	if began := o.since.Load(); began != 0 {
		return time.Duration(time.Now().UnixNano() - began)
	}
	return 0
}

var errUnread = errors.New("the client does not read its replies")

// lost reports, as an error of the store, that replies did not reach the client. The
// effects of the calls are recorded in the journal.
func lost(err error) error {
	if err == nil {
		return nil
	}
	e := rw.NewError("serve", rw.ErrIO, "some replies did not reach the client; the journal is complete", nil)
	return errors.Join(e, err)
}

// finish waits until the rest is written. After the end of the context it does
// not wait for a client that has stopped reading: a write to it cannot be
// interrupted. The commits of such replies have been made.
func (l *loop) finish(rest func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		rest()
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return lost(l.out.err())
		case <-tick.C:
			if l.ctx.Err() != nil && l.out.stuck() > l.giveUp {
				return lost(errUnread)
			}
		}
	}
}
