package journal_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// behindTimes is a directory whose segments are read as a busy machine may read
// them: the first time a part of the bytes is not there yet, although what
// comes after it is.
type behindTimes struct {
	fsx.Dir
	from, to int64
	reads    *int
}

func (d behindTimes) Open(name string, flag fsx.Flag, perm uint32) (fsx.File, error) {
	f, err := d.Dir.Open(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, ".jsonl") {
		return f, err
	}
	return behindFile{f, d}, nil
}

type behindFile struct {
	fsx.File
	d behindTimes
}

func (f behindFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if len(p) < 100 { // only a look whether there is something
		return n, err
	}
	if *f.d.reads++; *f.d.reads == 1 {
		for i := max(f.d.from, off); i < min(f.d.to, off+int64(n)); i++ {
			p[i-off] = 0
		}
	}
	return n, err
}

// TestAReadIsNotOneMoment: a reader that sees later rows of another process
// before earlier ones still takes all of them, in order.
func TestAReadIsNotOneMoment(t *testing.T) {
	fs := simfs.New()
	writer := open(t, fs, journal.Options{})
	var ends []int64 // of the rows
	for _, path := range []string{"a", "b", "c", "d", "e", "f"} {
		testbed.NoErr(t, write(writer, path, true))
		ends = append(ends, writer.End().Offset)
	}
	for name, part := range map[string][2]int64{
		"whole rows":            {ends[0], ends[2]},
		"the end of one":        {ends[1] - 30, ends[1]},
		"with the line break":   {ends[1] - 30, ends[1] - 1},
		"the beginning of one":  {ends[1], ends[1] + 30},
		"from the middle of it": {ends[1] - 40, ends[3] - 40},
		"the first rows":        {0, ends[1]},
	} {
		dir, err := fs.Root().OpenDir("journal")
		testbed.NoErr(t, err)
		lock, err := fs.Root().Open("lock", fsx.Read|fsx.Write, 0o600)
		testbed.NoErr(t, err)
		var took []string
		reads := 0
		l, rep, err := journal.Open(ctx, journal.Options{
			Dir: behindTimes{dir, part[0], part[1], &reads}, Lock: lock, Writer: "reader", ReadOnly: true,
			OnRecord: func(r *journal.Record, _ journal.Pos) {
				for _, m := range r.Muts {
					took = append(took, m.Path)
				}
			},
		})
		testbed.NoErr(t, err)
		testbed.Expect(t, slices.Equal(took, []string{"a", "b", "c", "d", "e", "f"}) && rep.Malformed == 0 && reads >= 2,
			"%s: took %v, %d malformed, after %d reads", name, took, rep.Malformed, reads)
		l.Close()
	}
}
