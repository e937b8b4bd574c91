package scan

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzRedactLinear: redacting takes work in proportion to the text, however
// much of it is replaced.
func FuzzRedactLinear(f *testing.F) {
	s, err := New(nil)
	if err != nil {
		f.Fatal(err)
	}
	key := expand("AKIA{up 16}", 1)
	seeds := []string{key + " ", key + "\n", "a@b.de ", "{EMAIL-REDACTED}", "password=abc# ", "\u200b", "Bearer ", "-----BEGIN "}
	testbed.FuzzLinear(f, 32<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		_, spans := s.Redact(text, Options{})
		return len(spans)
	})
}
