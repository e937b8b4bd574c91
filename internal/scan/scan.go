// Package scan finds credentials and personal data in text before it is
// written: deterministic, in linear time, without a model and without a
// network. It holds a table of rules, one row per format, made from what the
// vendors publish; a prefilter of its own decides which rules look at which
// places, so that ordinary text costs one pass.
package scan

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
)

// Confidence says how sure a finding is.
type Confidence string

const (
	// Confirmed: a format of one vendor with plausible entropy and, where the
	// vendor has one, a correct checksum. One of them makes a text high.
	Confirmed Confidence = "confirmed"
	// Likely: the shape and the words around it fit; or a checksum failed.
	Likely Confidence = "likely"
	// Info: reported, never a reason to refuse.
	Info Confidence = "info"
)

func (c Confidence) rank() int {
	switch c {
	case Confirmed:
		return 2
	case Likely:
		return 1
	}
	return 0
}

// Policy narrows and widens what a Scanner looks for. Its zero value is the
// default.
type Policy struct {
	Extend          []CustomRule
	DisableFamilies []string
	DisablePatterns []string
	High            float64 // least score of the verdict high; 0 = 0.70
	Medium          float64 // 0 = 0.40
	Low             float64 // 0 = 0.10
	// Markers lets a line that holds the text "resilientwrite:allow" pass.
	Markers bool
	// Placeholders is one of the constants of that name; "" is the default.
	Placeholders string
}

// CustomRule is a rule of the user's.
type CustomRule struct {
	Family, Name, Regex string
	Weight              float64  // of the family; 0 = 0.35
	Keywords            []string // the expression runs only on a text that holds one
}

// Marker is the text that allows a line, where the policy says so.
const Marker = "resilientwrite:allow"

// Options of one scan.
type Options struct {
	// Context, when set and done, ends the scan early: a report is then of no
	// use, and Redact returns nil.
	Context context.Context
	// Allow reports whether a finding of this rule may pass.
	Allow func(family, pattern string) bool
	// Placeholders asks for placeholders too, where the policy reports them.
	Placeholders bool
	// Each, when set, gets every finding, also those that the report leaves
	// out of its list.
	Each func(Finding)
	// Span, when set, gets what Redact replaces, in order of place, and Redact
	// returns no spans.
	Span func(Span)
}

// Finding is one secret, masked.
type Finding struct {
	Family, Pattern string
	Match           string // what may be shown: at most 16 characters and "…"
	Line, Column    int    // of its start, from 1; the column in characters
	Start, End      int    // bytes of the text that hold it, also when it is wrapped
	Confidence      Confidence
	Placeholder     bool     // unusable as a credential
	ChecksumFailed  bool     // it has the shape of a token, and a wrong checksum
	DecodedFrom     string   // "base64", "base64>hex" …; "" for plain text
	Fingerprint     [16]byte // of rule and secret: the same secret has the same one
}

// Report is what a scan found.
type Report struct {
	Score      float64 // 0 to 1, four decimals
	Verdict    string  // safe, low, medium or high
	Bytes      int
	LineCount  int
	MaxLineLen int // in characters
	Findings   []Finding
	Size       []SizeHit
	Omitted    int // findings that are counted but not listed
	Allowed    int // findings that a rule or a marker let pass
	tally      Tally
	memory     *reportMemory
}

// reportMemory is what a report holds besides its findings, in one piece.
type reportMemory struct {
	size     [4]SizeHit
	families [8]familyCount
}

func (r *Report) room() *reportMemory {
	if r.memory == nil {
		r.memory = new(reportMemory)
	}
	return r.memory
}

// maxFindings bounds what one report lists. Of what is less sure it lists
// less, so that many addresses do not hide one key.
const maxFindings = 1000

var listed = map[Confidence]int{Confirmed: maxFindings, Likely: 800, Info: 500}

// Scanner scans texts by one policy. It is safe for concurrent use.
type Scanner struct {
	*builtin
	policy  Policy // with its defaults
	custom  []customRule
	weights map[string]float64
	spent   func(int) // when set, gets the work of each scan
	idle    sync.Pool // memory of scans that ended
	seed    maphash.Seed
}

// builtin is the rules of the tables, compiled. It is immutable.
type builtin struct {
	rules   []*rule
	classes *classes
	alone   [aloneRules]*rule // those without keywords
	// The keywords, by where they are looked for.
	inTokens, beforeTokens, inBoth, anywhere *prefilter
	orders                                   int                // of the rules, with those that are off
	shapes                                   []placeholderShape // of placeholders
	// Classes of the code itself: what words consist of, what a value without
	// quotes does, and a password in a connection string.
	wordClass, valueClass, passClass int
}

// Default returns the scanner of the default policy. It is compiled at the first
// call, which takes milliseconds: most short commands scan nothing.
var Default = sync.OnceValue(func() *Scanner {
	s, _ := compile(&Policy{}) // only an expression of a policy can fail
	return s
})

// New returns the scanner of a policy; nil means the default. It fails when an
// expression of the policy does not compile.
func New(p *Policy) (*Scanner, error) {
	if p == nil {
		return Default(), nil
	}
	return compile(p)
}

// Score scans a whole text. The memory it takes does not grow with the text,
// nor with what is found in it.
func (s *Scanner) Score(b []byte, opt Options) Report {
	st := s.stream(opt)
	st.whole(b)
	return st.Report()
}

// collect moves findings into the report: what is allowed is counted, what is
// too much is counted, the rest is placed.
func (s *Scanner) collect(r *Report, b []byte, found []raw, opt Options, o origin) {
	if r.Findings == nil {
		r.Findings = []Finding{}
	}
	at := place{b: b, line: o.line + 1, column: o.column}
	for i := range found {
		f := &found[i]
		if s.allows(f.rule, b, f.start, opt) {
			r.Allowed++
			continue
		}
		counts := !f.placeholder || s.policy.Placeholders == PlaceholdersScore
		if counts {
			if r.tally.families == nil {
				r.tally.families = r.room().families[:0]
			}
			r.tally.count(f.rule.family, f.confidence)
			if f.failed {
				r.tally.Failed++
			}
		}
		full := len(r.Findings) >= listed[f.confidence]
		if full && counts {
			r.Omitted++
			if opt.Each == nil {
				continue
			}
		}
		out := Finding{
			Family: f.rule.family, Pattern: f.rule.id, Match: f.rule.mask(f.secret), Start: o.offset + f.start, End: o.offset + f.end,
			Confidence: f.confidence, Placeholder: f.placeholder, ChecksumFailed: f.failed, DecodedFrom: f.from, Fingerprint: f.rule.fingerprint(f.secret),
		}
		out.Line, out.Column = at.of(f.start)
		if opt.Each != nil && counts {
			opt.Each(out)
		}
		if !full {
			if cap(r.Findings) == 0 {
				r.Findings = make([]Finding, 0, min(len(found)-i, maxFindings))
			}
			r.Findings = append(r.Findings, out)
		}
	}
}

// allows reports whether the options or a marker let a finding pass.
func (s *Scanner) allows(r *rule, b []byte, at int, opt Options) bool {
	return opt.Allow != nil && opt.Allow(r.family, r.id) || s.policy.Markers && marked(b, at)
}

// raw is a finding before it is placed and masked.
type raw struct {
	rule        *rule
	start, end  int
	secret      []byte
	confidence  Confidence
	from        string
	failed      bool // its checksum is wrong
	placeholder bool // it has the shape, and is unusable
	at          int  // where a wrapped secret begins, roughly
	glued       bool // a part of a longer word
}

// inOrder sorts what was found by its place, and of two that begin together
// takes the longer one first. The numbers that are sorted hold the start, what
// the length lacks of the largest, and the index: no text that is scanned in one
// piece is longer than 1<<24 bytes.
func (t *text) inOrder() {
	i := 1
	for i < len(t.found) && (t.found[i-1].start < t.found[i].start || t.found[i-1].start == t.found[i].start && t.found[i-1].end >= t.found[i].end) {
		i++
	}
	if i >= len(t.found) {
		return
	}
	m := t.runs
	keys := m.keys[:0]
	for i := range t.found {
		f := &t.found[i]
		keys = append(keys, uint64(f.start)<<40|uint64(1<<16-1-min(f.end-f.start, 1<<16-1))<<24|uint64(i))
	}
	m.keys = keys
	keys = m.sortKeys(len(t.b))
	sorted := slices.Grow(m.sorted[:0], len(keys))
	for _, k := range keys {
		sorted = append(sorted, t.found[k&(1<<24-1)])
	}
	clear(t.found)
	m.sorted, t.found = t.found[:0], sorted
}

// sortKeys sorts the keys of a text of n bytes, whose high bits, from bit 40 on,
// are places in it: by 64 bytes at a time, because most are nearly in order.
func (m *runMemory) sortKeys(n int) []uint64 {
	const low = 40 + 6
	if len(m.keys) < 64 {
		slices.Sort(m.keys)
		return m.keys
	}
	ends := slices.Grow(m.ends[:0], n>>6+2)[:n>>6+2]
	clear(ends)
	for _, k := range m.keys {
		ends[k>>low+1]++
	}
	for i := 1; i < len(ends); i++ {
		ends[i] += ends[i-1]
	}
	sorted := slices.Grow(m.spare[:0], len(m.keys))[:len(m.keys)]
	for _, k := range m.keys {
		sorted[ends[k>>low]] = k
		ends[k>>low]++
	}
	from := uint32(0)
	for _, to := range ends {
		if to-from > 1 {
			slices.Sort(sorted[from:to])
		}
		from = to
	}
	m.keys, m.spare, m.ends = sorted, m.keys[:0], ends
	return sorted
}

// resolve sorts the findings and lets the better of two that overlap win: the
// surer one, then the one the rule order prefers, then the longer one.
func (t *text) resolve() {
	t.inOrder()
	found := t.found
	if len(found) < 2 {
		return
	}
	out := found[:1]
	for _, f := range found[1:] {
		last := &out[len(out)-1]
		if f.start >= last.end {
			out = append(out, f)
			continue
		}
		if last.sameValue(&f) {
			continue
		}
		if better(&f, last) {
			*last = f
		}
	}
	clear(found[len(out):])
	t.found = out
}

// sameValue joins two findings of which one says only that a value is assigned
// to the name of a secret, and the other whose it is: the vendor stays, as sure
// as the surer of the two.
func (f *raw) sameValue(other *raw) bool {
	a, b := f, other
	if a.rule.family == familyGeneric {
		a, b = b, a
	}
	if a.rule.family == familyGeneric || b.rule.family != familyGeneric || a.confidence != Likely || b.confidence != Confirmed || a.from != b.from {
		return false
	}
	start, end := min(a.start, b.start), max(a.end, b.end)
	joined := *a
	joined.start, joined.end, joined.confidence = start, end, Confirmed
	*f = joined
	return true
}

func better(a, b *raw) bool {
	if x, y := a.confidence.rank(), b.confidence.rank(); x != y {
		return x > y
	}
	if (a.from == "") != (b.from == "") {
		return a.from == ""
	}
	if a.glued != b.glued {
		return b.glued
	}
	if a.rule.order != b.rule.order {
		return a.rule.order < b.rule.order
	}
	return a.end-a.start > b.end-b.start
}
