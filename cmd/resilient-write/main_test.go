package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// TestMain makes the binary reply in full unless a test says otherwise: most
// tests check receipts and structured content. The replies of the binary without
// the variable are those of TestFormsOfReplies. It also keeps the state in the
// workspace, where many tests look for what must not be left; its place without
// the variable is tested in relocate_test.go.
func TestMain(m *testing.M) {
	command.Main()
	os.Setenv("RW_REPLIES", "full")
	os.Unsetenv("CLAUDE_CODE_SESSION_ID")
	os.Setenv("RW_STATE_DIR", ".resilient_write")
	// Most parallel tests wait for processes. Those with stores of this process that are to
	// be clean are not among them: a process that is being started holds its locks.
	flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	testbed.Main(m, removeBinary)
}

// connect starts the built binary and talks to it with mcp-go's client.
func connect(t *testing.T, dir string, args ...string) *client.Client {
	t.Helper()
	c := must(client.NewStdioMCPClient(build(t), append(os.Environ(), "RW_WORKSPACE="+dir), args...))(t)
	t.Cleanup(func() { c.Close() })
	noErr(t, greet(t.Context(), c))
	return c
}

// greet does the handshake of a client.
func greet(ctx context.Context, c *client.Client) error {
	var req mcp.InitializeRequest
	req.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	req.Params.ClientInfo = mcp.Implementation{Name: "tester", Version: "1"}
	_, err := c.Initialize(ctx, req)
	return err
}

// callTool calls a tool and checks the reply: structured content, the same as
// text, conforming to the output schema, and to the envelope when it failed.
func callTool(t *testing.T, c *client.Client, name string, args map[string]any) map[string]any {
	t.Helper()
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = name, args
	res := must(c.CallTool(context.Background(), req))(t, name, ": protocol error")
	doc := must(json.Marshal(res.StructuredContent))(t)
	var out, text map[string]any
	json.Unmarshal(doc, &out)
	noErr(t, json.Unmarshal([]byte(res.Content[0].(mcp.TextContent).Text), &text), name, ": text is not JSON")
	mustEqual(t, fmt.Sprint(out), fmt.Sprint(text), name, ": text and structured content differ")
	ok := out["ok"] == true
	require(t, ok != res.IsError, "%s: ok %v but isError %v", name, ok, res.IsError)
	if res.IsError {
		err := spec.Validate("errors", doc)
		require(t, err == nil, "%s: the envelope does not conform: %v\n%s", name, err, doc)
	}
	if output := outputs()[strings.Replace(name, ".", "_", 1)]; output != nil {
		err := must(output())(t).Validate(doc)
		require(t, err == nil, "%s: the reply does not conform: %v\n%s", name, err, doc)
	}
	return out
}

// outputs returns the output schemas of the tools by their names. Each is compiled
// once, when it is first used.
var outputs = sync.OnceValue(func() map[string]func() (*spec.Compiled, error) {
	all := map[string]func() (*spec.Compiled, error){}
	for _, tool := range toolbox.Table() {
		all["rw_"+tool.Name] = sync.OnceValues(func() (*spec.Compiled, error) { return spec.Compile(tool.Output) })
	}
	return all
})

func reason(out map[string]any) string {
	c, _ := out["context"].(map[string]any)
	r, _ := c["reason"].(string)
	return r
}

// TestPipelinedCreatesOneWins sends creates of one path without waiting, on
// one connection.
func TestPipelinedCreatesOneWins(t *testing.T) {
	replies := pipeline(t, t.TempDir(), 8, func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":"one.txt","content":"writer %d"}}}`, i, i)
	})
	won := testbed.Count(replies, func(r string) bool { return strings.Contains(r, `"ok":true`) })
	require(t, len(replies) == 8 && won == 1, "%d replies, %d winners", len(replies), won)
}

// TestEndOfInputLosesNothing closes the input directly after 60 appends: each
// is answered and done, in order, and the process exits cleanly.
func TestEndOfInputLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	replies := pipeline(t, dir, 60, func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":"log.txt","content":"line %d\n","mode":"append"}}}`, i, i)
	})
	mustEqual(t, len(replies), 60, "replies")
	var want strings.Builder
	for i := range 60 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	got, _ := os.ReadFile(filepath.Join(dir, "log.txt"))
	mustEqual(t, string(got), want.String(), len(got), " bytes ", want.Len())
}

// pipeline writes n calls at once, closes the input, and returns their replies.
// It fails if anything but protocol messages is printed.
func pipeline(t *testing.T, dir string, n int, message func(int) string) []string {
	t.Helper()
	var in strings.Builder
	in.WriteString(initialize + "\n")
	in.WriteString(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	for i := range n {
		in.WriteString(message(i))
		if i < n-1 { // the last line has no newline
			in.WriteString("\n")
		}
	}
	cmd := exec.Command(build(t))
	cmd.Env = append(os.Environ(), "RW_WORKSPACE="+dir)
	cmd.Stdin = strings.NewReader(in.String())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	noErr(t, cmd.Run(), errs.String())
	var replies []string
	r := bufio.NewScanner(&out)
	r.Buffer(nil, 1<<24)
	for r.Scan() {
		var m struct {
			JSONRPC string `json:"jsonrpc"`
			ID      any    `json:"id"`
		}
		require(t, json.Unmarshal(r.Bytes(), &m) == nil && m.JSONRPC == "2.0", "not protocol on stdout: %s", r.Text())
		if m.ID != "init" {
			replies = append(replies, r.Text())
		}
	}
	return replies
}

// fed starts the server, and sends it calls until it reads no more; write makes the
// identifier and the arguments of a write from a number. ended waits for the end, which has
// to come by itself.
func fed(t *testing.T, dir string, write func(i int) (id, path string), env ...string) (cmd *exec.Cmd, out io.ReadCloser, ended func()) {
	t.Helper()
	cmd = exec.Command(build(t))
	cmd.Env = append(append(os.Environ(), "RW_WORKSPACE="+dir), env...)
	in, out := must(cmd.StdinPipe())(t), must(cmd.StdoutPipe())(t)
	noErr(t, cmd.Start())
	stuck := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	go func() {
		defer in.Close()
		io.WriteString(in, initialize+"\n")
		for i := 0; ; i++ {
			id, path := write(i)
			if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":%q,"content":"%d"}}}`+"\n", id, path, i); err != nil {
				return
			}
		}
	}()
	return cmd, out, func() {
		t.Helper()
		cmd.Wait()
		require(t, stuck.Stop(), "it did not end by itself")
	}
}

// soundAfter checks the store of a server that has ended, in another one.
func soundAfter(t *testing.T, dir string) {
	t.Helper()
	c := connect(t, dir)
	defer c.Close()
	r := callTool(t, c, "rw_check", map[string]any{"deep": true})
	require(t, r["clean"] == true, "%v", r)
}

// TestKilledServerComesBack kills the server while it writes and starts it
// again: every answered write is present.
func TestKilledServerComesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 3 {
		cmd, out, ended := fed(t, dir, func(i int) (id, path string) { return fmt.Sprint(i, ".txt"), fmt.Sprintf("r%d/%d.txt", round, i) })
		answered := 0
		r := bufio.NewScanner(out)
		r.Buffer(nil, 1<<24)
		for r.Scan() {
			var m struct{ ID string }
			if json.Unmarshal(r.Bytes(), &m) != nil || !strings.Contains(r.Text(), `"ok":true`) {
				continue
			}
			must(os.Stat(filepath.Join(dir, fmt.Sprint("r", round), m.ID)))(t, "answered but not there")
			if answered++; answered == 10+20*round { // the later ones are in flight
				cmd.Process.Kill()
			}
		}
		ended()
		require(t, answered >= 10+20*round, "round %d: it ended after %d answers", round, answered)
		soundAfter(t, dir)
		t.Logf("round %d: %d answered", round, answered)
	}
}

// TestAClientThatHangsUpEndsTheServer: if a client closes the output of the
// server in the middle of its calls, the server ends by itself and cleanly.
func TestAClientThatHangsUpEndsTheServer(t *testing.T) {
	t.Parallel()
	testbed.SkipIf(t, runtime.GOOS == "windows", "no signals")
	dir := t.TempDir()
	// It completes the calls that it has accepted; at full durability the time depends
	// on the disk.
	cmd, out, ended := fed(t, dir, func(i int) (id, path string) { return fmt.Sprint(i), fmt.Sprint(i, ".txt") }, "RW_SYNC=off")
	must(bufio.NewReader(out).ReadString('\n'))(t)
	out.Close()
	ended()
	expect(t, cmd.ProcessState.Exited(), "it did not end by itself: %v", cmd.ProcessState)
	soundAfter(t, dir)
}

// TestFormsOfReplies checks what the binary lists and replies by default, and
// what its flags and its variable change.
func TestFormsOfReplies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args, env string
		tools     int
		full      bool
	}{
		{"", "", 12, false},
		{"--tier core", "", 7, false},
		{"--tier full", "", 46, true},
		{"--dotted-names", "", 12, true},
		{"--replies full", "", 12, true},
		{"--tier full --replies brief", "", 46, false},
		{"", "full", 12, true},
		{"--replies brief", "full", 12, false},
		{"--tools scratch_put,rw_checkpoint", "", 14, false},
	} {
		env := []string{"RW_WORKSPACE=" + t.TempDir(), "RW_SYNC=off", "PATH=" + os.Getenv("PATH"), "RW_REPLIES=" + row.env}
		c := must(client.NewStdioMCPClient(build(t), env, strings.Fields(row.args)...))(t)
		noErr(t, greet(t.Context(), c))
		list, err := c.ListTools(context.Background(), mcp.ListToolsRequest{})
		require(t, err == nil && len(list.Tools) == row.tools, "%s: %d tools, %v", row.args, len(list.Tools), err)
		doc, err := json.Marshal(list)
		expect(t, err == nil && strings.Contains(string(doc), `"outputSchema"`) == row.full,
			"%s: schemas of replies are listed: %t (%v)", row.args, !row.full, err)
		for _, want := range []bool{true, false} { // the second is refused
			var call mcp.CallToolRequest
			call.Params.Name, call.Params.Arguments = "rw_safe_write", map[string]any{"path": "a.txt", "content": "x"}
			res := must(c.CallTool(context.Background(), call))(t)
			text := res.Content[0].(mcp.TextContent).Text
			expect(t, (res.StructuredContent != nil) == row.full && res.IsError != want && strings.Contains(text, `"receipt"`) == row.full &&
				res.Meta != nil && res.Meta.AdditionalFields["io.github.resilientwrite/receipt"] != nil, "%s %s: %s %v", row.args, row.env, text, res.Meta)
		}
		c.Close()
	}
}
