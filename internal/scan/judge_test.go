package scan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// judgedAlone is the verdict on a value that is in no text.
func judgedAlone(v []byte, quoted bool) verdict {
	var f facts
	f.measure(v, new([256]uint16))
	return f.judge(v, quoted)
}

// A verdict that is kept is that of the value as it was written: in quotes or
// without.
func TestKeptVerdicts(t *testing.T) {
	s := scanner(t)
	rng := rand.New(rand.NewPCG(9, 9))
	x := s.newText(nil)
	defer x.free()
	differ := 0
	for i := range 20_000 {
		v := []byte(expand([]string{"self.{lan 20}", "{low 6}_{low 5}_{num 2}", "{an 20}", "{hex 32}", "{low 9}{num 1}", "{low 4}-{num 2}-{low 5}"}[rng.IntN(6)], uint64(rng.IntN(200))))
		quoted := i%2 == 0
		want := judgedAlone(v, quoted)
		if judgedAlone(v, !quoted) != want {
			differ++
		}
		for _, q := range []bool{quoted, !quoted, quoted} {
			if got := x.judge(v, q); got != judgedAlone(v, q) {
				t.Fatalf("%q, quoted %v: %d, want %d", v, q, got, judgedAlone(v, q))
			}
		}
	}
	testbed.Expect(t, differ != 0, "quotes make no difference to any value")
	same := expand("conf.{lan 24}", 3)
	for _, text := range []string{"password = " + same + "\npassword = \"" + same + "\"\n", "password = \"" + same + "\"\npassword = " + same + "\n"} {
		r := s.Score([]byte(text), Options{})
		testbed.Expect(t, len(r.Findings) == 1, "%q: %d findings, want the one in quotes", text, len(r.Findings))
	}
}

// Literals that are joined may be escaped in part, with the escape cut by the
// joint, and more than one of them may be in a text.
func TestJoinedEscapes(t *testing.T) {
	s := scanner(t)
	for n := range 30 {
		token := expand("glpat-{an 20}", uint64(n))
		at := 1 + n%24
		c := token[at]
		for name, text := range map[string]string{
			"escape before the joint":  token[:at] + fmt.Sprintf(`\x%02x" + "`, c) + token[at+1:],
			"escape after the joint":   token[:at] + fmt.Sprintf(`" + "\x%02x`, c) + token[at+1:],
			"escape cut by the joint":  token[:at] + fmt.Sprintf(`%%%x" + "%x`, c>>4, c&15) + token[at+1:],
			"escape without a joint":   `a" + "b", "` + token[:at] + fmt.Sprintf(`\u%04x`, c) + token[at+1:],
			"joint without an escape":  `\u0041", "` + token[:at] + `" + "` + token[at:],
			"escaped quotes":           token[:at] + `\x22+\x22` + token[at:],
			"two joints, two escapes":  token[:2] + `" + "` + token[2 : at+1][:0] + token[2:6] + fmt.Sprintf(`\x%02x" + "`, token[6]) + token[7:10] + fmt.Sprintf(`\u%04x`, token[10]) + token[11:],
			"after a joint and escape": `a\x41" + "\x42c d", "` + token[:at] + fmt.Sprintf(`\x%02x`, c) + token[at+1:],
		} {
			text = prose(n) + "\nk(\"" + text + "\")\n"
			testbed.Equal(t, s.Score([]byte(text), Options{}).Verdict, VerdictHigh, name, " ", text)
		}
	}
}

// Text that looks like a dump is passed over, and does not hide what is in it.
func TestTextLikeDumps(t *testing.T) {
	s := scanner(t)
	var b strings.Builder
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range 400 {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "%08x: be ad de fa ce ed at last\n", i)
		case 1:
			fmt.Fprintf(&b, "2024010%d 0%d42 1203 beef face 12 34\n", i%10, i%10)
		case 2:
			fmt.Fprintf(&b, "deadbeef dead beef cafe %04x\n", rng.IntN(1<<16))
		case 3:
			fmt.Fprintf(&b, "00000000:\n00000010:  \n0000020 \n")
		default:
			fmt.Fprintf(&b, "%07x %04x %04x %04x\n", i*16, rng.IntN(1<<16), rng.IntN(1<<16), rng.IntN(1<<16))
		}
	}
	r := s.Score([]byte(b.String()), Options{})
	testbed.Expect(t, r.Verdict == VerdictSafe, "%s: %+v", r.Verdict, r.Findings)
	token := expand("ghp_{an 30}{crc}", 3)
	for n := range 60 {
		text := b.String()[:500+n] + "\n00000000: 4142 4344 " + token + "\n" + b.String()
		testbed.Equal(t, s.Score([]byte(text), Options{}).Verdict, VerdictHigh, "a token in the line of a dump after ", n, " bytes")
	}
}

// What is decoded around a confirmed finding is not looked at, as that finding is
// preferred; once it is redacted, nothing else may be left in the piece.
func TestPiecesWithAConfirmedFinding(t *testing.T) {
	s := scanner(t)
	for n := range 40 {
		plain, hidden := expand("ghp_{an 30}{crc}", uint64(n)), expand("glpat-{an 20}", uint64(n))
		at := 1 + n%20
		for name, piece := range map[string]string{
			"joined before":  hidden[:at] + `"+"` + hidden[at:] + `"+"` + plain,
			"joined after":   plain + `"+"` + hidden[:at] + `"+"` + hidden[at:],
			"escaped":        plain + "&" + hidden[:at] + fmt.Sprintf("%%%02x", hidden[at]) + hidden[at+1:],
			"hidden":         plain + ":" + hidden[:at] + "\u200b" + hidden[at:],
			"both":           plain + `"+"` + hidden[:at] + fmt.Sprintf(`\x%02x" + "`, hidden[at]) + hidden[at+1:],
			"joined, nested": b64("a " + plain + `"+"` + hidden[:at] + `"+"` + hidden[at:] + " b"),
		} {
			text := []byte(prose(n) + "\nk(\"" + piece + "\")\n" + prose(50))
			r := s.Score(text, Options{})
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Pattern == "ghp" && f.Confidence == Confirmed }) {
				t.Errorf("%s: %q: found %v", name, text, r.Findings)
			}
			clean, _ := s.Redact(text, Options{})
			if rest := s.Score(clean, Options{}); slices.ContainsFunc(rest.Findings, func(f Finding) bool { return f.Confidence == Confirmed }) {
				t.Errorf("%s: %q is left as %q, with %v", name, text, clean, rest.Findings)
			}
		}
	}
}
