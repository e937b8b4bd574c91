package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// TestAFullQueueRefusesOnlyWhenNothingMoves: at the bound the reader waits, as
// long as calls are answered; when none is, calls are refused at once until one
// is, so that what is after them is read.
func TestAFullQueueRefusesOnlyWhenNothingMoves(t *testing.T) {
	w := newWaiting()
	w.patience = 20 * time.Millisecond
	for i := range maxWaiting {
		testbed.Require(t, w.enter(10), "call %d is refused", i)
	}
	testbed.Require(t, !w.enter(10), "there was room for one more than there may be")
	w.patience = time.Hour // so that what waits now does not return
	refused := make(chan bool, 1)
	go func() {
		for range 1000 {
			if w.enter(10) {
				refused <- false
				return
			}
		}
		refused <- true
	}()
	select {
	case all := <-refused:
		testbed.Require(t, all, "there was room")
	case <-time.After(time.Minute):
		t.Fatal("a refusal waits")
	}
	w.leave(10)
	testbed.Expect(t, w.enter(10), "nothing gets in after one has left")
	// Work that goes on is waited for.
	w.patience = time.Minute
	go func() { time.Sleep(5 * time.Millisecond); w.leave(10) }()
	testbed.Expect(t, w.enter(10), "it did not wait")
}

// TestAFullQueueCountsBytes: long messages fill the queue before their number
// does, and one alone always gets in.
func TestAFullQueueCountsBytes(t *testing.T) {
	w := newWaiting()
	w.patience = time.Millisecond
	testbed.Require(t, w.enter(2*maxWaitingBytes), "one alone is refused")
	testbed.Expect(t, !w.enter(1), "a second one gets in")
	w.leave(2 * maxWaitingBytes)
	testbed.Expect(t, w.enter(maxWaitingBytes-1) && w.enter(1) && !w.enter(1), "the bound is somewhere else")
}

// testServer is a server without tools.
func testServer() *Server {
	return &Server{
		MCPServer: server.NewMCPServer("s", "1"), Raw: true, Logger: slog.New(slog.DiscardHandler),
		Writes:      func(string) bool { return true },
		Refusal:     func(e *rw.Error) *mcp.CallToolResult { return mcp.NewToolResultError(e.Hint) },
		TooLarge:    func(int64) *rw.Error { return rw.NewError("http", rw.ErrTooLarge, "", nil) },
		Interrupted: rw.NewError("http", rw.ErrRateLimited, "", nil),
	}
}

func newTestLoop(t *testing.T, ctx context.Context, out io.Writer) *loop {
	l := testbed.Must(testServer().newLoop(ctx, out))(t)
	return l
}

// deaf is a client that stops reading after some bytes.
type deaf struct {
	mu    sync.Mutex
	takes int
	got   bytes.Buffer
	stuck chan struct{} // closed when a write blocks
	once  sync.Once
	never chan struct{}
}

func (d *deaf) Write(p []byte) (int, error) {
	d.mu.Lock()
	takes := d.takes
	d.takes--
	d.mu.Unlock()
	if takes <= 0 {
		d.once.Do(func() { close(d.stuck) })
		<-d.never
	}
	return d.got.Write(p)
}

func ping(id string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` + "\n")
}

// TestADeafClientDoesNotKeepTheServer: after its context has ended, the server
// does not wait for ever for a client that takes no replies.
func TestADeafClientDoesNotKeepTheServer(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in, feed := io.Pipe()
	out := &deaf{stuck: make(chan struct{}), never: make(chan struct{})}
	defer close(out.never)
	l := newTestLoop(t, ctx, out)
	l.giveUp = 20 * time.Millisecond
	done := make(chan error, 1)
	go func() { done <- l.serve(in) }()
	go feed.Write(append(
		[]byte(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"none"}}`+"\n"), // answered beside the reader
		`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"none"}}`+"\n"...))
	<-out.stuck
	select {
	case err := <-done:
		t.Fatalf("it gave up without a request to end: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	select {
	case err := <-done:
		testbed.Expect(t, errors.Is(err, errUnread), "%v", err)
	case <-time.After(time.Minute):
		t.Fatal("it waits for ever")
	}
}

// brittle fails in the middle of its second line.
type brittle struct {
	got    bytes.Buffer
	writes int
}

func (b *brittle) Write(p []byte) (int, error) {
	if b.writes++; b.writes == 2 {
		b.got.Write(p[:len(p)/2])
		return len(p) / 2, io.ErrNoProgress
	}
	return b.got.Write(p)
}

// TestNothingFollowsHalfALine: a reply that breaks off in the middle ends the
// connection; what would come after it could only be misread.
func TestNothingFollowsHalfALine(t *testing.T) {
	in, feed := io.Pipe() // stays open: the loop has to end by itself
	defer feed.Close()
	out := &brittle{}
	l := newTestLoop(t, context.Background(), out)
	done := make(chan error, 1)
	go func() { done <- l.serve(in) }()
	go func() {
		for range 5 {
			feed.Write(ping("1"))
		}
	}()
	select {
	case err := <-done:
		testbed.Expect(t, errors.Is(err, io.ErrNoProgress), "%v", err)
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	lines := bytes.Split(out.got.Bytes(), []byte("\n"))
	testbed.Expect(t, len(lines) == 2 && json.Valid(lines[0]) && len(lines[1]) != 0 && !json.Valid(lines[1]), "%q", out.got.String())
}

// FuzzMessageLinear: finding the end of a message and its id, reading it as
// stdio and HTTP do, and answering it takes work in proportion to its length.
func FuzzMessageLinear(f *testing.F) {
	s := testServer()
	s.AddTool(mcp.NewTool("look"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, _ := Arguments(ctx)
		return mcp.NewToolResultText(string(args)), nil
	})
	web := testbed.Must(s.NewHTTP(nil))(f)
	loop := testbed.Must(s.newLoop(context.Background(), io.Discard))(f)
	f.Cleanup(func() { loop.close() })
	seeds := []string{`"id":#,`, `"params":{`, `{"id":`, `"method":"x",`, `{"jsonrpc":"2.0","id":#,"method":"ping"}` + "\n", `"_meta":{"k#":1},`}
	testbed.FuzzLinear(f, 16<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		piece := string(text)
		for in := bufio.NewReader(bytes.NewReader(text)); ; {
			line, err := loop.line(in)
			if parse(line); err != nil {
				break
			}
		}
		idAtFront(text)
		idAtEnd(text)
		for _, doc := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{` + piece + `"z":1}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + piece + `"name":"look","arguments":{}}}`,
			`{"jsonrpc":"2.0",` + piece + `"id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":[` + piece + `1],"method":"ping"}`,
		} {
			if m, wrong := parse([]byte(doc)); wrong == nil {
				idOf(m.ID)
			}
			r := httptest.NewRequest("POST", "/mcp", nil)
			web.parse(r, &posted{raw: []byte(doc)})
			s.Handle(context.Background(), []byte(doc))
		}
		return 0
	})
}

// TestAPanicOfARequestHasAnUnknownEffect: the panic may have come after the
// call, and its value is not repeated.
func TestAPanicOfARequestHasAnUnknownEffect(t *testing.T) {
	h := testbed.Must(testServer().NewHTTP(&HTTPOptions{NoAuth: true}))(t)
	defer h.Shutdown(t.Context())
	answer := httptest.NewRecorder()
	func() {
		w := &guardWriter{ResponseWriter: answer, control: http.NewResponseController(answer)}
		defer h.contain(w)
		panic("the secret content")
	}()
	var m struct {
		Error struct{ Data json.RawMessage }
	}
	json.Unmarshal(answer.Body.Bytes(), &m)
	err := spec.ValidateEnvelope(m.Error.Data)
	testbed.Require(t, err == nil, "%v: %s", err, answer.Body)
	var e struct {
		Context struct{ Reason, Effect string }
	}
	json.Unmarshal(m.Error.Data, &e)
	testbed.Expect(t, answer.Code == 500 && e.Context.Reason == "internal_error" && e.Context.Effect == "unknown" && !strings.Contains(answer.Body.String(), "secret"), "%d %s", answer.Code, answer.Body)
}
