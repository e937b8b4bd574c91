package scan

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

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
	testbed.Expect(t, dear <= 1.1 && cheap >= 1.2, "decoded %.2f of names, %.2f of prose, for each byte of the text", dear, cheap)
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

// A scan takes over the memory of the one before: what a text costs does not
// grow with its length, nor with what is found in it beyond what is listed.
func TestScansShareTheirMemory(t *testing.T) {
	s := scanner(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would take what is idle
	for _, c := range []struct {
		name, piece string
		each        uint64 // bytes for a scan, at most
	}{
		{"words", "some words and an identifier here\n", 8 << 10},
		{"secrets", "LDAP_BIND_PASSWORD=GHl9hkdcz0mE\n", 600 << 10},
		{"addresses", "a@b.co", 600 << 10},
	} {
		text := []byte(strings.Repeat(c.piece, (128<<10)/len(c.piece)))
		s.Score(text, Options{})
		_, least := leastSpent(8, 0, func() { s.Score(text, Options{}) }) // the race detector makes a pool forget now and then
		if t.Logf("%s: %d bytes for a scan of %d", c.name, least, len(text)); least > c.each {
			t.Errorf("%s: %d bytes for a scan of %d, want at most %d", c.name, least, len(text), c.each)
		}
	}
}

// leastSpent is the least memory that work allocates in some rounds, which end early
// with enough few allocations.
func leastSpent(rounds int, enough uint64, work func()) (allocations, bytes uint64) {
	allocations, bytes = math.MaxUint64, math.MaxUint64
	for i := 0; i < rounds && allocations > enough; i++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		work()
		runtime.ReadMemStats(&after)
		allocations, bytes = min(allocations, after.Mallocs-before.Mallocs), min(bytes, after.TotalAlloc-before.TotalAlloc)
	}
	return allocations, bytes
}

// What one scan leaves in memory is not found by the next.
func TestScansDoNotMix(t *testing.T) {
	s := scanner(t)
	key := expand("ghp_{an 30}{crc}", 6)
	texts := []string{"k: " + key, b64("token=" + key), wide("a: " + key + " b"), key[:16] + "\n" + key[16:], "nothing here", "", "a@b.co " + strings.Repeat("x ", 40)}
	want := map[string]string{}
	for _, text := range texts {
		fresh := testbed.Must(New(&Policy{}))(t)
		want[text] = describeAll(fresh, text)
	}
	for round := range 3 {
		for _, before := range texts {
			for _, text := range texts {
				s.Score([]byte(before), Options{})
				if got := describeAll(s, text); got != want[text] {
					t.Fatalf("round %d: %q after %q, alone %q", round, got, before[:min(len(before), 8)], want[text])
				}
			}
		}
	}
}

func describeAll(s *Scanner, text string) string {
	t := s.newText([]byte(text))
	defer t.free()
	return describe(t.findings())
}

// A scan of clean text takes two allocations at most: one for what is found, and
// one for the rest of the report.
func TestCleanTextTakesTwoAllocations(t *testing.T) {
	testbed.SkipIf(t, testbed.RaceDetector, "the race detector makes a pool forget now and then")
	s := scanner(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would take what is idle
	for name, piece := range map[string]string{
		"words": prose(700), "address": prose(300_000) + " jane.doe@acme.io\n", "base64": expand("{b64 76}", 1) + "\n" + expand("{b64 76}", 2) + "\n",
		"sums": "acme.io/a v1.2.3 h1:" + expand("{b64 43}", 3) + "=\n", "minified": `function a(e,t){return e.b&&t("c")||{key:e.token,a:[1,2]}};`, "dotted": "see MimesOfTwentyFourLetters.New and LongNamesOfTwentyThreeX. ", "other letters": "ключ слово é\u00a0 ",
	} {
		for _, size := range []int{1 << 10, 100 << 10, 3 << 20} {
			text := []byte(strings.Repeat(piece, size/len(piece)+1)[:size])
			s.Score(text, Options{})
			least, _ := leastSpent(4, 2, func() { s.Score(text, Options{}) })
			testbed.Expect(t, least <= 2, "%s, %d bytes: %d allocations, want at most 2", name, size, least)
		}
	}
}

// randomText is n bytes, of which many are part of a keyword.
func randomText(rng *rand.Rand, words []slot, n int) []byte {
	var b []byte
	for len(b) < n {
		switch rng.IntN(3) {
		case 0:
			b = append(b, anyCase(words[rng.IntN(len(words))].text, rng)...)
		case 1:
			b = append(b, byte(rng.IntN(256)))
		default:
			b = append(b, byte(' '+rng.IntN(0x5f)))
		}
	}
	return b[:n]
}

// checkSIMD compares what both implementations say of a text.
func checkSIMD(t *testing.T, f *prefilter, b []byte) {
	t.Helper()
	n := len(b) / 64
	got, want := make([]lanes, n), make([]lanes, n)
	lanesIn(b, got)
	lanesPortable(b, want)
	testbed.Require(t, slices.Equal(got, want), "%q: lanes %x, want %x", b, got, want)
	if f.buckets == nil {
		return
	}
	if n = (len(b) - 3) / 64; n <= 0 {
		return
	}
	places, all := make([]uint64, n), make([]uint64, n)
	f.buckets.places(b, places)
	f.buckets.placesPortable(b, all)
	testbed.Require(t, slices.Equal(places, all), "%q: places %x, want %x", b, places, all)
}

func TestSIMD(t *testing.T) {
	s, rng := scanner(t), rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		checkSIMD(t, s.anywhere, randomText(rng, s.anywhere.slots, rng.IntN(400)))
	}
	var b []byte
	for c := range 256 {
		b = append(b, bytes.Repeat([]byte{byte(c)}, 65)...)
	}
	checkSIMD(t, s.anywhere, b)
}

func FuzzSIMD(f *testing.F) {
	s := scanner(f)
	f.Add(bytes.Repeat([]byte("token=\xff\n "), 20))
	f.Fuzz(func(t *testing.T, b []byte) { checkSIMD(t, s.anywhere, b) })
}

// A text that is there whole and one that comes in pieces have the findings of
// one that is scanned at once, wherever the borders of blocks are.
func TestBordersOfBlocks(t *testing.T) {
	const block = 16 << 10
	s := scanner(t)
	for i, make := range testbed.Share(t, []func(seed uint64) string{
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
	}, 3, nil) {
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
			want := placesOf(s.Score(b.Bytes(), Options{}))
			testbed.Require(t, len(want) >= 3, "%d: found %q in one piece", i, want)
			whole := s.NewStream(Options{})
			whole.block = block
			whole.whole(b.Bytes())
			got := placesOf(whole.Report())
			testbed.Expect(t, slices.Equal(got, want), "%q at %d: whole\n%q, want\n%q", hit, at, got, want)
			for _, size := range []int{1<<20 + 1, 4099, 61} {
				st := s.NewStream(Options{})
				st.block = block
				for piece := range slices.Chunk(b.Bytes(), size) {
					st.Write(piece)
				}
				got := placesOf(st.Report())
				testbed.Expect(t, slices.Equal(got, want), "%q at %d: in pieces of %d bytes\n%q, want\n%q", hit, at, size, got, want)
			}
		}
	}
}

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
