package gate

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// found is a finding with a fingerprint of its own.
func found(n uint64, c scan.Confidence) (x scan.Finding) {
	x.Confidence = c
	binary.LittleEndian.PutUint64(x.Fingerprint[:], n*0x9E3779B97F4A7C15<<1)
	return x
}

// TestFingerprintsAreExactWithinTheBound: compared with a model.
func TestFingerprintsAreExactWithinTheBound(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	var p Fingerprints
	if p.Mark(found(1, scan.Likely)); p.Marked(found(1, scan.Likely)) {
		t.Fatal("an empty set holds something")
	}
	model := map[uint64]bool{}
	for i := range uint64(50_000) {
		n := rng.Uint64N(40_000)
		if i%3 == 0 {
			n %= 64
		}
		switch rng.IntN(3) {
		case 0:
			p.Add(found(n, scan.Likely))
			known := model[n]
			model[n] = known
		case 1:
			p.Mark(found(n, scan.Likely))
			if _, in := model[n]; in {
				model[n] = true
			}
		}
		got := p.Marked(found(n, scan.Likely))
		testbed.Require(t, got == model[n], "step %d: %d is marked: %v, want %v", i, n, got, model[n])
	}
	testbed.Expect(t, len(p.marks) == len(model), "%d are held, want %d", len(p.marks), len(model))
}

// TestMergeIsCanceled: a merge of large texts, which may take long, does not keep a caller
// waiting that has given up.
func TestMergeIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	text := func(line string) []byte { return bytes.Repeat([]byte(line), 1<<18) }
	_, _, err := new(Layer).Merger(MergeClean, nil)(ctx, text("a\n"), text("b\n"), text("c\n"))
	testbed.Expect(t, err == context.Canceled, "%v", err)
}

// TestFingerprintsAreBounded: a secret beyond the bound is never taken for an old one,
// and after any number of addresses there is space for keys.
func TestFingerprintsAreBounded(t *testing.T) {
	t.Parallel()
	var p Fingerprints
	for i := range uint64(2 * maxFingerprints) {
		p.Add(found(i, scan.Info))
	}
	testbed.Expect(t, len(p.marks) == maxFingerprints/2, "addresses fill %d places", len(p.marks))
	key := found(1<<40, scan.Confirmed)
	p.Add(key)
	p.Mark(key)
	testbed.Expect(t, p.Marked(key), "a key is not found after addresses")
	for i := range uint64(2 * maxFingerprints) {
		p.Add(found(1<<41+i, scan.Confirmed))
	}
	testbed.Equal(t, len(p.marks), maxFingerprints, "are held")
	beyond := found(1<<41+2*maxFingerprints-1, scan.Confirmed)
	if p.Mark(beyond); p.Marked(beyond) {
		t.Error("what is beyond the bound counts as old")
	}
}
