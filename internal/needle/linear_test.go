package needle_test

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/needle"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: making a needle of a text, and finding and overwriting one in a
// text, as text, as JSON and as a stream, takes work in proportion to their
// length.
func FuzzLinear(f *testing.F) {
	seeds := []string{"k3y-Sample", "k3y-Sample9", `"k3y-Sample9",`, `"k#":"\u006b3y-Sample9",`, `\\k3y-Sample9`, "azN5LVNhbXBsZTk=", "k3y-Sample", "\\\\", `"\`, "k3y-Samplk3y-Sample9"}
	n, err := needle.New([]byte("k3y-Sample9"))
	if err != nil {
		f.Fatal(err)
	}
	testbed.FuzzLinear(f, 16<<10, 2*time.Microsecond, seeds, func(text []byte) int {
		spans := len(n.Find(text))
		n.Mask(text)
		n.In(bytes.NewReader(text))
		for _, doc := range []string{strconv.Quote(string(text)), "[" + string(text) + "0]", "{" + string(text) + `"z":1}`} {
			n.MaskJSON([]byte(doc), nil)
			n.MaskJSON([]byte(doc), func(field string) bool { return field == "a" })
		}
		if own, err := needle.New(text); err == nil {
			own.Within(text)
		}
		return spans
	})
}
