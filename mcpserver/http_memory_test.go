package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// TestSessionsKeepLittle: what 100 clients say of themselves, as much as a
// request may hold, and addresses as long, leave little in memory for as long
// as the sessions last.
func TestSessionsKeepLittle(t *testing.T) {
	const clients, each = 40, 64 << 10
	s := newSite(t, mcpserver.HTTPOptions{})
	huge := strings.Repeat("n", 130<<10)
	extra, _ := json.Marshal(map[string]any{"x": strings.Repeat("[1,2,3]", 20<<10)})
	begin := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"experimental":{"a":%s},"extensions":{"b":%s},"elicitation":{}},`+
		`"clientInfo":{"name":%q,"version":%q,"title":%q,"description":%q,"websiteUrl":%q,"icons":[{"src":"data:,x"}]}}}`, extra, extra, huge, huge, huge, huge, huge[:1<<10])
	if len(begin) > 1<<20 {
		t.Fatal(len(begin))
	}
	heap := func() uint64 {
		s.http.CloseIdleConnections()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s.initialize("warm")
	before := heap()
	var sessions []string
	for range clients {
		res, body := s.do(s.request("POST", "/mcp", begin))
		id := res.Header.Get("Mcp-Session-Id")
		if res.StatusCode != 200 || id == "" {
			t.Fatalf("%d %.200s", res.StatusCode, body)
		}
		sessions = append(sessions, id)
	}
	for _, id := range sessions { // the sessions live, and each was told of addresses
		for i := range 3 {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"rw://file/%d%s"}}`, i, strings.Repeat("p", 300<<10))
			res, reply := s.do(s.request("POST", "/mcp", body, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-06-18"))
			if res.StatusCode != 200 || !strings.Contains(reply, `"error"`) {
				t.Fatalf("%d %.200s", res.StatusCode, reply)
			}
		}
	}
	if after := heap(); after > before+clients*each {
		t.Errorf("each of %d sessions keeps %d bytes", clients, (after-before)/clients)
	} else {
		t.Logf("each of %d sessions keeps %d bytes", clients, max(int64(after)-int64(before), 0)/clients)
	}
	doc := s.doc(sessions[0], "rw_safe_write", `{"path":"a","content":"x"}`)
	if receipt, _ := doc["receipt"].(map[string]any); receipt["caller"] != huge[:200] {
		t.Errorf("%.300v", doc)
	}
}
