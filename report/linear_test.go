package report

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: comparing two versions for the page, and preparing the text of a
// stranger for it, takes work in proportion to its length.
func FuzzLinear(f *testing.F) {
	seeds := []string{"#\n", "a\nb\n", "x#\ny\n", "a#", "a\n#\n", "\u202e", "\x1b[0m", "\u200b"}
	testbed.FuzzLinear(f, 8<<10, 10*time.Microsecond, seeds, func(text []byte) int {
		c := NewComparer(func(s string) string { return s })
		half := len(text) / 2
		c.Compare(c.Text(text[:half]), c.Text(text[half:]))
		c.Compare(c.Text(text), c.Text(append(text[half:len(text):len(text)], text[:half]...)))
		Plain(string(text))
		middle(signs(string(text), true), 100)
		return 0
	})
}
