package main

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/bench/scan/internal/texts"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestSearch checks that the search finds the most expensive text, here the one
// with most of one word, and removes the parts that do not make it so.
func TestSearch(t *testing.T) {
	s := testbed.Must(scan.New(nil))(t)
	for name, run := range works {
		run(s, []byte(name+": "+texts.Token()+"\n")) // each operation runs
	}
	h := newHunt(s, works["score"], 1)
	h.price = func(text []byte, _ int) float64 {
		n := 1.0
		for _, c := range text {
			if c == '@' {
				n++
			}
		}
		return n / float64(len(text))
	}
	records := 0
	h.search(time.Now(), func(find) { records++ })
	tried := h.tried
	for h.tried < tried+500 {
		h.try(h.mutated(h.best[h.rng.IntN(len(h.best))].recipe), func(find) { records++ })
	}
	best := h.finish()
	testbed.Require(t, records != 0 && len(h.best) == population && best[0].cost >= 0.9, "%d records, %d kept, the best costs %v", records, len(h.best), best[0].cost)
	for _, w := range best[0].recipe.Unit {
		testbed.Expect(t, w == "@", "%q is left in %v", w, best[0])
	}
	for i := range h.best[1:] {
		testbed.Expect(t, h.best[i].cost >= h.best[i+1].cost, "%d is out of order", i)
	}
}
