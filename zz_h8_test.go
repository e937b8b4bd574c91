package resilientwrite_test

import (
	"fmt"
	"sort"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

func TestZZ(t *testing.T) {
	c := upkeepSweep{
		name: "compact", sim: rw.Sim{Segment: 2500},
		before: func(t *testing.T, s *rw.Store) { manyRows(t, s, 4) },
	}
	fs, s := c.prepare(t, rw.SyncFull)
	fs.ResetTrace()
	fs.StopAt(50)
	_, err := s.Compact(background, rw.CompactRequest{KeepRows: none()})
	fs.StopAt(-1)
	fmt.Println(err)
	for _, op := range fs.Trace() {
		if op.Mut >= 0 {
			fmt.Println(op.Mut, op)
		}
	}
	disk := fs.Crash(1*7919+50, simfs.Some)
	list := []string{}
	for p, content := range disk.Tree() {
		list = append(list, fmt.Sprint(p, " ", len(content)))
	}
	sort.Strings(list)
	for _, l := range list {
		fmt.Println(l)
	}
	s = c.open(t, disk, rw.SyncFull, "0003")
	fmt.Printf("%+v\n", s.Recovery())
	n, err := s.CountRows()
	fmt.Println(n, err)
	fmt.Println(s.History(background, rw.HistoryRequest{Path: "a.txt"}))
}
