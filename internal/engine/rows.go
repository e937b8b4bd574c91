package engine

import (
	"encoding/json"
	"errors"
	"maps"
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

// RowIndex knows the newest row of every path and the row of every
// idempotency key. It is a fold over the journal: the part after the last
// snapshot is in memory, the rest in a sorted file. All of it can be rebuilt.
type RowIndex struct {
	mu       sync.Mutex
	table    *index.Index
	from     *journal.Pos      // where the snapshot ends
	open     map[uint64]string // commits of other writers that are not known to be settled
	left     map[uint64]bool   // those of them that are left to the next Open
	over     []overNote        // notes about them
	settled  map[string]uint64 // what each writer has said last of what is settled
	imported int64             // bytes of the legacy journal that are taken over
	ahead    map[int64]line    // imported lines after a gap, by their start
	own      string            // this writer
	off      uint64            // newest commit that was made at the level off
	since    int               // rows folded since the last snapshot
}

// overNote is the note of a commit that writes over a file whose name it could
// not replace.
type overNote struct {
	Ref  uint64 `json:"ref"`
	Path string `json:"path"`
}

// SnapshotState is what a snapshot of the index holds besides the table.
type SnapshotState struct {
	Format   int         `json:"format"`
	Pos      journal.Pos `json:"pos"`
	Imported int64       `json:"imported"`
	Off      uint64      `json:"off,omitempty"` // newest commit that was made at the level off
	// Open are the commits that were not known to be settled, with their writers.
	Open map[uint64]string `json:"open,omitempty"`
	Over []overNote        `json:"over,omitempty"`
}

// OpenRows loads the newest snapshot. One that cannot be used is no error: the
// journal is read from its start instead.
func OpenRows(dir fsx.Dir) (*RowIndex, error) {
	r := &RowIndex{}
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
	var st SnapshotState
	if len(state) > 0 && json.Unmarshal(state, &st) == nil && st.Format == FormatVersion {
		r.from, r.imported, r.off = &st.Pos, st.Imported, st.Off
		if st.Open != nil {
			r.open, r.over = st.Open, st.Over
		}
	} else if len(state) > 0 {
		r.reset()
	}
	return r, nil
}

func (r *RowIndex) clear() {
	r.open, r.left, r.ahead, r.settled = map[uint64]string{}, map[uint64]bool{}, map[int64]line{}, map[string]uint64{}
	r.from, r.imported, r.since, r.off, r.over = nil, 0, 0, 0, nil
}

// reset forgets the snapshot.
func (r *RowIndex) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table != nil {
		r.table.Close()
	}
	r.table = index.New()
	r.clear()
}

// Fold takes the next row of the journal. It is called in the order of seq.
func (r *RowIndex) Fold(rec *journal.Record, _ journal.Pos) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since++
	when := unixSeconds(rec.TS)
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if m.ImportID != "" {
			r.foldImport(m.ImportID, rec)
		}
		switch rec.Kind {
		case journal.KindCommit, journal.KindObserved:
			r.put(m.Identity(), index.Entry{Seq: rec.Seq, Rev: uint32(m.Rev), When: when})
		case journal.KindConflict:
			if m.Rev > 0 {
				r.put(m.Identity(), index.Entry{Seq: rec.Seq, Rev: uint32(m.Rev), When: when})
			}
		case journal.KindAbort:
			if r.isNewest(index.PathKey(m.Identity()), rec.Ref) {
				r.put(m.Identity(), index.Entry{Seq: m.PrevSeq, Rev: uint32(m.Rev), When: when})
			}
		}
	}
	if rec.Level == string(SyncOff) {
		r.off = rec.Seq
	}
	r.foldOpen(rec)
	if rec.Key == "" {
		return
	}
	switch rec.Kind {
	case journal.KindCommit:
		r.table.Put(index.IdemKey(rec.Key), index.Entry{Seq: rec.Seq, When: when, Idem: true})
	case journal.KindAbort:
		if r.isNewest(index.IdemKey(rec.Key), rec.Ref) {
			r.table.Put(index.IdemKey(rec.Key), index.Entry{When: when, Idem: true})
		}
	case journal.KindConflict: // the key answers with it
		r.table.Put(index.IdemKey(rec.Key), index.Entry{Seq: rec.Seq, When: when, Idem: true})
	}
}

// isNewest reports whether the row of a key is seq. A key that cannot be looked up is
// not, so that the row which has it stays. r.mu is held.
func (r *RowIndex) isNewest(key index.Key, seq uint64) bool {
	e, _, err := r.table.Get(key)
	return err == nil && e.Seq == seq
}

func (r *RowIndex) put(path string, e index.Entry) { r.table.Put(index.PathKey(path), e) }

// foldOpen notes a commit with slots, until a later row of its writer says that
// it is settled, or it is aborted.
func (r *RowIndex) foldOpen(rec *journal.Record) {
	if rec.Settled > r.settled[rec.Writer] {
		r.settled[rec.Writer] = rec.Settled
		maps.DeleteFunc(r.open, func(seq uint64, writer string) bool { return writer == rec.Writer && seq <= rec.Settled })
	}
	r.over = slices.DeleteFunc(r.over, func(n overNote) bool { return r.open[n.Ref] == "" })
	switch {
	case rec.Kind == journal.KindAbort:
		delete(r.open, rec.Ref)
	case rec.Note != nil && rec.Note.What == noteInPlace:
		r.over = append(r.over, overNote{rec.Ref, rec.Note.Path})
	case rec.Kind == journal.KindCommit && slices.ContainsFunc(rec.Muts, func(m journal.Mutation) bool { return m.Slot != "" || m.Class == journal.ClassDirectory }):
		r.open[rec.Seq] = rec.Writer
	}
}

// isOver reports whether a note says that the commit writes over the file,
// because its name could not be replaced.
func (r *RowIndex) isOver(seq uint64, path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.over, overNote{seq, path})
}

// line is a line of the legacy journal.
type line struct {
	end int64
	seq uint64 // its row
}

// foldImport notes which bytes of the legacy journal a row came from. Rows
// after a gap, which a torn batch leaves, are remembered one by one.
func (r *RowIndex) foldImport(id string, rec *journal.Record) {
	from, to, ok := strings.Cut(id, "-")
	start, err1 := strconv.ParseInt(from, 10, 64)
	end, err2 := strconv.ParseInt(to, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return
	}
	if rec.Kind == journal.KindAbort {
		delete(r.ahead, start)
		return
	}
	r.ahead[start] = line{end, rec.Seq}
	for {
		next, ok := r.ahead[r.imported]
		if !ok || next.end <= r.imported {
			return
		}
		delete(r.ahead, r.imported)
		r.imported = next.end
	}
}

// importedTo is how much of the legacy journal is taken over without a gap.
func (r *RowIndex) importedTo() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.imported
}

// importedAhead returns the rows of lines after a gap.
func (r *RowIndex) importedAhead() map[uint64]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := map[uint64]bool{}
	for _, of := range r.ahead {
		rows[of.seq] = true
	}
	return rows
}

func unixSeconds(ts string) uint32 {
	t, err := time.Parse(time.RFC3339Nano, ts)
	if err != nil || t.Unix() < 0 {
		return 0
	}
	return uint32(t.Unix())
}

// Last returns the newest row of a path; the zero Entry when there is none.
func (r *RowIndex) Last(path string) (index.Entry, error) {
	return r.Get(index.PathKey(path))
}

func (r *RowIndex) Get(key index.Key) (index.Entry, error) {
	r.mu.Lock()
	table := r.table
	r.mu.Unlock()
	e, _, err := table.Get(key)
	return e, err
}

// unsettled returns the commits of all writers but one that are not known to be
// settled, the newest first.
func (r *RowIndex) unsettled(but string) []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []uint64
	for seq, writer := range r.open {
		if writer != but && !r.left[seq] {
			list = append(list, seq)
		}
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

// settledTo is up to where the commits of other writers are settled.
func (r *RowIndex) settledTo(head uint64) uint64 {
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
func (r *RowIndex) trustTo(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for open := range r.open {
		if open <= seq {
			delete(r.open, open)
		}
	}
}

// offTo is the newest commit that was made at the level off, 0 for none.
func (r *RowIndex) offTo() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.off
}

// doubtful returns the writer of a commit when it is another one and the commit
// is not known to be settled.
func (r *RowIndex) doubtful(seq uint64) (writer string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	writer, ok = r.open[seq]
	return writer, ok && writer != r.own && !r.left[seq]
}

// leave leaves a commit to the next Open: a slot of it holds the only copy of a version.
func (r *RowIndex) leave(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[seq] = true
}

// trust notes that a commit is settled.
func (r *RowIndex) trust(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, seq)
}

// Idempotency keys are kept for keyAge, and longer while the journal has not
// gone on by more than keyCount rows.
const (
	KeyAge   = 24 * time.Hour
	KeyCount = 100_000
	// saveFrom is the number of rows that make a new snapshot worth its price.
	saveFrom = 512
	// saveAlways is the number of rows after a snapshot from which a new one
	// is written while the store is open, so that Open stays bounded after a
	// crash as well.
	saveAlways = 50_000
)

// due reports whether a snapshot should be written now.
func (r *RowIndex) due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since >= saveAlways
}

// save writes a snapshot when enough rows have come since the last one.
func (r *RowIndex) save(dir fsx.Dir, log *journal.Log) error {
	r.mu.Lock()
	few := r.since < saveFrom
	r.mu.Unlock()
	if few {
		return nil
	}
	return r.Write(dir, log)
}

// Write writes a snapshot. No row is taken meanwhile, so that it knows exactly
// the rows up to its position, and all of them are on stable storage.
func (r *RowIndex) Write(dir fsx.Dir, log *journal.Log) error {
	return log.Freeze(func(pos journal.Pos) error { return r.WriteAt(dir, pos) })
}

func (r *RowIndex) WriteAt(dir fsx.Dir, pos journal.Pos) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, err := json.Marshal(SnapshotState{Format: FormatVersion, Pos: pos, Imported: r.imported, Off: r.off, Open: r.open, Over: r.over})
	if err != nil {
		return err
	}
	old := unixSeconds(time.Now().Add(-KeyAge).UTC().Format(time.RFC3339))
	err = r.table.Save(dir, pos.Seq, state, func(_ index.Key, e index.Entry) bool {
		return e.Seq == 0 || e.Idem && e.When < old && e.Seq+KeyCount < pos.Seq
	})
	if err == nil {
		r.since = 0
	}
	return err
}

func (r *RowIndex) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.table == nil {
		return nil
	}
	return r.table.Close()
}

// LastRow is the newest row of a path. A damaged snapshot is not used: the
// rows are read again from the journal.
func (s *Engine) LastRow(path string) (index.Entry, error) {
	e, err := s.Rows.Last(path)
	if err == nil {
		return e, nil
	}
	if err := s.RebuildRows(); err != nil {
		return index.Entry{}, err
	}
	return s.Rows.Last(path)
}

// RebuildRows folds the whole journal again. Until that is done the old
// knowledge answers.
func (s *Engine) RebuildRows() error {
	fresh := &RowIndex{table: index.New(), own: s.Rows.own}
	fresh.clear()
	return s.Log.Refold(fresh.Fold, func() { s.Rows.become(fresh) })
}

// become takes over what another index knows. What was known to be settled is
// settled.
func (r *RowIndex) become(o *RowIndex) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for seq := range o.open {
		if _, ok := r.open[seq]; !ok {
			delete(o.open, seq)
		}
	}
	r.table.Adopt(o.table)
	r.open, r.ahead, r.imported, r.since, r.from, r.off, r.over = o.open, o.ahead, o.imported, o.since, nil, o.off, o.over
}

// reply is what the row of the commit holds of its outcome.
func (c *Commit) reply() json.RawMessage {
	if c.Req.Key == "" || c.Outcome == nil {
		return nil
	}
	data, err := json.Marshal(c.Outcome())
	if err != nil {
		return nil
	}
	return data
}

// unmoved fails when rows about a path of the commit have come since its locks
// were taken: an import takes none.
func (c *Commit) unmoved(uint64) error {
	for _, m := range c.Muts {
		if e, _ := c.s.Rows.Last(m.Target.Path); e.Seq > c.head {
			return fault.New(fault.ChangedDuringWrite).Hintf("rows about the file were imported at the same moment; read the file, then decide again")
		}
	}
	return nil
}

// keyRow returns the row of the idempotency key; the zero Entry if it is free.
func (c *Commit) keyRow() (index.Entry, error) {
	e, err := c.s.Rows.Get(index.IdemKey(c.Req.Key))
	if err != nil {
		if err = c.s.RebuildRows(); err == nil {
			e, err = c.s.Rows.Get(index.IdemKey(c.Req.Key))
		}
	}
	return e, err
}

// leftOfKey returns the commit that the idempotency key has made, if its writer died
// before it was settled. Its paths may be others than those of the call.
func (c *Commit) leftOfKey() (*journal.Record, error) {
	e, err := c.keyRow()
	if err != nil {
		return nil, err
	}
	return c.s.leftAt(e.Seq)
}

// Answered reports, under the locks, whether the idempotency key answers the
// call, because it was used before. A plan that would set something aside asks first.
func (c *Commit) Answered() (bool, error) {
	if c.Req.Key == "" {
		return false, nil
	}
	e, err := c.keyRow()
	if err != nil || e.Seq == 0 {
		return false, err
	}
	rec, err := c.s.Log.Find(e.Seq)
	if errors.Is(err, journal.ErrNotFound) || err == nil && rec.Key != c.Req.Key {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if c.s.Opts.Sync != SyncOff { // its writer may have died before it was durable
		if err := c.s.Log.Certain(e.Seq); err != nil {
			return false, c.s.Poison(err)
		}
	}
	hash := rec.KeyHash
	if rec.Kind == journal.KindConflict {
		done, err := c.s.Log.Find(rec.Ref)
		if err != nil {
			return false, err
		}
		hash = done.KeyHash
	}
	if hash != c.Req.Hash {
		return false, fault.New(fault.IdempotencyKeyReused).With("idempotency_key", c.Req.Key).With("journal_seq", rec.Seq)
	}
	if rec.Kind == journal.KindConflict {
		return false, endedInConflict(rec)
	}
	if err := c.s.secure(rec); err != nil {
		return false, err
	}
	c.Replayed, c.Ended = rec, true
	for i, m := range c.Muts {
		if i < len(rec.Muts) {
			m.Applied = WriteOp(rec.Muts[i].Op)
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
