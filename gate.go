package resilientwrite

import (
	"cmp"
	"context"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/protect"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// GateMode says how a draft that the content gate finds risky is handled.
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
	Mode GateMode `json:"mode" enum:"block,advise,off"` // What happens to a risky draft.
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

// check refuses invalid values.
func (g Gate) check() *fault.Fault {
	return cmp.Or(
		fault.CheckChoice("gate mode", g.Mode, GateBlock, GateAdvise, GateOff),
		fault.CheckChoice("gate reject_at", g.RejectAt, VerdictLow, VerdictMedium, VerdictHigh),
		fault.CheckChoice("gate overrides", g.Overrides, OverrideNone, OverrideReason, OverrideAny),
	)
}

// String describes the gate for messages.
func (g Gate) String() string { return g.setting().String() }

func (g Gate) setting() policyfile.Setting {
	return policyfile.Setting{Mode: string(g.Mode), RejectAt: string(g.RejectAt), Overrides: string(g.Overrides)}
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
type Policy struct{ p *gate.Policy }

// Hash identifies the policy in the journal; "" is the default policy.
func (p *Policy) Hash() string { return p.p.Hash }

// DefaultPolicy returns the policy of a workspace without a policy file.
func DefaultPolicy() *Policy { return &Policy{gate.Default()} }

// ParsePolicy reads a policy file (docs/policy.md). Nothing in it is ignored:
// an unknown key, a value out of range or an expression that does not compile
// is [ErrBadPolicy] with line, column and, where a name is close to a known one,
// a suggestion.
func ParsePolicy(data []byte) (*Policy, error) {
	p, err := gate.Parse(data, nil)
	if err != nil {
		return nil, AsError("policy", err)
	}
	return &Policy{p}, nil
}

// ProtectMode says how a change of a file of the protected defaults is handled:
// a file that is executed, launches something or grants access because of its
// place in the project ([ProtectedFiles] lists them).
type ProtectMode string

const (
	// ProtectAsk asks the user about those that do so at once, refuses where
	// no user can be asked, and warns about the others.
	ProtectAsk ProtectMode = "ask"
	// ProtectWarn warns about all of them.
	ProtectWarn ProtectMode = "warn"
	// ProtectOff does not look.
	ProtectOff ProtectMode = "off"
)

type protectKey struct{}

// WithProtectDefaults returns a context whose calls use mode for the protected
// defaults if the options do not set one. It is the default that an adapter
// chooses for its callers. An invalid value is [ProtectAsk].
func WithProtectDefaults(ctx context.Context, mode ProtectMode) context.Context {
	if gate.ProtectRank(string(mode)) < 0 {
		mode = ProtectAsk
	}
	return context.WithValue(ctx, protectKey{}, mode)
}

// ProtectedFile is one row of the protected defaults.
type ProtectedFile struct {
	// Paths, at any depth and in any letter case; braces list alternatives.
	Pattern string `json:"pattern"`
	// ask: the user is asked, and the change is refused when no user can be
	// asked. warn: the receipt carries a warning.
	Answer string `json:"answer" enum:"ask,warn"`
	Class  string `json:"class"`  // Stable name of the reason.
	Reason string `json:"reason"` // What such a file does.
	Since  int    `json:"since"`  // Version of the list that added it.
}

// ProtectedFiles lists the files that take effect just by being in a project:
// they are executed, launch something or grant access. The first row that matches
// a path counts.
func ProtectedFiles() []ProtectedFile {
	var list []ProtectedFile
	for _, r := range protect.Rules() {
		d := ProtectedFile{Pattern: r.Pattern, Answer: string(r.Answer), Class: string(r.Class), Reason: r.Reason(), Since: r.Since}
		if r.Scripts {
			d.Reason += "; only when scripts changed"
		}
		list = append(list, d)
	}
	return list
}

// defaultGate returns the setting if neither a policy file nor an option sets
// one.
func defaultGate(ctx context.Context) policyfile.Setting {
	of, _ := ctx.Value(gateKey{}).(Gate)
	if of.check() != nil { // a slip of the pen must not open the gate
		of = Gate{Mode: GateBlock, RejectAt: VerdictLow, Overrides: OverrideNone}
	}
	return of.setting().Or(gateOfLibrary.setting())
}

// RiskFinding is one thing that was found. The snippet shows no usable part of
// a secret.
type RiskFinding struct {
	Kind    string `json:"kind"`    // Family of the finding, or size.
	Pattern string `json:"pattern"` // The rule that found it; docs/policy.md lists them.
	// Displayable part of the finding: the prefix common to its kind; null for
	// size.
	Match  *string `json:"match"`
	Line   *int    `json:"line"`             // Line of its start, from 1; null for size.
	Column int     `json:"column,omitempty"` // Column of its start in characters, from 1.
	// confirmed alone makes the text high; info never blocks.
	Confidence string `json:"confidence,omitempty" enum:"confirmed,likely,info"`
	// True for a placeholder that is no usable value. It is listed and never
	// refused; see policy key placeholders.
	Placeholder bool `json:"placeholder,omitempty"`
	// Encoding of the finding: base64, hex, percent, concat …; absent for plain
	// text.
	DecodedFrom string `json:"decoded_from,omitempty"`
	Value       int    `json:"value,omitempty"`     // Size only: what was measured.
	Threshold   int    `json:"threshold,omitempty"` // Size only: the exceeded limit.
}

func riskFindings(found []scan.Finding) []RiskFinding {
	out := make([]RiskFinding, 0, len(found))
	for _, f := range found {
		match, line := f.Match, f.Line
		out = append(out, RiskFinding{
			Kind: f.Family, Pattern: f.Pattern, Match: &match, Line: &line, Column: f.Column,
			Confidence: string(f.Confidence), Placeholder: f.Placeholder, DecodedFrom: f.DecodedFrom,
		})
	}
	return out
}
