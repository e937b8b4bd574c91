// Package mcp measures the path of a call: from a method of the Store, over the
// protocol in process, to standard input and output and HTTP.
package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	wire "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/bench/internal/shell"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// The round trips of one call, from the method of the Store to HTTP. They are compared
// with a bare server of the protocol library that only calls the Store, and with the
// official file system server. All use level off: the path of the call is measured, not
// the flushes.
//
//	cd bench && go test -bench RoundTrip -benchtime 300x ./mcp
//	RW_FILESYSTEM_SERVER=…/server-filesystem/dist/index.js go test -bench RoundTrip ./mcp

// caller makes one call and waits for the reply; n calls are sent before the
// first reply is read if the transport allows it.
type caller interface {
	call(b *testing.B, tool string, args any, n int)
}

// work is the task of a call.
type work struct {
	name string
	tool string
	peer string // the tool of the file system server that does the same
	args func(i int) map[string]any
}

func works() []work {
	write := func(size int) func(int) map[string]any {
		body := strings.Repeat("0123456789abcde\n", size/16)
		return func(i int) map[string]any {
			return map[string]any{"path": fmt.Sprintf("f%d.txt", i%64), "content": fmt.Sprintf("%08d", i) + body[8:], "mode": "overwrite", "classify": false}
		}
	}
	return []work{
		{"write_1KiB", "rw_safe_write", "write_file", write(1 << 10)},
		{"write_1MiB", "rw_safe_write", "write_file", write(1 << 20)},
		{"read_1KiB", "rw_read", "read_text_file", func(int) map[string]any { return map[string]any{"path": "read.txt"} }},
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, w := range works() {
		for _, arm := range roundTrips() {
			b.Run(w.name+"/"+arm.name, func(b *testing.B) {
				c := arm.open(b)
				i := 0
				for b.Loop() {
					i++
					c.call(b, w.tool, w.args(i), 1)
				}
			})
		}
	}
}

// BenchmarkPipelined sends several calls before it reads the first reply.
func BenchmarkPipelined(b *testing.B) {
	w := works()[0]
	for _, n := range []int{1, 16, 64} {
		for _, arm := range roundTrips() {
			if arm.name != "stdio" && arm.name != "bare" && arm.name != "filesystem" {
				continue
			}
			b.Run(fmt.Sprintf("calls=%d/%s", n, arm.name), func(b *testing.B) {
				c := arm.open(b)
				i := 0
				for b.Loop() {
					i++
					c.call(b, w.tool, w.args(i), n)
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/call")
			})
		}
	}
}

// BenchmarkHugeArgument sends arguments that are over the limits, and measures
// how soon and at what cost they are refused.
func BenchmarkHugeArgument(b *testing.B) {
	for _, size := range []int{10 << 20, 100 << 20} {
		body := strings.Repeat("0123456789abcde\n", size/16)
		for _, arm := range roundTrips() {
			if arm.name != "stdio" && arm.name != "bare" {
				continue
			}
			b.Run(fmt.Sprintf("MB=%d/%s", size>>20, arm.name), func(b *testing.B) {
				c := arm.open(b)
				for b.Loop() {
					c.call(b, "rw_safe_write", map[string]any{"path": "huge.txt", "content": body, "mode": "overwrite", "classify": false}, 1)
				}
				b.SetBytes(int64(size))
			})
		}
	}
}

type roundTrip struct {
	name string
	open func(b *testing.B) caller
}

func roundTrips() []roundTrip {
	list := []roundTrip{
		{"store", openMethod},
		{"toolbox", openToolbox},
		{"protocol", openProtocol},
		{"stdio", func(b *testing.B) caller { return openChild(b, exec.Command(command(b)), false) }},
		{"bare", func(b *testing.B) caller { return openChild(b, bareChild(), false) }},
		{"http", openHTTP},
	}
	if script := os.Getenv("RW_FILESYSTEM_SERVER"); script != "" {
		list = append(list, roundTrip{"filesystem", func(b *testing.B) caller { return openChild(b, exec.Command("node", script), true) }})
	}
	return list
}

func openLocal(b *testing.B) *rw.Store {
	dir := b.TempDir()
	seed(b, dir)
	s := testbed.Must(rw.Open(context.Background(), dir, &rw.Options{Sync: rw.SyncOff}))(b)
	b.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func seed(b *testing.B, dir string) {
	testbed.NoErr(b, os.WriteFile(filepath.Join(dir, "read.txt"), bytes.Repeat([]byte("0123456789abcde\n"), 64), 0o644))
}

// method calls the Store itself.
type method struct{ s *rw.Store }

func openMethod(b *testing.B) caller { return method{openLocal(b)} }

func (m method) call(b *testing.B, tool string, args any, _ int) {
	a, ctx := args.(map[string]any), context.Background()
	var err error
	if tool == "rw_read" {
		_, err = m.s.Read(ctx, rw.ReadRequest{Path: a["path"].(string)})
	} else {
		off := false
		_, err = m.s.SafeWrite(ctx, rw.SafeWriteRequest{Path: a["path"].(string), Content: []byte(a["content"].(string)), Mode: rw.ModeOverwrite, Classify: &off})
	}
	testbed.NoErr(b, err)
}

// inProcess calls by name, with JSON, without a protocol.
type inProcess struct{ box *toolbox.Toolbox }

func openToolbox(b *testing.B) caller {
	return inProcess{toolbox.New(openLocal(b), &toolbox.Options{Caller: "bench", CallsPerSecond: -1})}
}

var unlimited = &mcpserver.Options{CallsPerSecond: -1}

func (t inProcess) call(b *testing.B, tool string, args any, _ int) {
	data, _ := json.Marshal(args)
	a := t.box.Call(context.Background(), tool, data, nil)
	testbed.Require(b, a.OK, "%.300s", a.Text)
}

// protocol is a message of the protocol, answered in process.
type protocol struct{ s *server.MCPServer }

func openProtocol(b *testing.B) caller { return protocol{mcpserver.New(openLocal(b), unlimited)} }

func (p protocol) call(b *testing.B, tool string, args any, _ int) {
	out, err := json.Marshal(mcpserver.Handle(context.Background(), p.s, message(1, tool, args)))
	testbed.Require(b, err == nil && succeeded(out), "%v %.300s", err, out)
}

func message(id int, tool string, args any) []byte {
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
	if err != nil {
		panic(err)
	}
	return data
}

// succeeded checks only the outside of a reply: decoding by a client is not
// measured.
func succeeded(reply []byte) bool {
	return bytes.Contains(reply, []byte(`"result"`)) && !bytes.Contains(reply, []byte(`"isError":true`))
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

// child is a server in another process, over its standard input and output.
type child struct {
	in   io.Writer
	out  *bufio.Reader
	peer bool // the file system server
	dir  string
}

func openChild(b *testing.B, cmd *exec.Cmd, peer bool) caller {
	dir := b.TempDir()
	seed(b, dir)
	if peer {
		cmd.Args = append(cmd.Args, dir)
	}
	cmd.Env = append(cmd.Environ(), "RW_WORKSPACE="+dir, "RW_SYNC=off", "RW_BENCH_UNLIMITED=1")
	in := testbed.Must(cmd.StdinPipe())(b)
	out := testbed.Must(cmd.StdoutPipe())(b)
	testbed.NoErr(b, cmd.Start())
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	c := &child{in: in, out: bufio.NewReaderSize(out, 1<<20), peer: peer, dir: dir}
	fmt.Fprintln(in, hello)
	if _, err := c.out.ReadBytes('\n'); err != nil {
		b.Fatal(err)
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *child) call(b *testing.B, tool string, args any, n int) {
	if c.peer {
		a := map[string]any{"path": filepath.Join(c.dir, args.(map[string]any)["path"].(string))}
		if content, ok := args.(map[string]any)["content"]; ok {
			a["content"] = content
		}
		args, tool = a, map[string]string{"rw_read": "read_text_file", "rw_safe_write": "write_file"}[tool]
	}
	done := make(chan error, 1)
	go func() {
		for i := range n {
			if _, err := c.in.Write(append(message(i+1, tool, args), '\n')); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for got := 0; got < n; {
		line := testbed.Must(c.out.ReadBytes('\n'))(b)
		if bytes.Contains(line, []byte(`"method":`)) && !bytes.Contains(line, []byte(`"result"`)) {
			continue // a notification
		}
		got++
		if !succeeded(line) && !bytes.Contains(line, []byte("pieces")) { // a typed refusal of something huge is an answer
			b.Fatalf("%.400s", line)
		}
	}
	testbed.NoErr(b, <-done)
}

// command builds the command once.
func command(b *testing.B) string {
	return testbed.Must(built())(b)
}

var (
	place = filepath.Join(os.TempDir(), fmt.Sprintf("rw-bench-%d", os.Getpid()))
	built = sync.OnceValues(func() (string, error) {
		os.Mkdir(place, 0o700)
		return shell.Build(place)
	})
)

// TestMain also acts as the bare server: one tool of the protocol library that
// calls the Store, served by the library's own loop.
func TestMain(m *testing.M) {
	if os.Getenv("RW_BENCH_BARE") == "" {
		code := m.Run()
		os.RemoveAll(place)
		os.Exit(code)
	}
	store, err := rw.Open(context.Background(), os.Getenv("RW_WORKSPACE"), &rw.Options{Sync: rw.SyncOff})
	if err != nil {
		panic(err)
	}
	s := server.NewMCPServer("bare", "1")
	off := false
	addTool(s, "rw_safe_write", func(ctx context.Context, r rw.SafeWriteRequest) (any, error) {
		r.Classify = &off
		return store.SafeWrite(ctx, r)
	})
	addTool(s, "rw_read", func(ctx context.Context, r rw.ReadRequest) (any, error) { return store.Read(ctx, r) })
	if err := server.ServeStdio(s); err != nil {
		panic(err)
	}
	store.Close(context.Background())
	os.Exit(0)
}

func addTool[T any](s *server.MCPServer, name string, do func(context.Context, T) (any, error)) {
	s.AddTool(wire.NewTool(name), wire.NewTypedToolHandler(func(ctx context.Context, _ wire.CallToolRequest, r T) (*wire.CallToolResult, error) {
		out, err := do(ctx, r)
		return wire.NewToolResultStructuredOnly(out), err
	}))
}

func bareChild() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RW_BENCH_BARE=1")
	return cmd
}

// web is a server over HTTP in this process, with a persistent connection.
type web struct {
	url, session string
	client       *http.Client
}

func openHTTP(b *testing.B) caller {
	h := testbed.Must(mcpserver.NewHTTP(mcpserver.New(openLocal(b), unlimited), &mcpserver.HTTPOptions{NoAuth: true}))(b)
	l := testbed.Must(net.Listen("tcp", "127.0.0.1:0"))(b)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, l) }()
	w := &web{url: "http://" + l.Addr().String() + "/mcp", client: &http.Client{Timeout: time.Minute}}
	b.Cleanup(func() {
		w.client.CloseIdleConnections()
		stop()
		<-done
	})
	_, header := w.post(b, []byte(hello))
	w.session = header.Get("Mcp-Session-Id")
	w.post(b, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return w
}

func (w *web) call(b *testing.B, tool string, args any, _ int) {
	reply, _ := w.post(b, message(1, tool, args))
	testbed.Require(b, succeeded(reply), "%.300s", reply)
}

func (w *web) post(b *testing.B, body []byte) ([]byte, http.Header) {
	req := testbed.Must(http.NewRequest("POST", w.url, bytes.NewReader(body)))(b)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
	}
	res := testbed.Must(w.client.Do(req))(b)
	defer res.Body.Close()
	reply, err := io.ReadAll(res.Body)
	testbed.Require(b, err == nil && res.StatusCode < 300, "%s %v %.300s", res.Status, err, reply)
	return reply, res.Header
}
