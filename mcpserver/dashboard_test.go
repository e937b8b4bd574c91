package mcpserver_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/internal/testbed/browser"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// board is a dashboard that is served, and its store.
type board struct {
	t     testing.TB
	dir   string
	store *rw.Store
	addr  string
	token string
	stop  func() error
}

// newBoard serves the dashboard of a new store.
func newBoard(t testing.TB, o mcpserver.HTTPOptions) *board {
	t.Helper()
	dir := must(filepath.EvalSymlinks(t.TempDir()))(t)
	store := must(rw.Open(ctx, dir, &rw.Options{Caller: "coder", Sync: rw.SyncOff}))(t)
	t.Cleanup(func() { store.Close(ctx) })
	b := &board{t: t, dir: dir, store: store}
	b.serve(store, must(net.Listen("tcp", "127.0.0.1:0"))(t), o)
	return b
}

// serve serves the dashboard on a listener; it undoes with a store, unless that is nil.
func (b *board) serve(undo *rw.Store, l net.Listener, o mcpserver.HTTPOptions) {
	b.t.Helper()
	h := must(mcpserver.NewDashboard(mcpserver.Dashboard{
		Open: func(ctx context.Context) (*rw.Store, error) {
			return rw.Open(ctx, b.dir, &rw.Options{ReadOnly: true})
		},
		Undo: undo, State: must(place.At(b.dir))(b.t),
	}, &o))(b.t)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, l) }()
	b.addr, b.token = l.Addr().String(), h.Token()
	b.stop = sync.OnceValue(func() error {
		cancel()
		return soon(b.t, ended, "Serve ends")
	})
	b.t.Cleanup(func() { noErr(b.t, b.stop()) })
}

func (b *board) write(path, text string) uint64 {
	b.t.Helper()
	r := must(b.store.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: rw.ModeOverwrite}))(b.t)
	return r.Receipt.JournalSeq
}

func (b *board) holds(path, want string) {
	b.t.Helper()
	testbed.Holds(b.t, filepath.Join(b.dir, path), want, path, " holds")
}

// request is one that passes all checks.
func (b *board) request(method, path, body string) *http.Request {
	r := must(http.NewRequest(method, "http://"+b.addr+path, strings.NewReader(body)))(b.t)
	r.Header.Set("Authorization", "Bearer "+b.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// ask asks as the page does.
func (b *board) ask(path string, body any) (status int, reply map[string]any, raw string) {
	b.t.Helper()
	data, _ := json.Marshal(body)
	res := must(http.DefaultClient.Do(b.request("POST", path, string(data))))(b.t)
	defer res.Body.Close()
	all, _ := io.ReadAll(res.Body)
	json.Unmarshal(all, &reply)
	return res.StatusCode, reply, string(all)
}

// follow reads the stream; next returns the message that holds a text.
func (b *board) follow() (next func(text string) string) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	res, err := http.DefaultClient.Do(b.request("GET", "/events", "").WithContext(ctx))
	require(b.t, err == nil && res.StatusCode == http.StatusOK && res.Header.Get("Content-Type") == "text/event-stream", "%v %+v", err, res)
	more, end := iter.Pull(events(res.Body))
	b.t.Cleanup(func() { stop(); end(); res.Body.Close() })
	return func(text string) string {
		b.t.Helper()
		for {
			data, ok := more()
			require(b.t, ok, "%q does not come", text)
			if strings.Contains(data, text) {
				return data
			}
		}
	}
}

// TestDashboardAdmitsItsPageOnly: a client that has not the token, comes from another
// page or under another name, or asks in another way than the page, gets nothing
// and changes nothing.
func TestDashboardAdmitsItsPageOnly(t *testing.T) {
	b := newBoard(t, mcpserver.HTTPOptions{})
	row := b.write("a.txt", "one\n")
	port := b.addr[strings.LastIndex(b.addr, ":"):]
	undo := fmt.Sprintf(`{"row":%d}`, row)
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	anybody := func(r *http.Request) { r.Header.Del("Authorization") }
	for _, one := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		want                     int
	}{
		{"the page", "GET", "/", "", anybody, 200},
		{"the head of the page", "HEAD", "/", "", anybody, 200},
		{"the page by name", "GET", "/", "", host("localhost" + port), 200},
		{"events without a token", "GET", "/events", "", anybody, 401},
		{"events with a wrong token", "GET", "/events", "", set("Authorization", "Bearer "+strings.Repeat("x", 52)), 401},
		{"a token in the query", "GET", "/events?token=" + b.token, "", anybody, 401},
		{"a token in a cookie", "GET", "/events", "", func(r *http.Request) { anybody(r); r.Header.Set("Cookie", "token="+b.token) }, 401},
		{"two tokens", "GET", "/events", "", func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") }, 401},
		{"undo without a token", "POST", "/undo", undo, anybody, 401},
		{"a name pointed here, the page", "GET", "/", "", host("evil.example" + port), 403},
		{"a name pointed here, the events", "GET", "/events", "", host("evil.example" + port), 403},
		{"a name pointed here, undo", "POST", "/undo", undo, host("127.0.0.1.evil.example" + port), 403},
		{"another origin", "POST", "/undo", undo, set("Origin", "http://evil.example"), 403},
		{"another port", "GET", "/events", "", set("Origin", "http://127.0.0.1:1"), 403},
		{"no origin at all", "POST", "/undo", undo, set("Origin", "null"), 403},
		{"https of the same", "POST", "/undo", undo, set("Origin", "https://"+b.addr), 403},
		{"a link or a frame of another site", "GET", "/", "", set("Sec-Fetch-Site", "cross-site"), 403},
		{"events of another site", "GET", "/events", "", set("Sec-Fetch-Site", "same-site"), 403},
		{"the page itself", "POST", "/undo", undo, set("Origin", "http://"+b.addr), 200},
		{"a question before it", "OPTIONS", "/undo", "", func(r *http.Request) {
			anybody(r)
			r.Header.Set("Origin", "http://evil.example")
			r.Header.Set("Access-Control-Request-Method", "POST")
		}, 403},
		{"a form", "POST", "/undo", undo, set("Content-Type", "text/plain"), 415},
		{"no type", "POST", "/undo", undo, set("Content-Type", ""), 415},
		{"too long", "POST", "/undo", `{"row":1,"ticket":"` + strings.Repeat("x", 8<<10) + `"}`, nil, 413},
		{"an unknown field", "POST", "/undo", `{"row":1,"force":true}`, nil, 400},
		{"no row", "POST", "/diff", `{}`, nil, 400},
		{"no JSON", "POST", "/diff", `row=1`, nil, 400},
		{"two questions", "POST", "/undo", undo + undo, nil, 400},
		{"undo by reading", "GET", "/undo", "", nil, 405},
		{"events by writing", "POST", "/events", undo, nil, 405},
		{"the page by writing", "POST", "/", undo, nil, 405},
		{"the tools", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, 404},
		{"a file", "GET", "/a.txt", "", nil, 404},
		{"outside", "GET", "/..%2f..%2fetc/passwd", "", nil, 404},
	} {
		r := b.request(one.method, one.path, one.body)
		if one.change != nil {
			one.change(r)
		}
		res := must(http.DefaultTransport.RoundTrip(r))(t)
		body := ""
		if res.StatusCode != 200 || one.path == "/" {
			all, _ := io.ReadAll(res.Body)
			body = string(all)
		}
		res.Body.Close()
		expect(t, res.StatusCode == one.want && !strings.Contains(body, b.dir) && !strings.Contains(body, b.token) &&
			!strings.Contains(body, "a.txt") && res.Header.Get("Access-Control-Allow-Origin") == "", "%s: %d, want %d: %.200s", one.name, res.StatusCode, one.want, body)
		if one.path == "/" && one.want == 200 {
			for name, want := range map[string]string{
				"Content-Security-Policy": "require-trusted-types-for 'script'; trusted-types 'none'", "X-Content-Type-Options": "nosniff",
				"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				expect(t, strings.Contains(res.Header.Get(name), want), "%s: %s is %q", one.name, name, res.Header.Get(name))
			}
			csp := res.Header.Get("Content-Security-Policy")
			expect(t, !strings.Contains(csp, "unsafe") && strings.HasPrefix(csp, "default-src 'none'; script-src 'sha256-") && strings.Contains(csp, "frame-ancestors 'none'"), "%s", csp)
		}
	}
	b.holds("a.txt", "one\n")
}

// TestDashboardIsForThisMachine: no address beyond loopback, and never without a
// token.
func TestDashboardIsForThisMachine(t *testing.T) {
	if _, err := mcpserver.NewDashboard(mcpserver.Dashboard{}, &mcpserver.HTTPOptions{NoAuth: true}); err == nil {
		t.Error("without a token")
	}
	h, err := mcpserver.NewDashboard(mcpserver.Dashboard{}, &mcpserver.HTTPOptions{AllowPlainHTTP: true})
	require(t, err == nil && len(h.Token()) >= 50, "%v %q", err, h.Token())
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Skip(err)
	}
	err = h.Serve(context.Background(), l)
	expect(t, err != nil && strings.Contains(err.Error(), "loopback"), "%v", err)
}

// TestDashboardUndo: nothing is undone before a confirmation, which is for one
// row and works once, and the row is that one whatever was written meanwhile.
func TestDashboardUndo(t *testing.T) {
	t.Parallel()
	b := newBoard(t, mcpserver.HTTPOptions{})
	b.write("a.txt", "one\n")
	row := b.write("a.txt", "two\n")
	type m = map[string]any
	status, tried, _ := b.ask("/undo", m{"row": row})
	ticket, _ := tried["ticket"].(string)
	require(t, status == 200 && len(ticket) >= 20, "%d %v", status, tried)
	b.holds("a.txt", "two\n")
	for _, wrong := range []m{{"row": row, "ticket": "x"}, {"row": row - 1, "ticket": ticket}, {"row": row, "ticket": ticket + " "}} {
		status, got, _ := b.ask("/undo", wrong)
		expect(t, status == 409 && got["reason"] == "confirmation_expired", "%v: %d %v", wrong, status, got)
	}
	b.holds("a.txt", "two\n")
	b.write("b.txt", "later\n") // by the same caller
	for range 2 {               // the second one is the reply that was lost
		status, got, raw := b.ask("/undo", m{"row": row, "ticket": ticket})
		require(t, status == 200 && got["ok"] == true, "%d %s", status, raw)
		b.holds("a.txt", "one\n")
		b.holds("b.txt", "later\n")
	}
	tail, err := b.store.JournalTail(context.Background(), rw.JournalTailRequest{N: 1})
	expect(t, err == nil && tail.Entries[0].Op == "undo" && tail.Entries[0].Caller == "operator", "%v %+v", err, tail)
	noErr(t, os.WriteFile(filepath.Join(b.dir, "b.txt"), []byte("by an editor\n"), 0o600))
	status, got, raw := b.ask("/undo", m{"row": row + 1})
	expect(t, status == 409 && got["reason"] == "changed_outside" && strings.Contains(raw, "call `resilient-write restore` with force") && !strings.Contains(raw, b.dir), "%d %s", status, raw)
	b.holds("b.txt", "by an editor\n")
	status, got, _ = b.ask("/undo", m{"row": 999})
	expect(t, status == 409 && got["reason"] == "nothing_to_undo" && !strings.Contains(fmt.Sprint(got), "Store."), "%d %v", status, got)
}

// TestDashboardShowsNoSecret: in no part of the stream and of a diff is there a
// secret, a path of the machine, or a character that acts.
func TestDashboardShowsNoSecret(t *testing.T) {
	b := newBoard(t, mcpserver.HTTPOptions{})
	key := strings.Join([]string{"AKIA", "QZ7RTN4WMXJ2KVHD"}, "")
	html := `<img src=x onerror="document.title='owned'">`
	b.write(html, "x")
	b.write("bidi\u202etxt.exe\u200b", "a\x1b[2J"+html+"\nkey "+key+"\n")
	row := b.write("bidi\u202etxt.exe\u200b", "b\nkey none\n")
	_, err := b.store.SafeWrite(rw.WithGate(context.Background(), rw.GateOfAgents), rw.SafeWriteRequest{Path: "conf.env", Content: []byte(key), Call: rw.Call{Caller: "evil\x07\u2066"}})
	require(t, err != nil, "not refused")
	message := b.follow()("conf.env")
	_, _, diff := b.ask("/diff", map[string]any{"row": row})
	expect(t, strings.Contains(diff, `key {AWS-ACCESS-KEY-ID-REDACTED}`) && strings.Contains(diff, "⟨U+001B⟩") &&
		strings.Contains(message, "bidi⟨U+202E⟩txt") && strings.Contains(message, "looks like a secret"), "%s\n%s", message, diff)
	for _, text := range []string{message, diff} {
		expect(t, !strings.Contains(text, key) && !strings.Contains(text, key[4:]) && !strings.Contains(text, b.dir) && !strings.Contains(text, b.token),
			"it shows too much: %s", text)
		v := testbed.Decoded[any](t, []byte(text))
		for _, r := range fmt.Sprint(v) {
			expect(t, !unicode.In(r, unicode.Cc, unicode.Cf), "%U is in %s", r, text)
		}
	}
}

// TestDashboardOfManyEvents: a thousand commits are a few messages, each with
// the present and of bounded size; a reader that takes nothing holds up neither
// them nor the others nor the end.
func TestDashboardOfManyEvents(t *testing.T) {
	t.Parallel()
	b := newBoard(t, mcpserver.HTTPOptions{MaxStreams: 2})
	conn := must(net.Dial("tcp", b.addr))(t)
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(1)
	fmt.Fprintf(conn, "GET /events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", b.addr, b.token)
	// It counts as a stream once it is answered.
	must(io.ReadFull(conn, make([]byte, len("HTTP/1.1 200"))))(t)
	next := b.follow()
	next(`"rows":0`)
	res, err := http.DefaultClient.Do(b.request("GET", "/events", ""))
	expect(t, err == nil && res.StatusCode == 503, "a third stream: %v %+v", err, res)
	began := time.Now()
	for i := range 1000 {
		b.write(fmt.Sprintf("%s/%d.txt", strings.Repeat("d", 200), i%50), fmt.Sprint(i))
	}
	messages, size := 0, 0
	for last := ""; !strings.Contains(last, `"rows":1000`); messages++ {
		last = next("")
		size = max(size, len(last))
	}
	most := int(time.Since(began)/(300*time.Millisecond)) + 2
	expect(t, messages <= most && size <= 64<<10, "%d messages, %d at most; the longest has %d bytes", messages, most, size)
	stopped := time.Now()
	err = b.stop()
	expect(t, err == nil && time.Since(stopped) <= 30*time.Second, "%v after %v", err, time.Since(stopped))
}

// pipes are a listener without buffers: what is not read is not written.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestDashboardGivesUpOnWhoReadsNothing: the stream is disconnected, and until
// then it holds up no writer.
func TestDashboardGivesUpOnWhoReadsNothing(t *testing.T) {
	t.Parallel()
	b := newBoard(t, mcpserver.HTTPOptions{})
	l := make(pipes, 1)
	other := &board{t: t, dir: b.dir}
	other.serve(nil, l, mcpserver.HTTPOptions{WriteTimeout: 500 * time.Millisecond})
	mine, theirs := net.Pipe()
	defer mine.Close()
	l <- theirs
	fmt.Fprintf(mine, "GET /events HTTP/1.1\r\nHost: 127.0.0.1:1\r\nAuthorization: Bearer %s\r\n\r\n", other.token)
	for i := range 1000 { // nothing is read meanwhile
		b.write("a.txt", fmt.Sprint(i))
	}
	for limit := time.Now().Add(30 * time.Second); ; { // a write to a connection that is closed fails
		mine.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := mine.Write([]byte("x")); err == io.ErrClosedPipe {
			break
		}
		require(t, !time.Now().After(limit), "the connection stays")
	}
}

// TestDashboardOfAServerThatOnlyReads undoes nothing, and says so.
func TestDashboardOfAServerThatOnlyReads(t *testing.T) {
	b := newBoard(t, mcpserver.HTTPOptions{})
	row := b.write("a.txt", "one\n")
	other := &board{t: t, dir: b.dir}
	other.serve(nil, must(net.Listen("tcp", "127.0.0.1:0"))(t), mcpserver.HTTPOptions{})
	status, got, _ := other.ask("/undo", map[string]any{"row": row})
	expect(t, status == 403 && got["reason"] == "store_read_only", "%d %v", status, got)
	data := other.follow()("a.txt")
	expect(t, bytes.Contains([]byte(data), []byte(`"undo":false`)), "%s", data)
}

var pictures = flag.Bool("pictures", false, "write the pictures in docs again")

// aDay lets agents work in a store: changes, a refusal, and all that can wait.
func (b *board) aDay() {
	b.t.Helper()
	ctx := rw.WithGate(ctx, rw.GateOfAgents)
	b.write("src/checkout.go", "package shop\n\nfunc Checkout(c Cart) error {\n\treturn charge(c.Total())\n}\n")
	b.write("README.md", "# Shop\n")
	b.write("src/checkout.go", "package shop\n\nfunc Checkout(c Cart) error {\n\tif c.Empty() {\n\t\treturn errEmpty\n\t}\n\treturn charge(c.Total())\n}\n")
	_, err := b.store.Delete(ctx, rw.DeleteRequest{Path: "README.md"})
	require(b.t, err == nil, "%v", err)
	key := strings.Join([]string{"AKIA", "QZ7RTN4WMXJ2KVHD"}, "")
	_, err = b.store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "deploy/prod.env", Content: []byte("key=" + key + "\n")})
	require(b.t, err != nil, "not refused")
	must(b.store.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "catalogue", Content: []byte("1")}))(b.t)
	if _, err := b.store.HandoffWrite(ctx, handoff.WriteRequest{Envelope: handoff.Envelope{
		TaskID: "payments", Status: handoff.Blocked, Agent: "coder", Summary: "s", OpenQuestions: []string{"Which currency?"}, NextSteps: []string{}, LastGoodState: []handoff.File{},
	}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *board) address() string { return "http://" + b.addr + "/#" + b.token }

// press tabs to the element that a selector finds, with the keyboard alone.
func press(p *browser.Page, selector string) {
	for range 80 {
		p.Key("Tab")
		if p.Eval(fmt.Sprintf("document.activeElement.matches(%q)", selector)) == true {
			p.Key("Enter")
			return
		}
	}
	p.Wait(fmt.Sprintf("document.activeElement.matches(%q)", selector))
}

// TestDashboardInABrowser: at two widths, light and dark, everything is there,
// nothing overflows, nothing is complained of; and with the keyboard alone a
// person opens a diff, thinks better of an undo, undoes, and sees it.
func TestDashboardInABrowser(t *testing.T) {
	t.Parallel()
	browser.Path(t)
	for _, view := range browser.Views() {
		t.Run(view.String(), func(t *testing.T) {
			t.Parallel()
			b := newBoard(t, mcpserver.HTTPOptions{})
			long := strings.Repeat("long-name-", 20) + ".txt"
			b.write(long, "x\n")
			b.aDay()
			row := b.write("src/checkout.go", "package shop\n")
			p := browser.Open(t, view.Wide, map[int]int{1280: 1000, 390: 1400}[view.Wide], view.Dark)
			p.Go(b.address())
			p.Wait("document.querySelector('#changes li')")
			text := fmt.Sprint(p.Eval("document.body.innerText"))
			testbed.Contains(t, text, "Live. ", "src/checkout.go", "gone", "a refused draft of deploy/prod.env", "risk_blocked", "what looks like a secret: api_key", "catalogue, chunks: 1", "Which currency?", long)
			fits := "document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('li, pre, button, dialog[open]')].every(e => e.getBoundingClientRect().right <= innerWidth)"
			expect(t, p.Eval(fits) == true && p.Eval("getComputedStyle(document.body).backgroundColor") == view.Ground(),
				"it overflows, or %v", p.Eval("getComputedStyle(document.body).backgroundColor"))
			press(p, `#changes li:first-child button[aria-expanded]`)
			p.Wait("[...document.querySelectorAll('#changes pre .cut')].some(e => e.textContent.includes('-func Checkout'))")
			if *pictures {
				b.picture(p, "dashboard-"+strings.ReplaceAll(view.String(), " ", "-")+".png")
			}
			b.write("src/other.go", "package shop\n") // what comes in takes neither the focus nor the diff away
			p.Wait("document.querySelector('#changes li').innerText.includes('src/other.go')")
			expect(t, p.Eval("document.activeElement.matches('#changes li:nth-child(2) button[aria-expanded=true]') && !!document.querySelector('#changes li:nth-child(2) pre')") == true, "the focus is on %v", p.Eval("document.activeElement.outerHTML"))
			undo := fmt.Sprintf(`button[aria-label^="Undo row %d,"]`, row)
			press(p, undo)
			p.Wait("document.querySelector('dialog[open] pre') && !document.getElementById('confirm-yes').disabled && document.activeElement.id === 'confirm-no'")
			equal(t, p.Eval(fits), true, "the dialog overflows")
			p.Key("Escape")
			p.Wait("!document.querySelector('dialog[open]')")
			b.holds("src/checkout.go", "package shop\n")
			equal(t, p.Eval(fmt.Sprintf("document.activeElement.matches(%q)", undo)), true, "the focus does not come back")
			p.Key("Enter")
			p.Wait("document.querySelector('dialog[open] pre') && !document.getElementById('confirm-yes').disabled")
			press(p, "#confirm-yes")
			p.Wait("!document.querySelector('dialog[open]') && document.querySelector('#changes').innerText.includes('undone')")
			data, _ := os.ReadFile(filepath.Join(b.dir, "src/checkout.go"))
			expect(t, strings.Contains(string(data), "errEmpty"), "it is %q", data)
			equal(t, p.Console(), "", "the console")
		})
	}
}

// picture keeps what is seen, for docs.
func (b *board) picture(p *browser.Page, name string) {
	p.Eval("scrollTo(0, 0)")
	dir := filepath.Join("..", "docs", "pictures")
	noErr(b.t, os.MkdirAll(dir, 0o777))
	noErr(b.t, os.WriteFile(filepath.Join(dir, name), p.Shot(), 0o666))
}

// TestDashboardAttackedInABrowser: markup in names and contents stays text, the
// address without the token shows nothing, and a page of another origin can
// neither read, nor undo, nor frame it, even with the token.
func TestDashboardAttackedInABrowser(t *testing.T) {
	t.Parallel()
	browser.Path(t)
	b := newBoard(t, mcpserver.HTTPOptions{})
	evil := `<img src=x onerror="document.title='owned'"><script>document.title='owned'<` + `/script>`
	name := strings.ReplaceAll(evil, "/", "\u2044")
	b.write(name, evil+"\n")
	row := b.write(name, evil+evil+"\n")
	p := browser.Open(t, 1280, 900, false)
	p.Go(b.address())
	p.Wait("document.querySelector('#changes li')")
	press(p, "#changes button[aria-expanded]")
	p.Wait("document.querySelector('#changes pre .add')")
	expect(t, p.Eval("document.title") == "resilient-write" && p.Eval("document.querySelectorAll('img, li script, iframe').length") == 0.0 && p.Console() == "",
		"%v %s", p.Eval("document.title"), p.Console())
	equal[any](t, p.Eval("document.querySelector('#changes pre .add').textContent"), "+"+evil+evil, "it shows")
	equal(t, p.Eval(`(() => { try { document.body.innerHTML = "<b>x</b>"; return "taken" } catch (e) { return e.name } })()`), "TypeError", "markup is")
	for _, fragment := range []string{"", "#wrong-token-wrong-token"} {
		p.Go("about:blank")
		p.Go("http://" + b.addr + "/" + fragment)
		p.Wait("document.body?.innerText.includes('missing or wrong')")
		text := fmt.Sprint(p.Eval("document.body.innerText"))
		expect(t, !strings.Contains(text, "onerror"), "%s", text)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<iframe id=f src="http://%s/"></iframe>`, b.addr)
	}))
	defer other.Close()
	p.Go(other.URL)
	p.Wait("document.getElementById('f')")
	for _, attack := range []string{
		`fetch("http://%[1]s/events", {headers: {Authorization: "Bearer %[2]s"}}).then(r => "read", e => e.name)`,
		`fetch("http://%[1]s/undo", {method: "POST", headers: {Authorization: "Bearer %[2]s", "Content-Type": "application/json"}, body: '{"row":%[3]d}'}).then(r => "done", e => e.name)`,
		`fetch("http://%[1]s/").then(r => "read", e => e.name)`,
	} {
		equal(t, p.Eval(fmt.Sprintf(attack, b.addr, b.token, row)), "TypeError", attack)
	}
	p.Wait(`(() => { try { return document.getElementById("f").contentWindow.document === null } catch (e) { return true } })()`)
	b.holds(name, evil+evil+"\n")
}

// TestColorsAreThoseOfTheReport, whose contrasts are tested there; and the page of the
// dashboard is whole: its policy names its own script and style.
func TestColorsAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	res := must(http.Get("http://" + newBoard(t, mcpserver.HTTPOptions{}).addr))(t)
	defer res.Body.Close()
	page := string(must(io.ReadAll(res.Body))(t))
	part := func(tag string) string {
		_, text, _ := strings.Cut(page, "<"+tag+">")
		text, _, _ = strings.Cut(text, "</"+tag+">")
		sum := sha256.Sum256([]byte(text))
		expect(t, strings.Contains(res.Header.Get("Content-Security-Policy"), tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'"),
			"the policy does not name the %s of the page", tag)
		return text
	}
	themes := func(css string) [][]string {
		var list [][]string
		for _, block := range regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(css, -1) {
			list = append(list, regexp.MustCompile(`--[a-z0-9-]+: #[0-9a-f]{6};`).FindAllString(block[1], -1))
		}
		return list
	}
	style := part("style")
	theirs, mine := themes(string(must(os.ReadFile("../report/page.css"))(t))), themes(style)
	mustEqual(t, len(mine), 2, "themes")
	for i, theme := range mine {
		for _, color := range theme {
			expect(t, len(theme) >= 10 && slices.Contains(theirs[i], color), "theme %d: %s", i, color)
		}
	}
	for _, m := range regexp.MustCompile(`var\((--[a-z0-9-]+)\)`).FindAllStringSubmatch(style, -1) {
		expect(t, strings.Contains(strings.Join(mine[0], ""), m[1]+":"), "no theme has %s", m[1])
	}
	script := part("script")
	expect(t, !strings.Contains(page, "((s") && !strings.Contains(script, "innerHTML") && !strings.Contains(script, "eval("), "the page is not whole")
}
