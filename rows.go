package resilientwrite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// rowIndex knows the newest row of every path and the row of every
// idempotency key. It is a fold over the journal: the part behind the last
// snapshot is in memory, the rest in a sorted file. All of it can be rebuilt.
type rowIndex struct {
	mu       sync.Mutex
	table    *index.Index
	from     *journal.Pos      // where the snapshot ends
	open     map[uint64]string // commits of other writers that are not known to be settled
	imported int64             // bytes of the legacy journal that are taken over
	ahead    map[int64]int64   // imported lines behind a gap: start to end
	own      string            // this writer
	since    int               // rows folded since the last snapshot
}

// snapshotState is what a snapshot of the index holds besides the table.
type snapshotState struct {
	Format   int         `json:"format"`
	Pos      journal.Pos `json:"pos"`
	Imported int64       `json:"imported"`
	// Open are the commits that were not known to be settled, with their writers.
	Open map[uint64]string `json:"open,omitempty"`
}

// openRows loads the newest snapshot. One that cannot be used is no error: the
// journal is read from its start instead.
func openRows(dir fsx.Dir) (*rowIndex, error) {
	r := &rowIndex{}
	r.clear()
	if dir == nil {
		r.table = index.New()
		return r, nil
	}
	table, state, err := index.Load(dir)
	if err != nil {
		return nil, err
	}
	r.table = table
	var st snapshotState
	if len(state) > 0 && json.Unmarshal(state, &st) == nil && st.Format == formatVersion {
		r.from, r.imported = &st.Pos, st.Imported
		if st.Open != nil {
			r.open = st.Open
		}
	} else if len(state) > 0 {
		r.reset()
	}
	return r, nil
}

func (r *rowIndex) clear() {
	r.open, r.ahead = map[uint64]string{}, map[int64]int64{}
	r.from, r.imported, r.since = nil, 0, 0
}

// reset forgets the snapshot.
func (r *rowIndex) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table != nil {
		r.table.Close()
	}
	r.table = index.New()
	r.clear()
}

// fold takes the next row of the journal. It is called in the order of seq.
func (r *rowIndex) fold(rec *journal.Record, _ journal.Pos) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since++
	when := unixSeconds(rec.TS)
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if m.ImportID != "" {
			r.foldImport(m.ImportID)
		}
		switch rec.Kind {
		case journal.KindCommit:
			r.put(m.Identity(), index.Entry{Seq: rec.Seq, Rev: uint32(m.Rev), When: when})
		case journal.KindConflict:
			if m.Rev > 0 {
				r.put(m.Identity(), index.Entry{Seq: rec.Seq, Rev: uint32(m.Rev), When: when})
			}
		case journal.KindAbort:
			r.put(m.Identity(), index.Entry{Seq: m.PrevSeq, Rev: uint32(m.Rev), When: when})
		}
	}
	r.foldOpen(rec)
	if rec.Key == "" {
		return
	}
	switch rec.Kind {
	case journal.KindCommit:
		r.table.Put(index.IdemKey(rec.Key), index.Entry{Seq: rec.Seq, When: when, Idem: true})
	case journal.KindAbort:
		r.table.Put(index.IdemKey(rec.Key), index.Entry{When: when, Idem: true})
	case journal.KindConflict: // the key answers with it
		r.table.Put(index.IdemKey(rec.Key), index.Entry{Seq: rec.Seq, When: when, Idem: true})
	}
}

func (r *rowIndex) put(path string, e index.Entry) { r.table.Put(index.PathKey(path), e) }

// foldOpen notes a commit with slots, until a later row of its writer says that
// it is settled, or it is aborted.
func (r *rowIndex) foldOpen(rec *journal.Record) {
	for seq, writer := range r.open {
		if writer == rec.Writer && seq <= rec.Settled {
			delete(r.open, seq)
		}
	}
	switch {
	case rec.Kind == journal.KindAbort:
		delete(r.open, rec.Ref)
	case rec.Kind == journal.KindCommit && slices.ContainsFunc(rec.Muts, func(m journal.Mutation) bool { return m.Slot != "" }):
		r.open[rec.Seq] = rec.Writer
	}
}

// foldImport notes which bytes of the legacy journal a row came from. Rows
// behind a gap, which a torn batch leaves, are remembered one by one.
func (r *rowIndex) foldImport(id string) {
	from, to, ok := strings.Cut(id, "-")
	start, err1 := strconv.ParseInt(from, 10, 64)
	end, err2 := strconv.ParseInt(to, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return
	}
	r.ahead[start] = end
	for {
		end, ok := r.ahead[r.imported]
		if !ok || end <= r.imported {
			return
		}
		delete(r.ahead, r.imported)
		r.imported = end
	}
}

// importedTo is how much of the legacy journal is taken over without a gap.
func (r *rowIndex) importedTo() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.imported
}

// hasImport reports whether the row from those bytes is there already.
func (r *rowIndex) hasImport(id string) bool {
	from, _, _ := strings.Cut(id, "-")
	start, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.ahead[start]
	return ok
}

func unixSeconds(ts string) uint32 {
	t, err := time.Parse(time.RFC3339Nano, ts)
	if err != nil || t.Unix() < 0 {
		return 0
	}
	return uint32(t.Unix())
}

// last returns the newest row of a path; the zero Entry when there is none.
func (r *rowIndex) last(path string) (index.Entry, error) {
	return r.get(index.PathKey(path))
}

func (r *rowIndex) get(key index.Key) (index.Entry, error) {
	r.mu.Lock()
	table := r.table
	r.mu.Unlock()
	e, _, err := table.Get(key)
	return e, err
}

// unsettled returns the commits of other writers that are not known to be
// settled, the newest first.
func (r *rowIndex) unsettled() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []uint64
	for seq, writer := range r.open {
		if writer != r.own {
			list = append(list, seq)
		}
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

// settledTo is up to where the commits of other writers are settled.
func (r *rowIndex) settledTo(head uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for seq, writer := range r.open {
		if writer != r.own {
			head = min(head, seq-1)
		}
	}
	return head
}

// trustTo notes that the commits up to seq are settled.
func (r *rowIndex) trustTo(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for open := range r.open {
		if open <= seq {
			delete(r.open, open)
		}
	}
}

// doubtful returns the writer of a commit when it is another one and the commit
// is not known to be settled.
func (r *rowIndex) doubtful(seq uint64) (writer string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	writer, ok = r.open[seq]
	return writer, ok && writer != r.own
}

// trust notes that a commit is settled.
func (r *rowIndex) trust(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, seq)
}

// Idempotency keys are kept for keyAge, and longer while the journal has not
// gone on by more than keyCount rows.
const (
	keyAge   = 24 * time.Hour
	keyCount = 100_000
	// saveFrom is the number of rows that make a new snapshot worth its price.
	saveFrom = 512
	// saveAlways is the number of rows behind a snapshot from which a new one
	// is written while the store is open, so that Open stays bounded after a
	// crash as well.
	saveAlways = 50_000
)

// due reports whether a snapshot should be written now.
func (r *rowIndex) due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since >= saveAlways
}

// save writes a snapshot when enough rows have come since the last one.
func (r *rowIndex) save(dir fsx.Dir, log *journal.Log) error {
	r.mu.Lock()
	few := r.since < saveFrom
	r.mu.Unlock()
	if few {
		return nil
	}
	return r.write(dir, log)
}

// write writes a snapshot. No row is taken meanwhile, so that it knows exactly
// the rows up to its position, and all of them are on stable storage.
func (r *rowIndex) write(dir fsx.Dir, log *journal.Log) error {
	return log.Freeze(func(pos journal.Pos) error { return r.writeAt(dir, pos) })
}

func (r *rowIndex) writeAt(dir fsx.Dir, pos journal.Pos) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, err := json.Marshal(snapshotState{Format: formatVersion, Pos: pos, Imported: r.imported, Open: r.open})
	if err != nil {
		return err
	}
	old := unixSeconds(time.Now().Add(-keyAge).UTC().Format(time.RFC3339))
	err = r.table.Save(dir, pos.Seq, state, func(_ index.Key, e index.Entry) bool {
		return e.Seq == 0 || e.Idem && e.When < old && e.Seq+keyCount < pos.Seq
	})
	if err == nil {
		r.since = 0
	}
	return err
}

func (r *rowIndex) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table == nil {
		return nil
	}
	return r.table.Close()
}

// lastRow is the newest row of a path. A damaged snapshot is left behind: the
// rows are read again from the journal.
func (s *engine) lastRow(path string) (index.Entry, error) {
	e, err := s.rows.last(path)
	if err == nil {
		return e, nil
	}
	if err := s.rebuildRows(); err != nil {
		return index.Entry{}, err
	}
	return s.rows.last(path)
}

// rebuildRows folds the whole journal again. Until that is done the old
// knowledge answers.
func (s *engine) rebuildRows() error {
	fresh := &rowIndex{table: index.New(), own: s.rows.own}
	fresh.clear()
	return s.log.Refold(fresh.fold, func() { s.rows.become(fresh) })
}

// become takes over what another index knows. What was known to be settled is
// settled.
func (r *rowIndex) become(o *rowIndex) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for seq := range o.open {
		if _, ok := r.open[seq]; !ok {
			delete(o.open, seq)
		}
	}
	r.table.Adopt(o.table)
	r.open, r.ahead, r.imported, r.since, r.from = o.open, o.ahead, o.imported, o.since, nil
}

// reply is what the row of the commit holds of its outcome.
func (c *engineCommit) reply() json.RawMessage {
	if c.req.key == "" || c.outcome == nil {
		return nil
	}
	data, err := json.Marshal(c.outcome())
	if err != nil {
		return nil
	}
	return data
}

// unmoved fails when rows about a path of the commit, or about its key, have come
// since its locks were taken. Their writer died before they were published, so
// they were found only under the journal lock. The next call finishes them.
func (c *engineCommit) unmoved(uint64) error {
	seq := uint64(0)
	if c.req.key != "" {
		e, _ := c.s.rows.get(index.IdemKey(c.req.key))
		seq = e.Seq
	}
	for _, m := range c.muts {
		e, _ := c.s.rows.last(m.target.Path)
		seq = max(seq, e.Seq)
	}
	if seq <= c.head {
		return nil
	}
	return fault.New(fault.ChangedDuringWrite).Hintf("a write of a process that died a moment ago was found; read the file, then decide again")
}

// answered reports, under the locks, whether the idempotency key answers the
// call. A plan that would set something aside asks first.
func (c *engineCommit) answered() (bool, error) {
	if c.req.key == "" {
		return false, nil
	}
	if err := c.s.log.CatchUp(); err != nil {
		return false, err
	}
	return c.replay()
}

// replay answers a request whose idempotency key was used before.
func (c *engineCommit) replay() (bool, error) {
	e, err := c.s.rows.get(index.IdemKey(c.req.key))
	if err != nil {
		if err := c.s.rebuildRows(); err != nil {
			return false, err
		}
		if e, err = c.s.rows.get(index.IdemKey(c.req.key)); err != nil {
			return false, err
		}
	}
	if e.Seq == 0 {
		return false, nil
	}
	rec, err := c.s.log.Find(e.Seq)
	if errors.Is(err, journal.ErrNotFound) || err == nil && rec.Key != c.req.key {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if c.s.opts.Sync != syncOff { // its writer may have died before it was durable
		if err := c.s.log.Certain(context.Background(), e.Seq); err != nil {
			return false, c.s.poison(err)
		}
	}
	hash := rec.KeyHash
	if rec.Kind == journal.KindConflict {
		done, err := c.s.log.Find(rec.Ref)
		if err != nil {
			return false, err
		}
		hash = done.KeyHash
	}
	if hash != c.req.hash {
		return false, fault.New(fault.IdempotencyKeyReused).With("idempotency_key", c.req.key).With("journal_seq", rec.Seq)
	}
	if rec.Kind == journal.KindConflict {
		return false, endedInConflict(rec)
	}
	c.replayed, c.ended = rec, true
	for i, m := range c.muts {
		if i < len(rec.Muts) {
			m.applied = writeOp(rec.Muts[i].Op)
		}
	}
	return true, nil
}

// endedInConflict is the answer to a key whose commit is in the journal, but
// could not be brought under a name when its writer had died.
func endedInConflict(rec *journal.Record) *fault.Fault {
	e := fault.New(fault.ChangedOutside).With("journal_seq", rec.Seq).With("reason", rec.Reason).
		Hintf("the call with this idempotency key was interrupted, and another program changed the file before recovery could complete it; the content of the call is kept in history; read the file, then call again with a new key")
	if len(rec.Muts) > 0 {
		e.Path = rec.Muts[0].Path
	}
	return e
}
