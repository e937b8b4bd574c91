package staged

import (
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestObject: an id that no transaction has leads to no other directory.
func TestObject(t *testing.T) {
	for id, valid := range map[string]bool{
		"tx_7oia306b60f31f0d4e4-1": true, "tx_" + strings.Repeat("a", 80): true, "tx_" + strings.Repeat("a", 81): false,
		"": false, "tx_": false, "a": false, "7oia-1": false, "tx_../x": false, "tx_a/b": false, "tx_A": false, "tx_a\x00": false, "..": false, "tx_.": false,
	} {
		want := "tx/tx_none/"
		if valid {
			want = "tx/" + id + "/"
		}
		testbed.Equal(t, Object(id, 0), want+"begin.json")
		testbed.Equal(t, Object(id, 12), want+"op-00012.json")
		testbed.Equal(t, IndexOf(Object(id, 12)), 12)
	}
}
