// Package analytics folds the rows of the journal into figures of usage: who
// wrote what, how much, how often and when.
//
// A [Fold] reads the journal once, in its order, and holds counters only: its
// memory grows with the number of paths, callers, sessions, checkpoint names
// and minutes, not with the number of rows.
//
// A commit counts when it is known that it happened. The row that takes it back
// comes later in the journal, and it does not repeat how much was written or
// when, and neither the first and last times nor the newest rows can be
// subtracted from. So commits are not counted and taken back; they are held
// until they are out of reach of an abort. See [Fold.hold] for how long.
package analytics

import (
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Options says which rows are wanted.
type Options struct {
	Since   time.Time // rows before it are left out; the zero time leaves out none
	Session string    // narrows the sessions of the result, and nothing else; "" is all
}

// Fold is an analysis under way. It is not safe for concurrent use.
type Fold struct {
	since   instant // unknown: from the start
	session string

	// Commits that may still be taken back.
	ring    []held // at most window; the oldest stands at head once it is full
	head    int
	late    map[uint64][]held // pushed out of the ring while in doubt, by seq
	lateLen int
	early   map[uint64]struct{} // commits that were taken back before they came
	newest  uint64              // the highest seq so far
	writers map[string]*writer  // of the commits in the ring

	counters
}

// New returns a Fold that has seen no rows.
func New(opt Options) *Fold {
	f := &Fold{
		since: unknown, session: opt.Session,
		late: map[uint64][]held{}, early: map[uint64]struct{}{}, writers: map[string]*writer{},
		counters: newCounters(),
	}
	if !opt.Since.IsZero() {
		f.since = instant(opt.Since.UnixMicro())
	}
	return f
}

// Add takes the next row, in the order of the journal. It keeps no reference to
// r. Rows that are neither commits nor aborts nor refusals count nothing: a
// conflict tells of a commit that did happen.
func (f *Fold) Add(r *journal.Record) {
	if w := f.writers[r.Writer]; w != nil {
		w.settled = max(w.settled, r.Settled)
	}
	switch r.Kind {
	case journal.KindCommit:
		f.commit(r)
	case journal.KindAbort:
		f.abort(r.Ref)
	case journal.KindRefused:
		if at := parseInstant(r.TS); f.wants(at) {
			f.countRefusal(r, at)
		}
	}
	f.newest = max(f.newest, r.Seq)
}

// wants reports whether a row of that time is asked for. A row whose time is
// not known is not known to be too old.
func (f *Fold) wants(at instant) bool { return at == unknown || at >= f.since }

// commit holds the mutations of a commit.
func (f *Fold) commit(r *journal.Record) {
	if len(f.early) > 0 {
		if _, gone := f.early[r.Seq]; gone {
			delete(f.early, r.Seq)
			return
		}
	}
	at := parseInstant(r.TS)
	if !f.wants(at) || len(r.Muts) == 0 {
		return
	}
	w := f.writerOf(r)
	for i := range r.Muts {
		h := heldOf(&r.Muts[i])
		h.seq, h.writer, h.at, h.ts, h.caller = r.Seq, w, at, r.TS, named(r.Caller)
		f.hold(h)
	}
}

// named is how a caller, mode or reason that was not given is shown.
func named(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// kind is what a mutation counts as.
type kind uint8

const (
	kindWrite      kind = iota // a file of the workspace
	kindCompose                // a file of the workspace, made from the chunks of a session
	kindChunk                  // a chunk of a session
	kindCheckpoint             // a checkpoint that was saved
	kindState                  // anything else in the state directory
)

// heldOf takes from a mutation what will be counted.
func heldOf(m *journal.Mutation) held {
	h := held{path: m.Identity(), mode: named(m.Op), bytes: written(m)}
	legacy := m.ImportID != ""
	if m.Class == "" && !(legacy && strings.HasPrefix(m.Path, statePrefix)) {
		if m.Op == "compose" {
			if what, name := parseObject(m.Object); what == objectSession {
				h.kind, h.name = kindCompose, name
			}
		}
		return h
	}
	h.kind = kindState
	if !saves(m.Op, legacy) {
		return h
	}
	what, name := parseObject(m.Object)
	if what == objectNone {
		what, name = parseObject(m.Path)
	}
	switch what {
	case objectPart:
		h.kind, h.name = kindChunk, name
	case objectCheckpoint:
		h.kind, h.name = kindCheckpoint, name
		h.replaces = m.PrevSHA256 != ""
		if legacy { // its import does not always know the row before; its mode does
			h.replaces = m.Op == "overwrite"
		}
	}
	return h
}

// saves reports whether an operation on a state object stores it, rather than
// taking it away.
func saves(op string, legacy bool) bool {
	switch op {
	case "chunk", "chunk_write", "chunk_append", "checkpoint":
		return true
	case "create", "overwrite", "append":
		return legacy
	}
	return false
}

// written is how many bytes a mutation wrote: the whole file, or what an append
// added. The Python implementation wrote the whole file anew for an append, and
// noted only its size.
func written(m *journal.Mutation) int64 {
	n := m.Bytes
	switch {
	case m.Op != "append" || m.ImportID != "":
	case m.PayBytes > 0 || m.PaySHA256 != "":
		n = m.PayBytes
	default: // the file was copied, so the row tells no more than its sizes
		n -= m.PrevBytes
	}
	return max(n, 0)
}
