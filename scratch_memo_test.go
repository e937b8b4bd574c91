package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

func openThere(t *testing.T, dir string) *rw.Store {
	t.Helper()
	s := must(rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff}))(t)
	t.Cleanup(func() { s.Close(background) })
	return s
}

// TestScratchPutDoesNotGrow counts what puts allocate, new ones and repeated
// ones, among few and among many objects: reading the index or the names of the
// objects would show.
func TestScratchPutDoesNotGrow(t *testing.T) {
	cost := func(n int) (each uint64) {
		dir := t.TempDir()
		fillScratch(t, dir, n)
		s := openThere(t, dir)
		for i := range 3 {
			keep(t, s, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("warm ", i))})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 40 {
			keep(t, s, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("new ", i/2)), Label: "l", TTL: "P1W"})
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 40
	}
	few, many := cost(10), cost(2000)
	t.Logf("bytes for each put: %d among 10, %d among 2000", few, many)
	if many > 2*few {
		t.Errorf("a put among 2000 objects allocates %d bytes, among 10 %d", many, few)
	}
}

// TestScratchPutSeesOthers: the memo of one store does not hide changes by another one,
// nor changes of its files.
func TestScratchPutSeesOthers(t *testing.T) {
	dir := t.TempDir()
	pad := filepath.Join(dir, ".resilient_write", "scratch")
	a, b := openThere(t, dir), openThere(t, dir)
	for i := range 3 {
		keep(t, a, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("a", i))})
	}
	one := keep(t, b, rw.ScratchPutRequest{Content: []byte("of b"), Label: "x"})
	if got := keep(t, a, rw.ScratchPutRequest{Content: []byte("of b"), Label: "y"}); !got.Deduped || got.SHA256 != one.SHA256 {
		t.Errorf("what the other store put is stored again: %+v", got)
	}
	must(b.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: one.SHA256}))(t)
	if got := keep(t, a, rw.ScratchPutRequest{Content: []byte("of b")}); got.Deduped {
		t.Error("what the other store removed counts as stored")
	}
	// A file that is gone, and one that is damaged.
	noErr(t, os.Remove(filepath.Join(pad, one.SHA256.String()+".bin")))
	if got := keep(t, a, rw.ScratchPutRequest{Content: []byte("of b")}); got.Deduped {
		t.Error("what is gone counts as stored")
	}
	noErr(t, os.WriteFile(filepath.Join(pad, one.SHA256.String()+".bin"), []byte("damaged"), 0o600))
	if got := keep(t, a, rw.ScratchPutRequest{Content: []byte("of b")}); !got.Repaired {
		t.Error("damage goes unnoticed")
	}
	// An index that another program wrote to, cut off, put in the place of another.
	index := filepath.Join(pad, "index.jsonl")
	for i, change := range []func(old []byte) error{
		func([]byte) error { return appendText(index, "no row\n") },
		func([]byte) error { return appendText(index, `{"sha256":"cut o`) },
		func(old []byte) error { return os.Truncate(index, int64(len(old)/2)) },
		func(old []byte) error { return os.WriteFile(index, []byte(strings.Repeat(" ", len(old))), 0o600) },
		func([]byte) error { return os.Remove(index) },
	} {
		keep(t, a, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("before ", i)), Label: fmt.Sprint("before ", i)})
		old := must(os.ReadFile(index))(t)
		noErr(t, change(old))
		keep(t, a, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("then ", i)), Label: fmt.Sprint("then ", i)})
		labels := map[string]bool{}
		for _, e := range listed(t, a).Entries {
			labels[e.Label] = true
		}
		for _, label := range []string{fmt.Sprint("before ", i), fmt.Sprint("then ", i)} {
			if !labels[label] {
				t.Errorf("change %d: %s is lost", i, label)
			}
		}
	}
}

func appendText(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
