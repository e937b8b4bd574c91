package scan

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// What all rules look at in decoded bytes counts by what that costs: of names of
// secrets that have no value that is no more than the text is long, of prose
// more. One piece, and pieces outside of archives that together are no longer
// than leastPlain and a share of the text, they look at whatever that costs.
func TestDecodingIsPaidFor(t *testing.T) {
	s := scanner(t)
	nested := func(unit string) []byte {
		var text []byte
		for n := 0; len(text) < 64<<10; n++ {
			inner := bytes.ReplaceAll([]byte(strings.Repeat(unit, 4)), []byte("-"), []byte("%2d"))
			text = append(append(text, base64.StdEncoding.EncodeToString(inner)...), '\n', '\n')
		}
		return text
	}
	decoded := func(text []byte) float64 {
		x := s.newText(text)
		defer x.free()
		x.findings()
		return float64(x.runs.full) / float64(len(text))
	}
	dear, cheap := decoded(nested("ALGOLIA_ADMIN_KEY=PODIO_API_KEY=password=token-")), decoded(nested("the-quick-brown-fox-jumps-over-the-lazy-dog "))
	if dear > 1.1 || cheap < 1.2 {
		t.Errorf("decoded %.2f of names, %.2f of prose, for each byte of the text", dear, cheap)
	}
	token := expand("glpat-{an 20}", 3)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(strings.Repeat("ALGOLIA_ADMIN_KEY=PODIO_API_KEY=password=token-", 60)))
	z.Close()
	decoys := strings.Repeat(base64.StdEncoding.EncodeToString(packed.Bytes())+"\n\n", 100)
	testbed.Expect(t, len(s.Score([]byte(decoys+base64.StdEncoding.EncodeToString([]byte(token+" and more"))), Options{}).Findings) != 0,
		"archives hide what is encoded after them")
	whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("ALGOLIA_ADMIN_KEY=PODIO_API_KEY=\n", 2000) + token))
	testbed.Expect(t, len(s.Score([]byte(whole), Options{}).Findings) != 0, "the end of one long piece was not scanned")
}

// A token is found after any number of names of secrets that are encoded like
// it: what costs much takes the other rules away from the bytes after it, not
// those of formats of their own.
func TestTokenAfterDenseText(t *testing.T) {
	s := scanner(t)
	token := expand("glpat-{an 20}", 3)
	dear := strings.Repeat("ALGOLIA_ADMIN_KEY=PODIO_API_KEY=password=token=", 4)
	for name, encoded := range map[string]func(string) string{
		"base64":  func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
		"hex":     func(v string) string { return hex.EncodeToString([]byte(v)) },
		"percent": func(v string) string { return strings.ReplaceAll(url.QueryEscape("%"+v), "_", "%5f") },
		"twice": func(v string) string {
			return base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString([]byte(v))))
		},
	} {
		var text strings.Builder
		for text.Len() < 256<<10 {
			text.WriteString(encoded(dear) + "\n\n# next\n\n")
		}
		text.WriteString(encoded("the token is "+strings.ReplaceAll(token, "-", "%2d")+strings.Repeat(" and more words", 40)) + "\n")
		r := s.Score([]byte(text.String()), Options{})
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Pattern == "gitlab_pat" }) {
			t.Errorf("%s: the token is not among %d findings %v", name, len(r.Findings), r.Families())
		}
	}
}

// A line that is no encoded text does not hide the next one, which is, though
// both could be lines of one piece.
func TestEncodedLineAfterAnother(t *testing.T) {
	s := scanner(t)
	token := expand("glpat-{an 20}", 3)
	plain := []byte("the token is " + token + " and so on")
	lines := map[string]string{"base64": base64.StdEncoding.EncodeToString(plain), "base64url": base64.RawURLEncoding.EncodeToString(plain), "hex": hex.EncodeToString(plain)}
	for name, line := range lines {
		for _, before := range []string{expand("{hex 64}", 1), expand("{an 60}", 2), expand("ion_{lan 50}", 4), hex.EncodeToString([]byte("a line of text that is cut after half")) + "6"} {
			text := strings.Repeat(before+"\n", 3) + line + "\n" + before + "\n"
			if r := s.Score([]byte(text), Options{}); !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Pattern == "gitlab_pat" }) {
				t.Errorf("%s after %q: %+v", name, before, r.Findings)
			}
		}
	}
}
