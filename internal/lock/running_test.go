package lock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// TestRunning lists what living writers hold: not what they gave back, not what
// a dead one left, and no foreign content of the table.
func TestRunning(t *testing.T) {
	place := t.TempDir()
	dir, err := fsx.OpenRoot(place)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if list, err := lock.Running(dir, "locks"); err != nil || len(list) != 0 {
		t.Errorf("of no file: %v %v", list, err)
	}
	x, err := lock.Open(dir, "locks", lock.Owner{Writer: "w0", PID: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	_, end, err := lock.Register(dir, "w0")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := x.Keys(ctx, time.Minute, "edit", "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	slots := map[int64]bool{}
	list, err := lock.Running(dir, "locks")
	for _, h := range list {
		slots[h.Slot] = h.PID == 7 && h.What == "edit" && h.Writer == "w0" && time.Since(h.Since) < time.Minute
	}
	if err != nil || len(list) != 2 || !slots[lock.SlotOf("a")] || !slots[lock.SlotOf("b")] {
		t.Errorf("%v %+v", err, list)
	}
	f, err := os.OpenFile(filepath.Join(place, "locks"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{`{"s":1,"w":"../w0","p":1,"t":0,"o":"x"}`, `{"s":1,"w":"","p":1}`, strings.Repeat("{", 160), `{"s":"x"}`} {
		f.WriteAt([]byte(text), 4096+int64(100+i)*160)
	}
	f.Close()
	if more, err := lock.Running(dir, "locks"); err != nil || len(more) > 2 {
		t.Errorf("%v %+v", err, more)
	}
	if err := end(); err != nil { // it is dead now, and its entries are still there
		t.Fatal(err)
	}
	if list, err := lock.Running(dir, "locks"); err != nil || len(list) != 0 {
		t.Errorf("of a dead writer: %v %+v", err, list)
	}
}
