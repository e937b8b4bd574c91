package scan

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// randomText is n bytes, of which many are part of a keyword.
func randomText(rng *rand.Rand, words []word, n int) []byte {
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
	if f.fast == nil {
		return
	}
	if n = (len(b) - 3) / 64; n <= 0 {
		return
	}
	places, all := make([]uint64, n), make([]uint64, n)
	f.fast.buckets.places(b, places)
	f.fast.buckets.placesPortable(b, all)
	testbed.Require(t, slices.Equal(places, all), "%q: places %x, want %x", b, places, all)
}

func TestSIMD(t *testing.T) {
	s, rng := scanner(t), rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		checkSIMD(t, s.anywhere, randomText(rng, s.anywhere.words, rng.IntN(400)))
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
