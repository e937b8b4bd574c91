package scan

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"slices"
	"strings"
)

// text is one scan in progress: the bytes, what was found in them, and the
// memory that keeps the scan linear.
type text struct {
	s        *Scanner
	ctx      context.Context // of the call; nil is one that is never done
	b        []byte
	classes  *classes
	runs     *runMemory
	id       uint32 // of this text in runs
	found    []raw
	depth    int      // how many wrappings were taken off
	own      bool     // only rules of credentials
	bare     bool     // and of those only the ones that need no words around them
	unseen   int      // invisible characters that were kept
	pem      int      // up to here private keys were looked for
	stuck    int      // how far an expression fitted that did not match
	rejected struct { // what report turned down last
		rule *rule
		end  int
	}
	marked  int // up to here keys with a marker were looked for
	long    longPiece
	judged  [3]int // where the values are that a name was judged for last
	equals  equalSigns
	jdbc    wordBefore
	curl    wordBefore
	assigns assigned
	names   struct { // which name was asked about last: rules ask by several of its words
		last     stretch
		harmless bool
	}
	vectors  vectors
	piece    [2]int  // of the text without white space and quotes that was measured last
	spaced   bool    // white space was taken out
	hidden   stretch // where hidden characters begin
	typed    bool    // no control character is in it
	near     int     // up to here keywords before tokens were looked for
	encoded  int     // up to here tokens were decoded
	lines    int     // end of a run over several lines of which nothing was decoded
	spreadTo int     // up to here it was looked for what was spread
	octalTo  int     // and for dumps in octal
	// What was taken off already, and need not be looked for.
	unescaped, literals, packed bool
	whole                       bool // all that is in the text as it is was found
	noted                       bool // runs.sure is that of this text
	revealed                    bool // the escapes of the last piece stood for quotes
}

// stretch is a part of a text; to is after its last byte.
type stretch struct{ from, to int }

// meets reports whether two parts have a byte in common.
func (s stretch) meets(o stretch) bool { return s.from < o.to && o.from < s.to }

// runMemory remembers, for each class, the run that was measured last. A text
// and what is decoded from it share one.
type runMemory struct {
	texts uint32
	last  [maxClasses]runMemo
	// Pieces of lines put together, and where they began.
	pieces  [1024]byte
	joined  text
	breaks  [6]lineCut
	broken  int
	joinAt  int
	joinOf  uint32
	facts   factMemory
	sorted  []raw    // memory of findings that were sorted
	keys    []uint64 // by which they were
	spare   []uint64 // memory for sorting these
	ends    []uint32
	sure    [maxDepth][]stretch    // confirmed findings, by depth
	listed  []Finding              // of a stream in progress
	joins   [maxDepth][][2]int     // pieces that were joined and unescaped, by depth
	all     int                    // bytes that are decoded at most
	decoded int                    // bytes so far
	packed  int                    // of them, those that may still come out of archives
	full    int                    // of them, those that all rules of credentials looked at
	budget  int                    // what such rules may still cost
	floor   int                    // bytes outside of archives that such rules may still look at whatever they cost
	archive int                    // bytes that may still be unpacked
	work    int                    // bytes looked at and comparisons, counted by pass
	reading [maxDepth + 1]reading  // by depth
	lines   lineMeter              // of the whole text
	numbers []uint64               // a bit for each byte at which a number shows
	quotes  [maxDepth + 1][]uint64 // and for each quote after a token, by depth
	chars   []byte                 // of a run over several lines
	tried   []tried                // by the order of the rules
	plain   [maxDepth][]byte       // for what is decoded, by depth
	inner   [maxDepth]text
	gzip    *gzip.Reader
	flate   io.Reader
}

// lineCut is the end of a line in joined text, and in the text itself.
type lineCut struct{ at, end int }

type runMemo struct {
	start, end int
	text       uint32
	open       bool // the run may go on
}

// newText begins a scan of b. The memory comes from a scan before, if there was
// one; free gives it back.
func (s *Scanner) newText(b []byte) *text {
	if t, ok := s.idle.Get().(*text); ok && t.runs.texts < 1<<31 {
		t.runs.lines = lineMeter{}
		return t.again(b)
	}
	t := &text{s: s, b: b, classes: s.classes, runs: &runMemory{texts: 1, joinAt: -1, tried: make([]tried, s.orders)}, id: 1}
	t.runs.allow(len(b))
	return t
}

// free lets the next scan have the memory of this one. Nothing of the text and
// of what was found in it may be used any more.
func (t *text) free() {
	if t.s.spent != nil {
		t.s.spent(t.runs.work)
	}
	t.runs.work = 0
	clear(t.found)
	t.runs.joined, t.runs.facts.first = text{}, nil
	t.runs.joinAt = -1
	*t = text{s: t.s, runs: t.runs, classes: t.classes, found: t.found[:0]}
	t.s.idle.Put(t)
}

// inner is a text that was made from this one.
func (t *text) inner(b []byte) text {
	t.runs.texts++
	return text{s: t.s, b: b, classes: t.classes, runs: t.runs, id: t.runs.texts, depth: t.depth + 1, own: true, spaced: t.spaced}
}

// again makes t the scan of another text, with the same memory.
func (t *text) again(b []byte) *text {
	clear(t.found)
	found := t.found[:0]
	*t = t.inner(b)
	t.own, t.depth, t.spaced, t.found = false, 0, false, found
	t.runs.allow(len(b))
	return t
}

// allow sets what may be decoded of a text of n bytes.
func (m *runMemory) allow(n int) {
	m.all, m.decoded, m.packed, m.full = maxPlain*n, 0, packedShare*n+leastPlain, 0
	m.budget, m.floor, m.archive = m.all, leastPlain+n/leastShare, maxUnpacked
}

// unpackable is how many bytes of an archive may still be decoded.
func (m *runMemory) unpackable() int { return min(m.all-m.decoded, m.packed, m.archive) }

// afford counts n decoded bytes, if so many may still be decoded. It is bare when
// only the rules that need no words may look at them, because of what the others
// cost in the bytes before.
func (m *runMemory) afford(n int, packed bool) (bare, ok bool) {
	if n > m.all-m.decoded || packed && n > m.packed {
		return false, false
	}
	m.decoded += n
	if packed {
		m.packed -= n
	}
	cost := n
	if m.full > 0 {
		cost = max(n, n*(m.all-m.budget)/m.full)
	}
	if cost > m.budget && (packed || n > m.floor) {
		return true, true
	}
	m.budget -= n
	m.full += n
	if !packed {
		m.floor -= n
	}
	return false, true
}

// cutAt makes t the first n bytes of whole: another text, of which no run is
// known.
func (t *text) cutAt(whole []byte, n int) {
	t.runs.texts++
	t.b, t.id = whole[:n], t.runs.texts
}

// run is the number of bytes from pos that belong to the class, at most most.
// Each byte is looked at once, however often a run is asked for.
func (t *text) run(class, pos, most int) int {
	m := &t.runs.last[class]
	if pos < m.start || pos >= m.end || m.text != t.id {
		*m = runMemo{start: pos, end: pos, text: t.id, open: true}
	}
	if m.open && m.end-pos <= most {
		end, limit := m.end, min(len(t.b), pos+most+1)
		for end < limit && t.classes.has(class, t.b[end]) {
			end++
		}
		t.runs.work += 1 + end - m.end
		m.end, m.open = end, end == limit && limit < len(t.b)
	}
	return min(m.end-pos, most)
}

// keep adds a finding. The room doubles, because a text may be full of them.
func (t *text) keep(f raw) {
	if len(t.found) == cap(t.found) {
		t.found = slices.Grow(t.found, max(4, len(t.found)))
	}
	t.found = append(t.found, f)
}

// findings scans the text and what is wrapped in it. When the context is done
// what it returns is of no use, and it ends early.
func (t *text) findings() []raw {
	if t.canceled() {
		return nil
	}
	t.direct()
	t.wrapped()
	t.resolve()
	return t.found
}

// canceled reports whether the call is no longer wanted.
func (t *text) canceled() bool { return t.ctx != nil && t.ctx.Err() != nil }

// direct looks for secrets that are in the text as they are, and for what is
// encoded in its tokens.
func (t *text) direct() {
	t.tokens((*text).token)
	t.s.anywhere.scan(t, 0, len(t.b))
	if t.own {
		return
	}
	t.invisible()
	t.numbers()
	t.addresses()
	for i := range t.s.custom {
		t.s.custom[i].scan(t)
	}
}

// keyword looks for the secrets of the rules that wait for a word, which is at
// pos.
func (t *text) keyword(w *word, pos int) {
	t.runs.work += len(w.text) + len(w.rules)
	if t.depth > 0 && !t.bare {
		t.runs.budget -= lookCost * len(w.rules)
	}
	if w.starts && !t.begins(pos) {
		return
	}
	for _, r := range w.rules {
		if t.bare && r.worded {
			continue
		}
		if (w.starts || r.glued) && r.solid && t.tooShort(r, pos) {
			continue
		}
		r.at(t, w.text, pos)
	}
}

// at looks for the rule's secret at a keyword.
func (r *rule) at(t *text, word string, pos int) {
	end := pos + len(word)
	switch {
	case r.look != nil:
		r.look(t, r, pos, end)
	case r.within > 0:
		r.follow(t, end)
	default:
		r.around(t, pos, word)
	}
}

// around matches an expression that holds the keyword at pos.
func (r *rule) around(t *text, pos int, word string) {
	x := r.x
	if x.lead > 0 && x.literal != "" {
		pos += strings.Index(word, x.lowered) // where the literal begins
	}
	start := pos
	switch {
	case x.leadClass >= 0:
		for start > 0 && pos-start < x.lead && t.classes.has(x.leadClass, t.b[start-1]) {
			start--
		}
		if pos-start < x.min {
			return
		}
	case x.lead > 0:
		if start = pos - x.lead; start < 0 {
			return
		}
	}
	begins := r.inside || t.begins(start) && (!r.plain || start == 0 || !isWord(t.b[start-1]) && t.b[start-1] != '.' || t.escapedBefore(start))
	if !begins && !r.glued {
		return
	}
	m, ok := x.match(t, start)
	if r.glued && (!ok || !begins || !t.ends(m.end)) && r.gluedAt(t, start) {
		return
	}
	if !begins {
		return
	}
	if !ok {
		if !t.spaced && (r.cut || t.stuck < len(t.b) && (t.b[t.stuck] == '\\' || t.b[t.stuck] == '=')) {
			r.overLines(t, start)
		}
		return
	}
	if r.inside || t.ends(m.end) {
		r.report(t, m, r.grade())
	}
}

// gluedAt looks for a token of the rule inside of a longer word, where a
// checksum must prove it if its length says nothing, and must not be wrong, and
// reports whether it is one.
func (r *rule) gluedAt(t *text, start int) bool {
	m, ok := r.x.prefix(t, start)
	if !ok {
		return false
	}
	if r.check != nil {
		if proof := r.check(t.b[m.from:m.to]); proof != proven && (proof != passes || !r.fixed()) {
			return false
		}
	}
	n := len(t.found)
	r.report(t, m, r.grade())
	if n < len(t.found) {
		t.found[n].glued = true
	}
	return true
}

// begins reports whether a word can begin at pos: after anything that is not
// part of a word, after an underscore, where capitals follow small letters,
// after an escape such as \n, and after a percent-encoded byte.
func (t *text) begins(pos int) bool {
	return pos == 0 || !isWord(t.b[pos-1]) || t.b[pos-1] == '_' || t.capitalAt(pos) || t.escapedBefore(pos)
}

// capitalAt reports whether a word in capitals begins at pos that follows one in
// small letters. Three letters are looked at, since in random text one says
// nothing.
func (t *text) capitalAt(pos int) bool {
	if pos >= len(t.b) || !upper(t.b[pos]) {
		return false
	}
	i := behind(t.b, pos, 3, func(c byte) bool { return 'a' <= c && c <= 'z' })
	return i < pos && (pos-i == 3 || i == 0 || !isWord(t.b[i-1]))
}

// escapedBefore reports whether the bytes before pos are an escape that ends
// in a letter or digit.
func (t *text) escapedBefore(pos int) bool {
	if pos >= 2 && t.b[pos-2] == '\\' {
		switch t.b[pos-1] {
		case 'n', 't', 'r', 'v', 'f', '0':
			return true
		}
	}
	return pos >= 3 && t.b[pos-3] == '%' && isHex(t.b[pos-2]) && isHex(t.b[pos-1]) ||
		pos >= 6 && t.b[pos-6] == '\\' && t.b[pos-5] == 'u' || colorBefore(t.b, pos)
}

// ends reports whether a word can end at pos.
func (t *text) ends(pos int) bool {
	return pos >= len(t.b) || pos == 0 || !isWord(t.b[pos]) || !isWord(t.b[pos-1]) || t.mark(pos)
}

// longest is the length after which a secret is judged by its beginning.
const longest = 512

// report adds a match that is plausible.
func (r *rule) report(t *text, m span, c Confidence) {
	secret := t.b[m.from:m.to]
	if n := len(t.found); n > 0 && t.found[n-1].rule == r && m.start < t.found[n-1].end && t.found[n-1].confidence == Confirmed {
		return // a part of the one before, however often it holds its prefix
	}
	if r.has != "" && !bytes.Contains(secret, []byte(r.has)) {
		return
	}
	proof := passes
	if r.check != nil {
		if proof = r.check(secret); proof == isNone {
			return
		}
	}
	proved := proof == proven
	random := secret
	if r.x != nil && len(r.x.literal) < len(secret) {
		random = bytes.TrimPrefix(secret, []byte(r.x.literal))
	}
	if len(secret) > longest && t.rejected.rule == r && t.rejected.end == m.end {
		return // the end of what was no secret, and too long for one itself
	}
	if !proved && t.implausible(random, r.least(len(random))) {
		t.rejected.rule, t.rejected.end = r, m.end
		return
	}
	if proof == fails {
		c = Likely
	}
	if t.published(secret) {
		return
	}
	t.keep(raw{rule: r, start: m.start, end: m.end, secret: secret, confidence: c, failed: proof == fails})
}

// implausible reports whether a value is a placeholder or has less entropy than
// it should have.
func (t *text) implausible(v []byte, least float64) bool {
	if len(v) == 0 || len(v) > 256 {
		return placeholder(v) || measured(v[:min(len(v), longest)]).entropy < least
	}
	f := t.facts(v)
	return f.entropy < least || f.monotonous() || f.standsIn(v)
}

// published reports whether a secret of the text is a key of a manual or of a
// standard.
func (t *text) published(secret []byte) bool {
	return maybePublished(secret) && t.facts(secret).published(secret)
}

// least is the entropy that n random bytes of the format reach for certain.
func (r *rule) least(n int) float64 {
	switch {
	case r.entropy > 0:
		return r.entropy
	case n < 10:
		return 1.8
	case n < 20:
		return 2.3
	}
	return 2.8
}

// containsFold reports whether b holds word, which is in lower case, in any
// ASCII case.
func containsFold(b []byte, word string) bool {
	if len(word) == 0 {
		return true
	}
	up := word[0]
	if 'a' <= up && up <= 'z' {
		up -= 'a' - 'A'
	}
	for _, first := range []byte{word[0], up} {
		for i := 0; ; i++ {
			n := bytes.IndexByte(b[i:], first)
			if n < 0 {
				break
			}
			if i += n; hasPrefixAt(b, i, word, true) {
				return true
			}
		}
		if first == up {
			break
		}
	}
	return false
}
