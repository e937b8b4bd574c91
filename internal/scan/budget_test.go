package scan

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"strings"
	"testing"
)

// What is decoded counts by what scanning it costs: of names of secrets that
// have no value no more is scanned than the text is long, of prose more. One piece, and pieces outside of archives that together are no longer
// than leastPlain and a quarter of the text, are scanned whatever they cost.
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
		return float64(len(text)-x.runs.floor) / float64(len(text))
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
	if r := s.Score([]byte(decoys+base64.StdEncoding.EncodeToString([]byte(token+" and more"))), Options{}); len(r.Findings) == 0 {
		t.Error("archives hide what is encoded after them")
	}
	whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("ALGOLIA_ADMIN_KEY=PODIO_API_KEY=\n", 2000) + token))
	if r := s.Score([]byte(whole), Options{}); len(r.Findings) == 0 {
		t.Error("the end of one long piece was not scanned")
	}
}
