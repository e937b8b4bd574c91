package resilientwrite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// risk is the part of a request that concerns the gate.
type risk struct {
	classify *bool   // nil: as the policy says
	rejectAt Verdict // "": as the policy says
	accept   string  // the reason for accepting the risk
}

// check validates the arguments that need no access to the disk.
func (r risk) check() *fault.Fault {
	switch r.rejectAt {
	case "", VerdictLow, VerdictMedium, VerdictHigh:
	default:
		return badChoice("classify_reject_at", "low", "medium", "high")
	}
	if len(r.accept) > maxReason || !utf8.ValidString(r.accept) {
		return fault.New(fault.InvalidArgument).Hintf("accept_risk must be valid UTF-8 of at most %d bytes", maxReason).With("argument", "accept_risk")
	}
	if r.accept != "" && strings.TrimSpace(r.accept) == "" {
		return fault.New(fault.InvalidArgument).Hintf("accept_risk must give a reason").With("argument", "accept_risk")
	}
	return nil
}

// gateOf returns the gate for one call: its settings, with the changes that the
// caller may make. A caller may always make it stricter.
func (c *commit) gateOf(ctx context.Context) Gate {
	g, r := c.s.gateFor(ctx), c.risk
	if r.classify != nil {
		switch {
		case *r.classify:
			g.Mode = GateBlock
		case g.Overrides == OverrideAny || g.Mode == GateAdvise:
			g.Mode = GateOff
		case g.Mode == GateBlock:
			c.warn(WarnGateKept)
		}
	}
	if r.rejectAt != "" {
		if scan.VerdictRank(string(r.rejectAt)) < scan.VerdictRank(string(g.RejectAt)) || g.Overrides == OverrideAny {
			g.RejectAt = r.rejectAt
		} else if r.rejectAt != g.RejectAt {
			c.warn(WarnGateKept)
		}
	}
	return g
}

// warn adds a warning to every mutation of the commit.
func (c *commit) warn(reason string) {
	for _, m := range c.Muts {
		m.Warn(reason)
	}
}

// Classify runs the content gate on the final bytes, and checks the syntax of
// files that must be well formed. All new bytes pass here. Bytes that only change
// their name or come back from history are not judged again, and the scratchpad
// is exempt because it is for raw material. It refuses what this commit
// introduces; what was in the file before is a warning, because it must be
// possible to remove one of two secrets.
func (c *commit) Classify(ctx context.Context) error {
	for _, m := range c.Muts {
		if err := c.wellFormed(ctx, m); err != nil {
			return c.About(m, err)
		}
	}
	g := c.gateOf(ctx)
	if g.Mode == GateOff {
		return nil
	}
	ctx = c.s.bounded(ctx)
	var first *fault.Fault
	for i, m := range c.Muts {
		if err := c.classifyOne(ctx, g, i, m); err != nil {
			if isCostly(err) && g.Mode == GateAdvise {
				m.Warn(WarnNotScanned)
				continue
			}
			e := c.s.engine.ErrorOf(c.About(m, err))
			if e.Code != fault.RiskBlocked {
				return e
			}
			c.refused++
			first = withRefused(first, e)
		}
	}
	if first == nil {
		return nil
	}
	if n := c.refused - 1; n > 0 {
		first.Hintf("%s; %d more of the files are refused, listed in context.also_refused", first.Hint, n)
	}
	return first
}

// classifyOne is the gate for one file.
func (c *commit) classifyOne(ctx context.Context, g Gate, i int, m *engine.Mutation) error {
	if cameFrom(m) != "" && !m.Unchanged() && m.Final.Size() > 0 {
		if err := c.inspectMoved(ctx, g, i, m); err != nil {
			return err
		}
	}
	if m.Unchanged() || m.Ungated || m.Final.Size() == 0 {
		return nil
	}
	if g.Mode == GateAdvise && m.Final.Size() >= lookBesideFrom && !c.s.engine.TestHooks.InTurn && !c.Req.DryRun {
		c.lookBeside(ctx, g, i, m)
		return nil
	}
	found, err := c.inspect(ctx, m)
	if err != nil {
		return err
	}
	return c.decide(g, i, m, found)
}

// withRefused adds another refused file of the commit to the refusal of the first
// one: the families of all files, and the facts of each.
func withRefused(e, other *fault.Fault) *fault.Fault {
	if e == nil {
		return other
	}
	for _, family := range other.Patterns {
		if !slices.Contains(e.Patterns, family) {
			e.Patterns = append(e.Patterns, family)
		}
	}
	slices.Sort(e.Patterns)
	also, _ := e.Context["also_refused"].([]any)
	if len(also) == maxListed {
		return e
	}
	facts := map[string]any{"path": other.Path, "detected_patterns": other.Patterns}
	for _, key := range []string{"op_index", "draft_ref"} {
		if value, ok := other.Context[key]; ok {
			facts[key] = value
		}
	}
	return e.With("also_refused", append(also, facts))
}

// lookBesideFrom is the size in bytes from which advice is computed while the
// file is written: scanning a long text takes as long as writing it.
const lookBesideFrom = 16 << 10

// lookBeside inspects a file concurrently. It is only for advice: a file that may
// be refused is inspected before it is written to disk.
func (c *commit) lookBeside(ctx context.Context, g Gate, i int, m *engine.Mutation) {
	still, target := *m, *m.Target // as they are now: the stages go on with m
	still.Target = &target
	done := make(chan struct{})
	var found findings
	var err error
	go func() {
		defer close(done)
		found, err = c.inspect(ctx, &still)
	}()
	c.advice = append(c.advice, func() {
		<-done
		switch { // advice that cannot be had is no failure
		case err == nil:
			c.decide(g, i, m, found)
		case isCostly(err):
			m.Warn(WarnNotScanned)
		}
	})
}

// Wait waits for the concurrent inspections.
func (c *commit) Wait() {
	for _, wait := range c.advice {
		wait()
	}
	c.advice = nil
}

// findings are what the gate found in the final bytes of one file.
type findings struct {
	report  scan.Report
	fresh   introduced
	verdict Verdict // of what is fresh and more than information: it refuses
	score   float64
	worth   Verdict // what is fresh deserves this warning
}

// introduced holds the findings that a commit introduces. All are counted, but
// only as many are kept as a refusal lists, because a text may hold millions of
// findings.
type introduced struct {
	scan.Tally
	first []scan.Finding
}

func (in *introduced) add(x scan.Finding) {
	in.Add(x)
	if len(in.first) < maxListed {
		in.first = append(in.first, x)
	}
}

// inspect scans the final bytes and omits the findings that were there before.
func (c *commit) inspect(ctx context.Context, m *engine.Mutation) (f findings, err error) {
	opt := c.s.policy().options(m.Target.Path)
	switch {
	case m.How == publish.Append:
		err = c.inspectAppended(ctx, m, opt, &f)
	case m.Prev.Exists && m.Prev.File != nil:
		err = c.inspectReplaced(ctx, m, opt, &f)
	default:
		_, err = c.scanFinal(ctx, m, opt, &f)
		f.fresh = introduced{f.report.Tally(), f.report.Findings[:min(len(f.report.Findings), maxListed)]}
	}
	f.judge(c.s.policy().scanner)
	return f, err
}

// judge decides which findings are fresh. Findings of confidence info never
// refuse: they are not part of the verdict of the gate, and alone they only cause
// the mildest warning.
func (f *findings) judge(s *scan.Scanner) {
	score, verdict := s.GateVerdict(&f.fresh.Tally)
	f.score, f.verdict, f.worth = score, Verdict(verdict), Verdict(verdict)
	if _, all := s.VerdictOf(&f.fresh.Tally); f.verdict == VerdictSafe && all != scan.VerdictSafe {
		f.worth = VerdictLow
	}
}

// inspectReplaced separates the new findings in the final bytes from those that
// the file had before. It records the fingerprints of the current findings, marks
// those that the old file has too, and counts the others.
func (c *commit) inspectReplaced(ctx context.Context, m *engine.Mutation, opt scan.Options, f *findings) (err error) {
	s := c.s.policy().scanner
	seen, err := c.scanFinal(ctx, m, opt, f)
	if err != nil || len(f.report.Findings) == 0 {
		return err
	}
	opt.Each = seen.mark
	if _, err = scanReader(ctx, s, m.Prev.Reader(), opt); err != nil {
		return err
	}
	opt.Each = func(x scan.Finding) {
		if !seen.marked(x) {
			f.fresh.add(x)
		}
	}
	if f.report.Omitted > 0 { // a report lists only so many
		_, err = scanBody(ctx, s, m.Final, opt)
		return err
	}
	for _, x := range f.report.Findings {
		opt.Each(x)
	}
	return nil
}

// inspectAppended scans the appended bytes together with as much of the end of
// the file as one secret can span, so that a secret that is completed here is
// found.
func (c *commit) inspectAppended(ctx context.Context, m *engine.Mutation, opt scan.Options, f *findings) (err error) {
	from := max(0, m.Prev.Stat.Size-scan.Window)
	tail := io.NewSectionReader(m.Prev.File, from, m.Prev.Stat.Size-from)
	overlap := int(m.Prev.Stat.Size - from)
	opt.Each = func(x scan.Finding) {
		if x.End > overlap {
			f.fresh.add(x)
		}
	}
	if f.report, err = scanReader(ctx, c.s.policy().scanner, io.MultiReader(tail, m.Final.Reader()), opt); err != nil {
		return err
	}
	if from > 0 && f.fresh.Total > 0 {
		err = placeInFile(m, f.fresh.first, from)
	}
	return err
}

// placeInFile converts positions in the end of a file, from an offset on, to
// positions in the whole file.
func placeInFile(m *engine.Mutation, found []scan.Finding, from int64) error {
	lines, err := countLines(io.NewSectionReader(m.Prev.File, from, m.Prev.Stat.Size-from))
	if err != nil {
		return err
	}
	column, err := columnAt(m.Prev.File, from)
	if err != nil {
		return err
	}
	above := int(m.Prev.Traits.LF+m.Prev.Traits.CRLF) - lines
	for i := range found {
		if found[i].Line == 1 {
			found[i].Column += column
		}
		found[i].Line += above
	}
	return nil
}

// columnAt is the number of characters between the start of its line and an
// offset of a file.
func columnAt(f io.ReaderAt, off int64) (int, error) {
	n, buf := 0, make([]byte, 64<<10)
	for off > 0 {
		piece := buf[:min(int64(len(buf)), off)]
		off -= int64(len(piece))
		if _, err := f.ReadAt(piece, off); err != nil && err != io.EOF {
			return 0, err
		}
		line := piece[bytes.LastIndexByte(piece, '\n')+1:]
		for _, c := range line {
			if c&0xc0 != 0x80 {
				n++
			}
		}
		if len(line) < len(piece) {
			break
		}
	}
	return n, nil
}

func countLines(r io.Reader) (int, error) {
	var t engine.Traits
	if _, err := io.Copy(&t, r); err != nil {
		return 0, err
	}
	return int(t.LF + t.CRLF), nil
}

// scanAtOnce is the size in bytes up to which a text is scanned in one piece.
const scanAtOnce = 1 << 20

func scanBody(ctx context.Context, s *scan.Scanner, b engine.Body, opt scan.Options) (scan.Report, error) {
	if whole, ok := b.Whole(); ok && len(whole) <= scanAtOnce {
		opt.Context = ctx
		return s.Score(whole, opt), ctx.Err()
	}
	return scanReader(ctx, s, b.Reader(), opt)
}

func scanReader(ctx context.Context, s *scan.Scanner, r io.Reader, opt scan.Options) (scan.Report, error) {
	opt.Context = ctx
	st := s.NewStream(opt)
	if _, err := io.CopyBuffer(st, engine.NewStoppable(ctx, r), make([]byte, engine.CopyBuffer)); err != nil {
		return scan.Report{}, err
	}
	return st.Report(), ctx.Err()
}

func isCostly(err error) bool {
	var costly *scan.CostlyError
	return errors.As(err, &costly)
}

// decide refuses, warns, or accepts.
func (c *commit) decide(g Gate, i int, m *engine.Mutation, f findings) error {
	if f.fresh.Total < f.report.Tally().Total {
		m.Warn(WarnRiskPreexisting)
	}
	if f.worth == VerdictSafe {
		return nil
	}
	if scan.VerdictRank(string(f.verdict)) < scan.VerdictRank(string(g.RejectAt)) || g.Mode == GateAdvise {
		m.Warn("risk_" + string(f.worth))
		if f.fresh.Failed > 0 {
			m.Warn(WarnChecksumFailed)
		}
		return nil
	}
	why := c.mayAccept(g, f)
	if why == "" {
		c.Accepted = c.s.safeText(c.risk.accept)
		m.Warn(WarnRiskAccepted)
		return nil
	}
	return c.refuse(g, i, m, f, why)
}

// mayAccept reports whether the caller accepts the risk and is allowed to. It
// returns "" or the reason why not.
func (c *commit) mayAccept(g Gate, f findings) string {
	switch {
	case c.risk.accept == "":
		return "none"
	case g.Overrides == OverrideNone:
		return "the policy allows no override"
	case g.Overrides == OverrideReason:
		if f.fresh.Confirmed {
			return "a confirmed credential cannot be accepted here"
		}
	}
	return ""
}

// maxListed is how many findings a refusal lists.
const maxListed = 20

// refuse makes the error of the gate. The draft is kept, so that the caller can
// redact it without sending it again.
func (c *commit) refuse(g Gate, i int, m *engine.Mutation, f findings, why string) error {
	e := fault.New(fault.RiskBlocked)
	e.Patterns = f.fresh.Families()
	actions := f.report.Actions()
	e.With("score", f.score).With("verdict", f.verdict).With("classify_reject_at", g.RejectAt).
		With("detected", riskFindings(f.fresh.first)).With("suggested_actions", actions)
	if n := f.fresh.Total - len(f.fresh.first); n > 0 {
		e.With("detected_omitted", n)
	}
	if why != "none" {
		e.With("accept_risk", why)
	}
	e.Path = m.Path
	if m.Origin != "" {
		return e.With("origin", m.Origin).Hintf("the file contains %s, which the policy allows at the old path but not at the new one; redact it first, or choose a path that the policy allows", strings.Join(e.Patterns, ", "))
	}
	if c.Req.DryRun {
		return e
	}
	if c.refused >= maxListed { // one call must not push the drafts of others out
		return e.With("draft_kept", false)
	}
	ref, err := c.s.drafts.Keep(c.Commit, m, e.Patterns)
	if err != nil {
		return e.With("draft_kept", false).With("draft_problem", Detail(c.s.engine.ErrorOf(err).Code))
	}
	e.With("draft_ref", ref)
	return e.Hintf("the draft contains what looks like %s; call Store.Redact with draft_ref and write the result, or ask the user", strings.Join(e.Patterns, ", "))
}
