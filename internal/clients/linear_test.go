package clients

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading the configuration of a client, and adding and removing an
// entry of it, takes work in proportion to its length.
func FuzzLinear(f *testing.F) {
	seeds := []string{`"k#":{"command":"c","args":["a"]},`, `{"a": … }`, "// c\n", "/* … */", `"a#":1,`, "[mcp_servers.s#]\ncommand = 'c'\n", "k# = 1\n", "- name: s#\n  command: c\n", "s#:\n  command: c\n", "\r\n", "[[ … ]]", begin + " … " + end}
	formats := map[Format]Client{}
	for _, c := range Table {
		formats[c.Format] = c
	}
	testbed.FuzzLinear(f, 4<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		for format, c := range formats {
			for _, doc := range []string{string(text), `{"mcpServers":{` + string(text) + `"z":{}}}`} {
				Read(format, doc)
				Set(format, doc, c.Edits(c.Files[0], setup))
				Unset(format, doc, Edit{At: c.At, Key: Server})
				c.Entries(doc)
			}
		}
		SetLines(string(text), "a\n")
		UnsetLines(string(text))
		return 0
	})
}
