package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
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
			t.Errorf("%.80q: the ping behind it is not answered", c.line)
		case c.id == none && len(got) > 0 && !strings.Contains(c.line, "tools/call"):
			for _, g := range got {
				if !strings.HasPrefix(g, "9 ") && !strings.HasPrefix(g, "10 ") {
					t.Errorf("%.80q is answered: %v", c.line, got)
				}
			}
		case c.id != none && !strings.Contains(strings.Join(got, ","), want) && !strings.Contains(late, want) && !anyHas(byPing, want):
			t.Errorf("%.80q: got %v, want %s", c.line, got, want)
		}
	}
}

func anyHas(all map[string][]string, want string) bool {
	for _, list := range all {
		for _, one := range list {
			if one == want {
				return true
			}
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
		if got[id] != 3 {
			t.Errorf("%s: %d replies; all: %v", id, got[id], got)
		}
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
	if len(lines) != 2 || !strings.Contains(lines[0], `"path":"a"`) || !strings.Contains(lines[1], `"path":"b"`) {
		t.Errorf("%v", lines)
	}
}

// TestALineThatIsTooLongIsAnsweredUnderItsID: wherever clients write the id,
// in front of the content or behind it; an id inside of the content is none.
func TestALineThatIsTooLongIsAnsweredUnderItsID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 32<<20)
	params := `"params":{"name":"rw_safe_write","arguments":{"id":98,"path":"a","content":"` + long + `\"id\":97}"}}`
	in := `{"jsonrpc":"2.0","id":"front","method":"tools/call",` + params + "}\n" +
		`{"method":"tools/call",` + params + `,"jsonrpc":"2.0","id":4711}` + "\n" +
		`{"method":"tools/call",` + params + `,"jsonrpc":"2.0"}` + "\n" +
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`
	lines := talk(t, in)
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	if !strings.Contains(lines[0], "smaller parts") {
		t.Errorf("no way out: %.500s", lines[0])
	}
	for i, want := range []string{`"id":"front","error":{"code":-32600`, `"id":4711,"error":{"code":-32600`, `"id":null,"error":{"code":-32600`, `"id":1,"result"`} {
		if !strings.Contains(lines[i], want) || len(lines[i]) > 1000 {
			t.Errorf("line %d: %.300s", i, lines[i])
		}
	}
}
