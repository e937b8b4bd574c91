package jsontext

import (
	"fmt"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestMembers(t *testing.T) {
	for doc, want := range map[string]string{
		`{"b": 1, "a\u0062": {"x":"<"}}`: `[{b 1} {ab {"x":"<"}}] true`,
		` { } `:                          `[] true`,
		`[]`:                             `[] false`,
		`{"a":1`:                         `[] false`,
		`{"a":}`:                         `[] false`,
		`{"a":1} 2`:                      `[] false`,
		`{"a":1}]`:                       `[] false`,
	} {
		list, err := Members([]byte(doc))
		var shown []string
		for _, m := range list {
			shown = append(shown, fmt.Sprintf("{%s %s}", m.Name, m.Value))
		}
		testbed.Equal(t, fmt.Sprint(shown, err == nil), want, doc)
	}
}

func TestEncode(t *testing.T) {
	got, err := Encode(map[string]string{"a": "<&>"}, "  ")
	testbed.Expect(t, string(got) == "{\n  \"a\": \"<&>\"\n}\n" && err == nil, "%q %v", got, err)
}
