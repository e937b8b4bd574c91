package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/hub/object"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Shipper ships one store to a hub. Of several shippers of a store, in any
// process, only one works at a time. It is not safe for concurrent use.
type Shipper struct {
	Hub   *Hub
	Store *rw.Store
	// Label is the name of the store for people; it need not be unique.
	Label string
	// Lease is how long a task is held without being renewed. Default: 15 minutes.
	Lease time.Duration
	// Progress, if set, is called during long work: with the kind of work, the amount
	// done, and the total.
	Progress func(what string, done, total int64)

	// now, save and most are replaced by tests.
	now  func() time.Time
	most uint64 // rows of a slice; 0: sliceRows
	save func(*state) error

	etag string          // of the head, if known
	of   string          // the incarnation that seen and old belong to
	seen map[string]bool // contents shipped by this process
	old  *oldObjects     // while the log is rewritten

	bad       func([]byte) bool // contents that are being erased
	removed   int               // objects that were deleted for an erasure
	rewritten []string          // tasks whose manifest was rewritten for an erasure
}

// Shipped reports what a call of [Shipper.Ship] did, and the resulting state.
type Shipped struct {
	Store       string `json:"store"`
	Incarnation string `json:"incarnation"`
	// Number of rows, slices and contents that were shipped, and the size of the
	// contents in bytes.
	Rows     int64 `json:"rows"`
	Slices   int   `json:"slices"`
	Contents int   `json:"contents"`
	Bytes    int64 `json:"bytes"`
	// The newest row that is in the hub.
	Seq uint64 `json:"seq"`
	// Contents of this call that were withheld, at most 1000.
	Withheld []Withheld `json:"withheld"`
	// Contents of this call that no longer existed when they were to be shipped, at
	// most 1000.
	NotShipped []Withheld `json:"not_shipped"`
	// The task, if another machine has taken it over.
	LostTask string `json:"lost_task,omitempty"`
	// What was published for the task.
	Published *Published `json:"published,omitempty"`
	// Number of requests to the object store.
	Requests int64 `json:"requests"`
}

const (
	sliceRows  = uint64(4096) // at most
	sliceBytes = 32 << 20     // of rows, unless there is only one
	maxListed  = 1000
	maxSeen    = 1 << 17
)

func (s *Shipper) clock() time.Time {
	if s.now != nil {
		return s.now()
	}
	return time.Now()
}

func (s *Shipper) keep(st *state) error {
	if s.save != nil {
		return s.save(st)
	}
	return st.save(s.Store)
}

func (s *Shipper) progress(what string, done, total int64) {
	if s.Progress != nil {
		s.Progress(what, done, total)
	}
}

// Ship ships every row that is on stable storage to the hub, and the contents that these
// rows refer to. If a call was interrupted at any point, the next one completes it; each
// row is in the hub once. Calls on the store do not wait for it.
//
// Contents in which the gate finds something, scratchpad, drafts, checkpoints and chunks
// are not shipped. Errors: [Forked], [Fenced] if another machine has taken over the task of
// this store (the rows were shipped, but not added to the task), [Unreachable], those of
// the store. What was shipped before an error counts.
func (s *Shipper) Ship(ctx context.Context) (Shipped, error) {
	return s.shipping(ctx, func(out *Shipped) error { return s.ship(ctx, out) })
}

// holding does work while no other shipper of the store works.
func (s *Shipper) holding(ctx context.Context, work func() error) error {
	release, err := s.Store.Admin().HoldShipping(ctx)
	if err != nil {
		return err
	}
	defer release()
	return work()
}

// shipping is holding for work that ships.
func (s *Shipper) shipping(ctx context.Context, work func(*Shipped) error) (Shipped, error) {
	out := Shipped{Withheld: []Withheld{}, NotShipped: []Withheld{}}
	err := s.holding(ctx, func() error {
		before := s.Hub.requests
		err := work(&out)
		out.Requests = s.Hub.requests - before
		return err
	})
	return out, err
}

func (s *Shipper) ship(ctx context.Context, out *Shipped) error {
	st, err := loadState(s.Store)
	if err != nil {
		return err
	}
	lost := st.LostTask
	err = s.meetHead(ctx, st)
	for more := true; more && err == nil; {
		more, err = s.slice(ctx, st, out)
	}
	out.Store, out.Incarnation, out.Seq = st.Store, st.Incarnation, st.Seq
	if err == nil && st.LostTask != lost {
		out.LostTask = st.LostTask
		err = s.fenced(st.LostTask)
	}
	return err
}

func (s *Shipper) fenced(task string) error {
	return &Error{Code: Fenced, Key: s.Hub.taskKey(task), Err: fmt.Errorf("another machine has taken over task %s", task), Hint: "stop working on it here; the rows are in the log of this store, and no part of the task; to take it back, resume it into an empty directory or a clean checkout"}
}

// meetHead compares the head in the hub with the local state. A head that is
// ahead is ours if the journal has its row: the state was not saved in time, or came back
// from a backup.
func (s *Shipper) meetHead(ctx context.Context, st *state) error {
	head, etag, err := s.Hub.head(ctx, st.Store)
	if err != nil {
		return err
	}
	s.etag = etag
	switch {
	case st.Forked:
		return s.forked(st, "the store was found to be forked before")
	case etag == "" && (st.Seq > 0 && st.Hold == 0 || st.Hold > 0 && st.Old != ""):
		return &Error{Code: Forked, Key: headKey(st.Store), Err: fmt.Errorf("the hub has no log of this store, of which %d rows were shipped", max(st.Seq, st.Hold)),
			Hint: "name the hub that has it; if that one is gone, run resilient-write hub ship --restart: the store begins a new log"}
	case etag == "" || head.Incarnation == st.Old && head.Slice == st.OldSlice:
		return nil
	case head.Incarnation != st.Incarnation && st.Old != "":
		same := false
		if head.Incarnation == st.Old { // a late request of an earlier shipment may have moved the head
			same, err = s.sameRow(ctx, st, head)
		}
		if err != nil {
			return err
		} else if !same {
			return s.forked(st, "the log in the hub is another incarnation")
		}
		st.OldSlice, st.Hold = head.Slice, max(st.Hold, head.Seq)
		return s.keep(st)
	case head.Seq < st.Seq && st.Hold == 0:
		return s.forked(st, "the log in the hub ends at row %d, and %d rows were shipped", head.Seq, st.Seq)
	}
	chain, err := s.chainAt(ctx, head.Seq)
	if err != nil {
		return err
	}
	if chain != head.Chain {
		due, err := s.erasure(ctx, st)
		same := false
		if due > 0 && err == nil {
			same, err = s.sameRow(ctx, st, head)
		}
		switch {
		case err != nil:
			return err
		case !same:
			return s.forked(st, "row %d is another one in the hub", head.Seq)
		}
		st.Incarnation, st.Seq, st.Slice = head.Incarnation, head.Seq, head.Slice
		return s.rewrite(ctx, st) // what differs was erased
	}
	if head.Seq > st.Seq || head.Incarnation != st.Incarnation {
		if head.Incarnation != st.Incarnation { // the state is older than an erasure in the hub
			st.Incarnation, st.Erased = head.Incarnation, max(st.Erased, head.Seq)
		}
		st.Seq, st.Chain, st.Slice, st.Pending = head.Seq, head.Chain, head.Slice, nil
		if err := s.advance(ctx, st, st.Seq); err != nil {
			return err
		}
		if err := s.finishRewrite(ctx, st); err != nil {
			return err
		}
		return s.keep(st)
	}
	return nil
}

// sameRow reports whether the row of a head is that of the journal, apart from what was
// erased in it.
func (s *Shipper) sameRow(ctx context.Context, st *state, head Head) (bool, error) {
	var there, here journal.Record
	_, rows, _, err := s.Hub.getSlice(ctx, head.Slice)
	if err != nil { // of a lost slice, what was shipped is known
		return head.Seq == st.Seq && head.Chain == st.Chain, unlessLost(err)
	}
	journal.NewSlices().Add(bytes.NewReader(rows), func(rec *journal.Record) error { there = *rec; return nil })
	err = s.scanRows(ctx, head.Seq-1, func(rec *journal.Record) {
		if rec.Seq == head.Seq {
			here = *rec
		}
	})
	return here.Seq == there.Seq && here.TS == there.TS && here.Writer == there.Writer, err
}

func (s *Shipper) forked(st *state, format string, args ...any) error {
	if !st.Forked {
		st.Forked = true
		if err := s.keep(st); err != nil {
			return err
		}
	}
	return &Error{Code: Forked, Key: headKey(st.Store), Err: fmt.Errorf(format, args...),
		Hint: "if this directory is a copy of another one, or came back from a backup, run resilient-write hub ship --restart: it becomes a store of its own in the hub"}
}

// Restart gives the store a new identity: the next call ships all of its rows
// under it. It is meant for copies of a store.
func (s *Shipper) Restart(ctx context.Context) error {
	return s.holding(ctx, func() error { return s.keep(&state{Store: newID(), Incarnation: newID()}) })
}

// chainAt returns the hash of a row, or "" if there is none.
func (s *Shipper) chainAt(ctx context.Context, seq uint64) (string, error) {
	x, err := s.Store.Admin().Export(ctx, admin.ExportRequest{W: io.Discard, After: seq - 1, Upto: seq, Same: true})
	if err != nil || x.Last != seq {
		return "", err
	}
	return x.Chain.String(), nil
}

// erasure returns the newest erasure that the hub does not have yet, or 0 if
// there is none.
func (s *Shipper) erasure(ctx context.Context, st *state) (newest uint64, err error) {
	err = s.scanRows(ctx, st.Erased, func(rec *journal.Record) {
		if rec.Note != nil && rec.Note.What == journal.NoteErased {
			newest = rec.Seq
		}
	})
	return newest, err
}

// scanRows passes the rows after a given one to each.
func (s *Shipper) scanRows(ctx context.Context, after uint64, each func(*journal.Record)) error {
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Store.Admin().Export(ctx, admin.ExportRequest{W: out, After: after, Same: true})
		out.CloseWithError(err)
		done <- err
	}()
	_, err := journal.NewSlices().Add(in, func(rec *journal.Record) error {
		each(rec)
		return nil
	})
	in.CloseWithError(err)
	return errors.Join(<-done, err)
}

// body is the rows of one slice.
type body struct {
	span
	data    []byte // the export
	chain   string
	recs    []*journal.Record
	aborted map[uint64]bool
}

// limited is a buffer that refuses to grow beyond a limit.
type limited struct{ bytes.Buffer }

var errFull = errors.New("too much for one slice")

func (b *limited) Write(p []byte) (int, error) {
	if b.Len() > sliceBytes {
		return 0, errFull
	}
	return b.Buffer.Write(p)
}

// rows reads the rows of the next slice; nil if there are none. If bounds were
// fixed by an earlier attempt, they are used.
func (s *Shipper) rows(ctx context.Context, st *state) (*body, error) {
	for n := cmp.Or(s.most, sliceRows); ; n /= 2 {
		upto := st.Seq + n
		if st.Pending != nil {
			upto = st.Pending.Last
		}
		var w io.Writer = &limited{}
		if n == 1 || st.Pending != nil {
			w = &bytes.Buffer{}
		}
		x, err := s.Store.Admin().Export(ctx, admin.ExportRequest{W: w, After: st.Seq, Upto: upto, Same: true})
		if errors.Is(err, errFull) && n > 1 {
			continue
		}
		if err != nil {
			return nil, err
		}
		if x.Rows == 0 {
			return nil, nil
		}
		b := &body{span: span{st.Seq + 1, x.Last}, chain: x.Chain.String()}
		switch w := w.(type) {
		case *limited:
			b.data = w.Bytes()
		case *bytes.Buffer:
			b.data = w.Bytes()
		}
		got, err := journal.NewSlices().Add(bytes.NewReader(b.data), func(rec *journal.Record) error {
			b.recs = append(b.recs, rec)
			return nil
		})
		b.aborted = got.Aborted
		return b, err
	}
}

// slice ships the next slice: contents, then rows, then the head. more is false if there
// was none.
//
//	[ship.json: bounds]  objects…  log/first-last  head.json  [task head]  [ship.json: seq]
func (s *Shipper) slice(ctx context.Context, st *state, out *Shipped) (more bool, err error) {
	if s.of != st.Incarnation { // it began here, or in another process
		s.of, s.seen, s.old = st.Incarnation, nil, nil
	}
	if err := s.openOld(ctx, st); err != nil {
		return false, err
	}
	b, err := s.rows(ctx, st)
	if b == nil || err != nil {
		return false, err
	}
	if due := newErasure(b.recs, st.Erased); due {
		return true, s.rewrite(ctx, st)
	}
	if st.Pending == nil {
		st.Pending = &b.span
		if err := s.keep(st); err != nil {
			return false, err
		}
	}
	head := sliceHead{Format: sliceFormat, Version: version, Store: st.Store, Incarnation: st.Incarnation, First: b.First, Last: b.Last,
		Prev: st.Slice, Task: st.Task, Epoch: st.Epoch}
	shipped, err := s.contents(ctx, b, &head, out)
	if err != nil {
		return false, err
	}
	key := sliceKey(st.Store, st.Incarnation, b.First, b.Last)
	if err := s.putSlice(ctx, st, key, head, b); err == errAgain {
		return true, s.rewrite(ctx, st)
	} else if err != nil {
		return false, err
	}
	s.remember(shipped) // not before a slice names them
	if b.Last >= st.Hold {
		if st.Old != "" {
			if whole, err := s.stillThere(ctx, key); err != nil {
				return false, err
			} else if !whole {
				return true, s.rewrite(ctx, st)
			}
		}
		err := s.setHead(ctx, st, Head{Seq: b.Last, Chain: b.chain, Slice: key})
		if errors.Is(err, errLost) { // by a late request of an earlier shipment, or another shipper
			if err = s.meetHead(ctx, st); err == nil && st.Seq < b.Last {
				err = failed(ctx, headKey(st.Store), errLost)
			}
			return true, err
		}
		if err != nil {
			return false, err
		}
		if err := s.advance(ctx, st, b.Last); err != nil {
			return false, err
		}
	}
	st.Seq, st.Chain, st.Slice, st.Pending, st.At = b.Last, b.chain, key, nil, stamp(s.clock())
	st.Withheld += int64(len(head.Withheld))
	st.NotShipped += int64(len(head.NotShipped))
	if err := s.finishRewrite(ctx, st); err != nil {
		return false, err
	}
	if err := s.keep(st); err != nil {
		return false, err
	}
	out.Rows += int64(len(b.recs))
	out.Slices++
	out.Withheld = append(out.Withheld, head.Withheld[:min(len(head.Withheld), maxListed-len(out.Withheld))]...)
	out.NotShipped = append(out.NotShipped, head.NotShipped[:min(len(head.NotShipped), maxListed-len(out.NotShipped))]...)
	s.progress("rows", int64(b.Last), 0)
	return true, nil
}

// putSlice creates the slice. An existing one must have the same rows, byte for
// byte. Then its list of contents is used, because these were uploaded before
// it.
func (s *Shipper) putSlice(ctx context.Context, st *state, key string, head sliceHead, b *body) error {
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	made, err := s.Hub.put(ctx, key, pack(append(append(line, '\n'), b.data...)))
	if made || err != nil {
		return err
	}
	if err := s.Hub.reuse(ctx, key); err != nil {
		return err
	}
	there, rows, _, err := s.Hub.getSlice(ctx, key)
	if err != nil {
		return err
	}
	if !bytes.Equal(rows, b.data) || there.Prev != head.Prev {
		if due, err := s.erasure(ctx, st); due > 0 || err != nil {
			if err == nil {
				err = errAgain
			}
			return err
		}
		return s.forked(st, "rows %d to %d are others in the hub", b.First, b.Last)
	}
	return s.Hub.reuse(ctx, s.Hub.objectKeys(there)...)
}

// errAgain ends a slice that must be started again.
var errAgain = errors.New("the log is rewritten")

// getSlice reads a slice; raw is the slice as stored in the hub.
func (h *Hub) getSlice(ctx context.Context, key string) (head sliceHead, rows, raw []byte, err error) {
	raw, _, err = h.get(ctx, key)
	if errors.Is(err, object.ErrNotFound) {
		return head, nil, nil, &Error{Code: NotFound, Key: key, Err: err, Hint: "the hub lost a slice; run resilient-write hub erase on the machine of its store, which writes the log again"}
	}
	if err == nil {
		head, rows, err = parseSlice(key, raw)
	}
	return head, rows, raw, err
}

func parseSlice(key string, raw []byte) (head sliceHead, rows []byte, err error) {
	data, err := unpack(key, raw)
	if err != nil {
		return head, nil, err
	}
	line, rows, ok := bytes.Cut(data, []byte{'\n'})
	if !ok || json.Unmarshal(line, &head) != nil || head.Format != sliceFormat || head.Version != version {
		return head, nil, &Error{Code: Damaged, Key: key, Err: errors.New("it is no slice"), Hint: "run resilient-write hub verify"}
	}
	return head, rows, nil
}

// setHead advances the head.
func (s *Shipper) setHead(ctx context.Context, st *state, head Head) error {
	head.Version, head.Store, head.Incarnation, head.Label, head.At = version, st.Store, st.Incarnation, s.Label, stamp(s.clock())
	if st.Old != "" || st.Erased > 0 {
		head.Note = fmt.Sprintf("rewritten for an erasure, row %d", st.Erased)
	}
	etag, err := s.Hub.swap(ctx, headKey(st.Store), s.etag, head)
	if err == nil {
		s.etag = etag
	}
	return err
}

// wanted is one content that rows refer to.
type wanted struct {
	path string
	sha  string
	size int64
	seq  uint64
	git  string
}

// contents uploads the contents that the rows of a slice refer to, and returns
// them.
func (s *Shipper) contents(ctx context.Context, b *body, head *sliceHead, out *Shipped) ([]wanted, error) {
	list, begins, err := s.wantedOf(ctx, b)
	if err != nil {
		return nil, err
	}
	p := &packer{h: s.Hub}
	for i := 0; i < len(list); i++ {
		w := list[i]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i%64 == 63 {
			s.progress("contents", int64(i+1), int64(len(list)))
		}
		data, why, err := s.content(ctx, w)
		if err != nil {
			return nil, err
		}
		if why != nil && why.Reason != "not_kept" && why.Reason != "too_large" {
			head.Withheld = append(head.Withheld, *why)
		} else if why != nil {
			head.NotShipped = append(head.NotShipped, *why)
		} else if err := p.add(ctx, w.sha, data, func(string) {}); err != nil {
			return nil, err
		}
		if before, ok := begins[w.sha]; ok && why != nil { // nothing else has it
			delete(begins, w.sha)
			list = append(list, before)
		}
	}
	if err := p.flush(ctx); err != nil {
		return nil, err
	}
	head.Packs, head.Objects = p.packs, p.objects
	out.Bytes += p.bytes
	out.Contents += len(list) - len(head.Withheld) - len(head.NotShipped)
	return list, nil
}

// remember records contents that a slice in the hub has.
func (s *Shipper) remember(list []wanted) {
	if s.seen == nil || len(s.seen) > maxSeen {
		s.seen = map[string]bool{}
	}
	for _, w := range list {
		s.seen[w.sha] = true
	}
}

// content reads one content and decides whether it may leave. If so, why is
// nil.
func (s *Shipper) content(ctx context.Context, w wanted) (data []byte, why *Withheld, err error) {
	sha, _ := call.ParseDigest(w.sha)
	data, err = s.Store.Admin().Content(ctx, admin.ContentRequest{Path: w.path, SHA256: sha, Bytes: w.size, Seq: w.seq, Git: w.git})
	switch {
	case errors.Is(err, rw.ErrTooLarge):
		return nil, &Withheld{Path: w.path, SHA256: w.sha, Reason: "too_large"}, nil
	case err != nil && !errors.Is(err, rw.ErrVersionNotKept):
		return nil, nil, err
	case err != nil:
		if data, err = s.old.content(ctx, w.sha); data == nil || err != nil {
			return nil, &Withheld{Path: w.path, SHA256: w.sha, Reason: "not_kept"}, err
		}
	}
	if s.bad != nil && s.bad(data) {
		return nil, &Withheld{Path: w.path, SHA256: w.sha, Reason: "erased"}, nil
	}
	kinds, err := s.findings(ctx, w.path, data)
	if err != nil {
		return nil, nil, err
	}
	if len(kinds) > 0 {
		return nil, &Withheld{Path: w.path, SHA256: w.sha, Reason: "findings", Kinds: kinds}, nil
	}
	return data, nil, nil
}

// findings returns the families of the gate's findings in a content, except
// information and placeholders. A content that the scan cannot finish is
// withheld, too.
func (s *Shipper) findings(ctx context.Context, path string, data []byte) (kinds []string, err error) {
	if strings.HasPrefix(path, engine.StateDirName+"/") {
		path = ""
	}
	r, err := s.Store.RiskScore(ctx, rw.RiskScoreRequest{Content: data, TargetPath: path})
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, rw.ErrStoreClosed) {
			return nil, err
		}
		return []string{"not_scanned"}, nil
	}
	if r.Omitted > 0 {
		kinds = append(kinds, "many")
	}
	for _, f := range r.DetectedPatterns {
		if (f.Confidence == "confirmed" || f.Confidence == "likely") && !f.Placeholder && !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds, nil
}

// wantedOf lists the contents of a slice, each once: those that its commits wrote,
// and those that were replaced, unless an earlier row has them. A version that is
// the beginning of a later one of the slice is left out: begins has it, by the hash of the
// later one.
func (s *Shipper) wantedOf(ctx context.Context, b *body) (list []wanted, begins map[string]wanted, err error) {
	type version struct {
		path, sha string
	}
	grown, known := map[version]bool{}, map[string]bool{"": true, hashOf(nil): true}
	wrote := map[version]bool{}
	begins = map[string]wanted{}
	rows := map[uint64]*journal.Record{}
	for _, rec := range b.recs {
		rows[rec.Seq] = rec
		for i := range rec.Muts {
			m := &rec.Muts[i]
			if m.PaySHA256 != "" && !b.aborted[rec.Seq] {
				grown[version{m.Identity(), m.PrevSHA256}] = true
			}
		}
	}
	add := func(w wanted) {
		if !known[w.sha] && !s.seen[w.sha] {
			known[w.sha] = true
			list = append(list, w)
		}
	}
	for _, rec := range b.recs {
		if rec.Kind != journal.KindCommit && rec.Kind != journal.KindObserved || b.aborted[rec.Seq] {
			continue
		}
		for i := range rec.Muts {
			m := &rec.Muts[i]
			path := m.Identity()
			if m.Class != "" {
				if m.Op == "handoff_archive" {
					add(wanted{path, m.SHA256, m.Bytes, 0, ""})
				}
				continue
			}
			before := version{path, m.PrevSHA256}
			if m.PrevSHA256 != "" && (grown[before] || !wrote[before]) && !known[m.PrevSHA256] {
				had, err := s.wroteBefore(ctx, rows, m)
				if err != nil {
					return nil, nil, err
				}
				was := wanted{path, m.PrevSHA256, m.PrevBytes, m.PrevSeq, m.PrevGit}
				if grown[before] && (wrote[before] || !had) {
					begins[m.SHA256] = was
				} else if !had {
					add(was)
				}
			}
			now := version{path, m.SHA256}
			wrote[now] = true
			if !grown[now] {
				add(wanted{path, m.SHA256, m.Bytes, rec.Seq, ""})
			}
		}
	}
	return list, begins, nil
}

// wroteBefore reports whether the previous row that a mutation names wrote the
// replaced content: then the slice of that row has it.
func (s *Shipper) wroteBefore(ctx context.Context, rows map[uint64]*journal.Record, m *journal.Mutation) (bool, error) {
	if m.PrevSeq == 0 {
		return false, nil
	}
	rec := rows[m.PrevSeq]
	if rec == nil {
		var line bytes.Buffer
		if _, err := s.Store.Admin().Export(ctx, admin.ExportRequest{W: &line, After: m.PrevSeq - 1, Upto: m.PrevSeq, Same: true}); err != nil {
			return false, err
		}
		journal.NewSlices().Add(&line, func(r *journal.Record) error { rec = r; return nil })
		rows[m.PrevSeq] = rec
	}
	return rec != nil && slices.ContainsFunc(rec.Muts, func(x journal.Mutation) bool { return x.SHA256 == m.PrevSHA256 }), nil
}

// newErasure reports whether rows record an erasure that the hub does not know.
func newErasure(recs []*journal.Record, known uint64) bool {
	return slices.ContainsFunc(recs, func(rec *journal.Record) bool {
		return rec.Seq > known && rec.Note != nil && rec.Note.What == journal.NoteErased
	})
}
