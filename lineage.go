package resilientwrite

import (
	"errors"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// maxLineage is how many rows are gone through, at most, to find one version.
const maxLineage = 10_000

// historyLayer reads the versions of files.
type historyLayer struct{ *engine.Engine }

// version is one row of a file's history.
type version struct {
	seq    uint64
	path   string // where the file was
	m      journal.Mutation
	ts     string
	caller string
	via    *journal.Via
	// later are the versions that came right behind this one: at its path, and
	// under the name it was moved to. The newest one of a path has none.
	later []*version
}

// lineage is the versions of a path, newest first: of everything that was ever
// at the path, and of what was moved to it also those under earlier names. It
// reads one row for each version that is asked for.
//
// Behind a move to the path two lives go on, that of the file which came and
// that of the one which was there before. They are told apart by their paths.
type lineage struct {
	s     *historyLayer
	path  string
	got   []*version
	wait  []*version // known by row and path alone; the next one first
	known map[place]*version
}

// place is a path after a commit.
type place struct {
	seq  uint64
	path string
}

// lineage begins with the newest row of a path.
func (s *historyLayer) lineage(path string) (*lineage, error) {
	l := &lineage{s: s, path: path, known: map[place]*version{}}
	if s.Log == nil {
		return l, nil
	}
	if s.Behind != nil { // what is settled behind goes into history only then
		if err := s.Behind.Drain(); err != nil {
			return nil, err
		}
		s.Heads.Drain()
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

// at is the i-th version, the newest being 0; nil when there are not so many.
func (l *lineage) at(i int) (*version, error) {
	for len(l.got) <= i && len(l.got) < maxLineage {
		v, err := l.next()
		if v == nil || err != nil {
			return nil, err
		}
		l.got = append(l.got, v)
	}
	if i >= len(l.got) {
		return nil, nil
	}
	return l.got[i], nil
}

// first is the newest n versions.
func (l *lineage) first(n int) ([]*version, error) {
	if _, err := l.at(n - 1); err != nil {
		return nil, err
	}
	return l.got[:min(n, len(l.got))], nil
}

// version finds the one that the commit seq made. Where that commit made two
// files of the lineage what they were then, it is the one at the path itself.
func (l *lineage) version(seq uint64) (*version, error) {
	return l.find(seq, func(v *version) bool { return v.seq == seq })
}

// find is the newest version that is wanted, none older than the commit down.
func (l *lineage) find(down uint64, wanted func(*version) bool) (*version, error) {
	for i := 0; ; i++ {
		v, err := l.at(i)
		if err != nil {
			return nil, err
		}
		if v == nil || v.seq < down {
			return nil, fault.New(fault.VersionNotFound)
		}
		if wanted(v) {
			return v, nil
		}
	}
}

// before is the newest of the versions that led to v whose bytes are others;
// nil when there is none. Without v it is the newest of all that differs from
// the hash.
func (l *lineage) before(v *version, sha string) (*version, error) {
	led := map[*version]bool{v: v != nil}
	for i := slices.Index(l.got, v) + 1; ; i++ {
		w, err := l.at(i)
		if w == nil || err != nil {
			return nil, err
		}
		if v != nil && !slices.ContainsFunc(w.later, func(x *version) bool { return led[x] }) {
			continue
		}
		if led[w] = true; w.m.SHA256 != sha {
			return w, nil
		}
	}
}

// next reads the newest row that waits. Rows that are gone end their life.
func (l *lineage) next() (*version, error) {
	for len(l.wait) > 0 {
		v := l.wait[0]
		l.wait = l.wait[1:]
		rec, err := l.s.Log.Find(v.seq)
		if errors.Is(err, journal.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		i := engine.MutationOf(rec, v.path)
		if i < 0 {
			continue
		}
		v.m, v.ts, v.caller, v.via = rec.Muts[i], rec.TS, rec.Caller, rec.Via
		if l.wentOn(rec, v) {
			for _, later := range v.later {
				if putBack := later.m.Op == "undo" || later.m.Op == "restore"; putBack && later.m.SHA256 == v.m.PrevSHA256 {
					l.expect(v.m.PrevSeq, v.path, later) // it is the same file
				}
			}
			continue
		}
		l.follow(rec, v)
		return v, nil
	}
	return nil, nil
}

// wentOn reports whether a row only says that the file got another name, and
// nothing is to be told of that: because the lineage has the file under that
// name, or because what was at an earlier name before is another file.
func (l *lineage) wentOn(rec *journal.Record, v *version) bool {
	if v.m.SHA256 != "" {
		return false
	}
	for i := range rec.Muts {
		if rec.Muts[i].From == v.path {
			return v.path != l.path || l.known[place{v.seq, rec.Muts[i].Identity()}] != nil
		}
	}
	return false
}

// follow notes which versions come before one.
func (l *lineage) follow(rec *journal.Record, v *version) {
	from := -1
	if v.m.From != "" {
		from = engine.MutationOf(rec, v.m.From)
	}
	if from >= 0 {
		l.expect(rec.Muts[from].PrevSeq, v.m.From, v)
	}
	if from < 0 || v.path == l.path { // what a file replaced under an earlier name has no part in it
		l.expect(v.m.PrevSeq, v.path, v)
	}
}

// expect notes that a version comes before another one, in its order: by row,
// and of one row first the path itself.
func (l *lineage) expect(seq uint64, path string, later *version) {
	if seq == 0 || later != nil && seq >= later.seq { // a row that says so is damaged
		return
	}
	v := l.known[place{seq, path}]
	if v == nil {
		v = &version{seq: seq, path: path}
		l.known[place{seq, path}] = v
		at, _ := slices.BinarySearchFunc(l.wait, v, l.order)
		l.wait = slices.Insert(l.wait, at, v)
	}
	if later != nil {
		v.later = append(v.later, later)
	}
}

func (l *lineage) order(a, b *version) int {
	switch {
	case a.seq != b.seq:
		if a.seq > b.seq {
			return -1
		}
		return 1
	case a.path == b.path:
		return 0
	case a.path == l.path:
		return -1
	case b.path == l.path:
		return 1
	}
	return strings.Compare(a.path, b.path)
}
