package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
)

const (
	byteOrderMark = "\ufeff"
	maxLine       = 32 << 20 // bytes of one message
	salvageBytes  = 4 << 10  // at either end of an oversize message, in which its id is looked for
	readersAtOnce = 16
)

// ServeStdio answers the messages of in on out, one per line, until in ends or
// ctx does. Calls that write run one after the other, in the order in which
// they arrive; others run concurrently. When in ends, calls in flight are
// completed and answered first, except that questions are no longer answered.
// A call that the client canceled is not answered.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	l, err := s.newLoop(ctx, out)
	if err != nil {
		return err
	}
	return l.serve(in)
}

// loop is one connection over stdio or SSE.
type loop struct {
	server  *Server
	session *stdioSession
	ctx     context.Context
	streams context.Context // of requests that stay open until the client ends them
	cut     context.CancelFunc
	out     *output
	pump    *pump
	waiting *waiting
	giveUp  time.Duration // for a client that does not read, after the end of ctx
	lane    chan *call    // calls that write, in order
	turn    chan struct{} // held by the one of them that runs
	slots   chan struct{} // limits the others
	calls   sync.WaitGroup

	mu   sync.Mutex
	open map[string]*call // by id
}

func (s *Server) newLoop(ctx context.Context, out io.Writer) (*loop, error) {
	l := &loop{
		server: s, out: &output{to: out, broken: make(chan struct{})}, waiting: newWaiting(), giveUp: giveUpTime, open: map[string]*call{},
		lane: make(chan *call, maxWaiting), turn: make(chan struct{}, 1), slots: make(chan struct{}, readersAtOnce),
	}
	l.session = &stdioSession{newSession(), l}
	if err := s.RegisterSession(ctx, l.session); err != nil {
		return nil, err
	}
	l.ctx = s.WithContext(ctx, l.session)
	l.streams, l.cut = context.WithCancel(l.ctx)
	l.pump = newPump(l.session.notes, l.write)
	go l.pump.run()
	l.calls.Add(1)
	go l.inTurn()
	return l, nil
}

// serve answers until the input ends.
func (l *loop) serve(in io.Reader) error {
	err := l.read(in)
	return errors.Join(err, l.close())
}

// close completes the calls in flight. No message is taken any more.
func (l *loop) close() error {
	defer l.server.UnregisterSession(context.WithoutCancel(l.ctx), l.session.id)
	close(l.session.ended) // questions are no longer answered
	l.cut()
	close(l.lane)
	return l.finish(func() {
		l.calls.Wait()
		l.pump.stop()
	})
}

// call is one request in flight.
type call struct {
	id       string          // see idOf
	known    json.RawMessage // the id as it came
	raw      json.RawMessage
	ctx      context.Context
	stop     context.CancelFunc
	canceled atomic.Bool
	turn     chan struct{} // that it holds while it runs, nil for none
	done     func()        // called before the reply is written
}

type callKey struct{}

// newCall makes a call that the client can cancel by its id.
func (l *loop) newCall(ctx context.Context, id, raw json.RawMessage, turn chan struct{}, done func()) *call {
	c := &call{id: idOf(id), known: id, raw: raw, turn: turn, done: done}
	c.ctx, c.stop = context.WithCancel(context.WithValue(ctx, callKey{}, c))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c.id] = c
	return c
}

// inTurn runs the calls of the lane, one at a time.
func (l *loop) inTurn() {
	defer l.calls.Done()
	for c := range l.lane {
		l.turn <- struct{}{}
		l.calls.Add(1)
		go func() {
			defer func() { <-l.turn; l.calls.Done() }()
			l.run(c)
		}()
	}
}

// letPass releases the turn while the call waits for the user. The returned
// function acquires it again.
func (c *call) letPass() (resume func()) {
	if c == nil || c.turn == nil {
		return func() {}
	}
	<-c.turn
	return func() { c.turn <- struct{}{} }
}

func (l *loop) read(in io.Reader) error {
	lines := make(chan []byte)
	done := make(chan error, 1)
	go func() {
		// Reading cannot be interrupted, so it must not keep the loop from
		// ending with its context.
		r := bufio.NewReaderSize(in, 64<<10)
		for first := true; ; first = false {
			line, err := l.line(r)
			if first { // some shells begin with one; to peek for it would take a Ctrl-D for no end
				line = bytes.TrimPrefix(line, []byte(byteOrderMark))
			}
			if len(line) > 0 {
				select {
				case lines <- line:
				case <-l.out.broken:
					return
				case <-l.ctx.Done():
					return
				}
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for {
		select {
		case line := <-lines:
			l.take(line, func() {})
		case err := <-done:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-l.out.broken:
			return nil // reported by finish
		case <-l.ctx.Done():
			return nil
		}
	}
}

// line reads one message; the last one may lack its newline. A message that is
// too long is passed over, and answered under the id at its beginning or end.
func (l *loop) line(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			head, tail := line[:salvageBytes], lastBytes(nil, line)
			for err == bufio.ErrBufferFull {
				part, err = r.ReadSlice('\n')
				tail = lastBytes(tail, part)
			}
			id := idAtFront(head)
			if id == nil {
				id = idAtEnd(tail)
			}
			l.write(problem(id, mcp.INVALID_REQUEST, l.server.TooLarge(maxLine).Hint))
			return nil, err
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		return bytes.TrimSpace(line), err
	}
}

// lastBytes are the last bytes of what came so far.
func lastBytes(before, more []byte) []byte {
	all := append(before, more[max(0, len(more)-salvageBytes):]...)
	return append([]byte(nil), all[max(0, len(all)-salvageBytes):]...)
}

// take decides where a message is handled. It calls done, once, when the
// message needs nothing any more.
func (l *loop) take(line []byte, done func()) {
	m, wrong := parse(line)
	tool := m.Method == string(mcp.MethodToolsCall)
	listens := m.Method == string(mcp.MethodSubscriptionsListen) // it is answered only when the client ends it
	switch {
	case wrong != nil:
		l.write(wrong)
	case m.isAnswer():
		l.session.answered(&m) // a late answer is dropped
	case !m.wantsReply() && m.Method == string(mcp.MethodNotificationCancelled):
		l.cancel(m.Params.RequestID)
	case !m.wantsReply():
		l.server.Handle(l.ctx, line)
	case !tool && !listens && !readsMuch(m.Method): // quick, and the order matters
		l.answer(m.ID, l.server.Handle(l.ctx, line))
	case !l.waiting.enter(len(line)):
		l.busy(&m)
	case tool && l.server.Writes(m.Params.Name):
		l.lane <- l.newCall(l.ctx, m.ID, line, l.turn, done) // has capacity for all waiting calls
		return
	case listens:
		l.beside(l.newCall(l.streams, m.ID, line, nil, done))
		return
	default:
		l.beside(l.newCall(l.ctx, m.ID, line, l.slots, done))
		return
	}
	done()
}

// readsMuch reports whether a request that is not a tool call may take long: it
// must not delay later requests, a cancellation least of all.
func readsMuch(method string) bool {
	switch mcp.MCPMethod(method) {
	case mcp.MethodResourcesRead, mcp.MethodPromptsGet, mcp.MethodCompletionComplete:
		return true
	}
	return false
}

// beside runs a call concurrently with later ones, once there is capacity for it.
func (l *loop) beside(c *call) {
	l.calls.Go(func() {
		if c.turn != nil {
			select {
			case c.turn <- struct{}{}:
				defer func() { <-c.turn }()
			case <-c.ctx.Done(): // it ends at once
				c.turn = nil
			}
		}
		l.run(c)
	})
}

// cancel ends the context of a call in flight: it stops before its commit point
// or not at all. The bookkeeping of the protocol library does not cover calls
// that still wait, and takes the number 1 and the text "1" for the same id.
func (l *loop) cancel(id json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.open[idOf(id)]; c != nil {
		c.canceled.Store(true)
		c.stop()
	}
}

// run answers a call, unless it is canceled.
func (l *loop) run(c *call) {
	defer l.waiting.leave(len(c.raw))
	var reply mcp.JSONRPCMessage
	if !c.canceled.Load() {
		reply = l.server.Handle(c.ctx, c.raw)
	}
	c.stop()
	l.mu.Lock()
	if l.open[c.id] == c {
		delete(l.open, c.id)
	}
	l.mu.Unlock()
	c.done()
	if !c.canceled.Load() {
		l.answer(c.known, reply)
	}
}

// answer writes a reply, after the messages of the call.
func (l *loop) answer(id json.RawMessage, reply mcp.JSONRPCMessage) {
	if reply != nil {
		l.pump.flush()
		l.write(exactly(id, reply))
	}
}

func (l *loop) write(v any) {
	if data, err := json.Marshal(v); err == nil {
		l.out.line(append(data, '\n'))
	}
}

// stdioSession is the one client of a loop.
type stdioSession struct {
	*session
	loop *loop
}

func (s *stdioSession) send(v any) bool {
	s.loop.write(v)
	return true
}

// RequestElicitation asks the user. Later calls continue meanwhile.
func (s *stdioSession) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	c, _ := ctx.Value(callKey{}).(*call)
	defer c.letPass()()
	return s.elicit(ctx, req, s.send)
}

func (s *stdioSession) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return s.listRoots(ctx, s.send)
}

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
