package jsontext

import (
	"fmt"
	"testing"
)

func TestMembers(t *testing.T) {
	for doc, want := range map[string]string{
		`{"b": 1, "a\u0062": {"x":"<"}}`: `[{b 1} {ab {"x":"<"}}] true`,
		` { } `:                          `[] true`,
		`[]`:                             `[] false`,
		`{"a":1`:                         `[] false`,
		`{"a":}`:                         `[] false`,
		`{"a":1} 2`:                      `[] false`,
	} {
		list, err := Members([]byte(doc))
		var shown []string
		for _, m := range list {
			shown = append(shown, fmt.Sprintf("{%s %s}", m.Name, m.Value))
		}
		if got := fmt.Sprint(shown, err == nil); got != want {
			t.Errorf("%s: %s, want %s", doc, got, want)
		}
	}
}

func TestEncode(t *testing.T) {
	if got, err := Encode(map[string]string{"a": "<&>"}, "  "); string(got) != "{\n  \"a\": \"<&>\"\n}\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}
