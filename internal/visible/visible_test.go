package visible

import (
	"strings"
	"testing"
	"unicode"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestEveryRune: what stays has a category of its own to be seen by; every
// control, format, private and unassigned character goes, in both forms.
func TestEveryRune(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		hidden := unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Bidi_Control, unicode.Join_Control)
		testbed.Require(t, !Rune(r) || !hidden, "%U stays", r)
		want := strings.ToValidUTF8(string(r), "?")
		if !Rune(r) {
			want = "?"
		}
		got := Line(string(r), '?')
		testbed.Require(t, got == want || r == 0xfffd || r >= 0xd800 && r <= 0xdfff, "%U became %q", r, got)
	}
	for _, r := range "\u115f\u1160\u3164\uffa0\u034f\u2800\ufe0f\U000e0041\u2028\u0085\u009b\x7f\x1b\u202e\u2066\u200b\ufeff\u00ad" {
		testbed.Expect(t, !Rune(r), "%U stays", r)
	}
	for _, r := range "aé漢\u3000\u0301€👩~ " {
		testbed.Expect(t, Rune(r), "%U goes", r)
	}
	testbed.Equal(t, Text("a\tb\nc\rd", '?'), "a\tb\nc?d")
}
