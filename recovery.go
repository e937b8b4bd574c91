package resilientwrite

import (
	"context"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// RecoveryReport says what [Open] found and did.
type RecoveryReport struct {
	Finished      []RecoveredPath `json:"finished" desc:"Writes that were committed but not yet in place, and now are."`
	Aborted       []RecoveredPath `json:"aborted" desc:"Writes that were never acknowledged and were undone."`
	Conflicts     []RecoveredPath `json:"conflicts" desc:"Files somebody else changed meanwhile; they were left alone and our version is kept in history."`
	Swept         int             `json:"swept" desc:"Stale staging files that were removed."`
	Pending       int             `json:"pending" desc:"Writes a live writer, or a read-only open, leaves unfinished."`
	TornBytes     int64           `json:"torn_bytes" desc:"Bytes of half-written journal rows that were passed over."`
	Malformed     int             `json:"malformed" desc:"Journal lines that could not be read."`
	Imported      int64           `json:"imported" desc:"Rows taken over from the single-file journal of the Python implementation."`
	ImportSkipped int64           `json:"import_skipped" desc:"Lines of that journal that could not be read."`
	Rebuilt       bool            `json:"rebuilt" desc:"True when caches were missing or damaged and were rebuilt from the journal."`
	Poisoned      bool            `json:"poisoned" desc:"True when the last opener had seen a failed flush."`
	Warnings      []Warning       `json:"warnings" desc:"What the operator should know."`
}

// RecoveredPath is one file that recovery looked at.
type RecoveredPath struct {
	Path   string `json:"path" desc:"Path relative to the workspace."`
	Seq    uint64 `json:"seq,omitempty" desc:"Its journal row."`
	SHA256 string `json:"sha256,omitempty" desc:"The version the journal row tells of."`
	Reason string `json:"reason,omitempty" desc:"Why."`
}

// Recovery rests on evidence, not on a watermark: a commit is unsettled
// exactly while a file of it lies in staging/. Such a file says which writer
// made it, whose liveness is a kernel lock, and behind which journal row its
// own row stands, if it was written at all.

// leftover is what one commit left in staging/.
type leftover struct {
	id     string
	writer string
	after  uint64          // its row, if any, has a higher seq
	names  []string        // entries, also those that were never part of a commit
	rec    *journal.Record // nil when the commit point was not reached
}

// stagingName is the form of every name that a commit puts into staging/:
// writer, journal head and counter in base 36, number of the mutation.
var stagingName = regexp.MustCompile(`^(([0-9a-z]{1,40})-([0-9a-z]{1,13})-[0-9a-z]{1,13})\.[0-9]{1,4}(\.spool)?$`)

// leftovers lists what commits have in staging/. A name that is not of our
// form is nobody's evidence and stays.
func (s *Store) leftovers() (map[string]*leftover, error) {
	names, err := s.disk.staging.Names()
	if err != nil {
		return nil, err
	}
	found := map[string]*leftover{}
	for _, name := range names {
		part := stagingName.FindStringSubmatch(name)
		if part == nil {
			continue
		}
		l := found[part[1]]
		if l == nil {
			after, _ := strconv.ParseUint(part[3], 36, 64)
			l = &leftover{id: part[1], writer: part[2], after: after}
			found[l.id] = l
		}
		l.names = append(l.names, name)
	}
	return found, nil
}

// recover finishes or undoes what dead writers left.
func (s *Store) recover(ctx context.Context) error {
	found, err := s.leftovers()
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for id, l := range found {
		live, known := alive[l.writer]
		if !known {
			if live, err = lock.Alive(s.disk.locks, l.writer); err != nil {
				return err
			}
			alive[l.writer] = live
		}
		if live {
			s.report.Pending++
			delete(found, id)
		}
	}
	s.rows.trustAllBut(alive)
	dead, err := s.findRows(found)
	if err != nil {
		return err
	}
	if s.report.Poisoned {
		if err := s.restage(dead); err != nil {
			return err
		}
	}
	for _, l := range dead {
		if l.rec == nil {
			if err := s.sweep(l); err != nil {
				return err
			}
			continue
		}
		if err := s.finishDead(ctx, l.rec); err != nil {
			return err
		}
	}
	if err := s.judgeUnwitnessed(ctx, found, alive); err != nil {
		return err
	}
	return s.forgetDead()
}

// unwitnessedRows is how many of the newest rows are looked at when it is not
// known up to where everything is settled.
const unwitnessedRows = 4096

// judgeUnwitnessed looks for commits whose row survived a power cut although
// their staged files did not: the two are flushed side by side. Such a commit
// was never acknowledged, and the file is exactly what it was before; the row
// is taken back. A row counts as settled when its writer said so in a later
// row, when a later commit of the path exists, or when it lies behind the
// floor that the last orderly Close wrote down.
func (s *Store) judgeUnwitnessed(ctx context.Context, found map[string]*leftover, alive map[string]bool) error {
	head := s.log.Head()
	floor := head - min(head, unwitnessedRows)
	if s.settledFloor > 0 {
		floor = max(floor, min(s.settledFloor, head))
	}
	var rows []*journal.Record
	said := map[string]uint64{}   // by each writer: up to here it is done
	newest := map[string]uint64{} // commit of each path
	aborted := map[uint64]bool{}
	err := s.log.Range(floor+1, func(rec *journal.Record, _ journal.Pos) error {
		said[rec.Writer] = max(said[rec.Writer], rec.Settled)
		switch rec.Kind {
		case journal.KindAbort:
			aborted[rec.Ref] = true
		case journal.KindCommit:
			if found[rec.Commit] == nil && rec.Commit != "" {
				rows = append(rows, rec)
			}
			for i := range rec.Muts {
				newest[rec.Muts[i].Identity()] = rec.Seq
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, rec := range rows {
		if aborted[rec.Seq] || rec.Seq <= said[rec.Writer] || alive[rec.Writer] {
			continue
		}
		if live, err := lock.Alive(s.disk.locks, rec.Writer); err != nil || live {
			if err != nil {
				return err
			}
			continue
		}
		never, err := s.neverHappened(rec, newest)
		if err != nil {
			return err
		}
		if !never {
			continue
		}
		if err := s.writeAbort(ctx, rec, "crash_before_commit"); err != nil {
			return err
		}
		for _, m := range rec.Muts {
			s.report.Aborted = append(s.report.Aborted, RecoveredPath{
				Path: m.Identity(), Seq: rec.Seq, SHA256: m.SHA256, Reason: "crash_before_commit",
			})
		}
	}
	return nil
}

// neverHappened reports whether every file of a commit is what it was before.
func (s *Store) neverHappened(rec *journal.Record, newest map[string]uint64) (bool, error) {
	changes := false
	for _, m := range rec.Muts {
		if m.SHA256 == m.PrevSHA256 { // the same before and behind it
			continue
		}
		changes = true
		if newest[m.Identity()] != rec.Seq {
			return false, nil
		}
		have, err := s.hashPath(m.Identity())
		if err != nil {
			return false, nil // whatever is there now, it is not for us to judge
		}
		if have != m.PrevSHA256 || have == m.SHA256 {
			return false, nil
		}
	}
	return changes, nil
}

// findRows looks the leftovers' rows up in the journal and returns the
// leftovers in the order of their rows, those without one last.
func (s *Store) findRows(found map[string]*leftover) ([]*leftover, error) {
	if len(found) == 0 {
		return nil, nil
	}
	from := s.log.Head()
	list := make([]*leftover, 0, len(found))
	for _, l := range found {
		from = min(from, l.after)
		list = append(list, l)
	}
	err := s.log.Range(from+1, func(rec *journal.Record, _ journal.Pos) error {
		if l := found[rec.Commit]; l != nil && rec.Kind == journal.KindCommit {
			l.rec = rec
		}
		return nil
	})
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i].rec, list[j].rec
		switch {
		case a == nil || b == nil:
			return a != nil || b == nil && list[i].id < list[j].id
		}
		return a.Seq < b.Seq
	})
	return list, err
}

// sweep removes what a commit left that never reached its commit point.
func (s *Store) sweep(l *leftover) error {
	for _, name := range l.names {
		s.removeBeside(name)
		if err := s.disk.staging.Remove(name); err != nil && !isAbsent(err) {
			return err
		}
		s.report.Swept++
	}
	return nil
}

// removeBeside removes the file beside a target for which the entry name of
// staging/ stands, if it does.
func (s *Store) removeBeside(name string) {
	data, err := durable.ReadFile(s.disk.staging, name, metaLimit)
	if err != nil || !strings.HasPrefix(string(data), besideMark) {
		return
	}
	target, err := s.locate(strings.TrimPrefix(string(data), besideMark))
	if err != nil {
		return
	}
	defer target.Close()
	if target.Exists() {
		target.Parent.Remove(".rw-" + name + ".tmp")
	}
}

// besideMark begins the entry in staging/ of a file that is staged beside its
// target; the path of the target follows.
const besideMark = "resilientwrite: staged beside "

// restage copies every staged file after a failed flush: the pages of the old
// one may be gone although they can still be read.
func (s *Store) restage(dead []*leftover) error {
	for _, l := range dead {
		for _, name := range l.names {
			if err := durable.Rewrite(s.disk.staging, name); err != nil && !isAbsent(err) {
				return err
			}
		}
	}
	return nil
}

// forgetDead removes the liveness files of dead writers that left nothing.
func (s *Store) forgetDead() error {
	left, err := s.leftovers()
	if err != nil {
		return err
	}
	busy := map[string]bool{s.writer: true}
	for _, l := range left {
		busy[l.writer] = true
	}
	writers, err := lock.Writers(s.disk.locks)
	if err != nil {
		return err
	}
	for _, w := range writers {
		if busy[w] {
			continue
		}
		if live, err := lock.Alive(s.disk.locks, w); err == nil && !live {
			lock.Forget(s.disk.locks, w)
		}
	}
	return nil
}

// countPending tells a read-only opener how much is unfinished.
func (s *Store) countPending() error {
	found, err := s.leftovers()
	s.report.Pending = len(found)
	return err
}

// leftBehind returns the newest commit of one of the paths when a dead writer
// did not settle it. The caller holds the locks of the paths, so a live writer
// of them has settled or handed over.
func (s *Store) leftBehind(paths []string) (*journal.Record, error) {
	for _, path := range paths {
		seq := s.rows.doubtful(path)
		if seq == 0 {
			continue
		}
		rec, err := s.log.Find(seq)
		if err != nil {
			return nil, err
		}
		traces, err := s.hasTraces(rec)
		if err != nil {
			return nil, err
		}
		if traces {
			live, err := lock.Alive(s.disk.locks, rec.Writer)
			if err != nil || !live {
				return rec, err
			}
			continue
		}
		s.rows.trust(path, seq)
	}
	return nil, nil
}

// hasTraces reports whether anything of the commit lies in staging/.
func (s *Store) hasTraces(rec *journal.Record) (bool, error) {
	for i := range rec.Muts {
		_, err := s.disk.staging.Lstat(stagedName(rec.Commit, i))
		if err == nil {
			return true, nil
		}
		if !isAbsent(err) {
			return false, err
		}
	}
	return false, nil
}

// finishDead brings the commit of a dead writer to its end, under the locks
// of all its paths.
func (s *Store) finishDead(ctx context.Context, rec *journal.Record) error {
	keys := make([]string, 0, len(rec.Muts))
	for _, m := range rec.Muts {
		keys = append(keys, pathLock(m.Identity()))
	}
	unlock, err := s.locks.Keys(ctx, s.opts.LockTimeout, "recovery", keys...)
	if err != nil {
		return err
	}
	defer unlock()
	// Somebody else may have done it before we had the locks.
	traces, err := s.hasTraces(rec)
	if err != nil || !traces {
		return err
	}
	if err := s.log.CatchUp(); err != nil {
		return err
	}
	f := &finisher{s: s, rec: rec}
	defer f.close()
	if err := f.finish(ctx); err != nil {
		return err
	}
	for _, m := range rec.Muts {
		s.rows.trust(m.Identity(), rec.Seq)
	}
	return nil
}
