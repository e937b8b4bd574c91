// Package progress reports how far a long call has come.
package progress

import (
	"context"
	"io"
	"sync"
	"time"
)

// Report is one report.
type Report struct {
	Stage       string // what is being done
	Done, Total int64
	Message     string
}

const stepRead = "read" // content is read into the state directory

// With returns a context whose calls report to f.
func With(ctx context.Context, f func(Report)) context.Context {
	return context.WithValue(ctx, key{}, f)
}

// key is the key of the function of With and, inside a call, of the meter of that call.
type key struct{}

// every is the minimum time between two reports.
const every = 100 * time.Millisecond

// Meter tracks the progress of one call. All its methods do nothing on a nil
// meter, which means that no function is set.
type Meter struct {
	f func(Report)

	mu    sync.Mutex
	last  time.Time // of the newest report, at first of the start
	p     Report
	sent  Report
	open  bool        // long work was announced
	items bool        // Done counts things, not bytes
	late  *time.Timer // sends a report that was held back
	over  bool
}

// Begin starts the meter of a call; end ends it. A call inside another one
// continues with the meter of the outer call.
func Begin(ctx context.Context) (_ context.Context, m *Meter, end func()) {
	switch v := ctx.Value(key{}).(type) {
	case func(Report):
		m = &Meter{f: v, last: time.Now()}
		return context.WithValue(ctx, key{}, m), m, m.end
	case *Meter:
		return ctx, v, func() {}
	}
	return ctx, nil, func() {}
}

// Of returns the meter of the call that ctx belongs to.
func Of(ctx context.Context) *Meter {
	m, _ := ctx.Value(key{}).(*Meter)
	return m
}

// At records the stage that the call has reached. It is reported when the call
// has been in progress for a while.
func (m *Meter) At(stage string) {
	m.locked(func() {
		m.p.Stage, m.p.Message = stage, ""
		m.update()
	})
}

// locked runs f, unless m is nil.
func (m *Meter) locked(f func()) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		f()
	}
}

// Work announces long work, which is reported at once, and adds amount to the
// total; 0 means that it is not known.
func (m *Meter) Work(stage string, amount int64, message string) {
	m.locked(func() {
		m.p.Stage, m.p.Message, m.p.Total = stage, message, 0
		if amount > 0 {
			m.p.Total = m.p.Done + amount
		}
		m.announce()
	})
}

// announce reports at once what has not been reported. The caller holds mu.
func (m *Meter) announce() {
	if !m.open && m.sent == (Report{}) {
		m.last = time.Time{}
	}
	m.open = true
	m.update()
}

// Things announces work that is counted in things; the bytes moved during it are
// not counted.
func (m *Meter) Things(stage string, amount int64, message string) {
	m.locked(func() { m.items = true })
	m.Work(stage, amount, message)
}

// One counts a completed thing.
func (m *Meter) One() { m.add(1, true) }

func (m *Meter) add(n int64, items bool) {
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
func (m *Meter) update() {
	if m.over || m.p == m.sent {
		return
	}
	wait := every - time.Since(m.last)
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

func (m *Meter) updateLate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = nil
	m.update()
}

// report calls the listener. It holds mu throughout: that keeps the reports in
// order, and keeps end from returning before the last one has finished.
func (m *Meter) report() {
	defer func() {
		recover()
		m.last = time.Now()
	}()
	m.sent = m.p
	m.f(m.p)
}

// end is called when the call returns: nothing is reported afterwards.
func (m *Meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if m.late != nil {
		m.late.Stop()
	}
}

// Reading records that content is read, unless the call has already announced
// what it does. Like a stage it is reported after a while.
func (m *Meter) Reading(src io.Reader) {
	m.locked(func() {
		if m.open {
			return
		}
		m.p.Stage, m.p.Message = stepRead, ""
		if sized, ok := src.(interface{ Len() int }); ok {
			m.p.Total = m.p.Done + int64(sized.Len())
		}
		m.update()
	})
}

// Long announces that the current step takes more than a moment.
func (m *Meter) Long() { m.locked(m.announce) }

// Counting returns src with its bytes counted.
func (m *Meter) Counting(src io.Reader) io.Reader {
	if m == nil {
		return src
	}
	return countedReader{src, m}
}

type countedReader struct {
	src io.Reader
	m   *Meter
}

func (r countedReader) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	r.m.add(int64(n), false)
	return n, err
}
