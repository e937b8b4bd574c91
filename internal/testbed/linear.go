package testbed

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cost is the work that one run did.
type Cost struct {
	Steps   uint64 // counted by the code itself, 0 if it counts none
	Objects uint64 // allocated
	Bytes   uint64 // allocated
}

// floor is the work that is too small to compare: tables and buffers that do
// not depend on the input.
var floor = Cost{Steps: 2000, Objects: 2000, Bytes: 512 << 10}

// Linear fails the test if the work of do grows faster than its input: by more than 2.5
// for each of two doublings of n. do gets the size of its input and returns the steps
// that the code counted, 0 if it counts none; allocations are counted here. A result
// that is too large is measured again with inputs of twice the size, because a limit
// that only one of the sizes exceeds makes one step, not a curve.
//
// Loops that neither count nor allocate have a limit of processor time: perByte is the
// maximum time per byte, and the largest input may take ten times as long. The least time of
// several runs counts: another load of the machine makes some of them slower. Under the race
// detector, which changes the counts, do runs once.
func Linear(t testing.TB, what string, n int, perByte time.Duration, do func(n int) (steps int)) {
	t.Helper()
	linear(t, what, n, perByte, slownessNow, do)
}

// linear is Linear on a machine of the given slowness.
func linear(t testing.TB, what string, n int, perByte time.Duration, slowness func() float64, do func(n int) (steps int)) {
	t.Helper()
	do(n) // tables that are made once
	if RaceDetector {
		return
	}
	for _, size := range []int{n, 2 * n} {
		var runs [3]Cost
		var took [3]time.Duration
		measure := func(times int) string {
			for i := range runs {
				for range times {
					began := processorTime()
					runs[i] = runs[i].least(costOf(func() int { return do(size << i) }))
					if used := processorTime() - began; took[i] == 0 || used < took[i] {
						took[i] = used
					}
				}
			}
			return tooMuch(runs)
		}
		late := func(slow float64) bool {
			for i, used := range took {
				if used > time.Duration(slow*float64(10*(time.Duration(size<<i)*perByte+5*time.Millisecond))) {
					return true
				}
			}
			return false
		}
		// Other goroutines that allocate can only increase a count, so the minimum of
		// several runs is used.
		unit := measure(1)
		if unit != "" || late(1) {
			unit = measure(4)
		}
		if late(1) && late(slowness()) {
			t.Errorf("%s took %v of processor time for %d bytes and twice and four times as many", what, took, size)
		}
		if unit == "" {
			return
		}
		if size > n {
			t.Errorf("%s: the %s grow by more than 2.5 when the input of %d bytes doubles: %+v", what, unit, size, runs)
		}
	}
}

// least is the smaller of two measurements of the same work, unit by unit. The
// zero Cost is no measurement.
func (c Cost) least(d Cost) Cost {
	if c == (Cost{}) {
		return d
	}
	return Cost{min(c.Steps, d.Steps), min(c.Objects, d.Objects), min(c.Bytes, d.Bytes)}
}

// costOf runs do and measures its work.
func costOf(do func() int) Cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	steps := do()
	runtime.ReadMemStats(&after)
	return Cost{uint64(steps), after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}

// tooMuch names the unit that grows too fast in both doublings.
func tooMuch(runs [3]Cost) string {
	for _, unit := range []struct {
		name string
		of   func(Cost) uint64
	}{
		{"steps", func(c Cost) uint64 { return c.Steps }},
		{"allocated objects", func(c Cost) uint64 { return c.Objects }},
		{"allocated bytes", func(c Cost) uint64 { return c.Bytes }},
	} {
		a, b, c := unit.of(runs[0]), unit.of(runs[1]), unit.of(runs[2])
		if c > unit.of(floor) && 2*b > 5*a && 2*c > 5*b {
			return unit.name
		}
	}
	return ""
}

// Text returns an input of about n bytes for [Linear]: open as often as it fits, then
// shut as often. It can thus express repetition, nesting and many members; each # is
// replaced with a different number.
func Text(open, shut string, n int) []byte {
	if len(open)+len(shut) == 0 {
		return nil
	}
	times := max(1, n/(len(numbered(open, 0))+len(numbered(shut, 0))))
	var b bytes.Buffer
	for i := range times {
		b.Write(numbered(open, i))
	}
	for i := times; i > 0; i-- {
		b.Write(numbered(shut, i-1))
	}
	return b.Bytes()
}

// numbered writes a number of six digits for each #.
func numbered(piece string, i int) []byte {
	return bytes.ReplaceAll([]byte(piece), []byte("#"), strconv.AppendInt(nil, int64(100_000+i), 10))
}

// FuzzLinear makes a fuzz target of [Linear]: the fuzzed input is two pieces, and do
// gets texts that [Text] makes of them, from n bytes on. Seeds have the form "open" or
// "open … shut". The seeds that all targets share are added, in a short run only a part
// of them.
func FuzzLinear(f *testing.F, n int, perByte time.Duration, seeds []string, do func(text []byte) (steps int)) {
	for _, seed := range Share(f, append(seeds, pieces...), 17, nil) {
		open, shut, _ := strings.Cut(seed, " … ")
		f.Add(open, shut)
	}
	f.Fuzz(func(t *testing.T, open, shut string) {
		if len(open)+len(shut) > 200 {
			return
		}
		texts := map[int][]byte{}
		for size := n; size <= 8*n; size *= 2 {
			texts[size] = Text(open, shut, size)
		}
		Linear(t, strconv.Quote(open)+" "+strconv.Quote(shut), n, perByte, func(n int) int { return do(texts[n]) })
	})
}

// pieces are tried with every decoder.
var pieces = []string{
	"a", "\n", " ", "\t", "\r\n", "\x00", "\xff", "é", "\\", "\"", "'", "#", ",", ":", "-", "0", "/", "..", "../", "*", "**/", "{a,b}", "[", "{", "(", "<", "@", "a@b.cd ", "a.a.a.",
	"[ … ]", "{ … }", `{"a": … }`, "[[ … ]]", `"k#":#,`, `{"k#":"#"},`, `\u0061`, `\n`, `\ud83d\ude00`, "- ", "a: ", "a#: #\n", "  ", "# ", "---\n", "key = #\n", "P1D", "1e9", "=",
}
