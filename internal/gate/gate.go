// Package gate decides whether what a call writes may be written: by its content,
// its names, the protected paths and the repositories that it would change. It
// reads the policy file and applies it to the commits of one store.
package gate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
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
	consents consents
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
	if caps.Versions == 0 {
		caps.Versions = engine.DefaultHistoryVersions
	}
	return caps
}
