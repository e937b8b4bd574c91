package resilientwrite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// GateMode says what becomes of a draft that the content gate finds risky.
type GateMode string

const (
	// GateBlock refuses it and keeps it in quarantine.
	GateBlock GateMode = "block"
	// GateAdvise writes it and warns.
	GateAdvise GateMode = "advise"
	// GateOff does not look.
	GateOff GateMode = "off"
)

// Overrides says what a caller may do about a refusal of the gate.
type Overrides string

const (
	// OverrideNone: nothing; only the policy can.
	OverrideNone Overrides = "none"
	// OverrideReason: accept_risk with a reason, but not for a confirmed
	// credential.
	OverrideReason Overrides = "reason"
	// OverrideAny: accept_risk with a reason for everything, and classify
	// false.
	OverrideAny Overrides = "any"
)

// Verdict is the risk of a text, from safe to high.
type Verdict string

const (
	VerdictSafe   Verdict = scan.VerdictSafe
	VerdictLow    Verdict = scan.VerdictLow
	VerdictMedium Verdict = scan.VerdictMedium
	VerdictHigh   Verdict = scan.VerdictHigh
)

// Gate is how the content gate is set. An empty field takes the value of the
// next place that has one: the policy file, then [Options.Gate], then
// [WithGate] of the call's context, then advise at high with any override.
type Gate struct {
	// What happens to a risky draft.
	Mode GateMode `json:"mode" enum:"block,advise,off"`
	// The lowest verdict that counts as risky.
	RejectAt Verdict `json:"reject_at" enum:"low,medium,high"`
	// What a caller can do about a refusal: nothing, accept_risk for anything but
	// a confirmed credential, or anything.
	Overrides Overrides `json:"overrides" enum:"none,reason,any"`
}

// GateOfAgents is how the MCP server sets the gate where neither the policy
// file nor the options say anything.
var GateOfAgents = Gate{Mode: GateBlock, RejectAt: VerdictHigh, Overrides: OverrideReason}

var gateOfLibrary = Gate{Mode: GateAdvise, RejectAt: VerdictHigh, Overrides: OverrideAny}

// or fills the empty fields of g from next.
func (g Gate) or(next Gate) Gate {
	if g.Mode == "" {
		g.Mode = next.Mode
	}
	if g.RejectAt == "" {
		g.RejectAt = next.RejectAt
	}
	if g.Overrides == "" {
		g.Overrides = next.Overrides
	}
	return g
}

// check refuses invalid values.
func (g Gate) check() *fault.Fault {
	switch g.Mode {
	case "", GateBlock, GateAdvise, GateOff:
	default:
		return badChoice("gate mode", "block", "advise", "off")
	}
	switch g.RejectAt {
	case "", VerdictLow, VerdictMedium, VerdictHigh:
	default:
		return badChoice("gate reject_at", "low", "medium", "high")
	}
	switch g.Overrides {
	case "", OverrideNone, OverrideReason, OverrideAny:
	default:
		return badChoice("gate overrides", "none", "reason", "any")
	}
	return nil
}

type gateKey struct{}

// WithGate returns a context whose calls use g as the setting of the gate if
// neither the policy file nor the options set it. It is the default that an
// adapter chooses for its callers.
func WithGate(ctx context.Context, g Gate) context.Context {
	return context.WithValue(ctx, gateKey{}, g)
}

// Policy is the rules of a workspace: what the gate looks for and refuses, what
// it allows, which paths are protected. It is immutable.
type Policy struct {
	file    *policyfile.File // as far as it applies
	scanner *scan.Scanner
	hash    string // of the file; "" for the default

	source   string // PolicyDefault and its like; "" of one that ParsePolicy made
	tightens bool   // the file is not trusted, so it only tightens
	ignored  []string
	warnings []Warning
}

// Hash identifies the policy in the journal; "" is the default policy.
func (p *Policy) Hash() string { return p.hash }

// identity differs when other keys of the same file apply.
func (p *Policy) identity() string {
	if len(p.ignored) == 0 {
		return p.hash
	}
	return p.hash + " without " + strings.Join(p.ignored, " ")
}

// DefaultPolicy returns the policy of a workspace without a policy file.
func DefaultPolicy() *Policy {
	p, err := ParsePolicy(nil)
	if err != nil {
		panic(err) // the built-in rules do not compile
	}
	return p
}

// ParsePolicy reads a policy file (docs/policy.md). Nothing in it is ignored:
// an unknown key, a value out of range or an expression that does not compile
// is [ErrBadPolicy] with line, column and, where a name is close to a known one,
// a suggestion.
func ParsePolicy(data []byte) (*Policy, error) {
	p, err := parsePolicy(data, func(*Policy) {})
	if err != nil {
		return nil, AsError("policy", err)
	}
	return p, nil
}

// parsePolicy is ParsePolicy for a file from which restrict may remove rules.
func parsePolicy(data []byte, restrict func(*Policy)) (*Policy, error) {
	file, problems := policyfile.Parse(data)
	if len(problems) == 0 {
		problems = file.CheckNames(ruleNames())
	}
	if len(problems) > 0 {
		return nil, badPolicy(problems)
	}
	p := &Policy{file: file}
	if len(strings.TrimSpace(string(data))) > 0 {
		p.hash = engine.HashOf(data)
	}
	restrict(p)
	rules := scan.Policy{
		DisableFamilies: file.DisableFamilies, DisablePatterns: file.DisablePatterns,
		High: file.Thresholds.High, Medium: file.Thresholds.Medium, Low: file.Thresholds.Low,
		Markers: file.Gate.InlineMarkers, Placeholders: file.Placeholders,
	}
	for _, family := range file.ExtendPatterns {
		for _, p := range family.Patterns {
			rules.Extend = append(rules.Extend, scan.CustomRule{
				Family: family.Name, Name: p.Name, Regex: p.Regex, Weight: p.Weight, Keywords: p.Keywords,
			})
		}
	}
	var err error
	if p.hash == "" {
		p.scanner, err = scan.New(nil)
	} else {
		p.scanner, err = scan.New(&rules)
	}
	if err != nil {
		e := fault.New(fault.BadPolicy).Because(err).With("problem", policyfile.BadRegex)
		e.Op = "policy"
		return nil, e
	}
	return p, nil
}

// ruleNames lists the built-in families and patterns. The lists are made once,
// because every Open needs them. Callers must not change them: append to a copy.
func ruleNames() (families, patterns []string) {
	names := ruleLists()
	return slices.Clip(names[0]), slices.Clip(names[1])
}

var ruleLists = sync.OnceValue(func() (names [2][]string) {
	seen := map[string]bool{}
	for _, r := range scan.Rules() {
		if !seen[r.Family] {
			seen[r.Family] = true
			names[0] = append(names[0], r.Family)
		}
		names[1] = append(names[1], r.ID)
	}
	return names
})

// badPolicy reports where a policy file is wrong.
func badPolicy(problems []*policyfile.Problem) *fault.Fault {
	first := problems[0]
	var list []map[string]any
	for _, p := range problems {
		list = append(list, map[string]any{"line": p.Line, "column": p.Column, "problem": p.Reason, "message": p.Message, "hint": p.Hint})
	}
	e := fault.New(fault.BadPolicy).With("problems", list).With("line", first.Line).With("column", first.Column).
		With("problem", first.Reason).Hintf("policy file: %s", first.Error())
	e.Op = "policy"
	return e
}

// options returns what a scan of one path allows. The path is "" if there is
// none; rules for paths then do not apply. Letter case counts here: on most disks
// TESTDATA is not the testdata that the owner trusts, and where it is, a refused
// write can be made under the name as the rule spells it.
func (p *Policy) options(path string) scan.Options {
	if len(p.file.Allow) == 0 {
		return scan.Options{}
	}
	return scan.Options{Allow: func(family, pattern string) bool {
		for _, a := range p.file.Allow {
			if a.Path != "" && (path == "" || !doublestar.MatchUnvalidated(a.Path, path)) {
				continue
			}
			if a.Pattern == "" || a.Pattern == "*" || a.Pattern == family || a.Pattern == pattern {
				return true
			}
		}
		return false
	}}
}

// protects reports whether the policy protects a path from changes, in any letter
// case, because the file system may fold names. A glob of a directory covers its
// contents.
func (p *Policy) protects(path string) bool {
	key := relpath.Key(path)
	return slices.ContainsFunc(p.file.Protect, func(glob string) bool {
		glob = relpath.Key(glob)
		return doublestar.MatchUnvalidated(glob, key) || doublestar.MatchUnvalidated(glob+"/**", key)
	})
}

// excepts reports whether the policy exempts a path from the rules for
// repositories by shape and from the protected defaults. Letter case counts, as
// for allow. A glob of a directory covers its contents.
func (p *Policy) excepts(path string) bool {
	return slices.ContainsFunc(p.file.ProtectExceptions, func(glob string) bool {
		return doublestar.MatchUnvalidated(glob, path) || doublestar.MatchUnvalidated(glob+"/**", path)
	})
}

// matches compares a path with a glob in any letter case.
func matches(glob, path string) bool {
	return doublestar.MatchUnvalidated(relpath.Key(glob), relpath.Key(path))
}

// policy returns the policy in force. A call that commits sees only one: such
// calls are refused while the file is wrong, and afterwards the policy is pinned.
func (s *Store) policy() *Policy {
	if p := s.rules.Load(); p != nil {
		return p
	}
	return noPolicy() // Open has failed before it read one
}

var noPolicy = sync.OnceValue(DefaultPolicy)

// defaultGate returns the setting if neither a policy file nor an option sets
// one.
func (s *Store) defaultGate(ctx context.Context) Gate {
	of, _ := ctx.Value(gateKey{}).(Gate)
	if of.check() != nil { // a slip of the pen must not open the gate
		of = Gate{Mode: GateBlock, RejectAt: VerdictLow, Overrides: OverrideNone}
	}
	return of.or(gateOfLibrary)
}

// gateFor returns the setting that applies to a call.
func (s *Store) gateFor(ctx context.Context) Gate {
	p, least := s.policy(), s.opts.Gate.or(s.defaultGate(ctx))
	g := gateOf(p.file).or(least)
	if p.tightens {
		f, base := policyfile.File{Gate: g.inFile()}, policyfile.File{Gate: least.inFile()}
		f.Hold(&base, func(k policyfile.Strictness) bool { return k.Order != nil })
		g = gateOf(&f)
	}
	return g
}

// gateOf returns the gate settings of a policy file.
func gateOf(f *policyfile.File) Gate {
	return Gate{Mode: GateMode(f.Gate.Mode), RejectAt: Verdict(f.Gate.RejectAt), Overrides: Overrides(f.Gate.Overrides)}
}

// inFile returns the gate settings as a policy file has them.
func (g Gate) inFile() policyfile.Gate {
	return policyfile.Gate{Mode: string(g.Mode), RejectAt: string(g.RejectAt), Overrides: string(g.Overrides)}
}

// permitted refuses paths that the policy protects, its own file first.
func (s *Store) permitted(path string) error {
	if s.onPolicyWay(path) {
		return fault.New(fault.ProtectedPath).Hintf("tools cannot change the policy file or the path that leads to it; ask the user")
	}
	if s.policy().protects(path) {
		return fault.New(fault.ProtectedPath).Hintf("the policy of this workspace protects the path; choose another one or ask the user")
	}
	return nil
}

// String describes the gate for messages.
func (g Gate) String() string {
	return fmt.Sprintf("%s at %s, overrides %s", g.Mode, g.RejectAt, g.Overrides)
}
