package resilientwrite

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// CheckRequest asks for the store to be checked.
type CheckRequest struct {
	// Also hash every kept version and every file that the journal says was
	// written.
	Deep bool `json:"deep,omitempty"`
}

// CheckResult is what a check found.
type CheckResult struct {
	// True when no problem was found.
	Clean bool `json:"clean"`
	// The problems found.
	Problems []CheckProblem `json:"problems"`
	// How much was examined.
	Counters CheckCounters `json:"counters"`
}

// CheckProblem is one thing that is wrong.
type CheckProblem struct {
	// Stable name of the problem.
	Code string `json:"code"`
	// The file concerned, relative to the workspace or the state directory.
	Path string `json:"path,omitempty"`
	// The journal row concerned.
	Seq uint64 `json:"seq,omitempty"`
	// What was found.
	Detail string `json:"detail,omitempty"`
}

// CheckCounters says how much was looked at.
type CheckCounters struct {
	// Journal segments.
	Segments int `json:"segments"`
	// Archived journal segments.
	Parked int `json:"parked"`
	// Problems that the operator has acknowledged; they are not reported again.
	Accepted int `json:"accepted"`
	// Journal rows.
	Rows int `json:"rows"`
	// Unreadable journal lines.
	Malformed int `json:"malformed"`
	// Kept versions.
	Objects int `json:"objects"`
	// Total size of kept versions in bytes.
	Bytes int64 `json:"bytes"`
	// Files of commits that are not settled.
	Staged int `json:"staged"`
	// Files compared with the journal.
	Paths int `json:"paths"`
}

// Check compares everything the store keeps with everything else: the chain
// and the order of the journal, the head that meta.json remembers, the entries
// of staging/, the kept versions, and – when deep – the bytes of every kept
// version and of every file as the journal last wrote it. It changes nothing.
//
// A file that differs from its newest row is no problem of the store: people
// edit files. Deep reports it as file_differs. Errors: the storage details,
// [ErrStoreClosed].
func (s *Store) Check(ctx context.Context, r CheckRequest) (CheckResult, error) {
	if err := s.engine.EnterReader(); err != nil {
		return CheckResult{}, s.verbError("check", err)
	}
	defer s.engine.Leave()
	_, account, end := metered(ctx)
	defer end()
	c := newChecker(s, r.Deep, account)
	if err := c.run(ctx); err != nil {
		return CheckResult{}, s.verbError("check", err)
	}
	return c.out, nil
}

func newChecker(s *Store, deep bool, account *meter) *checker {
	c := &checker{s: s, deep: deep, newest: map[string]newestRow{}, account: account}
	c.out.Problems = []CheckProblem{}
	return c
}

// run looks at everything.
func (c *checker) run(ctx context.Context) error {
	if c.s.engine.Behind != nil {
		c.s.engine.Behind.Drain() // what cannot be settled is told by what is looked at
	}
	if c.s.engine.Disk.State != nil {
		for _, step := range []func() error{c.journal, c.meta, c.staging, c.history, c.parts, c.files} {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := step(); err != nil {
				return err
			}
		}
	}
	c.out.Clean = len(c.out.Problems) == 0
	return nil
}

// checker is one check in progress.
type checker struct {
	s      *Store
	deep   bool
	out    CheckResult
	pos    journal.Pos
	newest map[string]newestRow
	rows   []journal.Problem // those of the problems that are the journal's
	known  *journal.Known
	closed engine.Meta // as meta.json was when the check began
	heads  map[uint64][32]byte
	last   uint64      // newest row that was looked at
	gaps   [][2]uint64 // rows that are not there

	account *meter
}

// newestRow is the last row of a path that happened.
type newestRow struct {
	seq  uint64
	sha  string
	prev uint64

	imported bool // from an export: it does not speak of this workspace
}

func (c *checker) problem(code, path string, seq uint64, detail string) {
	c.out.Problems = append(c.out.Problems, CheckProblem{Code: code, Path: path, Seq: seq, Detail: detail})
}

func (c *checker) journal() error {
	if c.s.engine.Log == nil {
		return nil
	}
	c.account.things(StepJournal, 0, "checking journal rows")
	counts, err := c.s.engine.Log.AuditWith(c.auditor())
	c.pos = counts.Pos
	n := &c.out.Counters
	n.Segments, n.Parked, n.Rows, n.Malformed, n.Accepted = counts.Segments, counts.Parked, counts.Rows, counts.Malformed, counts.Accepted
	return err
}

// row follows the versions of every path.
func (c *checker) row(rec *journal.Record, _ journal.Pos) {
	c.account.one()
	c.follow(rec.Seq)
	if rec.Manifest != "" && len(rec.Muts) == 0 {
		c.manifestMissing(rec)
	}
	for i := range rec.Muts {
		m := &rec.Muts[i]
		path := m.Identity()
		was := c.newest[path]
		switch rec.Kind {
		case journal.KindCommit, journal.KindObserved:
			if m.PrevSeq != was.seq && !c.unlinked(rec.Seq, m.PrevSeq, was.seq) {
				c.linkBroken(path, rec.Seq, m.PrevSeq, was.seq)
			}
			c.newest[path] = newestRow{seq: rec.Seq, sha: m.SHA256, prev: m.PrevSeq, imported: isExported(m.ImportID)}
		case journal.KindConflict:
			if m.Rev > 0 {
				c.newest[path] = newestRow{seq: rec.Seq, sha: m.SHA256, prev: m.PrevSeq}
			}
		case journal.KindAbort:
			if m.PrevSeq == 0 { // whatever is there, the journal never wrote it
				delete(c.newest, path)
				continue
			}
			c.newest[path] = newestRow{seq: m.PrevSeq, sha: m.SHA256, imported: was.imported}
		}
	}
}

// meta compares the head that the last Close saw: a journal that was cut off
// ends before it.
func (c *checker) meta() error {
	data, err := durable.ReadFile(c.s.engine.Disk.State, engine.MetaName, engine.MetaLimit)
	if engine.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var m engine.Meta
	if json.Unmarshal(data, &m) != nil {
		c.problem("meta_unreadable", engine.MetaName, 0, "the cache is not valid JSON; the next open rebuilds it")
		return nil
	}
	return c.head()
}

// staging counts the entries of commits in progress; one of a dead writer that
// is still there after Open was missed.
func (c *checker) staging() error {
	if c.s.engine.Disk.Staging == nil {
		return nil
	}
	held, err := c.s.engine.HeldSlots()
	if err != nil {
		return err
	}
	c.out.Counters.Staged = len(held)
	stale, err := c.s.engine.SlotsOfDead()
	if err != nil {
		return err
	}
	for _, name := range stale {
		c.problem("stale_staging", "staging/"+name, 0, "a dead writer left it; the next open completes or removes it")
	}
	return nil
}

// history looks at every kept version.
func (c *checker) history() error {
	if c.s.engine.History == nil {
		return nil
	}
	c.account.things(StepHistory, 0, "checking kept versions")
	return c.s.engine.History.Each(func(name string, st fsx.Stat, ok bool) error {
		if !ok {
			if !strings.HasSuffix(name, durable.TempSuffix) && !isErasedMark(name) {
				c.problem("unknown_file", "history/"+name, 0, "this is not the name of a kept version")
			}
			return nil
		}
		c.account.one()
		c.out.Counters.Objects++
		c.out.Counters.Bytes += st.Size
		if !c.deep {
			return nil
		}
		err := c.s.engine.History.Verify(name)
		if errors.Is(err, blob.ErrDamaged) {
			c.problem("object_damaged", "history/"+name, 0, "the kept version does not match its hash")
			return nil
		}
		return err
	})
}

// files compares the workspace with the newest rows.
func (c *checker) files() error {
	if !c.deep {
		return nil
	}
	paths := make([]string, 0, len(c.newest))
	for path := range c.newest {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	c.account.things(StepFiles, int64(len(paths)), "comparing files with the journal")
	for _, path := range paths {
		c.account.one()
		c.out.Counters.Paths++
		want := c.newest[path]
		if want.imported { // it speaks of another workspace
			continue
		}
		have, err := c.s.hashPath(path)
		if want.sha == "" && c.s.noFile(err) {
			continue // gone it is, whatever has its name or that of its directory now
		}
		if err != nil {
			c.problem("file_unreadable", path, want.seq, string(c.s.engine.ErrorOf(err).Code))
		} else if have == "" && strings.HasPrefix(path, engine.StateDirName+"/tx/") {
			continue // staged operations go with their transaction
		} else if c.known.FileLeads(path, want.sha, have) || c.known.RowChanged(want.seq) {
			continue // erased, or under a path that was erased
		} else if have != want.sha {
			c.problem("file_differs", path, want.seq, "the file differs from its newest journal row; it was changed outside this store")
		}
	}
	return nil
}

// noFile reports whether an error of a look at a path says that no file can be
// there: it is a directory, or a file is where one would have to be.
func (s *Store) noFile(err error) bool {
	if err == nil {
		return false
	}
	d := s.engine.ErrorOf(err).Code
	return d == fault.IsADirectory || d == fault.NotADirectory
}

// hashPath hashes a file of the workspace; "" when it is absent.
func (s *Store) hashPath(path string) (string, error) {
	target, err := s.engine.Locate(path)
	if err != nil {
		return "", err
	}
	defer target.Close()
	if !target.Exists() {
		return "", nil
	}
	f, st, err := engine.OpenIfThere(target.Parent, target.Name)
	if err != nil || f == nil {
		return "", err
	}
	defer f.Close()
	return engine.ShaOf(f, st.Size)
}
