package analytics

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// How many rows and paths a result shows.
const (
	timelineLen = 50
	hotPathsLen = 5
)

// counters is everything that is known of the rows so far. Every map copies the
// keys that are new to it, so that no row stays in memory.
type counters struct {
	writes      int
	bytes       int64
	modes       map[string]int
	callers     map[string]int
	timeline    []TimelineEntry // the newest, and up to as many that will be dropped
	index       map[string]int  // of a path in paths
	paths       []pathCount
	sessions    map[string]*sessionCount
	saves       int
	overwrites  int
	checkpoints map[string]int
	minutes     map[instant]int
	period      span
	refusals    int
	reasons     map[string]int
	refusedOps  map[string]int
	refusedWho  map[string]int
}

// pathCount is what was written to one path.
type pathCount struct {
	path   string
	writes int
	bytes  int64
	last   instant
}

// sessionCount is what was done in one chunk session.
type sessionCount struct {
	chunks, composes int
	span             span
}

func newCounters() counters {
	return counters{
		modes: map[string]int{}, callers: map[string]int{}, index: map[string]int{},
		timeline: make([]TimelineEntry, 0, 2*timelineLen),
		sessions: map[string]*sessionCount{}, checkpoints: map[string]int{}, minutes: map[instant]int{},
		period: never, reasons: map[string]int{}, refusedOps: map[string]int{}, refusedWho: map[string]int{},
	}
}

// count takes a mutation that happened.
func (f *Fold) count(h *held) {
	f.period.add(h.at)
	switch h.kind {
	case kindWrite:
		f.countWrite(h)
	case kindCompose:
		f.countWrite(h)
		if s := f.sessionOf(h.name); s != nil {
			s.composes++
			s.span.add(h.at)
		}
	case kindChunk:
		if s := f.sessionOf(h.name); s != nil {
			s.chunks++
			s.span.add(h.at)
		}
	case kindCheckpoint:
		f.saves++
		if h.replaces {
			f.overwrites++
		}
		increment(f.checkpoints, h.name)
	}
}

// countWrite takes a mutation of the workspace.
func (c *counters) countWrite(h *held) {
	c.writes++
	c.bytes = plus(c.bytes, h.bytes)
	increment(c.modes, h.mode)
	increment(c.callers, h.caller)
	if h.at != unknown {
		c.minutes[h.at.minute()]++
	}
	i, ok := c.index[h.path]
	if !ok {
		i = len(c.paths)
		path := strings.Clone(h.path)
		c.index[path] = i
		c.paths = append(c.paths, pathCount{path: path, last: unknown})
	}
	p := &c.paths[i]
	p.writes++
	p.bytes = plus(p.bytes, h.bytes)
	p.last = max(p.last, h.at)
	if len(c.timeline) == 2*timelineLen {
		c.trimTimeline()
	}
	c.timeline = append(c.timeline, TimelineEntry{
		TS: h.ts, Path: h.path, Mode: h.mode, Bytes: h.bytes, Caller: h.caller, Seq: h.seq,
	})
}

// trimTimeline drops all but the newest rows. Those that were long in doubt
// come late, so the order of the journal is restored first.
func (c *counters) trimTimeline() {
	slices.SortStableFunc(c.timeline, func(a, b TimelineEntry) int { return cmp.Compare(a.Seq, b.Seq) })
	if extra := len(c.timeline) - timelineLen; extra > 0 {
		c.timeline = slices.Delete(c.timeline, 0, extra)
	}
}

// sessionOf is the count of a session, nil for one that is not asked for.
func (f *Fold) sessionOf(name string) *sessionCount {
	if f.session != "" && name != f.session {
		return nil
	}
	s := f.sessions[name]
	if s == nil {
		s = &sessionCount{span: never}
		f.sessions[strings.Clone(name)] = s
	}
	return s
}

// countRefusal takes a call that was refused.
func (c *counters) countRefusal(r *journal.Record, at instant) {
	c.period.add(at)
	c.refusals++
	increment(c.reasons, named(r.Reason))
	increment(c.refusedWho, named(r.Caller))
	if len(r.Muts) == 0 {
		increment(c.refusedOps, named(""))
	}
	for i := range r.Muts {
		op := r.Muts[i].Op
		before := func(m journal.Mutation) bool { return m.Op == op }
		if !slices.ContainsFunc(r.Muts[:i], before) {
			increment(c.refusedOps, named(op))
		}
	}
}

// increment counts one more of key.
func increment(counts map[string]int, key string) {
	n, ok := counts[key]
	if !ok {
		key = strings.Clone(key)
	}
	counts[key] = n + 1
}

// plus adds two sizes. What rows of a foreign journal claim may be too much for
// any number.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
