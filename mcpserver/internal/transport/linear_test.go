package transport

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzMessageLinear: finding the end of a message and its id, reading it as
// stdio and HTTP do, and answering it takes work in proportion to its length.
func FuzzMessageLinear(f *testing.F) {
	s := testServer()
	s.AddTool(mcp.NewTool("look"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args, _ := Arguments(ctx)
		return mcp.NewToolResultText(string(args)), nil
	})
	web := testbed.Must(s.NewHTTP(nil))(f)
	loop := testbed.Must(s.newLoop(context.Background(), io.Discard))(f)
	f.Cleanup(func() { loop.close() })
	seeds := []string{`"id":#,`, `"params":{`, `{"id":`, `"method":"x",`, `{"jsonrpc":"2.0","id":#,"method":"ping"}` + "\n", `"_meta":{"k#":1},`}
	testbed.FuzzLinear(f, 16<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		piece := string(text)
		for in := bufio.NewReader(bytes.NewReader(text)); ; {
			line, err := loop.line(in)
			if parse(line); err != nil {
				break
			}
		}
		idAtFront(text)
		idAtEnd(text)
		for _, doc := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{` + piece + `"z":1}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + piece + `"name":"look","arguments":{}}}`,
			`{"jsonrpc":"2.0",` + piece + `"id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":[` + piece + `1],"method":"ping"}`,
		} {
			if m, wrong := parse([]byte(doc)); wrong == nil {
				idOf(m.ID)
			}
			r := httptest.NewRequest("POST", "/mcp", nil)
			web.parse(r, &posted{raw: []byte(doc)})
			s.Handle(context.Background(), []byte(doc))
		}
		return 0
	})
}
