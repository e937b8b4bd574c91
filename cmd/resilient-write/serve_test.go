package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// served is the command serving HTTP.
type served struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	url  string
	http *http.Client

	mu    sync.Mutex
	lines []string // of stderr
	ended chan struct{}
}

const servedTime = 60 * time.Second

// startHTTP starts the command in a directory of its own and waits until it listens.
func startHTTP(t *testing.T, env []string, args ...string) *served {
	t.Helper()
	dir := t.TempDir()
	env = append(append(os.Environ(), "RW_WORKSPACE="+dir, "RW_SYNC=off", "RW_TOKEN="), env...)
	return serveIn(t, dir, env, append([]string{"serve", "-port", "0"}, args...)...)
}

// serveIn is startHTTP in a directory, with these variables alone.
func serveIn(t *testing.T, dir string, env []string, args ...string) *served {
	t.Helper()
	s := &served{t: t, dir: dir, http: &http.Client{Transport: &http.Transport{}}, ended: make(chan struct{})}
	s.cmd = exec.Command(build(t), args...)
	s.cmd.Dir, s.cmd.Env = dir, env
	errs := must(s.cmd.StderrPipe())(t)
	var out bytes.Buffer
	s.cmd.Stdout = &out
	noErr(t, s.cmd.Start())
	address := make(chan string, 1)
	go func() {
		defer close(s.ended)
		lines := bufio.NewScanner(errs)
		for lines.Scan() {
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			s.mu.Unlock()
			var record struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "serving" {
				address <- record.Address
			}
		}
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.ended
		s.cmd.Wait()
		expect(t, out.Len() == 0, "something on stdout: %s", out.String())
	})
	select {
	case a := <-address:
		s.url = "http://" + a
	case <-s.ended:
		t.Fatalf("it ended: %s", s.stderr())
	case <-time.After(servedTime):
		t.Fatalf("it does not listen: %s", s.stderr())
	}
	return s
}

func (s *served) stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// printedToken returns the printed token, or "".
func (s *served) printedToken() string {
	for _, line := range strings.Split(s.stderr(), "\n") {
		if token, ok := strings.CutPrefix(line, "resilient-write token: "); ok {
			return token
		}
	}
	return ""
}

// post sends one message.
func (s *served) post(token, session, body string) (*http.Response, string, error) {
	return s.postIn(context.Background(), token, session, body)
}

// postIn is post until ctx ends.
func (s *served) postIn(ctx context.Context, token, session, body string) (*http.Response, string, error) {
	r := must(http.NewRequestWithContext(ctx, "POST", s.url+"/mcp", strings.NewReader(body)))(s.t)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	res, err := s.http.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res, string(data), err
}

const initialize = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"tester","version":"1"}}}`

// begin opens a session.
func (s *served) begin(token string) string {
	s.t.Helper()
	res, body, err := s.post(token, "", initialize)
	require(s.t, err == nil && res.StatusCode == 200, "%v %s\n%s", err, body, s.stderr())
	return res.Header.Get("Mcp-Session-Id")
}

// end sends a signal and returns the exit code.
func (s *served) end(sig os.Signal) int {
	s.t.Helper()
	noErr(s.t, s.cmd.Process.Signal(sig))
	select {
	case <-s.ended:
	case <-time.After(servedTime):
		s.t.Fatalf("it does not end: %s", s.stderr())
	}
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// TestServeHTTP: a generated token is printed once, on its own line, and
// nowhere else; a write over HTTP is on the disk; a signal ends the server
// cleanly.
func TestServeHTTP(t *testing.T) {
	s := startHTTP(t, nil, "-transport", "http")
	token := s.printedToken()
	require(t, len(token) >= 40 && strings.Count(s.stderr(), token) == 1, "no token, or in several places: %s", s.stderr())
	expect(t, strings.HasPrefix(s.url, "http://127.0.0.1:"), "it listens on %s", s.url)
	if res, _, err := s.post("", "", initialize); err != nil || res.StatusCode != 401 {
		t.Errorf("without the token: %v %v", res, err)
	}
	session := s.begin(token)
	_, body, err := s.post(token, session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":"a.txt","content":"over HTTP"}}}`)
	expect(t, err == nil && strings.Contains(body, `"caller":"tester"`), "%v %s", err, body)
	testbed.Holds(t, filepath.Join(s.dir, "a.txt"), "over HTTP", "the file holds")
	res, err := s.http.Get(s.url + "/sse")
	expect(t, err == nil && res.StatusCode == 401, "%v %v", res, err)
	equal(t, s.end(syscall.SIGTERM), 0, "exit ", s.stderr())
	for _, line := range strings.Split(s.stderr(), "\n") {
		expect(t, json.Valid([]byte(line)) || strings.HasPrefix(line, "resilient-write token: "), "not a record: %s", line)
		expect(t, !strings.Contains(line, s.dir), "a path in the log: %s", line)
	}
}

// TestServeHTTPGivenTokens: a token that the user supplies is never printed.
func TestServeHTTPGivenTokens(t *testing.T) {
	t.Parallel()
	token := "synthetic-" + strings.Repeat("0123456789", 3)
	dir := t.TempDir()
	given, made := filepath.Join(dir, "given"), filepath.Join(dir, "made")
	noErr(t, os.WriteFile(given, []byte(token+"\n"), 0o600))
	for name, start := range map[string]func() *served{
		"flag":        func() *served { return startHTTP(t, nil, "-transport", "http", "-token", token) },
		"environment": func() *served { return startHTTP(t, []string{"RW_TOKEN=" + token}, "-transport", "http") },
		"file":        func() *served { return startHTTP(t, nil, "-transport", "http", "-token-file", given) },
		"flag wins": func() *served {
			return startHTTP(t, []string{"RW_TOKEN=another-token-of-enough-length"}, "-transport", "http", "-token", token)
		},
	} {
		s := start()
		s.begin(token)
		text := s.stderr()
		expect(t, !strings.Contains(text, token) && s.printedToken() == "", "%s: the token is shown: %s", name, text)
	}
	first := startHTTP(t, nil, "-transport", "http", "-token-file", made)
	data := must(os.ReadFile(made))(t)
	fresh := strings.TrimSpace(string(data))
	info, _ := os.Stat(made)
	expect(t, runtime.GOOS == "windows" || info.Mode() == 0o600, "the file has mode %v", info.Mode())
	first.begin(fresh)
	text := first.stderr()
	expect(t, !strings.Contains(text, fresh) && first.printedToken() == "" && !strings.Contains(text, dir), "%s", text)
	startHTTP(t, nil, "-transport", "http", "-token-file", made).begin(fresh) // the same after a restart
}

// TestServeHTTPSignalDuringWrites: the server gets a signal while writers use
// it. Every answered write is on the disk, every write on the disk was
// answered, the exit code is 0, and the store is clean.
func TestServeHTTPSignalDuringWrites(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, []string{"RW_SYNC=full"}, "-transport", "http", "-no-auth")
	session := s.begin("")
	var wg sync.WaitGroup
	var mu sync.Mutex
	answered := map[string]bool{}
	begun := make(chan bool, 1024)
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("w%d/%d.txt", w, i)
				res, body, err := s.post("", session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":%q,"content":%q}}}`, i, name, name))
				if err != nil || res.StatusCode == 503 {
					return
				}
				if res.StatusCode != 200 || !strings.Contains(body, `"ok":true`) {
					t.Errorf("%s: %d %s", name, res.StatusCode, body)
					return
				}
				mu.Lock()
				answered[name] = true
				mu.Unlock()
				select {
				case begun <- true:
				default:
				}
			}
		})
	}
	for range 8 {
		select {
		case <-begun:
		case <-time.After(servedTime):
			t.Fatal("no writes")
		}
	}
	code := s.end(os.Interrupt)
	wg.Wait()
	equal(t, code, 0, "exit ", s.stderr())
	for name := range answered {
		data, _ := os.ReadFile(filepath.Join(s.dir, name))
		expect(t, string(data) == name, "%s was answered and holds %q", name, data)
	}
	// And the reverse: every completed write was answered.
	done, _ := filepath.Glob(filepath.Join(s.dir, "w*", "*.txt"))
	for _, path := range done {
		name, _ := filepath.Rel(s.dir, path)
		expect(t, answered[filepath.ToSlash(name)], "%s was written without a notification", name)
	}
	r := callTool(t, connect(t, s.dir), "rw_check", map[string]any{"deep": true})
	expect(t, r["clean"] == true, "%v", r)
}

// TestServeSSE: the older transport works, and the log says that it is
// deprecated.
func TestServeSSE(t *testing.T) {
	s := startHTTP(t, nil, "-transport", "sse", "-no-auth")
	res, err := s.http.Get(s.url + "/sse")
	noErr(t, err)
	defer res.Body.Close()
	stream := bufio.NewReader(res.Body)
	data := ""
	for !strings.HasPrefix(data, "data: ") {
		if data, err = stream.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, strings.HasPrefix(data, "data: /messages/?session_id="), "the endpoint is %q", data)
	s.begin("") // /mcp is served as well
	code := s.end(syscall.SIGTERM)
	expect(t, code == 0, "exit %d with an open stream: %s", code, s.stderr())
	if !strings.Contains(s.stderr(), "deprecated") { // the log is complete now
		t.Errorf("no warning: %s", s.stderr())
	}
	must(io.ReadAll(stream))(t, "the stream broke off")
}

// TestServeHTTPSocket: a unix socket that only its owner can use. It is removed
// at the end, and the socket of a process that died is replaced.
func TestServeHTTPSocket(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "there are no sockets with modes on Windows")
	dir, err := os.MkdirTemp("", "rws") // short, as a socket's path must be
	noErr(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "sock")
	start := func() *served {
		s := startHTTP(t, nil, "-transport", "http", "-no-auth", "-socket", path)
		s.url = "http://any.example"
		s.http.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}
		s.begin("")
		return s
	}
	s := start()
	info, err := os.Lstat(path)
	expect(t, err == nil && info.Mode().Perm() == 0o600, "%v %v", info, err)
	left, _ := os.ReadDir(dir)
	expect(t, len(left) == 1, "beside the socket there is more: %v", left)
	expect(t, !strings.Contains(s.stderr(), dir), "a path in the log: %s", s.stderr())
	second := exec.Command(build(t), "serve", "-transport", "http", "-no-auth", "-socket", path)
	second.Dir = t.TempDir()
	out, _ := second.CombinedOutput()
	expect(t, second.ProcessState.ExitCode() == 2 && strings.Contains(string(out), "another process is listening"), "a second server on the socket: %s", out)
	s.end(os.Kill)
	s = start() // replaces what the dead one left
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(sig) {
			continue // by nohup, and so do those that the tests start
		}
		equal(t, s.end(sig), 0, "exit")
		_, err := os.Lstat(path)
		expect(t, err != nil, "%v: the socket is left", sig)
		s = start()
	}
	s.end(os.Kill)
	s = startHTTP(t, nil, "-transport", "http", "-no-auth", "-socket", "@sock") // no abstract one, which has no mode
	info, err = os.Lstat(filepath.Join(s.dir, "@sock"))
	expect(t, err == nil && info.Mode() == os.ModeSocket|0o600, "%v %v", info, err)
	s.end(syscall.SIGTERM)
	_, err = os.Lstat(filepath.Join(s.dir, "@sock"))
	expect(t, err != nil, "the socket is left")
}

// TestIgnoredHangup: a server that was started with SIGHUP ignored, as by nohup, goes on.
func TestIgnoredHangup(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "there is no such signal on Windows")
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$0" serve`, build(t))
	cmd.Dir = t.TempDir()
	in, out := must(cmd.StdinPipe())(t), must(cmd.StdoutPipe())(t)
	noErr(t, cmd.Start())
	defer cmd.Process.Kill()
	lines := bufio.NewReader(out)
	for range 2 {
		fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		line, err := lines.ReadString('\n')
		require(t, err == nil && strings.Contains(line, `"result":{}`), "%q %v", line, err)
		noErr(t, cmd.Process.Signal(syscall.SIGHUP))
	}
	in.Close()
	noErr(t, cmd.Wait())
}

// TestServeHTTPS: with a certificate it speaks TLS.
func TestServeHTTPS(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	private := must(x509.MarshalPKCS8PrivateKey(key))(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
	s := startHTTP(t, nil, "-transport", "http", "-no-auth", "-tls-cert", certFile, "-tls-key", keyFile)
	roots := x509.NewCertPool()
	cert, _ := x509.ParseCertificate(der)
	roots.AddCert(cert)
	s.url = strings.Replace(s.url, "http://", "https://", 1)
	s.http.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	s.begin("")
}

// shellIn runs a shell command in a directory, without the configuration of the user.
func shellIn(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir+"/.none", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := cmd.CombinedOutput()
	require(t, err == nil, "%s: %v: %s", line, err, out)
}

// namesIn lists the entries of a directory, except .git.
func namesIn(dir string) (list []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != ".git" {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestWorktreesAreKeptApart: one server serves the work trees of a repository.
// Each call goes to one of them, by its absolute path or its argument. A call
// that names none is refused, so that an agent in its own worktree never writes
// into the checkout of another one.
func TestWorktreesAreKeptApart(t *testing.T) {
	t.Setenv("RW_STATE_DIR", "")
	top := must(filepath.EvalSymlinks(t.TempDir()))(t)
	repo, linked, later := filepath.Join(top, "repo"), filepath.Join(top, "linked"), filepath.Join(top, "repo", ".claude", "worktrees", "later")
	os.Mkdir(repo, 0o755)
	shellIn(t, repo, "git init -q; git commit -q --allow-empty -m x; git worktree add -q ../linked; ln -s ../repo ../linked/link")
	c := connect(t, repo, "serve", "--worktrees")
	write := func(args map[string]any) map[string]any {
		args["content"] = "x\n"
		return callTool(t, c, "rw_safe_write", args)
	}
	is := func(out map[string]any, want string) {
		t.Helper()
		about, _ := out["context"].(map[string]any)
		got := about["reason"]
		expect(t, out["ok"] == true == (want == "") && (want == "" || got == want), "%v, want %q", out, want)
		expect(t, want != "ambiguous_workspace" || about["action"] == "fix_call" && strings.Contains(about["hint"].(string), `"repo" "linked"`), "%v", about)
	}
	ambiguous := "ambiguous_workspace"
	is(write(map[string]any{"path": "a.txt"}), ambiguous)
	is(write(map[string]any{"path": "a.txt", "workspace": "nowhere"}), ambiguous)
	is(write(map[string]any{"path": filepath.Join(repo, "a.txt"), "workspace": "linked"}), ambiguous)
	is(callTool(t, c, "rw_undo", map[string]any{}), ambiguous)
	is(callTool(t, c, "rw_undo", nil), ambiguous)
	is(callTool(t, c, "rw_chunk_append", map[string]any{"session": "s", "content": "x"}), ambiguous)
	op := func(dir, name string) map[string]any {
		return map[string]any{"op": "write", "path": filepath.Join(dir, name), "content": "x"}
	}
	for _, ops := range [][]any{{op(repo, "a"), op(linked, "b")}, {op(linked, "a"), op("", "b")}} {
		is(callTool(t, c, "rw_tx", map[string]any{"ops": ops}), ambiguous)
	}
	is(callTool(t, c, "rw_move", map[string]any{"path": filepath.Join(linked, "a"), "to": filepath.Join(repo, "a")}), ambiguous)
	left := slices.Concat(namesIn(repo), namesIn(linked))
	expect(t, slices.Equal(left, []string{"link"}), "a refused call left %v", left)
	is(write(map[string]any{"path": filepath.Join(linked, "a.txt")}), "")
	is(write(map[string]any{"path": "b.txt", "workspace": "linked"}), "")
	is(write(map[string]any{"path": "c.txt", "workspace": linked}), "")
	is(callTool(t, c, "rw_tx", map[string]any{"ops": []any{op(linked, "d"), op(linked, "e")}}), "")
	is(write(map[string]any{"path": "m.txt", "workspace": "repo"}), "")
	is(callTool(t, c, "rw_undo", map[string]any{"workspace": "linked"}), "") // d and e, not the newer m.txt
	for _, p := range []string{filepath.Join(linked, "link", "x"), filepath.Join(linked, "..", "outside")} {
		out := write(map[string]any{"path": p})
		expect(t, out["ok"] != true, "%s: %v", p, out)
	}
	out := write(map[string]any{"path": "link/x", "workspace": "linked"})
	expect(t, out["ok"] != true, "through a link: %v", out)
	r, l := namesIn(repo), namesIn(linked)
	expect(t, slices.Equal(r, []string{"m.txt"}) && slices.Equal(l, []string{"a.txt", "b.txt", "c.txt", "link"}), "%v %v", r, l)
	// A worktree that is created inside the checkout, while the server runs.
	shellIn(t, repo, "git worktree add -q .claude/worktrees/later")
	is(write(map[string]any{"path": filepath.Join(later, "n.txt")}), "")
	list, _ := os.ReadDir(filepath.Join(repo, ".git", "resilientwrite"))
	expect(t, len(list) == 3, "%d stores", len(list))
	shellIn(t, repo, "git worktree remove --force ../linked; git worktree remove --force .claude/worktrees/later; rm -r .claude")
	is(write(map[string]any{"path": "o.txt"}), "")
}

// TestAllowedRoots: a directory that the operator allows is served, no other one.
// The argument is listed, and the default list stays within its limit.
func TestAllowedRoots(t *testing.T) {
	t.Setenv("RW_REPLIES", "")
	root, more, other := t.TempDir(), t.TempDir(), t.TempDir()
	c := connect(t, root, "serve", "--allow-root", more)
	var req mcp.CallToolRequest
	for dir, want := range map[string]bool{root: true, more: true, other: false} {
		req.Params.Name, req.Params.Arguments = "rw_safe_write", map[string]any{"path": filepath.Join(dir, "a.txt"), "content": "x"}
		res, err := c.CallTool(t.Context(), req)
		expect(t, err == nil && res.IsError != want, "%v: %+v", err, res)
		_, err = os.Stat(filepath.Join(dir, "a.txt"))
		expect(t, (err == nil) == want, "%v", err)
	}
	list := must(c.ListTools(t.Context(), mcp.ListToolsRequest{}))(t)
	for _, tool := range list.Tools {
		_, ok := tool.InputSchema.Properties["workspace"]
		expect(t, ok, "%s does not list the argument", tool.Name)
	}
	doc, _ := json.Marshal(list.Tools)
	expect(t, len(doc) <= 10240, "%d bytes", len(doc))

	// One that is replaced is opened again. No call for it goes to another, also when that
	// is gone.
	for _, dir := range []string{more, root} {
		if err := os.Rename(dir, dir+".old"); err != nil {
			t.Skip("an open directory cannot be moved:", err)
		}
		noErr(t, os.MkdirAll(more, 0o755))
		name := filepath.Base(dir) + ".txt"
		req.Params.Arguments = map[string]any{"path": name, "content": "x", "workspace": must(filepath.EvalSymlinks(more))(t)}
		res, err := c.CallTool(t.Context(), req)
		expect(t, err == nil && !res.IsError, "%v: %+v", err, res)
		testbed.Holds(t, filepath.Join(more, name), "x")
	}
}
