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

// check refuses values that are none.
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

// WithGate returns a context whose calls have g as the setting of the gate
// where neither the policy file nor the options say anything: what an adapter
// thinks right for its callers.
func WithGate(ctx context.Context, g Gate) context.Context {
	return context.WithValue(ctx, gateKey{}, g)
}

// Policy is the rules of a workspace: what the gate looks for and refuses,
// what it lets pass, which paths are protected. It does not change.
type Policy struct {
	file    *policyfile.File // as far as it holds
	scanner *scan.Scanner
	hash    string // of the file; "" for the default

	source   string // PolicyDefault and its like; "" of one that ParsePolicy made
	tightens bool   // the file is not trusted, so it only tightens
	ignored  []string
	warnings []Warning
}

// Hash identifies the policy in the journal; "" is the default one.
func (p *Policy) Hash() string { return p.hash }

// identity is another one when other keys of the same file hold.
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

// parsePolicy is ParsePolicy for a file that restrict may take something from.
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

// ruleNames lists the built-in families and patterns. Nobody may change the
// lists, which are made once, for every Open asks for them; who appends, copies.
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

// options are what a scan of one path lets pass. The path is "" where there
// is none: rules for paths do not hold then. Letter case counts here: on most
// disks TESTDATA is not the testdata that the owner trusts, and where it is, a
// write that is refused can be made under the name as the rule spells it.
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

// protects reports whether the policy keeps a path from being changed, in any
// letter case: what a file system may fold must not get past a rule. A glob of
// a directory covers what is in it.
func (p *Policy) protects(path string) bool {
	key := relpath.Key(path)
	return slices.ContainsFunc(p.file.Protect, func(glob string) bool {
		glob = relpath.Key(glob)
		return doublestar.MatchUnvalidated(glob, key) || doublestar.MatchUnvalidated(glob+"/**", key)
	})
}

// excepts reports whether a path is one of those that the policy takes out of
// the rules for repositories by shape and out of the protected defaults. Letter
// case counts, as for allow. A glob of a directory covers what is in it.
func (p *Policy) excepts(path string) bool {
	return slices.ContainsFunc(p.file.ProtectExceptions, func(glob string) bool {
		return doublestar.MatchUnvalidated(glob, path) || doublestar.MatchUnvalidated(glob+"/**", path)
	})
}

// matches compares a path with a glob in any letter case.
func matches(glob, path string) bool {
	return doublestar.MatchUnvalidated(relpath.Key(glob), relpath.Key(path))
}

// policy is the policy that holds. A call that commits sees only one: while
// the file is wrong there is none of these calls, and afterwards it is pinned.
func (s *Store) policy() *Policy {
	if p := s.rules.Load(); p != nil {
		return p
	}
	return noPolicy() // Open has failed before it read one
}

var noPolicy = sync.OnceValue(DefaultPolicy)

// defaultGate is the setting where neither a policy file nor an option says
// anything.
func (s *Store) defaultGate(ctx context.Context) Gate {
	of, _ := ctx.Value(gateKey{}).(Gate)
	if of.check() != nil { // a slip of the pen must not open the gate
		of = Gate{Mode: GateBlock, RejectAt: VerdictLow, Overrides: OverrideNone}
	}
	return of.or(gateOfLibrary)
}

// gateFor is the setting that holds for a call.
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

// gateOf is what a policy file says of the gate.
func gateOf(f *policyfile.File) Gate {
	return Gate{Mode: GateMode(f.Gate.Mode), RejectAt: Verdict(f.Gate.RejectAt), Overrides: Overrides(f.Gate.Overrides)}
}

// inFile is the gate as a policy file says it.
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
