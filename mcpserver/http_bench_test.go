package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// BenchmarkTransports writes one file again and again, at the durability that
// costs nothing, so that what is left is the way to the store and back.
func BenchmarkTransports(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KiB", 1 << 10}, {"1MiB", 1 << 20}} {
		ways := map[string]func(*site) caller{
			"handle": func(s *site) caller {
				return func(_ int, tool string, args any) map[string]any {
					data, _ := json.Marshal(args)
					doc, _ := reply(s.t, s.mcp, tool, data)
					var out map[string]any
					json.Unmarshal(doc, &out)
					return out
				}
			},
			"stdio":   (*site).stdioCaller,
			"session": func(s *site) caller { return s.sessionCaller("bench") },
			"modern":  func(s *site) caller { return s.modernCaller("bench") },
			"sse":     (*site).sseCaller,
		}
		for _, way := range []string{"handle", "stdio", "session", "modern", "sse"} {
			b.Run(size.name+"/"+way, func(b *testing.B) {
				s := newSite(b, mcpserver.HTTPOptions{SSE: true})
				call := ways[way](s)
				text := strings.Repeat("0123456789abcde\n", size.bytes/16)
				b.SetBytes(int64(size.bytes))
				for i := 0; b.Loop(); i++ {
					got := call(i, "rw_safe_write", map[string]any{"path": "f", "content": fmt.Sprintf("%016d", i) + text[16:], "mode": "overwrite"})
					if got["ok"] != true {
						b.Fatal(got)
					}
				}
			})
		}
	}
}
