package analytics

import (
	"slices"
	"sort"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// held is one mutation of a commit that is not counted yet.
type held struct {
	seq      uint64
	writer   *writer // while it is in the ring
	kind     kind
	gone     bool // its commit did not happen
	replaces bool // a checkpoint that was there before
	bytes    int64
	at       instant
	ts       string // as it stands in the row
	path     string
	mode     string
	caller   string
	name     string // of the session or checkpoint
}

// writer is a process that has commits in the ring.
type writer struct {
	settled uint64 // up to here it has nothing under way
	held    int    // mutations in the ring
}

const (
	// window is how many mutations are held before they may be counted. An
	// abort follows its commit within the rows that were under way at the same
	// time, or comes with the next open of the store.
	window = 8192
	// lateLimit is how many more mutations are held because nobody has said
	// that they are settled.
	lateLimit = 8192
)

// hold keeps a mutation until it is out of reach of an abort. The newest window
// mutations are held. The one that drops out is counted if its writer has said,
// in any row so far, that the commit is settled: a settled commit is never
// aborted. Otherwise its writer may have died, and whoever finds that out, any
// number of rows later, may abort it; so it is held to the end. Only when
// lateLimit mutations wait in that way, further ones are counted without
// knowing.
func (f *Fold) hold(h held) {
	h.writer.held++
	if len(f.ring) < window {
		f.ring = append(f.ring, h)
		return
	}
	f.release(&f.ring[f.head])
	f.ring[f.head] = h
	f.head = (f.head + 1) % window
}

// release takes the oldest mutation out of the ring.
func (f *Fold) release(h *held) {
	w := h.writer
	switch {
	case h.gone:
	case w.settled >= h.seq || f.lateLen >= lateLimit:
		f.count(h)
	default:
		kept := *h
		kept.writer = nil
		f.late[h.seq] = append(f.late[h.seq], kept)
		f.lateLen++
	}
	w.held--
}

// writerOf returns the writer of a commit that is about to be held.
func (f *Fold) writerOf(r *journal.Record) *writer {
	w := f.writers[r.Writer]
	if w == nil {
		if len(f.writers) >= 2*window {
			f.forgetWriters()
		}
		w = &writer{settled: r.Settled}
		f.writers[strings.Clone(r.Writer)] = w
	}
	return w
}

// forgetWriters drops the writers that have nothing in the ring. That leaves at
// most window, so it is not needed again soon.
func (f *Fold) forgetWriters() {
	for name, w := range f.writers {
		if w.held == 0 {
			delete(f.writers, name)
		}
	}
}

// abort forgets a commit that did not happen, wherever it is held.
func (f *Fold) abort(seq uint64) {
	if seq == 0 {
		return
	}
	if seq > f.newest { // rows out of order: it is still to come
		if len(f.early) < window {
			f.early[seq] = struct{}{}
		}
		return
	}
	if list, ok := f.late[seq]; ok {
		f.lateLen -= len(list)
		delete(f.late, seq)
	}
	n := len(f.ring)
	for i := sort.Search(n, func(i int) bool { return f.at(i).seq >= seq }); i < n && f.at(i).seq == seq; i++ {
		f.at(i).gone = true
	}
}

// at is the i-th oldest mutation of the ring.
func (f *Fold) at(i int) *held { return &f.ring[(f.head+i)%len(f.ring)] }

// settle counts everything that is held: no more rows come.
func (f *Fold) settle() {
	seqs := make([]uint64, 0, len(f.late))
	for seq := range f.late {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		for i := range f.late[seq] {
			f.count(&f.late[seq][i])
		}
	}
	for i := range f.ring {
		if h := f.at(i); !h.gone {
			f.count(h)
		}
	}
	clear(f.late)
	clear(f.writers)
	f.ring, f.head, f.lateLen = nil, 0, 0
}
