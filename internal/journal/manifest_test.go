package journal_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

type shelf map[string][]byte

func (s shelf) Save(write func(io.Writer) error) (string, error) {
	var data bytes.Buffer
	if err := write(&data); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data.Bytes())
	s[hex.EncodeToString(sum[:])] = data.Bytes()
	return hex.EncodeToString(sum[:]), nil
}

func (s shelf) Any() bool { return len(s) > 0 }

func (s shelf) Load(sha string) ([]byte, error) {
	if data, ok := s[sha]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

// TestLongRowsHaveAManifest: a record with more mutations than fit in a line is
// read with all of them by every reader, also after it was opened again, and a
// short one has no manifest.
func TestLongRowsHaveAManifest(t *testing.T) {
	disk, kept := simfs.New(), shelf{}
	l := open(t, disk, journal.Options{Manifests: kept})
	long := &journal.Record{Kind: journal.KindObserved, Writer: "w"}
	for i := range 20_000 {
		long.Muts = append(long.Muts, journal.Mutation{Op: "create", Path: fmt.Sprintf("dir/%05d", i), SHA256: strings.Repeat("a", 64), PrevSHA256: strings.Repeat("b", 64), Bytes: int64(i)})
	}
	write(l, "before", true)
	if _, err := l.Commit(&journal.Batch{Recs: []*journal.Record{long}, Long: true}); err != nil {
		t.Fatal(err)
	}
	write(l, "after", true)
	testbed.Require(t, len(kept) == 1 && long.Manifest != "" && len(long.Muts) == 20_000, "%v %v %v", len(kept), long.Manifest, len(long.Muts))
	l.Close()
	folded := 0
	l = open(t, disk, journal.Options{Manifests: kept, OnRecord: func(r *journal.Record, _ journal.Pos) { folded += len(r.Muts) }})
	defer l.Close()
	check := func(what string, r *journal.Record, err error) {
		t.Helper()
		testbed.Require(t, err == nil && len(r.Muts) == 20_000 && r.Muts[19_999].Path == "dir/19999" && r.Muts[19_999].Bytes == 19_999,
			"%v %v %v", what, err, len(r.Muts))
	}
	testbed.Equal(t, folded, 20_002, "folded")
	rec, err := l.Find(2)
	check("Find", rec, err)
	recs, _, err := l.Tail(2, nil, 0)
	check("Tail", recs[0], err)
	recs, _, _, _, err = l.Since(1, 10, nil)
	check("Since", recs[0], err)
	var seen []int
	previous := func(fn func(*journal.Record) error) error { return l.SkimPrevious(1, fn) }
	for _, skim := range []func(func(*journal.Record) error) error{l.Skim, previous} {
		seen = nil
		if err := skim(func(r *journal.Record) error {
			if r.Seq == 2 {
				check("Skim", r, nil)
			}
			seen = append(seen, len(r.Muts))
			return nil
		}); err != nil || fmt.Sprint(seen) != "[1 20000 1]" {
			t.Fatal(seen, err)
		}
	}
	check("Find again", rec, nil) // skimming wrote over nothing
	audit(t, l)
}

// TestManifestIsMissing: a row whose manifest is gone is a row without
// mutations, and a record whose manifest cannot be kept is not written.
func TestManifestIsMissing(t *testing.T) {
	disk, kept := simfs.New(), shelf{}
	long := &journal.Record{Kind: journal.KindObserved, Writer: "w", Muts: make([]journal.Mutation, 20_000)}
	l := open(t, disk, journal.Options{})
	_, err := l.Commit(&journal.Batch{Recs: []*journal.Record{long}, Long: true})
	testbed.Require(t, errors.Is(err, journal.ErrTooLarge), "%v", err)
	l.Close()
	l = open(t, disk, journal.Options{Manifests: kept})
	testbed.Must(l.Commit(&journal.Batch{Recs: []*journal.Record{long}, Long: true}))(t)
	l.Close()
	clear(kept)
	l = open(t, disk, journal.Options{Manifests: kept})
	defer l.Close()
	rec, err := l.Find(1)
	testbed.Require(t, err == nil && len(rec.Muts) == 0 && rec.Manifest != "", "%v %v", rec, err)
}
