package observe

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// TestIndexOfEarlierForm: an index without links is read, says so, and is written
// as what it is.
func TestIndexOfEarlierForm(t *testing.T) {
	x := &Index{Seq: 3, dirs: map[string][]Entry{"": {{Name: "a", Size: 1}}}}
	for _, links := range []bool{false, true} {
		if x.Links = links; links {
			x.dirs[""] = append(x.dirs[""], Entry{Name: "l", Mode: fsx.ModeLink})
		}
		got, err := decodeIndex(x.encode())
		if err != nil || got.Links != links || got.Seq != 3 || len(got.All()) != len(x.All()) {
			t.Errorf("links %v: %+v %v", links, got, err)
		}
	}
}
