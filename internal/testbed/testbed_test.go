package testbed_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestSharesVisitEverything: over runs every element is in a share, what is
// sure is in each, and a long run takes all.
func TestSharesVisitEverything(t *testing.T) {
	t.Setenv("RW_LONG", "")
	all := make([]int, 40)
	for i := range all {
		all[i] = i
	}
	seen := map[int]int{}
	for seed := range 100 {
		t.Setenv("RW_SEED", strconv.Itoa(seed))
		share := testbed.Share(t, all, 8, func(i int) bool { return i == 7 })
		if len(share) > 6 || !slices.Contains(share, 7) || !slices.IsSorted(share) {
			t.Fatalf("%v", share)
		}
		if again := testbed.Share(t, all, 8, func(i int) bool { return i == 7 }); !slices.Equal(share, again) {
			t.Fatalf("%v is not %v", again, share)
		}
		for _, i := range share {
			seen[i]++
		}
	}
	if len(seen) != len(all) || seen[7] != 100 {
		t.Errorf("%d of %d were visited: %v", len(seen), len(all), seen)
	}
	t.Setenv("RW_LONG", "5")
	if got := testbed.Share(t, all, 8, nil); !slices.Equal(got, all) {
		t.Errorf("a long run takes %v", got)
	}
}
