package gate

import (
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// Policy is the rules of a workspace: what the gate looks for and refuses, what
// it allows, which paths are protected. It is immutable.
type Policy struct {
	File    *policyfile.File // as far as it applies
	Hash    string           // of the file; "" for the default
	scanner func() *scan.Scanner

	Source   string   // OfDefault and its like; "" of one that Parse made
	Ignored  []string // keys that do not apply
	Warnings []engine.Note
	tightens bool // the file is not trusted, so it only tightens
}

// Identity differs when other keys of the same file apply.
func (p *Policy) Identity() string {
	if len(p.Ignored) == 0 {
		return p.Hash
	}
	return p.Hash + " without " + strings.Join(p.Ignored, " ")
}

// Default returns the policy of a workspace without a policy file.
func Default() *Policy {
	p, err := Parse(nil, nil)
	if err != nil {
		panic(err) // the built-in rules do not compile
	}
	return p
}

// Parse reads a policy file, from which restrict may remove rules before they
// apply; nil removes none.
func Parse(data []byte, restrict func(*Policy)) (*Policy, error) {
	file, problems := policyfile.Parse(data)
	if len(problems) == 0 {
		problems = file.CheckNames(ruleNames())
	}
	if len(problems) > 0 {
		return nil, badPolicy(problems)
	}
	p := &Policy{File: file}
	if len(strings.TrimSpace(string(data))) > 0 {
		p.Hash = engine.HashOf(data)
	}
	if restrict != nil {
		restrict(p)
	}
	p.scanner = scan.Default
	if p.Hash == "" {
		return p, nil
	}
	own, err := scan.New(rulesOf(file))
	if err != nil {
		e := fault.New(fault.BadPolicy).Because(err).With("problem", policyfile.BadRegex)
		e.Op = "policy"
		return nil, e
	}
	p.scanner = func() *scan.Scanner { return own }
	return p, nil
}

// Scanner returns the scanner of the policy.
func (p *Policy) Scanner() *scan.Scanner { return p.scanner() }

// rulesOf returns what a policy file changes of the built-in rules.
func rulesOf(file *policyfile.File) *scan.Policy {
	rules := &scan.Policy{
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
	return rules
}

// ruleNames lists the built-in families and patterns. The lists are made once,
// because every Open needs them.
var ruleNames = sync.OnceValues(scan.Names)

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

// Options returns what a scan of one path allows. The path is "" if there is
// none; rules for paths then do not apply. Letter case counts here: on most disks
// TESTDATA is not the testdata that the owner trusts, and where it is, a refused
// write can be made under the name as the rule spells it.
func (p *Policy) Options(path string) scan.Options {
	if len(p.File.Allow) == 0 {
		return scan.Options{}
	}
	return scan.Options{Allow: func(family, pattern string) bool {
		for _, a := range p.File.Allow {
			if a.Path != "" && (path == "" || !policyfile.Match(a.Path, path)) {
				continue
			}
			if a.Pattern == "" || a.Pattern == "*" || a.Pattern == family || a.Pattern == pattern {
				return true
			}
		}
		return false
	}}
}

// Excepts reports whether the policy exempts a path from the rules for
// repositories by shape and from the protected defaults. Letter case counts, as
// for allow. A glob of a directory covers its contents.
func (p *Policy) Excepts(path string) bool { return policyfile.Within(p.File.ProtectExceptions, path) }
