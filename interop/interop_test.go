// Package interop tests the built command with an independent client: the
// official Go SDK. It is a separate module, so that the SDK is not a dependency
// of resilientwrite.
package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// command builds the command.
func command(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "resilient-write")
	build := exec.Command("go", "build", "-o", bin, "./cmd/resilient-write")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	testbed.Require(t, err == nil, "%v: %s", err, out)
	return bin
}

func connect(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, nil)
	session := testbed.Must(client.Connect(context.Background(), transport, nil))(t)
	t.Cleanup(func() { session.Close() })
	return session
}

// overStdio starts the command as a child.
func overStdio(t *testing.T, dir string) *mcp.ClientSession {
	cmd := exec.Command(command(t))
	cmd.Env = append(os.Environ(), "RW_REPLIES=full", "RW_WORKSPACE="+dir)
	return connect(t, &mcp.CommandTransport{Command: cmd})
}

const token = "interop-token-0123456789abcdef"

// overHTTP starts the command as a server on a free port.
func overHTTP(t *testing.T, dir string) *mcp.ClientSession {
	cmd := exec.Command(command(t), "serve", "--transport", "http", "--port", "0", "--root", dir)
	cmd.Env = append(os.Environ(), "RW_REPLIES=full", "RW_TOKEN="+token)
	logs := testbed.Must(cmd.StderrPipe())(t)
	testbed.NoErr(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		var record struct{ Address string }
		if json.Unmarshal(lines.Bytes(), &record); record.Address != "" {
			go io.Copy(io.Discard, logs)
			return connect(t, &mcp.StreamableClientTransport{
				Endpoint: "http://" + record.Address + "/mcp", HTTPClient: &http.Client{Transport: bearer{}},
			})
		}
	}
	t.Fatal("the server printed no address")
	return nil
}

// bearer adds the token to each request.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return http.DefaultTransport.RoundTrip(r)
}

func call(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) (map[string]any, bool) {
	t.Helper()
	res := testbed.Must(s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: args}))(t, name)
	doc := testbed.Must(json.Marshal(res.StructuredContent))(t)
	return testbed.Decoded[map[string]any](t, doc), res.IsError
}

func TestOfficialSDK(t *testing.T) {
	for name, open := range map[string]func(*testing.T, string) *mcp.ClientSession{"stdio": overStdio, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			surface(t, dir, open(t, dir))
		})
	}
}

// surface calls the tools once.
func surface(t *testing.T, dir string, s *mcp.ClientSession) {
	tools, err := s.ListTools(context.Background(), nil)
	testbed.Require(t, err == nil && len(tools.Tools) != 0, "%v %v", tools, err)
	first, failed := call(t, s, "rw_safe_write", map[string]any{"path": "a/b.txt", "content": "one\n"})
	testbed.Require(t, !failed, "%v", first)
	testbed.Holds(t, filepath.Join(dir, "a", "b.txt"), "one\n")
	second, failed := call(t, s, "rw_safe_write", map[string]any{"path": "a/b.txt", "content": "two\n", "mode": "overwrite", "expected_prev_sha256": first["sha256"]})
	testbed.Require(t, !failed && second["status"] == "succeeded", "%v", second)
	stale, failed := call(t, s, "rw_safe_write", map[string]any{"path": "a/b.txt", "content": "three\n", "mode": "overwrite", "expected_prev_sha256": first["sha256"]})
	testbed.Require(t, failed && stale["error"] == "stale_precondition", "%v", stale)
	for i := range 20 {
		if out, failed := call(t, s, "rw_safe_write", map[string]any{"path": "log.txt", "content": fmt.Sprintf("%d\n", i), "mode": "append"}); failed {
			t.Fatalf("%v", out)
		}
	}
	for _, name := range []string{"rw_journal_tail", "rw_check", "rw_describe"} {
		if out, failed := call(t, s, name, nil); failed || out["ok"] != true {
			t.Fatalf("%s: %v", name, out)
		}
	}
	read, failed := call(t, s, "rw_read", map[string]any{"path": "a/b.txt"})
	testbed.Require(t, !failed && read["content"] == "two\n", "%v", read)
}
