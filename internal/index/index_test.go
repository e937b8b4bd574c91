package index_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestModel compares the index with a map over random puts, saves and reloads.
func TestModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fs := simfs.New()
	dir := fs.Root()
	x, model := index.New(), map[index.Key]index.Entry{}
	for round := range 8 {
		for range 700 {
			k := index.PathKey(fmt.Sprint(rng.IntN(2000)))
			e := index.Entry{Seq: rng.Uint64(), Rev: rng.Uint32(), When: rng.Uint32(), Idem: rng.IntN(2) == 0}
			x.Put(k, e)
			model[k] = e
		}
		testbed.NoErr(t, x.Save(dir, uint64(round+1), []byte(fmt.Sprint("state ", round)), nil))
		if round%2 == 1 {
			x.Close()
			var state []byte
			var err error
			if x, state, err = index.Load(dir); err != nil || string(state) != fmt.Sprint("state ", round) {
				t.Fatalf("%q %v", state, err)
			}
		}
		for i := range 2000 {
			k := index.PathKey(fmt.Sprint(i))
			got, ok, err := x.Get(k)
			want, there := model[k]
			testbed.Require(t, err == nil && ok == there && got == want, "round %d key %d: %+v %v %v, want %+v %v", round, i, got, ok, err, want, there)
		}
	}
	names, _ := dir.Names()
	testbed.Expect(t, len(names) == 2, "kept %v", names)
}

// TestDamageIsFound: a byte that is changed anywhere is never answered from.
func TestDamageIsFound(t *testing.T) {
	fs := simfs.New()
	x := index.New()
	for i := range 300 {
		x.Put(index.PathKey(fmt.Sprint(i)), index.Entry{Seq: uint64(i) + 1})
	}
	testbed.NoErr(t, x.Save(fs.Root(), 1, []byte("state"), nil))
	name := "index-00000000000000000001.snap"
	good, _ := fs.ReadFile(name)
	for at := 0; at < len(good); at += 37 {
		bad := append([]byte(nil), good...)
		bad[at] ^= 0x40
		fs.WriteFile(name, bad, 0o600)
		y, state, err := index.Load(fs.Root())
		testbed.NoErr(t, err)
		if state == nil {
			continue // seen at once
		}
		for i := range 300 {
			got, ok, err := y.Get(index.PathKey(fmt.Sprint(i)))
			if errors.Is(err, index.ErrDamaged) {
				continue
			}
			testbed.Require(t, err == nil && ok && got.Seq == uint64(i)+1, "byte %d: key %d gives %+v %v %v", at, i, got, ok, err)
		}
	}
	for size := 0; size < len(good); size += 997 {
		fs.WriteFile(name, good[:size], 0o600)
		_, state, err := index.Load(fs.Root())
		testbed.Require(t, err == nil && state == nil, "a snapshot of %d bytes was loaded: %v", size, err)
	}
}

// TestSaveSurvives a crash at every operation: the old snapshot or the new one
// loads.
func TestSaveSurvives(t *testing.T) {
	for n := 0; ; n++ {
		fs := simfs.New()
		x := index.New()
		x.Put(index.PathKey("a"), index.Entry{Seq: 1})
		testbed.NoErr(t, x.Save(fs.Root(), 1, []byte("one"), nil))
		x.Put(index.PathKey("a"), index.Entry{Seq: 2})
		fs.StopAt(n)
		err := x.Save(fs.Root(), 2, []byte("two"), nil)
		fs.StopAt(-1)
		for seed := range uint64(20) {
			y, state, lerr := index.Load(fs.Crash(seed, simfs.Some).Root())
			testbed.NoErr(t, lerr)
			got, _, _ := y.Get(index.PathKey("a"))
			want := map[string]uint64{"one": 1, "two": 2}[string(state)]
			testbed.Require(t, want != 0 && got.Seq == want && (err != nil || want == 2), "operation %d: state %q, entry %+v", n, state, got)
		}
		if err == nil {
			return
		}
	}
}
