//go:build linux

package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// trial is one task with one fault, from the first call to the end.
type trial struct {
	Fault  bool // the agent saw something go wrong
	Right  bool // it reached the goal by itself
	Lost   bool // in the end bytes are missing
	Broken bool // at some moment the disk held forbidden content
	Calls  int
	Wasted int
	Tries  int // calls from the first one that failed
	Waits  int
	Wall   time.Duration // from the first failure to the end
	Counts map[string]int
}

const (
	callTime = 400 * time.Millisecond // time of a model call
	waitTime = time.Second            // time to wait when asked to
)

// modeled returns the time to recover, including the time that a model takes.
func (t trial) modeled() time.Duration {
	return t.Wall + time.Duration(max(0, t.Tries-1))*callTime + time.Duration(t.Waits)*waitTime
}

// finish returns the trial of a run; right, lost and broken come from the
// oracle.
func (r *run) finish(right, lost, broken bool) trial {
	t := trial{Fault: !r.began.IsZero(), Right: right, Lost: lost, Broken: broken, Calls: len(r.log), Waits: r.waits, Counts: map[string]int{}}
	for i := range r.log {
		if r.log[i].wasted {
			t.Wasted++
		}
	}
	if t.Fault {
		t.Tries = r.refail + 1
		if r.ended.IsZero() {
			r.end()
		}
		t.Wall = max(0, r.ended.Sub(r.began)-r.paused)
	}
	return t
}

// dice returns the random numbers of one trial. They depend only on the seed,
// the scenario and the number of the trial, so that every arm and every agent
// meets the same faults.
func dice(seed uint64, scenario string, n int) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, scenario)
	return rand.New(rand.NewPCG(seed^h.Sum64(), uint64(n)))
}

// between returns a random number from low to high.
func between(rng *rand.Rand, low, high int) int { return low + rng.IntN(high-low+1) }

// prose returns text of that many bytes in which no gate finds anything. Two
// such texts differ from their first line on.
func prose(rng *rand.Rand, size int) string {
	first := fmt.Sprintf("Draft %016x.\n", rng.Uint64())
	text := library()
	at := rng.IntN(len(text))
	return (first + text[at:] + strings.Repeat(text, size/len(text)) + text[:at])[:size]
}

// library is the source of prose.
var library = sync.OnceValue(func() string {
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for n := 1; b.Len() < 1<<20; n++ {
		fmt.Fprintf(&b, "%d. ", n)
		for range 9 {
			b.WriteString(vocabulary[rng.IntN(len(vocabulary))] + " ")
		}
		b.WriteByte('\n')
	}
	return b.String()
})

var vocabulary = strings.Fields(`the a file line table row of in by when it keeps writes reads returns waits
	parser buffer index order value user report section result page window branch build release note
	small large first last next empty whole old new fast slow plain simple common other same`)

func keyed(key string, i int) string {
	if key == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", key, i)
}

func sessionOf(c call) string {
	h := fnv.New64a()
	fmt.Fprint(h, c.Path, c.Key)
	return fmt.Sprintf("s%x", h.Sum64())
}
