package changes

import (
	"errors"
	"fmt"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/hunks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestLimits: a list has the newest groups and commands, and the first files, and the
// lines of no more text than fits.
func TestLimits(t *testing.T) {
	out, files := &List{}, map[string]*File{}
	row := func(kind string, seq int) {
		muts := []journal.Mutation{{Path: fmt.Sprintf("%06d", seq), SHA256: "aa"}}
		out.take(&journal.Record{Kind: kind, Seq: uint64(seq), Group: &journal.Group{}, Muts: muts}, files)
	}
	for seq := range MaxFiles {
		kind := journal.KindCommit
		if seq < maxRows {
			kind = journal.KindObserved
		}
		row(kind, seq)
	}
	out.finish(files)
	testbed.Expect(t, len(out.Groups) == maxRows && len(out.Executed) == maxRows && out.Executed[0].Seq == MaxFiles-maxRows && len(out.Files) == MaxFiles && !out.Truncated,
		"%d groups, %d commands, %d files, truncated %v", len(out.Groups), len(out.Executed), len(out.Files), out.Truncated)
	*out = List{}
	for seq := range maxRows + 1 {
		row(journal.KindObserved, seq)
	}
	testbed.Expect(t, len(out.Groups) == maxRows && out.Groups[0].Seq == 1 && out.Observed == maxRows+1 && out.Truncated, "%d groups, truncated %v", len(out.Groups), out.Truncated)
	*out = List{}
	files["one more"] = &File{}
	out.finish(files)
	testbed.Expect(t, len(out.Files) == MaxFiles && out.Truncated, "%d files, truncated %v", len(out.Files), out.Truncated)
	for left, bytes := range map[int64]int64{9: 10, hunks.Limit + 2: hunks.Limit + 1} {
		_, err := (&netting{left: left}).version(&journal.Record{}, &journal.Mutation{SHA256: "aa", Bytes: bytes}, false)
		testbed.Expect(t, errors.Is(err, hunks.ErrTooLarge), "%v", err)
	}
}
