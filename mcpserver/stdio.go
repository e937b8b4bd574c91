package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	byteOrderMark = "\ufeff"
	maxLine       = 32 << 20 // bytes of one message
	salvageBytes  = 4 << 10  // at either end of an oversize message, in which its id is looked for
	readersAtOnce = 16
)

// ServeStdio answers the messages of in on out, one JSON message per line,
// until in ends or ctx does. Calls that change something run one after the
// other, in the order in which they arrive; others run concurrently. A call
// that waits for the user lets later calls pass. The number of waiting calls is
// bounded: a client that sends more is read no faster than its calls are
// answered, and if none is answered for a while, calls are refused, so that a
// cancellation, a ping or the answer to a question is always read. When in
// ends, calls in flight are completed and answered first, except that questions
// are no longer answered.
//
// A call that the client canceled is not answered. Before its commit point it
// ends and has changed nothing; after it, the commit is completed.
func ServeStdio(ctx context.Context, s *server.MCPServer, in io.Reader, out io.Writer) error {
	session := newStdioSession()
	if err := s.RegisterSession(ctx, session); err != nil {
		return err
	}
	defer s.UnregisterSession(context.WithoutCancel(ctx), session.SessionID())
	return newStdioLoop(ctx, s, session, out).serve(in)
}

func newStdioLoop(ctx context.Context, s *server.MCPServer, session *stdioSession, out io.Writer) *stdioLoop {
	return &stdioLoop{
		server: s, session: session, out: newOutput(out), ctx: s.WithContext(ctx, session),
		lane: make(chan *call, maxWaiting), turn: make(chan struct{}, 1), slots: make(chan struct{}, readersAtOnce), open: map[string]*call{},
		waiting: newWaiting(), giveUp: giveUpTime,
	}
}

// serve answers until the input ends, and then completes the calls in flight.
func (l *stdioLoop) serve(in io.Reader) error {
	streams, endStreams := context.WithCancel(l.ctx)
	defer endStreams()
	l.streams = streams
	stopCarrying := l.carry()
	l.calls.Add(1)
	go l.inTurn()
	l.session.connect(l.write)
	err := l.read(in)
	close(l.session.ended) // questions are no longer answered
	endStreams()
	close(l.lane)
	return errors.Join(err, l.finish(func() {
		l.calls.Wait()
		l.drain()
		stopCarrying()
	}))
}

// stdioLoop is one connection.
type stdioLoop struct {
	server  *server.MCPServer
	session *stdioSession
	ctx     context.Context
	streams context.Context // of requests that stay open until the client ends them
	out     output
	settle  chan chan struct{}
	waiting *waiting
	giveUp  time.Duration // for a client that does not read, after the end of ctx
	lane    chan *call    // calls that change something, in order
	turn    chan struct{} // held by the one of them that runs
	slots   chan struct{} // limits the others
	calls   sync.WaitGroup

	mu   sync.Mutex
	open map[string]*call // by id
}

// call is one request in flight.
type call struct {
	id       string          // see idOf
	known    json.RawMessage // the id as it came; nil for what awaits no reply
	raw      json.RawMessage
	ctx      context.Context
	stop     context.CancelFunc
	canceled atomic.Bool
	turn     chan struct{} // that it holds while it runs, nil for none
}

type callKey struct{}

// newCall makes a call that the client can cancel by its id.
func (l *stdioLoop) newCall(ctx context.Context, id, raw json.RawMessage) *call {
	c := &call{id: idOf(id), known: id, raw: raw}
	c.ctx, c.stop = context.WithCancel(context.WithValue(ctx, callKey{}, c))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c.id] = c
	return c
}

// idOf is what an id is known by: a number may be written in several ways, and
// is not the text of the same digits.
func idOf(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	if n, ok := v.(json.Number); ok {
		if f, err := n.Float64(); err == nil && strings.ContainsAny(n.String(), ".eE") {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
		return n.String()
	}
	return fmt.Sprintf("%T %v", v, v)
}

// inTurn runs the calls of the lane, one at a time.
func (l *stdioLoop) inTurn() {
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

// letPass gives the turn away while the call waits for the user. The returned
// function takes it back.
func (c *call) letPass() (resume func()) {
	if c == nil || c.turn == nil {
		return func() {}
	}
	<-c.turn
	return func() { c.turn <- struct{}{} }
}

func (l *stdioLoop) read(in io.Reader) error {
	lines := make(chan []byte)
	done := make(chan error, 1)
	go func() {
		// Reading cannot be interrupted, so it must not keep the loop from
		// ending with its context.
		r := bufio.NewReaderSize(in, 64<<10)
		if mark, _ := r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark { // some shells begin with one
			r.Discard(len(byteOrderMark))
		}
		for {
			line, err := l.line(r)
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
			l.take(line)
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
// too long is passed over and answered.
func (l *stdioLoop) line(r *bufio.Reader) ([]byte, error) {
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
			l.tooLong(head, tail)
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

// take decides where a message is handled.
func (l *stdioLoop) take(line []byte) {
	m, wrong := parseMessage(line)
	if wrong != nil {
		l.write(wrong)
		return
	}
	if m.answer {
		l.session.answered(m.id, line) // one that comes too late is dropped
		return
	}
	if !m.wantsReply() {
		if m.method == string(mcp.MethodNotificationCancelled) {
			l.cancel(m.params.RequestID)
			return
		}
		l.answer(&call{raw: line, ctx: l.ctx})
		return
	}
	tool := m.method == string(mcp.MethodToolsCall)
	listens := m.method == string(mcp.MethodSubscriptionsListen) // it is answered only when the client ends it
	if !tool && !listens && !readsMuch(m.method) {
		l.answer(&call{raw: line, ctx: l.ctx, known: m.id}) // quick, and the order matters
		return
	}
	if !l.waiting.enter(len(line)) {
		l.busy(m)
		return
	}
	switch {
	case tool && l.changes(m.params.Name):
		c := l.newCall(l.ctx, m.id, line)
		c.turn = l.turn
		l.lane <- c // has capacity for all waiting calls
	case listens:
		l.beside(l.newCall(l.streams, m.id, line))
	default:
		c := l.newCall(l.ctx, m.id, line)
		c.turn = l.slots
		l.beside(c)
	}
}

// beside runs a call that others need not wait for, when there is capacity for
// it.
func (l *stdioLoop) beside(c *call) {
	l.calls.Add(1)
	go func() {
		defer l.calls.Done()
		if c.turn != nil {
			select {
			case c.turn <- struct{}{}:
				defer func() { <-c.turn }()
			case <-c.ctx.Done(): // it ends at once
				c.turn = nil
			}
		}
		l.run(c)
	}()
}

// changes reports whether a call of the tool may change something. The host may
// have given our tools other names, and has tools of its own.
func (l *stdioLoop) changes(tool string) bool {
	for _, alias := range []string{tool, "rw_" + strings.TrimPrefix(tool, "rw."), "rw." + strings.TrimPrefix(tool, "rw_")} {
		if t := l.server.GetTool(alias); t != nil {
			return t.Tool.Annotations.ReadOnlyHint == nil || !*t.Tool.Annotations.ReadOnlyHint
		}
	}
	return true // what is not known by this name waits its turn
}

// cancel ends the context of a call in flight: it stops before its commit point
// or not at all. The bookkeeping of the protocol library does not cover calls
// that still wait, and takes the number 1 and the text "1" for the same id.
func (l *stdioLoop) cancel(id json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.open[idOf(id)]; c != nil {
		c.canceled.Store(true)
		c.stop()
	}
}

// run answers a call, unless it is canceled before it began.
func (l *stdioLoop) run(c *call) {
	defer l.waiting.leave(len(c.raw))
	defer c.stop()
	if !c.canceled.Load() {
		l.answer(c)
	}
	l.mu.Lock()
	if l.open[c.id] == c {
		delete(l.open, c.id)
	}
	l.mu.Unlock()
}

func (l *stdioLoop) answer(c *call) {
	reply := Handle(c.ctx, l.server, c.raw)
	if reply == nil || c.known == nil || c.canceled.Load() {
		return
	}
	l.drain() // messages of the call precede its reply
	l.write(exactly(c.known, reply))
}

func (l *stdioLoop) write(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return
	}
	l.out.line(append(data, '\n'))
}

// stdioSession is the one client of a connection.
type stdioSession struct {
	client
	id    string
	notes chan mcp.JSONRPCNotification
	ready atomic.Bool

	mu sync.Mutex

	send      func(any) // writes a message to the client
	asked     int
	questions map[string]chan clientReply // of ours that wait, by id
	ended     chan struct{}
}

var sessions atomic.Uint64

func newStdioSession() *stdioSession {
	return &stdioSession{
		id: fmt.Sprintf("stdio-%d-%s", sessions.Add(1), rand.Text()), notes: make(chan mcp.JSONRPCNotification, 256), client: client{level: mcp.LoggingLevelError},
		questions: map[string]chan clientReply{}, ended: make(chan struct{}),
	}
}

func (s *stdioSession) Initialize()       { s.ready.Store(true) }
func (s *stdioSession) Initialized() bool { return s.ready.Load() }
func (s *stdioSession) SessionID() string { return s.id }

func (s *stdioSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return s.notes }
