package journal_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading a row in both ways, a segment that ends in garbage, and
// an export takes work in proportion to their length.
func FuzzLinear(f *testing.F) {
	seeds := []string{`{"op":"create","path":"a","sha256":"","bytes":0,"prev_sha256":""},`, `{"seq":#,"kind":"note"}` + "\n", `"muts":[],`, `{"a":{`, `"seq":#,`, usualRow + "\n"}
	testbed.FuzzLinear(f, 16<<10, 5*time.Microsecond, seeds, func(text []byte) int {
		for _, row := range []string{`{"seq":1,"kind":"commit",` + string(text) + `"ref":2}`, `{"seq":1,"kind":"commit","muts":[` + string(text) + `{"op":""}]}`, `{"seq":1,"kind":"x","reply":` + string(text) + `}`} {
			journal.DecodeRow([]byte(row))
			journal.SkimRow([]byte(row))
		}
		journal.ReadExport(bytes.NewReader(text), func(*journal.Record) error { return nil })
		fs := simfs.New()
		if l, _, err := tryOpen(fs, journal.Options{}); err == nil {
			l.Close()
		}
		fs.WriteFile("journal/00000000000000000001.jsonl", text, 0o600)
		if l, _, err := tryOpen(fs, journal.Options{}); err == nil {
			l.Skim(func(*journal.Record) error { return nil })
			l.Close()
		}
		return 0
	})
}
