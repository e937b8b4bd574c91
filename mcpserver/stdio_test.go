package mcpserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/edit"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// talk sends lines to a server of its own and returns its lines.
func talk(t *testing.T, in string) []string {
	t.Helper()
	var out strings.Builder
	noErr(t, mcpserver.ServeStdio(ctx, mcpserver.New(openStore(t), full), strings.NewReader(in), &out))
	text := strings.TrimSuffix(out.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// TestEveryBadMessageIsAnsweredUnderItsID: what is no message gets an error of
// the protocol under the id that it has, a notification gets nothing, and the
// connection goes on.
func TestEveryBadMessageIsAnsweredUnderItsID(t *testing.T) {
	t.Parallel()
	const none = ""
	cases := []struct{ line, id, code string }{
		{`{"jsonrpc":"2.0","id":1,"method":5}`, `1`, `-32600`},
		{`{"jsonrpc":2,"id":2,"method":"ping"}`, `2`, `-32600`},
		{`{"id":"three","method":"ping"}`, `"three"`, `-32600`},
		{`{"jsonrpc":"2.0","id":4}`, `4`, `-32600`},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, `null`, `-32600`},
		{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, `null`, `-32600`},
		{`{}`, `null`, `-32600`},
		{`[]`, `null`, `-32600`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`, `null`, `-32600`},
		{`null`, `null`, `-32600`},
		{`"x"`, `null`, `-32600`},
		{`17`, `null`, `-32600`},
		{"\x00\x00", `null`, `-32700`},
		{`{"jsonrpc":"2.0","id":5,"method":"ping"}` + "\x00", `5`, `-32700`},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"rw_re`, `6`, `-32700`},
		{`{"jsonrpc":"2.0","method":"tools/call","params":{"id":99,"arguments":{"id":98}},"id":7`, `7`, `-32700`},
		{`{"jsonrpc":"2.0","method":"tools/call","params":{"id":99,"arguments":{"id":98`, `null`, `-32700`},
		{`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, `8`, `-32700`},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[]}`, `9`, `-32600`},
		{`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":7}}`, `10`, `-32600`},
		{`{"jsonrpc":"2.0","id":11,"method":"no/such"}`, `11`, `-32601`},
		{`{"jsonrpc":"2.0","id":12,"method":"notifications/cancelled","params":{"requestId":1}}`, `12`, `-32601`},
		{`{"jsonrpc":"2.0","method":"no/such"}`, none, none},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`, none, none},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":1}}}`, none, none},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, none, none},
		{`{"jsonrpc":"2.0","id":"rw-ask-1","result":7}`, none, none},
		{"   \r", none, none},
	}
	in := "\ufeff" // some shells begin with a byte order mark
	for i, c := range cases {
		in += fmt.Sprintf("%s\n"+`{"jsonrpc":"2.0","id":"after %d","method":"ping"}`+"\r\n", c.line, i)
	}
	byPing := map[string][]string{} // what came since the ping before
	var since []string
	for _, line := range talk(t, in) {
		var m struct {
			ID    json.RawMessage
			Error *struct{ Code json.RawMessage }
		}
		noErr(t, json.Unmarshal([]byte(line), &m), line)
		if strings.HasPrefix(string(m.ID), `"after `) {
			byPing[string(m.ID)], since = since, nil
			continue
		}
		if m.Error == nil {
			t.Errorf("no error: %s", line)
			continue
		}
		since = append(since, string(m.ID)+" "+string(m.Error.Code))
	}
	late := strings.Join(since, ",") // calls of tools are answered when they are done
	for i, c := range cases {
		got, ok := byPing[fmt.Sprintf(`"after %d"`, i)]
		want := c.id + " " + c.code
		switch {
		case !ok:
			t.Errorf("%.80q: the ping after it is not answered", c.line)
		case c.id == none && len(got) > 0 && !strings.Contains(c.line, "tools/call"):
			for _, g := range got {
				expect(t, strings.HasPrefix(g, "9 ") || strings.HasPrefix(g, "10 "), "%.80q is answered: %v", c.line, got)
			}
		case c.id != none && !strings.Contains(strings.Join(got, ","), want) && !strings.Contains(late, want) && !anyHas(byPing, want):
			t.Errorf("%.80q: got %v, want %s", c.line, got, want)
		}
	}
}

func anyHas(all map[string][]string, want string) bool {
	for _, list := range all {
		if slices.Contains(list, want) {
			return true
		}
	}
	return false
}

// TestRepliesCarryTheNumberThatCame: a number that no float64 holds comes back
// to the digit, for every kind of request.
func TestRepliesCarryTheNumberThatCame(t *testing.T) {
	t.Parallel()
	ids := []string{`9007199254740993`, `1763736000123456789`, `99999999999999999999999`, `-9007199254740995`, `1.5`, `0`, `"9007199254740993"`}
	in := ""
	for _, id := range ids {
		in += `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` + "\n" +
			`{"jsonrpc":"2.0","id":` + id + `,"method":"no/such"}` + "\n" +
			`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"rw_validate","arguments":{"content":"{}"}}}` + "\n"
	}
	got := map[string]int{}
	for _, line := range talk(t, in) {
		var m struct{ ID json.RawMessage }
		json.Unmarshal([]byte(line), &m)
		got[string(m.ID)]++
	}
	for _, id := range ids {
		expect(t, got[id] == 3, "%s: %d replies; all: %v", id, got[id], got)
	}
}

// TestOneIDTwiceIsAnsweredTwice: a client that uses an id again has both of
// its calls done and answered.
func TestOneIDTwiceIsAnsweredTwice(t *testing.T) {
	t.Parallel()
	in := ""
	for _, path := range []string{"a", "b"} {
		in += `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":"` + path + `","content":"x"}}}` + "\n"
	}
	lines := talk(t, in)
	expect(t, len(lines) == 2 && strings.Contains(lines[0], `"path":"a"`) && strings.Contains(lines[1], `"path":"b"`), "%v", lines)
}

// TestALineThatIsTooLongIsAnsweredUnderItsID: wherever clients write the id,
// before the content or after it; an id inside of the content is no id.
func TestALineThatIsTooLongIsAnsweredUnderItsID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 32<<20)
	params := `"params":{"name":"rw_safe_write","arguments":{"id":98,"path":"a","content":"` + long + `\"id\":97}"}}`
	in := `{"jsonrpc":"2.0","id":"front","method":"tools/call",` + params + "}\n" +
		`{"method":"tools/call",` + params + `,"jsonrpc":"2.0","id":4711}` + "\n" +
		`{"method":"tools/call",` + params + `,"jsonrpc":"2.0"}` + "\n" +
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`
	lines := talk(t, in)
	mustEqual(t, len(lines), 4, "lines")
	expect(t, strings.Contains(lines[0], "smaller parts"), "no way out: %.500s", lines[0])
	for i, want := range []string{`"id":"front","error":{"code":-32600`, `"id":4711,"error":{"code":-32600`, `"id":null,"error":{"code":-32600`, `"id":1,"result"`} {
		expect(t, strings.Contains(lines[i], want) && len(lines[i]) <= 1000, "line %d: %.300s", i, lines[i])
	}
}

// jsonOf is a value as JSON has it.
func jsonOf(t testing.TB, v any) (m map[string]any) {
	t.Helper()
	m = must(asMap(v))(t)
	return m
}

// hanging adds a read-only tool whose calls with hang set wait for the end of
// their context, or for a user when ask is set.
func hanging(s *server.MCPServer) (inside chan string) {
	inside = make(chan string, 10000)
	s.AddTool(mcp.NewTool("look", mcp.WithReadOnlyHintAnnotation(true)), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		switch how := req.GetString("how", ""); how {
		case "hang":
			inside <- how
			<-ctx.Done()
		case "ask":
			inside <- how
			_, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: "may I?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}})
			return mcp.NewToolResultText(fmt.Sprint(err == nil)), nil
		}
		return mcp.NewToolResultText("seen"), nil
	})
	return inside
}

func (w *wire) ping(id string) {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","id":%q,"method":"ping"}`, id)
}

// TestCallsThatHangHideNoLaterMessage: with 64 calls sent at once, the first
// 16 of which hang and hold every place that reading calls have, what comes
// after it is still read: a ping is answered, and cancellations free the places.
func TestCallsThatHangHideNoLaterMessage(t *testing.T) {
	s := mcpserver.New(openStore(t), full)
	inside := hanging(s)
	w := connectTo(t, s).initialize(`{}`)
	for i := range 64 {
		how := "look"
		if i < 16 {
			how = "hang"
		}
		w.call("look", map[string]any{"how": how})
		if i < 16 {
			soon(t, inside, "a call begins") // so that these have the places
		}
	}
	w.ping("p")
	if m := w.read(); m["id"] != "p" { // no other call can be answered now
		t.Fatalf("%v", m)
	}
	w.cancel(64) // one that waits
	w.cancel(1)  // one that hangs: its place is free for the others
	seen := map[any]bool{}
	for range 64 - 16 - 1 {
		m := w.read()
		seen[m["id"]] = true
		expect(t, strings.Contains(fmt.Sprint(m["result"]), "seen"), "%v", m)
	}
	expect(t, !seen[float64(64)] && !seen[float64(1)] && len(seen) == 47, "answered: %v", seen)
	for i := range 15 {
		w.cancel(i + 2)
	}
	w.ping("end")
	if m := w.read(); m["id"] != "end" { // canceled calls are not answered
		t.Errorf("%v", m)
	}
}

// TestReadingCallsThatAskHideNoAnswers: 40 read-only calls of the host wait for
// the user at once, and give their places away meanwhile; the later answers
// them are heard.
func TestReadingCallsThatAskHideNoAnswers(t *testing.T) {
	s := mcpserver.New(openStore(t), full)
	hanging(s)
	w := connectTo(t, s).initialize(`{"elicitation":{}}`)
	for range 40 {
		w.call("look", map[string]any{"how": "ask"})
	}
	w.call("look", map[string]any{})
	var asked []string
	for answered := 0; len(asked)+answered < 41; {
		if m := w.read(); m["method"] == "elicitation/create" {
			asked = append(asked, m["id"].(string))
		} else if answered++; m["id"] != float64(41) {
			t.Errorf("%v", m)
		}
	}
	for _, id := range asked {
		w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{}}}`, id)
	}
	for range 40 {
		m := w.read()
		expect(t, strings.Contains(fmt.Sprint(m["result"]), "true"), "%v", m)
	}
}

// TestAFloodAfterAHangingWriteIsRefused: a client that sends thousands of
// calls after one that hangs is refused, call by call, and can still cancel
// the one: nothing is lost silently, and what was taken is answered.
func TestAFloodAfterAHangingWriteIsRefused(t *testing.T) {
	testbed.SkipIf(t, testing.Short(), "waits two seconds for a queue that does not move")
	t.Parallel()
	s := mcpserver.New(openStore(t), &mcpserver.Options{Tier: mcpserver.Full, CallsPerSecond: -1})
	inside := make(chan string, 1)
	s.AddTool(mcp.NewTool("change"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.GetString("how", "") == "hang" {
			inside <- "hang"
			<-ctx.Done()
		}
		return mcp.NewToolResultText("changed"), nil
	})
	w := connectTo(t, s).initialize(`{}`)
	w.call("change", map[string]any{"how": "hang"})
	soon(t, inside, "the first call begins")
	const flood = 1500
	for range flood {
		w.call("change", map[string]any{})
	}
	w.ping("p")
	refused := 0
	for {
		m := w.read()
		if m["id"] == "p" {
			break
		}
		refused++
		res, _ := m["result"].(map[string]any)
		require(t, res["isError"] == true && reasonOf(t, res) == "rate_limited", "%v", m)
	}
	equal(t, refused, flood-1023, "calls were refused")
	w.cancel(1)
	for i := range flood - refused {
		m := w.read()
		require(t, m["id"] == float64(2+i) && strings.Contains(fmt.Sprint(m["result"]), "changed"), "reply %d: %v", i, m)
	}
	res := w.result(w.call("change", map[string]any{}))
	expect(t, strings.Contains(fmt.Sprint(res), "changed"), "the call after it: %v", res)
}

// TestGateSeesEditsInEveryEncoding: a secret is refused in whatever encoding it
// would be written.
func TestGateSeesEditsInEveryEncoding(t *testing.T) {
	s, _, dir := briefServer(t, &mcpserver.Options{CallsPerSecond: -1})
	secret := "AKIA" + strings.ToUpper("qwertyuiopas2345")
	for _, name := range edit.Encodings() {
		text := "key = x\n"
		switch name {
		case "utf-16le":
			text = "\xff\xfek\x00=\x00x\x00\n\x00"
		case "utf-16be":
			text = "\xfe\xff\x00k\x00=\x00x\x00\n"
		}
		file := filepath.Join(dir, name+".txt")
		noErr(t, os.WriteFile(file, []byte(text), 0o644))
		reply, isError, _ := briefly(t, s, "rw_edit", fmt.Sprintf(`{"path":"%s.txt","edits":[{"old":"x","new":%q}],"encoding":%[1]q}`, name, secret))
		now, _ := os.ReadFile(file)
		expect(t, isError && is(t, reply, "error") == "blocked" && string(now) == text, "%s: %s, and the file is %q", name, reply, now)
	}
}

// TestEncodingsOfTheSchema: the schema admits what the editor knows.
func TestEncodingsOfTheSchema(t *testing.T) {
	enum := func(v any) []string {
		f, _ := reflect.TypeOf(v).FieldByName("Encoding")
		return schema.Words(f.Tag.Get("enum"))
	}
	list := edit.Encodings()
	got := enum(rw.EditRequest{})
	expect(t, slices.Equal(got, list), "%v, want %v", got, list)
	got = enum(rw.TxOp{})
	expect(t, slices.Equal(got, slices.Insert(list, 1, "base64")), "%v", got)
}

// TestReadInTheEncodingOfTheFile reads files that are not UTF-8 page by page over
// the wire: the pages are the text, and base64 gives the bytes. Where the encoding
// is not known the refusal asks for it.
func TestReadInTheEncodingOfTheFile(t *testing.T) {
	t.Parallel()
	s, _, dir := briefServer(t, &mcpserver.Options{CallsPerSecond: -1})
	read := func(t *testing.T, args map[string]any) (map[string]any, bool) {
		t.Helper()
		doc := must(json.Marshal(args))(t)
		text, isError, _ := briefly(t, s, "rw_read", string(doc))
		expect(t, len(text) <= 26<<10, "a page of %d bytes", len(text))
		reply := testbed.Decoded[map[string]any](t, []byte(text))
		return reply, isError
	}
	for _, c := range []struct {
		name, line string
		encode     func(string) (string, error)
		asks       bool
	}{
		{"iso-8859-1", "%05d: Größe, für später geändert\r\n", charmap.ISO8859_1.NewEncoder().String, false},
		{"windows-1252", "%05d: It’s “quoted” – 5 €\n", charmap.Windows1252.NewEncoder().String, false},
		{"gbk", "%05d: 配置文件，请不要修改这一行的内容\n", simplifiedchinese.GBK.NewEncoder().String, false},
		{"shift_jis", "%05d: 設定ファイルです。表示の能力を変えるための項目\n", japanese.ShiftJIS.NewEncoder().String, false},
		{"utf-16le", "%05d: <名前>x</名前>\r\n", unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewEncoder().String, false},
		{"windows-1251", "%05d: порт и адрес\n", charmap.Windows1251.NewEncoder().String, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := ""
			for i := range 2500 {
				want += fmt.Sprintf(c.line, i)
			}
			raw := must(c.encode(want))(t)
			path := c.name + ".txt"
			noErr(t, os.WriteFile(filepath.Join(dir, path), []byte(raw), 0o644))
			args := map[string]any{"path": path}
			if c.asks {
				reply, isError := read(t, args)
				about, _ := reply["context"].(map[string]any)
				hint, _ := about["hint"].(string)
				require(t, isError && about["reason"] == "not_valid_utf8" && strings.Contains(hint, "base64") && reply["content"] == nil, "%v", reply)
				args["encoding"] = c.name
			}
			got, pages, line := "", 0, 1.0
			for more := true; more; pages++ {
				reply, isError := read(t, args)
				require(t, !isError && reply["encoding"] == c.name && reply["bytes"] == float64(len(raw)) && reply["first_line"] == line,
					"page %d: %.300v", pages, reply)
				got, line = got+reply["content"].(string), reply["last_line"].(float64)+1
				if more = reply["truncated"].(bool); more {
					head, err := c.encode(got)
					require(t, err == nil && reply["next_offset"] == float64(len(head)), "page %d goes on at %v, not at %d", pages, reply["next_offset"], len(head))
				}
				args["offset"] = reply["next_offset"]
			}
			require(t, got == want && pages >= 3, "%d pages, %d bytes of %d", pages, len(got), len(want))
			reply, isError := read(t, map[string]any{"path": path, "encoding": "base64", "max_bytes": 64})
			data, err := base64.StdEncoding.DecodeString(reply["content"].(string))
			expect(t, !isError && err == nil && string(data) == raw[:64] && reply["encoding"] == "base64", "%v", reply)
			reply, isError = read(t, map[string]any{"path": path, "encoding": c.name, "max_bytes": 40, "offset": 3})
			back, err := c.encode(reply["content"].(string))
			expect(t, !isError && err == nil && len(back) <= 42 && strings.Contains(raw, strings.TrimPrefix(back, "\xff\xfe")), "a piece: %v", reply)
		})
	}
	reply, isError := read(t, map[string]any{"path": "gbk.txt", "encoding": "latin-9"})
	expect(t, isError && reply["suggested_action"] == "fix_call", "an encoding that there is not: %v", reply)
}
