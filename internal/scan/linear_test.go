package scan

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzRedactLinear: redacting a text and a name, and looking for placeholders,
// takes work in proportion to the text, however much of it is replaced.
func FuzzRedactLinear(f *testing.F) {
	s := testbed.Must(New(nil))(f)
	key := expand("AKIA{up 16}", 1)
	seeds := []string{key + " ", key + "\n", key + "\n … !\x16", "a@b.de ", "{EMAIL-REDACTED}", "password=abc# ", "\u200b", "Bearer ", "-----BEGIN "}
	testbed.FuzzLinear(f, 32<<10, 40*time.Microsecond, seeds, func(text []byte) int {
		_, spans := s.Redact(text, Options{})
		s.RedactName(string(text), Options{})
		s.Score(text, Options{Placeholders: true})
		return len(spans)
	})
}
