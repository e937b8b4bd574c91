package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// scanEarlyFrom is the size in bytes from which content is scanned while it is
// hashed. Smaller content is scanned once it is known that it will be written.
const scanEarlyFrom = 256 << 10

// earlyScan is a scan of the content of a call, started before the stages.
type earlyScan struct {
	text   []byte
	policy *Policy
	done   chan struct{}
	report scan.Report
	seen   fingerprints
	err    error
}

// scanEarly starts a scan of content that is in memory, if the gate only advises
// and treats all paths alike. Wait waits for it.
func (c *commit) scanEarly(ctx context.Context, text []byte) {
	p := c.s.policy()
	if len(text) < scanEarlyFrom || len(text) > scanAtOnce || c.s.engine.TestHooks.InTurn || c.Req.DryRun || c.risk != (risk{}) ||
		len(p.file.Allow) > 0 || len(c.s.opts.Hooks.Transform) > 0 || c.s.gateFor(ctx).Mode != GateAdvise {
		return
	}
	e := &earlyScan{text: text, policy: p, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.report, e.err = scanBody(c.s.bounded(ctx), p.scanner, engine.MemBody(text), scan.Options{Each: e.seen.add})
	}()
	c.early, c.advice = e, append(c.advice, func() { <-e.done })
}

// scanFinal scans the final bytes and returns the fingerprints of what it found.
func (c *commit) scanFinal(ctx context.Context, m *engine.Mutation, opt scan.Options, f *findings) (seen fingerprints, err error) {
	whole, _ := m.Final.Whole()
	if e := c.early; e != nil && e.policy == c.s.policy() && len(whole) == len(e.text) && &whole[0] == &e.text[0] {
		<-e.done
		f.report = e.report
		return e.seen, e.err
	}
	opt.Each = seen.add
	f.report, err = scanBody(ctx, c.s.policy().scanner, m.Final, opt)
	return seen, err
}
