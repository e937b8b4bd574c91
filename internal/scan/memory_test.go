package scan

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

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
		least := uint64(1 << 62) // the race detector makes a pool forget now and then
		for range 8 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s.Score(text, Options{})
			runtime.ReadMemStats(&after)
			least = min(least, after.TotalAlloc-before.TotalAlloc)
		}
		if t.Logf("%s: %d bytes for a scan of %d", c.name, least, len(text)); least > c.each {
			t.Errorf("%s: %d bytes for a scan of %d, want at most %d", c.name, least, len(text), c.each)
		}
	}
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
			least := uint64(1 << 62)
			for i := 0; i < 4 && least > 2; i++ {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				s.Score(text, Options{})
				runtime.ReadMemStats(&after)
				least = min(least, after.Mallocs-before.Mallocs)
			}
			testbed.Expect(t, least <= 2, "%s, %d bytes: %d allocations, want at most 2", name, size, least)
		}
	}
}
