package resilientwrite

import (
	"context"
	"io"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// risk is what a request says about the gate.
type risk struct {
	classify *bool   // nil: as the policy says
	rejectAt Verdict // "": as the policy says
	accept   string  // the reason why the risk is taken
}

// check judges the arguments that need no look at the disk.
func (r risk) check() *Error {
	switch r.rejectAt {
	case "", VerdictLow, VerdictMedium, VerdictHigh:
	default:
		return badChoice("classify_reject_at", string(r.rejectAt), "low", "medium", "high")
	}
	if len(r.accept) > maxReason || !utf8.ValidString(r.accept) {
		return fail(InvalidArgument).hint("accept_risk is valid UTF-8 of at most %d bytes", maxReason).with("argument", "accept_risk")
	}
	if r.accept != "" && strings.TrimSpace(r.accept) == "" {
		return fail(InvalidArgument).hint("accept_risk says why the risk is taken").with("argument", "accept_risk")
	}
	return nil
}

// gateOf is the gate for one call: what is set, as far as the caller may
// change it. A caller may always make it stricter.
func (c *commit) gateOf(ctx context.Context) Gate {
	g, r := c.s.gateFor(ctx), c.req.risk
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
	for _, m := range c.muts {
		m.warn(reason)
	}
}

// classify asks the content gate, on the final bytes: at this one point no
// route to the disk goes around it, and checks the syntax of what is to be
// well formed. It refuses what this commit introduces;
// what was in the file before is a warning, because one must be able to take
// out one of two secrets.
func (c *commit) classify(ctx context.Context) error {
	for _, m := range c.muts {
		if err := c.wellFormed(m); err != nil {
			return err
		}
	}
	g := c.gateOf(ctx)
	if g.Mode == GateOff {
		return nil
	}
	for i, m := range c.muts {
		if m.unchanged() || m.ungated || m.final.size() == 0 {
			continue
		}
		found, err := c.inspect(m)
		if err != nil {
			return err
		}
		if err := c.decide(g, i, m, found); err != nil {
			return err
		}
	}
	return nil
}

// findings are what the gate found in the final bytes of one file.
type findings struct {
	report  scan.Report
	fresh   []scan.Finding // what the commit introduces
	verdict Verdict        // of the fresh ones
	score   float64
}

// inspect scans the final bytes and leaves out what was there before.
func (c *commit) inspect(m *mutation) (findings, error) {
	p := c.s.policy
	opt := p.options(m.target.Path)
	var f findings
	if m.how == howAppend {
		return c.inspectAppended(m, opt)
	}
	report, err := scanBody(p.scanner, m.final, opt)
	if err != nil {
		return f, err
	}
	f.report, f.fresh = report, report.Findings
	if report.Omitted > 0 {
		f.score, f.verdict = report.Score, Verdict(p.scanner.ContentVerdict(&report))
		return f, nil
	}
	if len(report.Findings) > 0 && m.prev.exists && m.prev.file != nil {
		before, err := scanReader(p.scanner, m.prev.reader(), opt)
		if err != nil {
			return f, err
		}
		known := map[[16]byte]bool{}
		for _, x := range before.Findings {
			known[x.Fingerprint] = true
		}
		f.fresh = nil
		for _, x := range report.Findings {
			if !known[x.Fingerprint] {
				f.fresh = append(f.fresh, x)
			}
		}
	}
	score, verdict := p.scanner.VerdictOf(f.fresh)
	f.score, f.verdict = score, Verdict(verdict)
	return f, nil
}

// inspectAppended scans the appended bytes together with as much of the file
// as one secret can reach over: a secret that is completed here is found.
func (c *commit) inspectAppended(m *mutation, opt scan.Options) (findings, error) {
	p := c.s.policy
	from := max(0, m.prev.stat.Size-scan.Window)
	tail := io.NewSectionReader(m.prev.file, from, m.prev.stat.Size-from)
	report, err := scanReader(p.scanner, io.MultiReader(tail, m.final.reader()), opt)
	if err != nil {
		return findings{}, err
	}
	f := findings{report: report}
	overlap := int(m.prev.stat.Size - from)
	for _, x := range report.Findings {
		if x.End > overlap {
			f.fresh = append(f.fresh, x)
		}
	}
	score, verdict := p.scanner.VerdictOf(f.fresh)
	f.score, f.verdict = score, Verdict(verdict)
	if from > 0 {
		// Lines are those of the whole file.
		before := int(m.prev.traits.lf + m.prev.traits.crlf)
		lines, err := countLines(io.NewSectionReader(m.prev.file, from, m.prev.stat.Size-from))
		if err != nil {
			return f, err
		}
		for i := range f.fresh {
			f.fresh[i].Line += before - lines
		}
	}
	return f, nil
}

func countLines(r io.Reader) (int, error) {
	var t traits
	if _, err := io.Copy(&t, r); err != nil {
		return 0, err
	}
	return int(t.lf + t.crlf), nil
}

func scanBody(s *scan.Scanner, b body, opt scan.Options) (scan.Report, error) {
	if whole, ok := b.whole(); ok {
		return s.Score(whole, opt), nil
	}
	return scanReader(s, b.reader(), opt)
}

func scanReader(s *scan.Scanner, r io.Reader, opt scan.Options) (scan.Report, error) {
	st := s.NewStream(opt)
	if _, err := io.CopyBuffer(st, struct{ io.Reader }{r}, make([]byte, copyBuffer)); err != nil {
		return scan.Report{}, err
	}
	return st.Report(), nil
}

// decide refuses, warns, or lets pass.
func (c *commit) decide(g Gate, i int, m *mutation, f findings) error {
	if len(f.fresh) < len(f.report.Findings) {
		m.warn(WarnRiskPreexisting)
	}
	if f.verdict == VerdictSafe {
		return nil
	}
	if scan.VerdictRank(string(f.verdict)) < scan.VerdictRank(string(g.RejectAt)) || g.Mode == GateAdvise {
		m.warn("risk_" + string(f.verdict))
		return nil
	}
	why := c.mayAccept(g, f)
	if why == "" {
		c.accepted = c.s.safeText(c.req.risk.accept)
		m.warn(WarnRiskAccepted)
		return nil
	}
	return c.refuse(g, i, m, f, why)
}

// mayAccept reports whether the caller takes the risk and is allowed to; the
// answer is "" or the reason why not.
func (c *commit) mayAccept(g Gate, f findings) string {
	switch {
	case c.req.risk.accept == "":
		return "none"
	case g.Overrides == OverrideNone:
		return "the policy allows no override"
	case g.Overrides == OverrideReason:
		for _, x := range f.fresh {
			if x.Confidence == scan.Confirmed {
				return "a confirmed credential cannot be accepted here"
			}
		}
	}
	return ""
}

// maxListed is how many findings a refusal lists.
const maxListed = 20

// refuse makes the error of the gate. The draft is kept, so that the caller
// can have it redacted without sending it again.
func (c *commit) refuse(g Gate, i int, m *mutation, f findings, why string) error {
	e := fail(RiskBlocked)
	families := map[string]bool{}
	for _, x := range f.fresh {
		families[x.Family] = true
	}
	for name := range families {
		e.Patterns = append(e.Patterns, name)
	}
	sort.Strings(e.Patterns)
	actions := f.report.Actions()
	e.with("score", f.score).with("verdict", f.verdict).with("classify_reject_at", g.RejectAt).
		with("detected", riskFindings(f.fresh[:min(len(f.fresh), maxListed)])).with("suggested_actions", actions)
	if n := len(f.fresh) - maxListed; n > 0 {
		e.with("detected_omitted", n)
	}
	if why != "none" {
		e.with("accept_risk", why)
	}
	e.Path = m.path
	if c.req.dryRun {
		return e
	}
	ref, err := c.s.keepDraft(c, m, e.Patterns)
	if err != nil {
		return e.with("draft_kept", false).with("draft_problem", c.s.errorOf(err).Detail)
	}
	e.with("draft_ref", ref)
	return e.hint("the draft holds what looks like %s; call rw_redact with draft_ref and write the result, or ask the user", strings.Join(e.Patterns, ", "))
}
