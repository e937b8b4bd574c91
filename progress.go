package resilientwrite

import (
	"context"
	"io"
	"sync"
	"time"
)

// Progress reports how far a long call has come.
type Progress struct {
	Stage   Stage  // what is being done: a stage of a write, or one of the steps below
	Done    int64  // so far, in bytes of content or in things; never falls within a call
	Total   int64  // what Done will be in the end; 0 while that is not known
	Message string // the same in words, without content; may be empty
}

// The steps of calls that are no stages of a write.
const (
	StepRead     Stage = "read"     // content is read into the state directory
	StepVersions Stage = "versions" // the files that are undone are looked up, one by one
	StepJournal  Stage = "journal"  // the rows of the journal are checked
	StepHistory  Stage = "history"  // the kept versions are looked at
	StepFiles    Stage = "files"    // files are compared with the journal
)

// WithProgress returns a context whose calls report their progress to f: writes
// of a stream, composing, undoing, checking, and any other long call. A report is
// made at the start of a step and while the step runs, at most one every 100 ms.
// A call that ends sooner usually reports nothing.
//
// One call reports in order, never two reports at a time, and never after it has
// returned. It waits for f, so f should return quickly. f must not call the Store
// with this context. A panic in f is contained.
// the Store with this context. A panic in f is contained.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	if f == nil {
		return ctx
	}
	return context.WithValue(ctx, progressKey{}, f)
}

// progressKey is the key of the function of WithProgress and, inside a call, of
// the meter of that call.
type progressKey struct{}

// progressEvery is the minimum time between two reports.
const progressEvery = 100 * time.Millisecond

// manyFiles is how many files one call handles without a progress account of its
// own.
const manyFiles = 10

// meter tracks the progress of one call. All its methods do nothing on a nil
// meter, which means that no function is set.
type meter struct {
	f     func(Progress)
	every time.Duration

	mu    sync.Mutex
	last  time.Time // of the newest report, at first of the start
	p     Progress
	sent  Progress
	open  bool        // long work was announced
	items bool        // Done counts things, not bytes
	late  *time.Timer // sends a report that was held back
	over  bool
}

// metered starts the meter of a call; end ends it. A call inside another one
// continues with the meter of the outer call.
func metered(ctx context.Context) (_ context.Context, m *meter, end func()) {
	switch v := ctx.Value(progressKey{}).(type) {
	case func(Progress):
		m = &meter{f: v, every: progressEvery, last: time.Now()}
		return context.WithValue(ctx, progressKey{}, m), m, m.end
	case *meter:
		return ctx, v, func() {}
	}
	return ctx, nil, func() {}
}

// meterOf returns the meter of the call that ctx belongs to.
func meterOf(ctx context.Context) *meter {
	m, _ := ctx.Value(progressKey{}).(*meter)
	return m
}

// at records the stage that the call has reached. It is reported when the call
// has been in progress for a while.
func (m *meter) at(stage Stage) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.p.Stage, m.p.Message = stage, ""
	m.update()
}

// work announces long work, which is reported at once, and adds amount to the
// total; 0 means that it is not known.
func (m *meter) work(stage Stage, amount int64, message string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.p.Stage, m.p.Message, m.p.Total = stage, message, 0
	if amount > 0 {
		m.p.Total = m.p.Done + amount
	}
	m.announce()
}

// announce reports at once what has not been reported. The caller holds mu.
func (m *meter) announce() {
	if !m.open && m.sent == (Progress{}) {
		m.last = time.Time{}
	}
	m.open = true
	m.update()
}

// things announces work that is counted in things; the bytes moved during it are
// not counted.
func (m *meter) things(stage Stage, amount int64, message string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.items = true
	m.mu.Unlock()
	m.work(stage, amount, message)
}

// one counts a completed thing.
func (m *meter) one() { m.add(1, true) }

func (m *meter) add(n int64, items bool) {
	if m == nil || n <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.items != items {
		return
	}
	m.p.Done += n
	if m.p.Total > 0 {
		m.p.Total = max(m.p.Total, m.p.Done) // there was more than announced
	}
	m.update()
}

// update reports now or later. The caller holds mu.
func (m *meter) update() {
	if m.over || m.p == m.sent {
		return
	}
	wait := m.every - time.Since(m.last)
	if wait <= 0 {
		m.report()
		return
	}
	if m.late == nil {
		// Without this a step that is one long wait, such as a flush, would
		// never be reported.
		m.late = time.AfterFunc(wait, m.updateLate)
	}
}

func (m *meter) updateLate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = nil
	m.update()
}

// report calls the listener. It holds mu throughout: that keeps the reports in
// order, and keeps end from returning before the last one has finished.
func (m *meter) report() {
	defer func() {
		recover()
		m.last = time.Now()
	}()
	m.sent = m.p
	m.f(m.p)
}

// end is called when the call returns: nothing is reported afterwards.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.late != nil {
		m.late.Stop()
	}
}

// reading records that content is read, unless the call has already announced
// what it does. Like a stage it is reported after a while.
func (m *meter) reading(src io.Reader) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open {
		return
	}
	m.p.Stage, m.p.Message = StepRead, ""
	if sized, ok := src.(interface{ Len() int }); ok {
		m.p.Total = m.p.Done + int64(sized.Len())
	}
	m.update()
}

// long announces that the current step takes more than a moment.
func (m *meter) long() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.announce()
}

// counting returns src with its bytes counted.
func (m *meter) counting(src io.Reader) io.Reader {
	if m == nil {
		return src
	}
	return countedReader{src, m}
}

type countedReader struct {
	src io.Reader
	m   *meter
}

func (r countedReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.m.add(int64(n), false)
	return n, err
}
