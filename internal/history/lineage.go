// package history reads the versions of a file from the journal, also under the
// names that it had before, and opens their content.
package history

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// maxLineage is how many rows are read, at most, to find one version.
const maxLineage = 10_000

// Layer reads the versions of files.
type Layer struct{ *engine.Engine }

// Version is one row of a file's history.
type Version struct {
	Seq    uint64
	Path   string // where the file was
	M      journal.Mutation
	TS     string
	Caller string
	Via    *journal.Via
	Group  *journal.Group
	// Later are the versions that directly follow this one: at its path, and
	// under the name it was moved to. The newest version of a path has none.
	Later []*Version
}

// Lineage is the versions of a path, newest first: of every file that was ever at
// the path and, for a file that was moved to it, also those under earlier names.
// It reads one row for each requested version.
//
// Before a move to the path there are two sequences of versions: those of the
// file that was moved, and those of the file that was there before. Their paths
// distinguish them.
type Lineage struct {
	s     *Layer
	Path  string
	Got   []*Version
	wait  []*Version // known by row and path alone; the next one first
	known map[place]*Version
}

// place is a path after a commit.
type place struct {
	seq  uint64
	path string
}

// Lineage begins with the newest row of a path.
func (s *Layer) Lineage(path string) (*Lineage, error) {
	l := &Lineage{s: s, Path: path, known: map[place]*Version{}}
	if s.Log == nil {
		return l, nil
	}
	// What is settled later goes into history only then. After a failed flush it stays
	// where it can be read.
	if err := s.Drain(); err != nil && !s.Poisoned.Load() && !s.Log.Poisoned() {
		return nil, err
	}
	if err := s.Log.CatchUp(); err != nil && !s.Opts.ReadOnly {
		return nil, err
	}
	last, err := s.LastRow(path)
	if err != nil {
		return nil, err
	}
	l.expect(last.Seq, path, nil)
	return l, nil
}

// At is the i-th version, the newest being 0; nil when there are not so many.
func (l *Lineage) At(i int) (*Version, error) {
	for len(l.Got) <= i && len(l.Got) < maxLineage {
		v, err := l.next()
		if v == nil || err != nil {
			return nil, err
		}
		l.Got = append(l.Got, v)
	}
	if i >= len(l.Got) {
		return nil, nil
	}
	return l.Got[i], nil
}

// First returns the newest n versions.
func (l *Lineage) First(n int) ([]*Version, error) {
	if _, err := l.At(n - 1); err != nil {
		return nil, err
	}
	return l.Got[:min(n, len(l.Got))], nil
}

// Version finds the version that the commit seq made. If that commit made
// versions of two files of the lineage, it returns the one at the path itself.
func (l *Lineage) Version(seq uint64) (*Version, error) {
	return l.Find(seq, func(v *Version) bool { return v.Seq == seq })
}

// Find returns the newest version that is wanted, none older than the commit
// down.
func (l *Lineage) Find(down uint64, wanted func(*Version) bool) (*Version, error) {
	for i := 0; ; i++ {
		v, err := l.At(i)
		if err != nil {
			return nil, err
		}
		if v == nil || v.Seq < down {
			return nil, fault.New(fault.VersionNotFound)
		}
		if wanted(v) {
			return v, nil
		}
	}
}

// Foreign returns what another program saved to the path and no version has, after all of
// them were read: the content with the hash that the newest of them replaced, or that the
// newest note of the journal names.
func (l *Lineage) Foreign(sha string) (*Version, error) {
	for _, v := range l.Got {
		if m := &v.M; m.PrevSHA256 == sha && (m.From == "" || v.Path == l.Path) {
			was := journal.Mutation{Path: v.Path, SHA256: sha, Bytes: m.PrevBytes, Mode: m.ModeBefore()}
			return &Version{Seq: v.Seq, Path: v.Path, M: was, TS: v.TS, Later: []*Version{v}}, nil
		}
	}
	list, _, err := l.s.Log.Tail(1, func(rec *journal.Record) bool {
		return rec.Note != nil && rec.Note.What == engine.NoteForeign && rec.Note.Path == l.Path && rec.Note.SHA256 == sha
	}, 0)
	if err != nil || len(list) == 0 {
		return nil, cmp.Or(err, error(fault.New(fault.VersionNotFound)))
	}
	rec := list[0]
	return &Version{Seq: rec.Seq, Path: l.Path, TS: rec.TS, M: journal.Mutation{Path: l.Path, SHA256: sha, Bytes: rec.Note.Bytes}, Later: l.Got[:1]}, nil
}

// Before returns the newest of the versions that led to v and whose bytes differ
// from it; nil when there is none. Without v it returns the newest of all that
// differs from the hash.
func (l *Lineage) Before(v *Version, sha string) (*Version, error) {
	led := map[*Version]bool{v: v != nil}
	for i := slices.Index(l.Got, v) + 1; ; i++ {
		w, err := l.At(i)
		if w == nil || err != nil {
			return nil, err
		}
		if v != nil && !slices.ContainsFunc(w.Later, func(x *Version) bool { return led[x] }) {
			continue
		}
		if led[w] = true; w.M.SHA256 != sha {
			return w, nil
		}
	}
}

// next reads the newest row that waits. A missing row ends its sequence of
// versions.
func (l *Lineage) next() (*Version, error) {
	for len(l.wait) > 0 {
		v := l.wait[0]
		l.wait = l.wait[1:]
		rec, err := l.s.Log.Find(v.Seq)
		if errors.Is(err, journal.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		i := engine.MutationOf(rec, v.Path)
		if i < 0 {
			continue
		}
		v.M, v.TS, v.Caller, v.Via, v.Group = rec.Muts[i], rec.TS, rec.Caller, rec.Via, rec.Group
		if l.wentOn(rec, v) {
			for _, later := range v.Later {
				if putBack := later.M.Op == "undo" || later.M.Op == "restore"; putBack && later.M.SHA256 == v.M.PrevSHA256 {
					l.expect(v.M.PrevSeq, v.Path, later) // it is the same file
				}
			}
			continue
		}
		l.follow(rec, v)
		return v, nil
	}
	return nil, nil
}

// wentOn reports whether a row only records that the file got another name and
// need not be listed: the lineage has the file under that name, or a different
// file was at an earlier name before.
func (l *Lineage) wentOn(rec *journal.Record, v *Version) bool {
	if v.M.SHA256 != "" {
		return false
	}
	for i := range rec.Muts {
		if rec.Muts[i].From == v.Path {
			return v.Path != l.Path || l.known[place{v.Seq, rec.Muts[i].Identity()}] != nil
		}
	}
	return false
}

// follow records which versions precede one.
func (l *Lineage) follow(rec *journal.Record, v *Version) {
	from := -1
	if v.M.From != "" {
		from = engine.MutationOf(rec, v.M.From)
	}
	if from >= 0 {
		l.expect(rec.Muts[from].PrevSeq, v.M.From, v)
	}
	if from < 0 || v.Path == l.Path { // what a file replaced under an earlier name has no part in it
		l.expect(v.M.PrevSeq, v.Path, v)
	}
}

// expect records that a version precedes another one. The order is by row, and
// for one row the path itself comes first.
func (l *Lineage) expect(seq uint64, path string, later *Version) {
	if seq == 0 || later != nil && seq >= later.Seq { // a row that says so is damaged
		return
	}
	v := l.known[place{seq, path}]
	if v == nil {
		v = &Version{Seq: seq, Path: path}
		l.known[place{seq, path}] = v
		at, _ := slices.BinarySearchFunc(l.wait, v, l.order)
		l.wait = slices.Insert(l.wait, at, v)
	}
	if later != nil {
		v.Later = append(v.Later, later)
	}
}

func (l *Lineage) order(a, b *Version) int {
	other := func(v *Version) int {
		if v.Path == l.Path {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Seq, a.Seq), other(a)-other(b), strings.Compare(a.Path, b.Path))
}
