package scan

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// A text that is there whole and one that comes in pieces have the findings of
// one that is scanned at once, wherever the borders of blocks are.
func TestBordersOfBlocks(t *testing.T) {
	const block = 16 << 10
	s := scanner(t)
	list := func(r Report) (all []string) {
		for _, f := range r.Findings {
			all = append(all, fmt.Sprintf("%s %d-%d line %d column %d %s %s", f.Pattern, f.Start, f.End, f.Line, f.Column, f.Confidence, f.DecodedFrom))
		}
		return all
	}
	for i, make := range []func(seed uint64) string{
		func(n uint64) string { return expand("ghp_{an 30}{crc}", n) },
		func(n uint64) string { return expand("DB_PASSWORD={an 20};", n) },
		func(n uint64) string { return expand("DATADOG_API_KEY = \"{hex 32}\"", n) },
		func(n uint64) string {
			return expand("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n", n)
		},
		func(n uint64) string { return expand("AKIA{b32 6}\\\n{b32 10}", n) },
		func(n uint64) string { return expand("日本 <k>glpat-{an 20}</k>", n) },
		func(n uint64) string { return "\n" + dumped(expand("ghp_{an 30}{crc}", n), "%08x: ", 2, "  ", "\n") },
		func(n uint64) string { return b64(expand("token=ghp_{an 30}{crc} and more", n)) },
	} {
		hit := make(1)
		for at := 2 - len(hit); at <= 2; at += max(1, len(hit)/11) {
			var b bytes.Buffer
			b.WriteString(prose(block + at))
			b.WriteString(" " + hit + " ")
			// Later blocks begin after a block and a window.
			b.WriteString(prose(block + Window - b.Len() + at))
			b.WriteString("\n" + make(2) + "\n")
			b.WriteString(prose(2*block + Window - b.Len() + at))
			b.WriteString("(" + make(3) + ")")
			b.WriteString(prose(block + 2*Window))
			want := list(s.Score(b.Bytes(), Options{}))
			testbed.Require(t, len(want) >= 3, "%d: found %q in one piece", i, want)
			whole := s.NewStream(Options{})
			whole.block = block
			whole.whole(b.Bytes())
			got := list(whole.Report())
			testbed.Expect(t, slices.Equal(got, want), "%q at %d: whole\n%q, want\n%q", hit, at, got, want)
			for _, size := range []int{1<<20 + 1, 4099, 61} {
				st := s.NewStream(Options{})
				st.block = block
				for piece := range slices.Chunk(b.Bytes(), size) {
					st.Write(piece)
				}
				got := list(st.Report())
				testbed.Expect(t, slices.Equal(got, want), "%q at %d: in pieces of %d bytes\n%q, want\n%q", hit, at, size, got, want)
			}
		}
	}
}
