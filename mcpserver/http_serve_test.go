package mcpserver_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// TestHTTPSlowClients: who sends slowly, or sends nothing, is let go; an idle
// stream is not. What is not on trial has all the time, so that nobody is let
// go because the machine is slow.
func TestHTTPSlowClients(t *testing.T) {
	header := newSite(t, mcpserver.HTTPOptions{HeaderTimeout: 200 * time.Millisecond})
	body := newSite(t, mcpserver.HTTPOptions{HeaderTimeout: time.Hour, BodyTimeout: 200 * time.Millisecond, Heartbeat: 50 * time.Millisecond, SSE: true})
	stream := body.open(body.request("GET", "/sse", ""))
	post := stream.next(t)
	head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
	auth := "Authorization: Bearer " + body.token + "\r\n"
	for _, row := range []struct {
		name       string
		s          *site
		sent, want string
	}{
		{"slow header", header, head[:30], ""},
		{"silence", header, "", ""},
		{"endless header", body, head + strings.Repeat("X-More: "+strings.Repeat("x", 1000)+"\r\n", 100), "431 "},
		{"slow body", body, head + auth + "\r\n{", "408 "},
		{"slow body without a token", body, head + "\r\n{", "401 "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := must(net.Dial("tcp", row.s.addr))(t)
			defer c.Close()
			io.WriteString(c, row.sent)
			c.SetReadDeadline(time.Now().Add(httpPatience))
			// What was not read resets the connection, behind the reply.
			got, err := io.ReadAll(c)
			if errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(string(got), row.want) {
				t.Errorf("%v %q", err, got)
			}
		})
	}
	t.Cleanup(func() {
		eventually(t, "a message to the stream is taken", func() bool {
			status, _ := body.try(body.request("POST", post, `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			return status == 202
		})
		if data := stream.next(t); !strings.Contains(data, `"id":1`) {
			t.Errorf("the stream did not live through it: %s", data)
		}
		stream.cancel()
	})
}

// TestHTTPSlowReader: a client that does not read its reply does not keep the
// call for ever. Nor does any other client that the machine keeps from reading,
// so that each asks until it is answered.
func TestHTTPSlowReader(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{WriteTimeout: 200 * time.Millisecond, MaxInFlight: 1})
	save(t, s.store, "big", strings.Repeat("0123456789abcde\n", 400_000))
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+modernMeta+`,"name":"rw_read","arguments":{"path":"big","max_bytes":8000000}}}`, "slow")
	eventually(t, "the slow client gets the beginning of its reply", func() bool {
		c := must(net.Dial("tcp", s.addr))(t)
		t.Cleanup(func() { c.Close() }) // not before: it stays and does not read
		c.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: */*\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: rw_read\r\nContent-Length: %d\r\n\r\n%s", s.token, len(body), body)
		line, _ := bufio.NewReaderSize(c, 16).ReadString('\n')
		return strings.Contains(line, "200")
	})
	eventually(t, "the place of the slow call is free", func() bool {
		status, _ := s.try(s.modern(2, "m", "rw_describe", `{}`))
		return status == 200
	})
}

// TestHTTPTooManyAtATime: what is over a limit is told to come back, and
// everything works again afterwards.
func TestHTTPTooManyAtATime(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxInFlight: 3, MaxStreams: 2, SSE: true})
	running, release := s.addHold("hold")
	id := s.initialize("t")
	post, sse := s.openSSE()
	replies := make(chan string, 3)
	for i := range 2 {
		go func() {
			_, body := s.do(s.inSession(id, i, "hold", `{}`))
			replies <- body
		}()
		await(t, running, "running")
	}
	s.do(s.request("POST", post, callBody(9, "hold", `{}`)))
	await(t, running, "running")
	for name, r := range map[string]*http.Request{
		"a call":       s.inSession(id, 10, "rw_describe", `{}`),
		"modern":       s.modern(10, "m", "rw_describe", `{}`),
		"sse":          s.request("POST", post, callBody(10, "rw_describe", `{}`)),
		"a new client": s.request("POST", "/mcp", fmt.Sprintf(initBody, "x")),
	} {
		res, body := s.do(r)
		refused(t, name, res, body, 503)
		if res.Header.Get("Retry-After") == "" || !strings.Contains(body, "retry_later") {
			t.Errorf("%s: %s", name, body)
		}
	}
	stream := s.listen(id)
	for name, r := range map[string]*http.Request{
		"a stream": s.request("GET", "/mcp", "", "Mcp-Session-Id", id),
		"sse":      s.request("GET", "/sse", ""),
		"listen": s.request("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+modernMeta+`,"notifications":{}}}`, "m"),
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"),
	} {
		res, body := s.do(r)
		refused(t, name, res, body, 503)
	}
	release()
	for range 2 {
		if body := <-replies; !strings.Contains(body, `"ok":true`) {
			t.Error(body)
		}
	}
	sse.next(t)
	if got := s.result(s.inSession(id, 11, "rw_describe", `{}`)); got["ok"] != true {
		t.Error(got)
	}
	stream.cancel()
	eventually(t, "the stream's place is free", func() bool {
		res := must(s.http.Do(s.request("GET", "/sse", "")))(t)
		res.Body.Close()
		return res.StatusCode == 200
	})
}

// TestHTTPBodiesShareABudget: many long requests at a time do not use up the
// memory, also when they only announce to be long.
func TestHTTPBodiesShareABudget(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{MaxBody: 256 << 10})
	id := s.initialize("t")
	half := callBody(1, "rw_risk_score", `{"content":"`+strings.Repeat("x", 200<<10))
	var waiting []*io.PipeWriter
	replies := make(chan int, 32)
	full := false
	for range 32 {
		in, out := io.Pipe()
		r := s.request("POST", "/mcp", "", "Mcp-Session-Id", id)
		r.Body, r.ContentLength = in, -1
		go func() {
			res, err := s.http.Do(r)
			if err != nil {
				replies <- 0
				return
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			replies <- res.StatusCode
		}()
		waiting = append(waiting, out)
		go io.WriteString(out, half)
	}
	for !full {
		select {
		case code := <-replies:
			full = code == 503
			if !full && code != 0 { // 0 is one that was refused while it was sent
				t.Fatalf("%d", code)
			}
		case <-time.After(httpPatience):
			t.Fatal("32 bodies of 200 KiB are held where 2 MiB are allowed")
		}
	}
	for _, out := range waiting {
		out.CloseWithError(io.ErrUnexpectedEOF)
	}
	eventually(t, "the budget is free again", func() bool {
		status, _ := s.try(s.request("POST", "/mcp", half+`"}}}`, "Mcp-Session-Id", id))
		return status == 200
	})
}

// TestHTTPShutdown: a write that runs is finished and answered, streams end,
// nothing new is taken, and it does not take long.
func TestHTTPShutdown(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true, ShutdownTimeout: 5 * time.Minute})
	id := s.initialize("t")
	post, sse := s.openSSE()
	stream := s.listen(id)
	listen := s.open(s.request("POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+modernMeta+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["rw://journal"]}}}`, "m"),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"))

	entered, goOn := make(chan string, 64), make(chan struct{})
	disarm := failpoint.Arm(func(point string) {
		if point == "stage" {
			entered <- "in the middle"
			<-goOn
		}
	})
	defer disarm()
	var replies []chan string
	for _, r := range []*http.Request{s.inSession(id, 1, "rw_safe_write", `{"path":"a","content":"1"}`), s.modern(1, "m", "rw_safe_write", `{"path":"b","content":"2"}`)} {
		replies = append(replies, s.later(r))
		await(t, entered, "in the middle")
	}
	s.do(s.request("POST", post, callBody(5, "rw_safe_write", `{"path":"c","content":"3"}`)))
	await(t, entered, "in the middle")

	s.stop()
	stream.waitEnd(t)
	listen.waitEnd(t)
	eventually(t, "no new connection", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case err := <-s.done:
		t.Fatalf("Serve ended with %v while calls run", err)
	default:
	}
	disarm()
	close(goOn)
	for _, reply := range replies {
		if body := <-reply; !strings.Contains(body, `"ok":true`) {
			t.Errorf("a running write was answered with %s", body)
		}
	}
	if data := sse.next(t); !strings.Contains(data, `"ok":true`) {
		t.Errorf("over SSE: %s", data)
	}
	sse.waitEnd(t)
	err := <-s.done
	s.done <- err
	noErr(t, err)
	for _, name := range []string{"a", "b", "c"} {
		if got, _ := s.store.Read(ctx, rw.ReadRequest{Path: name}); got.Bytes != 1 {
			t.Errorf("%s was not written", name)
		}
	}
}

// TestHTTPShutdownIsBounded: what does not end by itself is canceled and told
// so, and what ignores that is left.
func TestHTTPShutdownIsBounded(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{ShutdownTimeout: 100 * time.Millisecond, SSE: true})
	running, _ := s.addHold("hold")
	post, _ := s.openSSE()
	reply := s.later(s.modern(1, "m", "hold", `{}`))
	await(t, running, "running")
	s.do(s.request("POST", post, callBody(5, "hold", `{}`)))
	await(t, running, "running")
	c, err := net.Dial("tcp", s.addr) // says nothing
	noErr(t, err)
	defer c.Close()
	s.stop()
	await(t, running, "canceled")
	await(t, running, "canceled")
	if got := <-reply; !strings.HasPrefix(got, "503") || !strings.Contains(got, "rw_operation") {
		t.Errorf("the canceled call was answered with %s", got)
	}
	select {
	case err := <-s.done:
		s.done <- err
	case <-time.After(httpPatience):
		t.Fatal("Serve does not end")
	}
}

// TestHTTPLeavesNothingBehind: fifty clients come and go, some properly and
// some not, and no goroutine stays.
func TestHTTPLeavesNothingBehind(t *testing.T) {
	s := newSite(t, mcpserver.HTTPOptions{SSE: true})
	s.asking()
	visit := func(i int) {
		id := s.initialize("t")
		stream := s.listen(id)
		s.result(s.inSession(id, 1, "rw_describe", `{}`))
		s.result(s.modern(1, "m", "rw_describe", `{}`))
		_, sse := s.openSSE()
		asks := s.open(s.inSession(id, 1, "ask", `{}`)) // and leaves while it is asked
		asks.next(t)
		if i%2 == 0 {
			s.do(s.request("DELETE", "/mcp", "", "Mcp-Session-Id", id))
		}
		asks.cancel()
		stream.cancel()
		sse.cancel()
	}
	visit(0)
	s.http.CloseIdleConnections()
	settled := func() int {
		n := runtime.NumGoroutine()
		for range 20 {
			time.Sleep(5 * time.Millisecond)
			n = min(n, runtime.NumGoroutine())
		}
		return n
	}
	before := settled()
	for i := range 50 {
		visit(i)
	}
	eventually(t, fmt.Sprintf("no more than %d goroutines", before), func() bool {
		s.http.CloseIdleConnections()
		return runtime.NumGoroutine() <= before+2
	})
}

// TestHTTPS: TLS of a version that is still good, HTTP/1.1 inside.
func TestHTTPS(t *testing.T) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	s := newSite(t, mcpserver.HTTPOptions{TLS: &tls.Config{MinVersion: tls.VersionTLS10, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}})
	roots := x509.NewCertPool()
	cert, _ := x509.ParseCertificate(der)
	roots.AddCert(cert)
	s.url = "https://" + s.addr
	s.http.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	id := s.initialize("t")
	res, body := s.do(s.request("POST", "/mcp", callBody(1, "rw_describe", `{}`), "Mcp-Session-Id", id, "Origin", s.url))
	if res.StatusCode != 200 || res.ProtoMajor != 1 || res.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%d %s %s", res.StatusCode, res.Proto, body)
	}
	// The same address without TLS is another origin.
	res, body = s.do(s.request("POST", "/mcp", "{}", "Origin", "http://"+s.addr))
	refused(t, "plain origin", res, body, 403)
	if _, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is still taken")
	}
}

// TestHTTPUnixSocket: the server answers on a unix socket, whatever name the
// client gives it.
func TestHTTPUnixSocket(t *testing.T) {
	dir := must(os.MkdirTemp("", "rws"))(t)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l := must(net.Listen("unix", path))(t)
	h := must(mcpserver.NewHTTP(mcpserver.New(openStore(t), full), &mcpserver.HTTPOptions{NoAuth: true}))(t)
	c, stop := contextWithCancel()
	done := make(chan error, 1)
	go func() { done <- h.Serve(c, l) }()
	s := &site{t: t, url: "http://whatever.example", http: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) },
	}}}
	id := s.initialize("t")
	if got := s.result(s.inSession(id, 1, "rw_describe", `{}`)); got["ok"] != true {
		t.Error(got)
	}
	stop()
	noErr(t, <-done)
}
