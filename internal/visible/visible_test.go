package visible

import (
	"strings"
	"testing"
	"unicode"
)

// TestEveryRune: what stays has a category of its own to be seen by; every
// control, format, private and unassigned character goes, in both forms.
func TestEveryRune(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		hidden := unicode.In(r, unicode.C, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Bidi_Control, unicode.Join_Control)
		if got := Rune(r); got && hidden {
			t.Fatalf("%U stays", r)
		}
		want := strings.ToValidUTF8(string(r), "?")
		if !Rune(r) {
			want = "?"
		}
		if got := Line(string(r), '?'); got != want && r != 0xfffd && (r < 0xd800 || r > 0xdfff) {
			t.Fatalf("%U became %q", r, got)
		}
	}
	for _, r := range "\u115f\u1160\u3164\uffa0\u034f\u2800\ufe0f\U000e0041\u2028\u0085\u009b\x7f\x1b\u202e\u2066\u200b\ufeff\u00ad" {
		if Rune(r) {
			t.Errorf("%U stays", r)
		}
	}
	for _, r := range "aé漢\u3000\u0301€👩~ " {
		if !Rune(r) {
			t.Errorf("%U goes", r)
		}
	}
	if got := Text("a\tb\nc\rd", '?'); got != "a\tb\nc?d" {
		t.Errorf("%q", got)
	}
}
