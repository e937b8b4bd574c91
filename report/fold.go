package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// statePrefix begins the paths of what is in the state directory.
const statePrefix = ".resilient_write/"

// Activity folds rows of the journal into what happened when. It keeps the
// newest rows only, in little memory.
type Activity struct {
	since   time.Time
	clean   func(string) string
	ring    []deed // at most most; the oldest at head once it is full
	head    int
	most    int
	dropped int
	aborted map[uint64]bool
	events  []Row // conflicts, aborts, risks that were accepted: the newest
	missed  int   // events that were dropped
	names   map[string]string
	sum     *summary // of the rows so far, once it was asked for
}

// deed is what is kept of a row.
type deed struct {
	seq                   uint64
	at                    int64 // Unix seconds; noTime when not known
	bytes                 int64
	gone                  bool
	op                    string
	path, caller, session string
}

// noTime is the time of a row that has none.
const noTime = -1 << 62

// NewActivity returns an Activity of at most so many rows. Rows before since
// are left out; clean takes secrets out of a text.
func NewActivity(since time.Time, most int, clean func(string) string) *Activity {
	return &Activity{since: since, most: max(most, 1), clean: clean, aborted: map[uint64]bool{}, names: map[string]string{}}
}

// Add takes the next row, in the order of the journal.
func (a *Activity) Add(r Row) {
	a.sum = nil
	at, known := instant(r.TS)
	if known && !a.since.IsZero() && at.Before(a.since) {
		return
	}
	switch r.Kind {
	case "abort": // the rows of the commit may follow later
		if len(a.aborted) < a.most {
			a.aborted[r.Ref] = true
		}
		a.event(r)
		return
	case "conflict":
		a.event(r)
		return
	case "commit":
		if r.AcceptRisk != "" {
			a.event(r)
		}
	default:
		return
	}
	d := deed{
		seq: r.Seq, at: noTime, bytes: r.Bytes, gone: r.Gone, op: a.name(r.Op),
		path: a.name(r.Path), caller: a.name(r.Caller), session: a.name(r.Session),
	}
	if known {
		d.at = at.Unix()
	}
	if len(a.ring) < a.most {
		a.ring = append(a.ring, d)
		return
	}
	a.ring[a.head] = d
	a.head = (a.head + 1) % a.most
	a.dropped++
}

// namesHeld is how many names are shared between rows. More than that, and
// each row has its own: they go when the row goes.
const namesHeld = 50_000

// name is a name in the memory that all rows with it share.
func (a *Activity) name(s string) string {
	if have, ok := a.names[s]; ok {
		return have
	}
	kept := clip(s, a.clean)
	if len(a.names) < namesHeld && len(s) <= 512 {
		a.names[kept] = kept
	}
	return kept
}

// event keeps a row that one may want to look at.
func (a *Activity) event(r Row) {
	r.Path, r.Reason, r.AcceptRisk = clip(r.Path, a.clean), clip(r.Reason, a.clean), clip(r.AcceptRisk, a.clean)
	r.Caller, r.Session = clip(r.Caller, a.clean), clip(r.Session, a.clean)
	if len(a.events) == 2*maxRecent {
		a.missed += maxRecent
		a.events = slices.Delete(a.events, 0, maxRecent)
	}
	a.events = append(a.events, r)
}

// Dropped is how many rows did not fit.
func (a *Activity) Dropped() int { return a.dropped }

// Hot returns the files that were written most often, at most n: a report
// shows their versions when no files are named.
func (a *Activity) Hot(n int) []string {
	var list []string
	for _, f := range a.summary().files {
		if len(list) == n {
			break
		}
		if len(f.name) <= 512 { // a longer one was cut: no file has that name
			list = append(list, f.name)
		}
	}
	return list
}

// summary is what the rows add up to.
type summary struct {
	share           // of the workspace
	state    int    // writes of the state directory
	lowest   uint64 // row
	highest  uint64
	deeds    []deed   // of the workspace
	files    []*share // the most written first
	sessions []*share // likewise
}

// share is what the writes of one file or session, or all of them, add up to.
type share struct {
	name        string
	writes      int
	size        int64 // after the last one
	gone        bool
	files       map[string]bool
	callers     map[string]bool
	first, last int64
	times       []int64
}

// summary counts the rows that were not rolled back.
func (a *Activity) summary() *summary {
	if a.sum != nil {
		return a.sum
	}
	s := &summary{share: newShare("")}
	files, sessions := map[string]*share{}, map[string]*share{}
	for i := range a.ring {
		d := a.ring[(a.head+i)%len(a.ring)]
		if a.aborted[d.seq] {
			continue
		}
		s.lowest = cmp.Or(s.lowest, d.seq)
		s.highest = max(s.highest, d.seq)
		if strings.HasPrefix(d.path, statePrefix) {
			s.state++
			continue
		}
		s.deeds = append(s.deeds, d)
		s.add(d)
		shareOf(files, d.path).add(d)
		shareOf(sessions, d.session).add(d)
	}
	s.files, s.sessions = slices.Collect(maps.Values(files)), slices.Collect(maps.Values(sessions))
	slices.SortFunc(s.files, func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.writes, a.writes), cmp.Compare(b.last, a.last), strings.Compare(a.name, b.name))
	})
	slices.SortFunc(s.sessions, func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.writes, a.writes), strings.Compare(a.name, b.name))
	})
	a.sum = s
	return s
}

func shareOf(all map[string]*share, name string) *share {
	if all[name] == nil {
		one := newShare(name)
		all[name] = &one
	}
	return all[name]
}

func newShare(name string) share {
	return share{name: name, first: noTime, last: noTime, files: map[string]bool{}, callers: map[string]bool{}}
}

// add counts a write. The clock may jump, so the times come in any order.
func (x *share) add(d deed) {
	x.writes++
	x.size, x.gone, x.files[d.path], x.callers[d.caller] = d.bytes, d.gone, true, true
	if d.at == noTime {
		return
	}
	if x.first == noTime || d.at < x.first {
		x.first = d.at
	}
	x.last = max(x.last, d.at)
	x.times = append(x.times, d.at)
}

// floor is the highest multiple of step that is not above x.
func floor(x, step int64) int64 {
	past := x % step
	if past < 0 {
		past += step
	}
	return x - past
}

// named is how a name that was not given is shown.
func named(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// instant is the time of a row. A time whose year does not fit four
// digits is invalid.
func instant(ts string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, ts)
	if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 {
		return time.Time{}, false
	}
	return t, true
}

// ranked is a count of a name.
type ranked struct {
	name string
	n    int
}

// rank orders counts, the highest first.
func rank(counts map[string]int) []ranked {
	var list []ranked
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, ranked{name, counts[name]})
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(b.n, a.n) })
	return list
}
