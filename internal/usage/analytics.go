// Package usage folds the rows of the journal into figures of usage: who
// wrote what, how much, how often and when.
//
// The journal is read twice, in order. The first pass finds the commits that were
// rolled back: their aborts come later, and do not repeat what to subtract. The second
// pass counts the rest. Memory use grows with the number of paths, callers, sessions,
// checkpoint names, minutes and aborts, not with the number of rows.
package usage

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// How many rows and paths a result shows.
const (
	timelineLen = 50
	hotPathsLen = 5
)

// Read returns the figures of a journal, whose rows each passes in order. No map or
// slice of the result is nil.
func Read(ctx context.Context, opt analytics.Request, each func(func(*journal.Record) error) error) (analytics.Result, error) {
	f := &fold{
		opt: opt, aborted: map[uint64]bool{}, paths: map[string]*pathCount{}, minutes: map[int64]int{}, sessions: map[string]*sessionCount{},
		Result: analytics.Result{
			ByMode: map[string]int{}, ByCaller: map[string]int{}, Sessions: map[string]analytics.Session{}, Checkpoints: analytics.Checkpoints{ByName: map[string]analytics.Saves{}},
			Timeline: make([]analytics.Write, 0, 2*timelineLen), HotPaths: []analytics.Path{},
			Refusals: analytics.Refusals{ByReason: map[string]int{}, ByOp: map[string]int{}, ByCaller: map[string]int{}},
		},
	}
	for _, fn := range []func(*journal.Record){f.look, f.add} {
		if err := each(func(r *journal.Record) error {
			fn(r)
			return ctx.Err()
		}); err != nil {
			return analytics.Result{}, err
		}
	}
	f.finish()
	return f.Result, nil
}

// fold is an analysis in progress.
type fold struct {
	opt     analytics.Request
	aborted map[uint64]bool
	newest  uint64 // the last row that was read

	analytics.Result
	times    []string // of the timeline, as the rows have them
	paths    map[string]*pathCount
	minutes  map[int64]int // writes by the minute, in seconds since the Unix epoch
	sessions map[string]*sessionCount
	other    sessionCount
	period   span
}

// pathCount counts the writes to one path.
type pathCount struct {
	analytics.Path
	span
}

// sessionCount counts the operations of one chunk session.
type sessionCount struct {
	analytics.Session
	span
}

// span is the range from the earliest to the latest time that was added, in any order;
// an unknown time is the zero time.
type span struct {
	first, last     time.Time
	firstTS, lastTS string // as the rows have them
}

// addRow adds the time of a row, whose text is kept.
func (s *span) addRow(t time.Time, ts string) {
	was := *s
	s.add(t)
	if s.first != was.first {
		s.firstTS = strings.Clone(ts)
	}
	if s.last != was.last {
		s.lastTS = strings.Clone(ts)
	}
}

func (s *span) add(t time.Time) {
	if t.IsZero() {
		return
	}
	if s.first.IsZero() || t.Before(s.first) {
		s.first = t
	}
	if t.After(s.last) {
		s.last = t
	}
}

func (s span) seconds() float64 { return s.last.Sub(s.first).Seconds() }

// look finds the commits that were rolled back.
func (f *fold) look(r *journal.Record) {
	if r.Kind == journal.KindAbort {
		f.aborted[r.Ref] = true
	}
	f.newest = max(f.newest, r.Seq)
}

// add counts a row. Rows that are neither commits nor refusals are ignored: a conflict
// refers to a commit that took place. A row without a known time is never too old.
func (f *fold) add(r *journal.Record) {
	if r.Seq > f.newest || f.aborted[r.Seq] || r.Kind != journal.KindCommit && r.Kind != journal.KindRefused {
		return
	}
	at := stamp.Parse(r.TS)
	if !at.IsZero() && at.Before(f.opt.Since) {
		return
	}
	if r.Kind == journal.KindRefused {
		f.period.addRow(at, r.TS)
		f.refusal(r)
		return
	}
	for i := range r.Muts {
		f.period.addRow(at, r.TS)
		f.mutation(r, &r.Muts[i], at)
	}
}

// refusal counts a call that was refused.
func (f *fold) refusal(r *journal.Record) {
	f.Refusals.Total++
	increment(f.Refusals.ByReason, named(r.Reason))
	increment(f.Refusals.ByCaller, named(r.Caller))
	if len(r.Muts) == 0 {
		increment(f.Refusals.ByOp, named(""))
	}
	for i := range r.Muts {
		op := r.Muts[i].Op
		if !slices.ContainsFunc(r.Muts[:i], func(m journal.Mutation) bool { return m.Op == op }) {
			increment(f.Refusals.ByOp, named(op))
		}
	}
}

// mutation counts one mutation of a commit.
func (f *fold) mutation(r *journal.Record, m *journal.Mutation, at time.Time) {
	legacy := m.ImportID != ""
	if m.Class == "" && !(legacy && strings.HasPrefix(m.Path, statePrefix)) {
		f.write(r, m, at)
		if what, name := parseObject(m.Object); m.Op == "compose" && what == objectSession {
			f.session(name, at).Composes++
		}
		return
	}
	if !saves(m.Op, legacy) {
		return
	}
	what, name := parseObject(m.Object)
	if what == objectNone {
		what, name = parseObject(m.Path)
	}
	switch what {
	case objectPart:
		f.session(name, at).ChunkWrites++
	case objectCheckpoint:
		f.Checkpoints.TotalSaves++
		// An import, which alone has this mode, does not always know the row before.
		if !legacy && m.PrevSHA256 != "" || m.Op == "overwrite" {
			f.Checkpoints.Overwrites++
		}
		saves := f.Checkpoints.ByName[name]
		f.Checkpoints.ByName[strings.Clone(name)] = analytics.Saves{Saves: saves.Saves + 1, TotalBytes: plus(saves.TotalBytes, written(m))}
	}
}

// write counts a mutation of the workspace.
func (f *fold) write(r *journal.Record, m *journal.Mutation, at time.Time) {
	path, n := m.Identity(), written(m)
	f.TotalWrites++
	f.TotalBytesWritten = plus(f.TotalBytesWritten, n)
	increment(f.ByMode, named(m.Op))
	increment(f.ByCaller, named(r.Caller))
	if !at.IsZero() {
		f.minutes[at.Truncate(time.Minute).Unix()]++
	}
	p := f.paths[path]
	if p == nil {
		path = strings.Clone(path)
		p = &pathCount{Path: analytics.Path{Path: path}}
		f.paths[path] = p
	}
	p.WriteCount++
	p.TotalBytes = plus(p.TotalBytes, n)
	p.add(at)
	if len(f.Timeline) == 2*timelineLen {
		f.Timeline, f.times = slices.Delete(f.Timeline, 0, timelineLen), slices.Delete(f.times, 0, timelineLen)
	}
	f.Timeline = append(f.Timeline, analytics.Write{Path: p.Path.Path, Mode: named(m.Op), Bytes: n, Caller: named(r.Caller), Seq: r.Seq})
	f.times = append(f.times, r.TS)
}

// session is the count of a chunk session, one that is not shown when it is not
// asked for.
func (f *fold) session(name string, at time.Time) *sessionCount {
	if f.opt.SessionFilter != "" && name != f.opt.SessionFilter {
		return &f.other
	}
	s := f.sessions[name]
	if s == nil {
		s = &sessionCount{}
		f.sessions[strings.Clone(name)] = s
	}
	s.add(at)
	return s
}

// finish makes the figures that depend on all rows.
func (f *fold) finish() {
	old := max(0, len(f.Timeline)-timelineLen)
	f.Timeline = f.Timeline[old:]
	for i := range f.Timeline {
		f.Timeline[i].TS = timestamp(f.times[old+i])
	}
	f.UniquePaths = len(f.paths)
	for _, p := range f.paths {
		p.LastWrite = call.Timestamp{Time: p.last}
		f.HotPaths = append(f.HotPaths, p.Path)
	}
	slices.SortFunc(f.HotPaths, func(a, b analytics.Path) int {
		return cmp.Or(cmp.Compare(b.WriteCount, a.WriteCount), cmp.Compare(b.TotalBytes, a.TotalBytes), strings.Compare(a.Path, b.Path))
	})
	f.HotPaths = slices.Clone(f.HotPaths[:min(len(f.HotPaths), hotPathsLen)])
	for name, s := range f.sessions {
		s.FirstWrite, s.LastWrite, s.DurationSeconds = call.Timestamp{Time: s.first}, call.Timestamp{Time: s.last}, round(s.seconds())
		f.Sessions[name] = s.Session
	}
	f.Period = analytics.Period{FirstEntry: timestamp(f.period.firstTS), LastEntry: timestamp(f.period.lastTS), DurationSeconds: round(f.period.seconds())}
	f.WriteVelocity.WritesPerMinute = ratio(float64(f.TotalWrites)*60, f.period.seconds())
	f.WriteVelocity.AvgBytesPerWrite = ratio(float64(f.TotalBytesWritten), float64(f.TotalWrites))
	peak, most := int64(0), 0
	for minute, n := range f.minutes {
		if n > most || n == most && minute < peak {
			peak, most = minute, n
		}
	}
	if most > 0 {
		f.WriteVelocity.PeakMinute = analytics.Minute{Minute: time.Unix(peak, 0).UTC().Format("2006-01-02T15:04Z07:00"), Writes: most}
	}
}

// timestamp returns the Timestamp with a text.
func timestamp(text string) (t call.Timestamp) {
	t.UnmarshalText([]byte(text)) // any text is one
	return t
}

// increment counts one more of key, which is copied so that no row stays in
// memory.
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

// ratio is a divided by b, 0 when there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return round(a / b)
}

// round keeps two decimals.
func round(x float64) float64 { return math.Round(x*100) / 100 }
