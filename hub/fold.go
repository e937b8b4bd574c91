package hub

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/resilientwrite/resilientwrite/hub/object"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Row is one row of a log in the hub.
type Row struct {
	Store string `json:"store"`
	Seq   uint64 `json:"seq"`
	TS    string `json:"ts"`
	Kind  string `json:"kind"`
	// Whether the commit did not happen: a later row rolled it back.
	Aborted bool   `json:"aborted,omitempty"`
	Ref     uint64 `json:"ref,omitempty"`
	Caller  string `json:"caller,omitempty"`
	Session string `json:"session,omitempty"`
	Key     string `json:"key,omitempty"`
	// The files after the commit.
	Files []RowFile `json:"files,omitempty"`
}

// RowFile is one file of a row, or a directory. SHA256 is empty for a deleted file
// and for a directory.
type RowFile struct {
	Op     string `json:"op"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// log is the log that a head leads to.
type log struct {
	head   Head
	keys   []string // of the slices, oldest first
	heads  []sliceHead
	slices [][]byte // as stored in the hub
}

// log reads the slices of a store, from its head back to the first. A store
// without a head has none.
func (h *Hub) log(ctx context.Context, store string) (*log, error) {
	head, etag, err := h.head(ctx, store)
	if err != nil {
		return nil, err
	}
	if etag == "" {
		return nil, &Error{Code: NotFound, Key: headKey(store), Err: object.ErrNotFound, Hint: "resilient-write hub status lists the stores"}
	}
	var l *log
	for range tries {
		l = &log{head: head}
		err = h.walk(ctx, head.Slice, func(key string, head sliceHead, raw []byte) error {
			l.keys, l.heads, l.slices = append(l.keys, key), append(l.heads, head), append(l.slices, raw)
			return nil
		})
		now, _, herr := head, "", error(nil)
		if lost(err) { // by an erasure, which moved the head?
			now, _, herr = h.head(ctx, store)
		}
		if herr != nil || now == head {
			break
		}
		head = now
	}
	slices.Reverse(l.keys)
	slices.Reverse(l.heads)
	slices.Reverse(l.slices)
	return l, err
}

// walk follows the slices from the last to the first. raw is the slice as stored
// in the hub.
func (h *Hub) walk(ctx context.Context, key string, fn func(key string, head sliceHead, raw []byte) error) error {
	log := path.Dir(key)
	for before := uint64(0); key != ""; {
		head, _, raw, err := h.getSlice(ctx, key)
		if err != nil {
			return err
		}
		if key != sliceKey(head.Store, head.Incarnation, head.First, head.Last) || path.Dir(key) != log || head.First == 0 || head.First > head.Last || before > 0 && head.Last+1 != before {
			return &Error{Code: Damaged, Key: key, Err: errors.New("the slice does not continue the one before"), Hint: "run resilient-write hub verify"}
		}
		if err := fn(key, head, raw); err != nil {
			return err
		}
		before, key = head.First, head.Prev
	}
	return nil
}

// Fold passes every row of a store's log to each, once, oldest first, after it
// verified the whole log: that slices continue each other, every hash of the
// chain, and that the last row is that of the head. Commits that were rolled back
// are marked. Errors: [NotFound], [Damaged], [Unreachable], that of each.
func (h *Hub) Fold(ctx context.Context, store string, each func(Row) error) (Head, error) {
	l, err := h.log(ctx, store)
	if err != nil {
		return Head{}, err
	}
	aborted, err := l.read(func(*journal.Record) error { return nil })
	if err != nil || each == nil {
		return l.head, err
	}
	_, err = l.read(func(rec *journal.Record) error {
		row := Row{Store: store, Seq: rec.Seq, TS: rec.TS, Kind: rec.Kind, Aborted: aborted[rec.Seq], Ref: rec.Ref, Caller: rec.Caller, Session: rec.Session, Key: rec.Key}
		for i := range rec.Muts {
			m := &rec.Muts[i]
			row.Files = append(row.Files, RowFile{m.Op, m.Identity(), m.SHA256, m.Bytes})
		}
		return each(row)
	})
	return l.head, err
}

// read verifies the rows and passes them to each.
func (l *log) read(each func(*journal.Record) error) (aborted map[uint64]bool, err error) {
	s := journal.NewSlices()
	damaged := func(key string, err error) error {
		return &Error{Code: Damaged, Key: key, Err: err, Hint: "the log was changed; run resilient-write hub erase on its machine, which writes the log again"}
	}
	last, chain := uint64(0), ""
	for i, raw := range l.slices {
		_, rows, err := parseSlice(l.keys[i], raw)
		if err != nil {
			return nil, err
		}
		got, err := s.Add(bytes.NewReader(rows), each)
		if errors.Is(err, journal.ErrExport) || errors.Is(err, journal.ErrNewerExport) {
			return nil, damaged(l.keys[i], err)
		}
		if err != nil {
			return nil, err
		}
		if got.Footer.Last != l.heads[i].Last {
			return nil, damaged(l.keys[i], errors.New("it ends with another row than its name says"))
		}
		aborted, last, chain = got.Aborted, got.Footer.Last, got.Footer.Chain
	}
	if err := s.Settle(); err != nil {
		return nil, damaged(headKey(l.head.Store), err)
	}
	if last != l.head.Seq || chain != l.head.Chain {
		return nil, damaged(headKey(l.head.Store), errors.New("the log does not end with the row of the head"))
	}
	return aborted, nil
}

// FoldTask passes the rows that belong to a task to each, epoch by epoch: those that
// each holder shipped while it had the lease. Rows that a machine wrote after it lost
// the lease are not included.
func (h *Hub) FoldTask(ctx context.Context, task string, each func(epoch uint64, row Row) error) (TaskHead, error) {
	head, etag, err := h.taskHead(ctx, h.taskKey(task))
	if err == nil && etag == "" {
		err = &Error{Code: NotFound, Key: h.taskKey(task), Err: object.ErrNotFound, Hint: "resilient-write hub status lists the tasks"}
	}
	for _, e := range head.Epochs {
		if err != nil {
			break
		}
		if e.Seq == e.From {
			continue
		}
		_, err = h.Fold(ctx, e.Store, func(row Row) error {
			if row.Seq > e.From && row.Seq <= e.Seq {
				return each(e.Epoch, row)
			}
			return nil
		})
	}
	return head, err
}

// Status is the content of a hub.
type Status struct {
	Stores []Head     `json:"stores"`
	Tasks  []TaskHead `json:"tasks"`
	// The heads that are damaged, at most 1000.
	Problems []Problem `json:"problems"`
}

// Status lists the heads of all stores and tasks, with two requests for each. It
// continues after a damaged head. Errors: [Unreachable], [Unusable], [Locked].
func (h *Hub) Status(ctx context.Context) (Status, error) {
	list := problems{}
	out, err := h.status(ctx, list.note)
	out.Problems = list
	return out, err
}

// strict makes status return every error.
func strict(err error) error { return err }

// status is Status that continues after the errors that note accepts, and lists no
// problems.
func (h *Hub) status(ctx context.Context, note func(error) error) (Status, error) {
	out := Status{Stores: []Head{}, Tasks: []TaskHead{}}
	stores, err := h.below(ctx, "stores/")
	if err != nil {
		return out, err
	}
	for _, name := range stores {
		head, etag, err := h.head(ctx, name)
		if note(err) != nil {
			return out, note(err)
		} else if err == nil && etag != "" {
			out.Stores = append(out.Stores, head)
		}
	}
	tasks, err := h.below(ctx, "tasks/")
	if err != nil {
		return out, err
	}
	for _, name := range tasks {
		head, etag, err := h.taskHead(ctx, "tasks/"+name+"/head.json")
		if note(err) != nil {
			return out, note(err)
		} else if err == nil && etag != "" {
			out.Tasks = append(out.Tasks, head)
		}
	}
	return out, nil
}

// Verified reports what [Hub.Verify] found.
type Verified struct {
	Stores  int   `json:"stores"`
	Tasks   int   `json:"tasks"`
	Rows    int64 `json:"rows"`
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"` // of the contents
	// The problems, at most 1000.
	Problems []Problem `json:"problems"`
}

// Problem is one problem of a hub.
type Problem struct {
	Code string `json:"code"`
	Key  string `json:"key"`
	Text string `json:"text"`
}

// problems is a list of problems that is being made.
type problems []Problem

// note records a problem. It returns errors that are none, which prevent the caller
// from continuing.
func (l *problems) note(err error) error {
	var e *Error
	if !lost(err) || !errors.As(err, &e) {
		return err
	}
	text := e.Code
	if e.Err != nil {
		text = e.Err.Error()
	}
	p := Problem{e.Code, e.Key, text}
	if len(*l) < maxListed && !slices.Contains(*l, p) {
		*l = append(*l, p)
	}
	return nil
}

// Verify reads everything that heads lead to: the logs of all stores, and the objects
// that these and the manifests of all tasks name. It continues after a problem.
// Errors: [Unreachable], [Unusable], [Locked].
func (h *Hub) Verify(ctx context.Context, progress func(what string, done, total int64)) (Verified, error) {
	out := Verified{Problems: []Problem{}}
	v := &verifier{h: h, out: &out, packs: map[string]map[string]bool{}, progress: progress}
	st, err := h.status(ctx, v.note)
	if err != nil {
		return out, err
	}
	for _, head := range st.Stores {
		out.Stores++
		n := int64(0)
		now, err := h.Fold(ctx, head.Store, func(Row) error { n++; return nil })
		if err := v.note(err); err != nil {
			return out, err
		}
		out.Rows += n
		err = h.walk(ctx, cmp.Or(now.Slice, head.Slice), func(_ string, s sliceHead, _ []byte) error {
			for _, sha := range s.Packs {
				if err := v.pack(ctx, sha); err != nil {
					return err
				}
			}
			for _, sha := range s.Objects {
				if err := v.object(ctx, sha); err != nil {
					return err
				}
			}
			return nil
		})
		if err := v.note(err); err != nil {
			return out, err
		}
	}
	for _, head := range st.Tasks {
		out.Tasks++
		if err := v.note(v.task(ctx, head)); err != nil {
			return out, err
		}
	}
	return out, nil
}

type verifier struct {
	h        *Hub
	out      *Verified
	packs    map[string]map[string]bool // their contents; nil for objects and damaged packs
	progress func(what string, done, total int64)
}

func (v *verifier) note(err error) error { return (*problems)(&v.out.Problems).note(err) }

func (v *verifier) counted(bytes int) {
	v.out.Objects++
	v.out.Bytes += int64(bytes)
	if v.progress != nil && v.out.Objects%64 == 0 {
		v.progress("objects", v.out.Objects, 0)
	}
}

func (v *verifier) object(ctx context.Context, sha string) error {
	if _, ok := v.packs[sha]; ok {
		return nil
	}
	v.packs[sha] = nil
	data, err := v.h.getObject(ctx, sha)
	v.counted(len(data))
	return v.note(err)
}

func (v *verifier) pack(ctx context.Context, sha string) error {
	if _, ok := v.packs[sha]; ok {
		return nil
	}
	v.packs[sha] = nil
	items, err := v.h.readPack(ctx, sha)
	if err != nil {
		return v.note(err)
	}
	v.packs[sha] = map[string]bool{}
	for name, data := range items {
		v.packs[sha][name] = true
		v.counted(len(data))
	}
	return nil
}

func (v *verifier) task(ctx context.Context, head TaskHead) error {
	if head.Handoff != nil && head.Handoff.SHA256 != "" {
		if err := v.object(ctx, head.Handoff.SHA256); err != nil {
			return err
		}
	}
	if head.Manifest == "" {
		return nil
	}
	m, err := v.h.manifest(ctx, head)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		sha := f.SHA256.String()
		switch {
		case f.Object:
			err = v.object(ctx, sha)
		case f.Pack != "":
			if err = v.pack(ctx, f.Pack); err == nil && v.packs[f.Pack] != nil && !v.packs[f.Pack][sha] {
				err = v.note(&Error{Code: Damaged, Key: v.h.objectKey(f.Pack), Err: fmt.Errorf("the pack lacks a file of task %s", head.Task)})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
