package gate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/aside"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/merge"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

// Check is the gate of one commit.
type Check struct {
	Layer   *Layer
	Commit  *engine.Commit
	Args    any                // the request of the verb, for its names
	Default policyfile.Setting // if neither the policy file nor the options set one
	Risk    Risk
	Protect string // the mode of the protected defaults, once it is known

	consented map[string]bool // protected files that the user said yes to
	advice    []func()        // wait for the concurrent inspections
	early     *earlyScan      // of the content
	lent      *bytes.Buffer   // the content, as long as the call runs
	kept      int64           // bytes of earlier versions that are in memory
	refused   int             // files that the gate refuses
	seen      *sighting       // what was found on the way to the files

	ignored func(path string, dir bool) (ignored, below bool) // by git; nil: not known yet
}

// Risk is the part of a request that concerns the gate.
type Risk struct {
	Classify *bool  // nil: as the policy says
	RejectAt string // "": as the policy says
	Accept   string // the reason for accepting the risk
}

// Check validates the arguments that need no access to the disk.
func (r Risk) Check() *fault.Fault {
	hint := ""
	switch {
	case r.RejectAt != "" && scan.VerdictRank(r.RejectAt) <= scan.VerdictRank(scan.VerdictSafe):
		return fault.BadChoice("classify_reject_at", scan.VerdictLow, scan.VerdictMedium, scan.VerdictHigh)
	case len(r.Accept) > MaxReason || !utf8.ValidString(r.Accept):
		hint = fmt.Sprintf("accept_risk must be valid UTF-8 of at most %d bytes", MaxReason)
	case r.Accept != "" && strings.TrimSpace(r.Accept) == "":
		hint = "accept_risk must give a reason"
	default:
		return nil
	}
	return fault.New(fault.InvalidArgument).With("argument", "accept_risk").Hintf("%s", hint)
}

// setting returns the gate for one call, with the changes that the caller may
// make. A caller may always make it stricter.
func (c *Check) setting() policyfile.Setting {
	g, r := c.Layer.For(c.Default), c.Risk
	if r.Classify != nil {
		switch {
		case *r.Classify:
			g.Mode = Block
		case g.Overrides == OverrideAny || g.Mode == Advise:
			g.Mode = Off
		case g.Mode == Block:
			c.warn(call.WarnGateKept)
		}
	}
	if r.RejectAt != "" {
		if scan.VerdictRank(r.RejectAt) < scan.VerdictRank(g.RejectAt) || g.Overrides == OverrideAny {
			g.RejectAt = r.RejectAt
		} else if r.RejectAt != g.RejectAt {
			c.warn(call.WarnGateKept)
		}
	}
	return g
}

// warn adds a warning to every mutation of the commit.
func (c *Check) warn(reason string) {
	for _, m := range c.Commit.Muts {
		m.Warn(reason)
	}
}

// Located refuses files from which git runs programs, and protected files that
// the user was not asked about.
func (c *Check) Located() error {
	for _, m := range c.Commit.Muts {
		if err := c.seen.judge(m); err != nil {
			return c.Commit.About(m, err)
		}
	}
	return c.stayConsented()
}

// Composed judges the commit as a whole, once its final bytes are known.
func (c *Check) Composed() error {
	if err := c.judgeShapes(); err != nil {
		return err
	}
	return c.warnProtected()
}

// Classify checks the syntax of files that must be well formed, and runs the
// content gate on the final bytes. All new bytes pass here.
// Bytes that only change their name or come back from history are not judged
// again, and the scratchpad is exempt because it is for raw material. It refuses
// what this commit introduces; what was in the file before is a warning, because
// it must be possible to remove one of two secrets.
func (c *Check) Classify(ctx context.Context) error {
	if err := c.wellFormed(ctx); err != nil {
		return err
	}
	g := c.setting()
	if g.Mode == Off {
		return nil
	}
	ctx = c.Layer.Bounded(ctx)
	var first *fault.Fault
	for _, m := range c.Commit.Muts {
		if err := c.classifyOne(ctx, g, m); err != nil {
			if isCostly(err) && g.Mode == Advise {
				m.Warn(call.WarnNotScanned)
				continue
			}
			e := c.Layer.ErrorOf(c.Commit.About(m, err))
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
func (c *Check) classifyOne(ctx context.Context, g policyfile.Setting, m *engine.Mutation) error {
	if cameFrom(m) != "" && !m.Unchanged() && m.Final.Size() > 0 {
		if err := c.inspectMoved(ctx, g, m); err != nil {
			return err
		}
	}
	if m.Unchanged() || m.Ungated || m.Final.Size() == 0 {
		return nil
	}
	if g.Mode == Advise && m.Final.Size() >= lookBesideFrom && !c.Layer.TestHooks.InTurn && !c.Commit.Req.DryRun {
		c.lookBeside(ctx, g, m)
		return nil
	}
	found, err := c.inspect(ctx, m)
	if err != nil {
		return err
	}
	return c.decide(g, m, found)
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
	if len(also) == MaxListed {
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
func (c *Check) lookBeside(ctx context.Context, g policyfile.Setting, m *engine.Mutation) {
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
			c.decide(g, m, found)
		case isCostly(err):
			m.Warn(call.WarnNotScanned)
		}
	})
}

// Wait waits for the concurrent inspections.
func (c *Check) Wait() {
	for _, wait := range c.advice {
		wait()
	}
	c.advice = nil
}

// decide refuses, warns, or accepts.
func (c *Check) decide(g policyfile.Setting, m *engine.Mutation, f findings) error {
	if f.fresh.Total < f.report.Tally().Total {
		m.Warn(call.WarnRiskPreexisting)
	}
	if f.worth == scan.VerdictSafe {
		return nil
	}
	if scan.VerdictRank(f.verdict) < scan.VerdictRank(g.RejectAt) || g.Mode == Advise {
		m.Warn("risk_" + f.worth)
		if f.fresh.Failed > 0 {
			m.Warn(call.WarnChecksumFailed)
		}
		return nil
	}
	why := c.mayAccept(g, f)
	if why == "" {
		c.Commit.Accepted = c.Layer.SafeText(c.Risk.Accept)
		m.Warn(call.WarnRiskAccepted)
		return nil
	}
	return c.refuse(g, m, f, why)
}

// mayAccept reports whether the caller accepts the risk and is allowed to. It
// returns "" or the reason why not.
func (c *Check) mayAccept(g policyfile.Setting, f findings) string {
	switch {
	case c.Risk.Accept == "":
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

// MaxListed is how many findings a refusal lists.
const MaxListed = 20

// refuse makes the error of the gate. Its context has the findings as
// []scan.Finding. The draft is kept, so that the caller can redact it without
// sending it again.
func (c *Check) refuse(g policyfile.Setting, m *engine.Mutation, f findings, why string) error {
	e := fault.New(fault.RiskBlocked)
	e.Patterns = f.fresh.Families()
	actions := f.report.Actions()
	e.With("score", f.score).With("verdict", f.verdict).With("classify_reject_at", g.RejectAt).
		With("detected", f.fresh.first).With("suggested_actions", actions)
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
	if c.Commit.Req.DryRun {
		return e
	}
	if c.refused >= MaxListed { // one call must not push the drafts of others out
		return e.With("draft_kept", false)
	}
	ref, err := c.Layer.Keep(c.Commit, m, e.Patterns)
	if err != nil {
		return e.With("draft_kept", false).With("draft_problem", c.Layer.ErrorOf(err).Code)
	}
	e.With("draft_ref", ref)
	return e.Hintf("the draft contains what looks like %s; call Store.Redact with draft_ref and write the result, or ask the user", strings.Join(e.Patterns, ", "))
}

// MaxValidated is the size in bytes up to which a write checks the syntax of
// the whole final file.
const MaxValidated = 16 << 20

// maxSyntaxShown is how many problems a refusal lists.
const maxSyntaxShown = 5

// CheckSyntax runs the checker of a text's format, that of the host if there is
// one. Secrets in what it quotes are redacted.
func (l *Layer) CheckSyntax(ctx context.Context, hint, target string, content []byte) (syntax.Report, error) {
	return aside.Run(ctx, len(content), func() syntax.Report {
		rep := l.checkNow(strings.ToLower(hint), target, content)
		for i, p := range rep.Problems {
			rep.Problems[i].Message = l.HideName(p.Message)
		}
		return rep
	})
}

func (l *Layer) checkNow(hint, target string, content []byte) syntax.Report {
	for _, name := range []string{hint, strings.ToLower(path.Ext(target))} {
		if l.Validators != nil && name != "" {
			if problems, ok := l.Validators(name, content); ok {
				return syntax.NewReport(name, problems, "")
			}
		}
	}
	return syntax.Check(syntax.Detect(hint, target, content), content)
}

// wellFormed refuses final files with invalid syntax, if the request asks for
// that. The context of the refusal has the problems as []syntax.Problem.
func (c *Check) wellFormed(ctx context.Context) error {
	for _, m := range c.Commit.Muts {
		if !m.Validate || m.Op == engine.OpDelete || m.Unchanged() {
			continue
		}
		if m.Size > MaxValidated {
			m.Warn(call.WarnNotValidated)
			continue
		}
		if err := c.fileWellFormed(ctx, m); err != nil {
			return c.Commit.About(m, err)
		}
	}
	return nil
}

func (c *Check) fileWellFormed(ctx context.Context, m *engine.Mutation) error {
	src := m.Final.Reader()
	if m.Primitive == publish.Append {
		src = io.MultiReader(m.Prev.Reader(), src)
	}
	content, err := io.ReadAll(engine.NewStoppable(ctx, src))
	if err != nil {
		return err
	}
	rep, err := c.Layer.CheckSyntax(ctx, "", m.Target.Path, content)
	if err != nil || rep.Valid {
		return err
	}
	var shown []syntax.Problem
	for _, p := range rep.Problems {
		if p.Severity == syntax.Error && len(shown) < maxSyntaxShown {
			shown = append(shown, p)
		}
	}
	e := fault.New(fault.SyntaxInvalid).With("format", rep.Format).With("errors", shown)
	if len(shown) > 0 {
		e.Hintf("line %d, column %d: %s; correct the text and send it again", shown[0].Line, shown[0].Col, shown[0].Message)
	}
	return e
}

// The values of a mode of merging.
const (
	MergeOff   = "off"
	MergeClean = "clean"
)

// Merger returns how a stale call with the given mode is merged; nil: it is
// refused. The key merge of the policy file applies to calls that name no mode,
// and off applies to all.
func (l *Layer) Merger(asked string, m *engine.Mutation) engine.Merger {
	set := l.Policy().File.Merge
	asked = cmp.Or(asked, set)
	if asked != MergeClean || set == MergeOff {
		return nil
	}
	return func(ctx context.Context, base, theirs, mine []byte) ([]byte, []int, error) {
		type clean struct {
			content []byte
			lines   []int
			err     error
		}
		out, err := aside.Run(ctx, len(base)+len(theirs)+len(mine), func() (c clean) {
			c.content, c.lines, c.err = merge.Clean(base, theirs, mine)
			return c
		})
		if err = cmp.Or(err, out.err); err != nil || out.content == nil {
			return nil, out.lines, err
		}
		rep, err := l.CheckSyntax(ctx, "", m.Target.Path, out.content)
		if err != nil || !rep.Valid {
			return nil, nil, err
		}
		return out.content, nil, nil
	}
}
