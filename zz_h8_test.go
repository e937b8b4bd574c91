package resilientwrite_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

func TestZZFigures(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	if err := s.FillJournal(200_000); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	lap := func(what string) { fmt.Println(what, time.Since(at).Round(time.Millisecond)); at = time.Now() }
	r := compact(t, s, rw.CompactRequest{})
	lap(fmt.Sprint("compact, parked ", len(r.Archived)))
	w := &counter{}
	e, err := s.Export(background, rw.ExportRequest{W: w})
	fmt.Println(e.Rows, w.n>>20, "MiB", err)
	lap("export")
	var b bytes.Buffer
	s.Export(background, rw.ExportRequest{W: &b})
	at = time.Now()
	other := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	i, err := other.Import(background, rw.ImportRequest{R: &b})
	fmt.Println(i.Imported, err)
	lap("import")
	if _, err := s.Check(background, rw.CheckRequest{}); err != nil {
		t.Fatal(err)
	}
	lap("check")
	// 64 versions of 4 MiB
	for v := range 64 {
		write(t, s, "big.bin", strings.Repeat(fmt.Sprintf("%08d", v), 512<<10), rw.ModeOverwrite)
	}
	write(t, s, "s.txt", "it is correct-horse-battery", rw.ModeCreate)
	write(t, s, "s.txt", "something that is not shorter than it", rw.ModeOverwrite)
	var m1, m2 runtime.MemStats
	runtime.ReadMemStats(&m1)
	at = time.Now()
	x := erase(t, s, rw.EraseRequest{Secret: []byte("correct-horse-battery"), SkipWorkspace: true})
	lap(fmt.Sprint("erase ", x.Places))
	runtime.ReadMemStats(&m2)
	fmt.Println((m2.HeapSys-m1.HeapSys)>>20, "MiB more heap")
	p, err := s.Repair(background, rw.RepairRequest{})
	fmt.Println(len(p.Actions), len(p.Left), err)
	lap("repair (deep check, 64 x 4 MiB)")
	_ = io.Discard
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }
