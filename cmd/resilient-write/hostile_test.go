package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// wire is a connection to the built server, line by line.
type wire struct {
	t       *testing.T
	in      io.WriteCloser
	replies chan map[string]any
	early   map[any]map[string]any // replies that arrived before they were requested
	stop    func()                 // closes its input and waits for its end
}

// startStdio starts the command over stdio for a workspace.
func startStdio(t *testing.T, dir string) *wire {
	t.Helper()
	cmd := exec.Command(build(t), "serve", "-root", dir, "-sync", "off")
	in, out := must(cmd.StdinPipe())(t), must(cmd.StdoutPipe())(t)
	noErr(t, cmd.Start())
	w := &wire{t: t, in: in, replies: make(chan map[string]any, 64), early: map[any]map[string]any{}}
	w.stop = sync.OnceFunc(func() {
		in.Close()
		for range w.replies {
		}
		cmd.Wait()
	})
	t.Cleanup(w.stop)
	go func() {
		defer close(w.replies)
		lines := bufio.NewReaderSize(out, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			var doc map[string]any
			if json.Unmarshal(line, &doc) == nil && doc["id"] != nil {
				w.replies <- doc
			}
			if err != nil {
				return
			}
		}
	}()
	return w
}

func dial(t *testing.T, dir string) *wire {
	t.Helper()
	w := startStdio(t, dir)
	w.line(initialize)
	w.reply("init", 30*time.Second)
	w.line(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

func (w *wire) line(text string) {
	w.t.Helper()
	must(io.WriteString(w.in, text+"\n"))(w.t)
}

// call sends a call without waiting for its reply.
func (w *wire) call(id, tool, args string) {
	w.t.Helper()
	w.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args))
}

// reply returns the structured reply to a call.
func (w *wire) reply(id string, hang time.Duration) map[string]any {
	w.t.Helper()
	return structured(w.answer(id, hang))
}

// answer returns the reply to a message.
func (w *wire) answer(id any, hang time.Duration) map[string]any {
	w.t.Helper()
	late := time.After(hang)
	for {
		if doc := w.early[id]; doc != nil {
			delete(w.early, id)
			return doc
		}
		select {
		case doc, ok := <-w.replies:
			require(w.t, ok, "the server ended before it answered %v", id)
			w.early[doc["id"]] = doc
		case <-late:
			w.t.Fatalf("no reply to %v within %v", id, hang)
		}
	}
}

// many writes n times what item makes of a number, with commas.
func many(n int, item func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(item(i))
	}
	return b.String()
}

// repeated returns a list of one text, about size bytes.
func repeated(size int, text string) string {
	return strings.TrimSuffix(strings.Repeat(text+",", size/(len(text)+1)), ",")
}

// hostileCalls returns calls of about size bytes that a careless server takes
// long to decode, and the reasons for which they may be refused; "" means that
// the call may also succeed.
func hostileCalls(size int) []struct{ name, tool, args, reasons string } {
	member := func(i int) string { return fmt.Sprintf(`"k%07d":%d`, i, i%10) }
	members := many(size/12, member)
	unknown := many(4000, func(i int) string { return fmt.Sprintf(`"pat%d":1`, i) })
	deep := func(n int, open, shut string) string { return strings.Repeat(open, n) + strings.Repeat(shut, n) }
	envelope := `"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":[],"last_good_state":[]`
	return []struct{ name, tool, args, reasons string }{
		{"members", "rw_safe_write", `{"path":"h","content":"x",` + members + `}`, "too_large"},
		{"unknown", "rw_safe_write", `{"path":"h","content":"x",` + unknown + `}`, "unknown_argument"},
		{"long keys", "rw_safe_write", `{"path":"h","content":"x","` + strings.Repeat("a", size) + `":1}`, "unknown_argument"},
		{"escaped keys", "rw_safe_write", `{"path":"h","content":"x","` + strings.Repeat(`\u0061`, size/6) + `":1}`, "unknown_argument"},
		{"twice", "rw_safe_write", `{"path":"h",` + many(size/14, func(int) string { return `"content":"x"` }) + `}`, "invalid_argument"},
		{"escapes", "rw_safe_write", `{"path":"h","mode":"overwrite","content":"` + strings.Repeat(`\n`, size/2) + `"}`, ""},
		{"halves", "rw_safe_write", `{"path":"h","mode":"overwrite","content":"` + strings.Repeat(`\ud83d\ude00`, size/12) + `"}`, ""},
		{"number", "rw_read", `{"path":"h","offset":` + strings.Repeat("9", size) + `}`, "invalid_argument"},
		{"deep value", "rw_safe_write", `{"path":"h","content":` + deep(4000, "[", "]") + `}`, "invalid_argument"},
		{"deep text", "rw_safe_write", `{"path":"h.json","content":` + deep(9000, "[", "]") + `}`, "too_large"},
		{"wide and deep text", "rw_safe_write", `{"path":"h.json","content":` + strings.Repeat("[", 190) + repeated(size, "1") + strings.Repeat("]", 190) + `}`, "too_large"},
		{"wide text", "rw_safe_write", `{"path":"h.json","mode":"overwrite","content":{` + members + `}}`, ""},
		{"edits", "rw_edit", `{"path":"h","edits":[` + repeated(size, `{"old":"a","new":"b"}`) + `]}`, "too_large file_not_found old_string_not_found"},
		{"empty edits", "rw_edit", `{"path":"h","edits":[` + repeated(size, `{}`) + `]}`, "too_large invalid_argument"},
		{"operations", "rw_tx", `{"ops":[` + repeated(size, `{"op":"write","path":"h","content":""}`) + `]}`, "too_large invalid_argument"},
		{"directories", "rw_tx", `{"ops":[` + many(256, func(i int) string {
			return fmt.Sprintf(`{"op":"write","path":"d%d/%sf","content":""}`, i, strings.Repeat("e/", 50))
		}) + `]}`, "too_large"},
		{"checkpoint members", "rw_checkpoint", `{"name":"h","data":{` + members + `}}`, ""},
		{"checkpoint deep", "rw_checkpoint", `{"name":"h","data":` + deep(4000, `{"a":[`, `]}`) + `}`, "syntax_invalid"},
		{"steps", "rw_handoff_write", `{"envelope":{` + envelope[:strings.Index(envelope, `"next_steps"`)] + `"next_steps":[` + repeated(size, `"a"`) + `],"last_good_state":[]}}`, "too_large"},
		{"envelope members", "rw_handoff_write", `{"envelope":{` + envelope + `,` + members + `}}`, "too_large"},
		{"envelope, 4,000 members", "rw_handoff_write", `{"envelope":{` + envelope + `,` + many(4000, member) + `}}`, ""},
		{"graph", "rw_handoff_write", `{"envelope":{` + envelope + `,"dependency_graph":[` + many(size/60, func(i int) string {
			return fmt.Sprintf(`{"id":"s%d","description":"d","depends_on":["s%d"]}`, i, i+1)
		}) + `]}}`, "too_large unknown_step invalid_argument"},
	}
}

// TestHostileArgumentsBlockNoCall: ordinary mutations that follow a call of the
// size limit, of any shape, are answered, and the large call is either refused
// by name or carried out.
func TestHostileArgumentsBlockNoCall(t *testing.T) {
	t.Parallel()
	size := 1 << 20
	if testbed.Long() {
		size = 28 << 20 // a message may have 32 MiB, and members are a little longer
	}
	w := dial(t, t.TempDir())
	for i, row := range testbed.Share(t, hostileCalls(size), 3, nil) {
		id := fmt.Sprint("hostile ", i)
		w.call(id, row.tool, row.args)
		w.call("next", "rw_safe_write", fmt.Sprintf(`{"path":"ordinary","content":"%d","mode":"overwrite"}`, i))
		out := w.reply(id, hangLimit(size))
		got := reason(out)
		expect(t, (got != "" || row.reasons == "" && out["ok"] == true) && (got == "" || row.reasons == "" || strings.Contains(row.reasons, got)), "%s: %.300v", row.name, out)
		out = w.reply("next", hangLimit(size))
		require(t, out["ok"] == true, "%s: the next mutation: %.300v", row.name, out)
	}
}

// TestCanceledHostileCallsFreeTheLane: a call that is canceled is not answered,
// and the mutation after it is.
func TestCanceledHostileCallsFreeTheLane(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	w := dial(t, t.TempDir())
	for i, row := range testbed.Share(t, hostileCalls(size), 2, nil) {
		id := fmt.Sprint("hostile ", i)
		w.call(id, row.tool, row.args)
		w.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, id))
		w.call("next", "rw_safe_write", fmt.Sprintf(`{"path":"ordinary","content":"%d","mode":"overwrite"}`, i))
		out := w.reply("next", hangLimit(size))
		require(t, out["ok"] == true, "%s: the next mutation: %.300v", row.name, out)
	}
}

// TestHostileArgumentsOverHTTP: the same calls over HTTP, concurrently with an
// ordinary mutation of another session, and with the connection closed in the
// middle. No session waits for another one, and each reply equals that over
// stdio.
func TestHostileArgumentsOverHTTP(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	web := startHTTP(t, nil, "-transport", "http", "-token", identityToken)
	web.http.Timeout = hangLimit(size)
	hostile, ordinary := connectHTTP(t, web, "hostile"), connectHTTP(t, web, "ordinary")
	session := web.begin(identityToken)
	for i, row := range testbed.Share(t, hostileCalls(size), 3, nil) {
		ctx, hangUp := context.WithTimeout(context.Background(), time.Duration(i%7)*5*time.Millisecond)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			message := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, i, row.tool, row.args)
			web.postIn(ctx, identityToken, session, message)
		}()
		answered := make(chan map[string]any, 1)
		go func() { answered <- hostile.reply(row.tool, row.args) }()
		if out := ordinary.reply("rw_safe_write", fmt.Sprintf(`{"path":"ordinary","content":"%d","mode":"overwrite"}`, i)); out["ok"] != true {
			t.Fatalf("%s: the mutation beside it: %.300v", row.name, out)
		}
		out := <-answered
		got := reason(out)
		expect(t, (got != "" || row.reasons == "" && out["ok"] == true) && (got == "" || row.reasons == "" || strings.Contains(row.reasons, got)), "%s: %.300v", row.name, out)
		<-gone
		hangUp()
	}
}

// hangLimit returns ten times the usual duration of a call of this size.
func hangLimit(size int) time.Duration {
	return 10*time.Second + time.Duration(size)*10*time.Microsecond
}

// TestASlowPatternOfAShippedPolicyIsCanceled: a repository contains a policy
// whose expression makes the scan of a write take minutes. The call can be
// canceled, and the next write does not wait for it.
func TestASlowPatternOfAShippedPolicyIsCanceled(t *testing.T) {
	t.Parallel()
	dir := policyWorkspace(t, "extend_patterns: {own: [{name: slow, regex: '(?s)a.{0,480}a.{0,480}z|a'}]}\n", true)
	w := dial(t, dir)
	w.call("slow", "rw_safe_write", fmt.Sprintf(`{"path":"a.txt","content":%q}`, strings.Repeat("a", 1<<20)))
	w.call("seen", "rw_describe", `{}`)
	w.reply("seen", 30*time.Second)
	w.line(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}`)
	w.call("next", "rw_safe_write", `{"path":"b.txt","content":"text"}`)
	out := w.reply("next", 30*time.Second)
	expect(t, out["ok"] == true, "%v", out)
	_, err := os.Stat(filepath.Join(dir, "a.txt"))
	expect(t, os.IsNotExist(err), "the canceled write: %v", err)
}
