package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzMessageLinear: finding the end of a message and its id, reading it as
// stdio and HTTP do, and answering it takes work in proportion to its length.
func FuzzMessageLinear(f *testing.F) {
	store, err := rw.Open(context.Background(), f.TempDir(), &rw.Options{Sync: rw.SyncOff})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { store.Close(context.Background()) })
	s := New(store, nil)
	web, err := NewHTTP(s, nil)
	if err != nil {
		f.Fatal(err)
	}
	loop := newStdioLoop(context.Background(), s, newStdioSession(), io.Discard)
	seeds := []string{`"id":#,`, `"params":{`, `{"id":`, `"method":"x",`, `{"jsonrpc":"2.0","id":#,"method":"ping"}` + "\n", `"_meta":{"k#":1},`}
	testbed.FuzzLinear(f, 16<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		piece := string(text)
		for in := bufio.NewReader(bytes.NewReader(text)); ; {
			line, err := loop.line(in)
			if parseMessage(line); err != nil {
				break
			}
		}
		idAtFront(text)
		idAtEnd(text)
		for _, doc := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rw_describe","arguments":{` + piece + `"z":1}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + piece + `"name":"rw_describe","arguments":{}}}`,
			`{"jsonrpc":"2.0",` + piece + `"id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":[` + piece + `1],"method":"ping"}`,
		} {
			if m, wrong := parseMessage([]byte(doc)); wrong == nil {
				idOf(m.id)
			}
			r := httptest.NewRequest("POST", "/mcp", nil)
			web.parse(r, &posted{raw: []byte(doc)})
			store.ResetTask(context.Background())
			Handle(context.Background(), s, []byte(doc))
		}
		return 0
	})
}
