// Package gate decides whether what a call writes may be written: by its content,
// its names, the protected paths and the repositories that it would change. It
// reads the policy file and applies it to the commits of one store.
package gate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

// Layer is the gate of one store.
type Layer struct {
	*engine.Engine
	Options
	// Keep keeps a refused draft and returns its name.
	Keep func(c *engine.Commit, m *engine.Mutation, families []string) (string, error)

	// Ignored returns a function that reports whether git ignores a path, or a
	// directory that it is in.
	Ignored func() func(path string, dir bool) (ignored, below bool)

	rules   atomic.Pointer[Policy]
	at      policyPlace
	way     []string                // names in the workspace that lead to the policy file
	trouble atomic.Pointer[trouble] // a policy file that is wrong; nil = none
	repositories
	// consents are the protected files that users allowed to be changed from now on,
	// each with a session.
	consents sync.Map
}

// Options are the options of a store that concern the gate.
type Options struct {
	Setting      policyfile.Setting // takes precedence over that of the policy file if it is stricter
	PolicyFile   string             // "" for the one in the state directory
	Optional     bool               // the policy file need not exist
	ServeWithBad bool               // a wrong policy file does not prevent Open
	Trust        bool               // the policy file of the workspace
	Transforms   bool               // hooks may change the content of a call
	// Validators checks a text of a format of the host; false if the host has no
	// checker for that name.
	Validators func(name string, content []byte) ([]syntax.Problem, bool)
	Placed     bool // the state directory may be elsewhere, and the policy file in the workspace
}

// Values of a setting.
const (
	Block  = "block"
	Advise = "advise"
	Off    = "off"

	OverrideNone   = "none"
	OverrideReason = "reason"
	OverrideAny    = "any"
)

// Policy returns the policy in force. A call that commits sees only one: such
// calls are refused while the file is wrong, and afterwards the policy is pinned.
func (l *Layer) Policy() *Policy {
	if p := l.rules.Load(); p != nil {
		return p
	}
	return noPolicy() // Open has failed before it read one
}

var noPolicy = sync.OnceValue(Default)

func defaultWith(warnings ...engine.Note) *Policy {
	p := *noPolicy()
	p.Source, p.Warnings = ofDefault, warnings
	return &p
}

// For returns the setting that applies to a call. def is the setting if neither
// the policy file nor the options set one.
func (l *Layer) For(def policyfile.Setting) policyfile.Setting {
	p, least := l.Policy(), l.Setting.Or(def)
	g := p.File.Gate.Setting.Or(least)
	if p.tightens {
		f, base := policyfile.File{Gate: policyfile.Gate{Setting: g}}, policyfile.File{Gate: policyfile.Gate{Setting: least}}
		f.Hold(&base, func(k policyfile.Strictness) bool { return k.Order != nil })
		g = f.Gate.Setting
	}
	return g
}

// PolicyHash identifies the policy for rows of the journal.
func (l *Layer) PolicyHash() string { return l.Policy().Hash }

// Redacted returns an excerpt of a file without the secrets in it.
func (l *Layer) Redacted(ctx context.Context, path string, text []byte) []byte {
	p := l.Policy()
	opt := p.Options(path)
	opt.Context = l.Bounded(ctx)
	text, _ = p.Scanner().Redact(text, opt)
	return text
}

// Permitted refuses paths that the policy protects, its own file first.
func (l *Layer) Permitted(path string) error {
	if l.onPolicyWay(path) {
		return fault.New(fault.ProtectedPath).Hintf("tools cannot change the policy file or the path that leads to it; ask the user")
	}
	if policyfile.Covers(l.Policy().File.Protect, path) {
		return fault.New(fault.ProtectedPath).Hintf("the policy of this workspace protects the path; choose another one or ask the user")
	}
	return nil
}

// Bounded returns a context for the scans of one call.
func (l *Layer) Bounded(ctx context.Context) context.Context {
	return scan.Bounded(ctx, cmp.Or(l.TestHooks.Patterns, scan.MostTime))
}

// Costly returns the error of a call on whose text a pattern of the policy takes
// too long. The gate refuses what it could not judge.
func (l *Layer) Costly(err *scan.CostlyError) *fault.Fault {
	e := l.at.bad(policyCostly, "the pattern %s takes too long on this text; begin its expression with fixed characters, give it keywords, or shorten its repeats", err.Pattern)
	for _, family := range l.Policy().File.ExtendPatterns {
		for _, p := range family.Patterns {
			if p.Name == err.Pattern {
				e.With("line", p.Line).With("pattern", p.Name)
				e.Hint = strings.Replace(e.Hint, "the pattern", fmt.Sprintf("line %d: the pattern", p.Line), 1)
			}
		}
	}
	return e.Because(err)
}

// HistoryCaps returns the limits of history.
func (l *Layer) HistoryCaps() engine.HistoryCaps {
	h := l.Policy().File.History
	caps := engine.HistoryCaps{Bytes: h.MaxBytes, Object: h.MaxObjectBytes, Age: h.MaxAge, Versions: h.MaxVersions, Head: cmp.Or(h.KeepHeadMax, engine.DefaultKeepHeadMax)}
	if caps.Bytes == 0 {
		caps.Bytes = engine.DefaultHistoryBytes
		if share := l.Disk.Size / engine.DefaultHistoryShare; share > 0 {
			caps.Bytes = min(caps.Bytes, share)
		}
	}
	caps.Versions = cmp.Or(caps.Versions, engine.DefaultHistoryVersions)
	return caps
}

// mostKept is how many bytes of earlier versions a commit of many files holds in
// memory.
const mostKept = 64 << 20

// lending holds the buffers for the content of streams. Allocating memory for each
// write would cost more than copying.
var lending sync.Pool

func borrow(room int) []byte {
	if b, ok := lending.Get().(*bytes.Buffer); ok && b.Cap() >= room {
		b.Reset()
		return b.Bytes()
	}
	return make([]byte, 0, room)
}

// GiveBack releases the borrowed buffer, at the end of the call.
func (c *Check) GiveBack() {
	if c.lent != nil {
		lending.Put(c.lent)
	}
	c.lent = nil
}

// Take reads the content of a stream, a short one into memory, where its scan
// begins, a long one into a slot, and returns its hash.
func (c *Check) Take(ctx context.Context, m *engine.Mutation, src io.Reader) (string, error) {
	room := bytes.MinRead // for what is known of the length
	if known, ok := src.(interface{ Len() int }); ok {
		room += min(known.Len(), engine.InMemory)
	}
	account := progress.Of(ctx)
	account.Reading(src)
	src = account.Counting(engine.NewStoppable(ctx, src))
	head := bytes.NewBuffer(borrow(room))
	if !c.Layer.Transforms {
		c.lent = head
	}
	n, err := head.ReadFrom(io.LimitReader(src, engine.InMemory+1))
	if err != nil {
		return "", err
	}
	if n <= engine.InMemory {
		return c.Hold(ctx, m, head.Bytes()), nil
	}
	account.Long()
	return c.spool(ctx, m, io.MultiReader(head, src), 0)
}

// TakeKept takes the bytes of an earlier version. If there is no file whose mode
// is kept, the new file gets the mode that the journal records.
func (c *Check) TakeKept(ctx context.Context, m *engine.Mutation, src io.Reader, mode uint32) (string, error) {
	if mode == 0 || m.Link() || c.Layer.IsThere(m.Path) {
		mode = 0
		if !c.Commit.Many() || c.kept < mostKept {
			sum, err := c.Take(ctx, m, src)
			c.kept += m.Content.Size()
			return sum, err
		}
	}
	account := progress.Of(ctx)
	account.Reading(src)
	return c.spool(ctx, m, account.Counting(engine.NewStoppable(ctx, src)), mode)
}

// spool reads the content of a file into a slot, which gets the mode unless it is 0.
func (c *Check) spool(ctx context.Context, m *engine.Mutation, src io.Reader, mode uint32) (string, error) {
	in, err := c.Commit.Spool(ctx, src)
	if err != nil {
		return "", err
	}
	m.TakeSpooled(in)
	if mode == 0 {
		return in.Got.Digest.Hex(), nil
	}
	if err := fsx.SetMode(in.Slot.File, mode); err != nil {
		m.DropSpooled()
		return "", err
	}
	return in.Got.Digest.Hex(), nil
}

// maxMovedScan is the size in bytes up to which a file is scanned when it gets
// another path.
const maxMovedScan = 8 << 20

// inspectMoved judges bytes that come from another path: of a move, or of a
// version that a restore or an undo brings back under another name. A finding
// that an exception of the policy allows there but not here counts as introduced
// by the call. A warning reports bytes that git ignored at the old path and does
// not ignore at the new one.
func (c *Check) inspectMoved(ctx context.Context, g policyfile.Setting, m *engine.Mutation) error {
	p, to := c.Layer.Policy(), m.Target.Path
	was, is := p.Options(m.Origin).Allow, p.Options(to).Allow
	if was == nil && !c.gitSees(to, m.Origin) {
		return nil
	}
	if m.Final.Size() > maxMovedScan {
		m.Warn(call.WarnNotScanned)
		return nil
	}
	if was != nil {
		f, err := c.scanMoved(ctx, m, scan.Options{Allow: func(family, pattern string) bool { return !was(family, pattern) || is(family, pattern) }})
		if err == nil {
			err = c.decide(g, m, f)
		}
		if err != nil || !c.gitSees(to, m.Origin) {
			return err
		}
	}
	f, err := c.scanMoved(ctx, m, scan.Options{Allow: is})
	if err == nil && f.verdict != scan.VerdictSafe {
		m.Warn(call.WarnSecretUnignored)
	}
	return err
}

func (c *Check) scanMoved(ctx context.Context, m *engine.Mutation, opt scan.Options) (f findings, err error) {
	s := c.Layer.Policy().Scanner()
	f.report, err = Scan(ctx, s, m.Final, opt)
	f.fresh = introduced{f.report.Tally(), f.report.Findings[:min(len(f.report.Findings), MaxListed)]}
	f.judge(s)
	return f, err
}

// cameFrom returns the previous path of the bytes of a mutation, "" if that is
// its own path or the bytes are new.
func cameFrom(m *engine.Mutation) string {
	if m.Source != nil && m.Source.Target != nil {
		m.Origin = m.Source.Target.Path
	}
	if m.Op == engine.OpDelete || m.Origin == m.Target.Path {
		return ""
	}
	return m.Origin
}

// gitSees reports whether git ignores one path of the workspace and not the other.
// Outside a repository git sees nothing.
func (c *Check) gitSees(seen, hidden string) bool {
	if c.ignored == nil {
		c.ignored = func(string, bool) (bool, bool) { return false, false }
		if c.Layer.RealRoot != "" && gitdir.Top(c.Layer.RealRoot) != "" {
			c.ignored = c.Layer.Ignored()
		}
	}
	was, _ := c.ignored(hidden, false)
	is, _ := c.ignored(seen, false)
	return was && !is
}
