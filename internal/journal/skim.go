package journal

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"
)

// Skim calls fn for every record, in order and flushed or not, as Range does from the
// first row on. It sets only the fields that usage figures and [Options.OnRecord] need:
// Seq, TS, Kind, Writer, Settled, Ref, Caller, Key, Reason, Level and Note, and of the mutations
// Op, Path, Real, Bytes, PrevBytes, Rev, PrevSeq, PayBytes, Class, Object and ImportID.
// PrevSHA256, PaySHA256 and Slot are only empty or not as in the row, and the other fields
// may be set or not. Skim takes a fraction of the time. Record and mutations are reused for
// the next row, their strings are not.
func (l *Log) Skim(fn func(*Record) error) error { return l.skimWith(new(skimmer), 1, fn) }

// SkimPrevious is Skim from a row on, with the values of SHA256 and PrevSHA256 in the row.
func (l *Log) SkimPrevious(from uint64, fn func(*Record) error) error {
	return l.skimWith(&skimmer{previous: true}, from, fn)
}

func (l *Log) skimWith(k *skimmer, from uint64, fn func(*Record) error) error {
	segs, err := l.reach(from)
	if err != nil {
		return err
	}
	p := passage{
		parse: func(line []byte) (*Record, bool) { return l.skimmed(k, line) },
		block: 256 << 10,
		fn:    func(rec *Record, _ []byte, _ Pos) error { return fn(rec) },
	}
	_, err = l.pass(segs, from, &p)
	return err
}

// skimmed is whole, limited to the fields that Skim promises. The record is reused.
func (l *Log) skimmed(k *skimmer, line []byte) (*Record, bool) {
	rec, ok := k.read(line)
	if ok && rec.Manifest != "" {
		long := *rec // the mutations of the skimmer are used again
		l.fill(&long)
		rec = &long
	}
	return rec, ok
}

// skimmer reads rows in the form in which encode writes them: no blanks, the fields in
// the order of the struct, no escapes. It validates every byte of a row. It leaves rows
// of any other form to decode, which decides what is a record.
type skimmer struct {
	rec  Record
	b    []byte // the line
	i    int
	seen [wordSlots]string // the newest words, which most often come again

	previous bool // SHA256 and PrevSHA256 are wanted
}

// The words that come again from row to row.
const (
	wordKind = iota
	wordWriter
	wordCaller
	wordReason
	wordLevel
	wordOp
	wordClass
	wordSlots
)

// form is how the value of a field is read.
type form uint8

const (
	textForm  form = iota // a string that is not needed
	numForm               // a number without a sign that is not needed
	smallForm             // the same, of 32 bits
	textsForm
	anyForm
	otherForm // left to decode
	seqField
	tsField
	kindField
	writerField
	settledField
	refField
	callerField
	keyField
	reasonField
	levelField
	manifestField
	mutsField
	opField
	pathField
	realField
	bytesField
	hashField
	prevField
	prevBytesField
	revField
	prevSeqField
	payField
	payBytesField
	slotField
	classField
	objectField
	importField
)

// field is one field of a row, in the order in which they are written.
type field struct {
	name string
	form form
}

var recordFields = []field{
	{"seq", seqField}, {"ts", tsField}, {"kind", kindField}, {"writer", writerField}, {"chain", textForm},
	{"settled", settledField}, {"commit", textForm}, {"ref", refField}, {"caller", callerField}, {"session", textForm}, {"via", anyForm},
	{"invocation", textForm}, {"key", keyField}, {"key_hash", textForm}, {"tx", textForm}, {"reason", reasonField},
	{"policy", textForm}, {"accept_risk", textForm}, {"level", levelField}, {"reply", anyForm}, {"manifest", manifestField}, {"muts", mutsField},
	{"note", otherForm}, {"group", otherForm},
}

var mutationFields = []field{
	{"op", opField}, {"path", pathField}, {"real", realField}, {"from", textForm}, {"sha256", hashField},
	{"bytes", bytesField}, {"prev_sha256", prevField}, {"prev_bytes", prevBytesField}, {"mode", smallForm}, {"prev_mode", smallForm},
	{"rev", revField}, {"prev_seq", prevSeqField}, {"how", textForm}, {"pay_sha256", payField}, {"pay_bytes", payBytesField},
	{"slot", slotField}, {"slot_born", numForm}, {"prev_id", textForm}, {"slot_dir", textForm}, {"dirs", textsForm}, {"class", classField}, {"object", objectField},
	{"import_id", importField}, {"journal_id", textForm}, {"prev_git", textForm}, {"base", textForm},
}

// read is decode, limited to the fields that Skim promises.
func (k *skimmer) read(line []byte) (*Record, bool) {
	if k.skim(line) {
		return &k.rec, true
	}
	return decode(line)
}

// skim reads a line of the usual form. false means nothing about the validity of the
// line.
func (k *skimmer) skim(line []byte) bool {
	k.rec = Record{Muts: k.rec.Muts[:0]}
	k.b, k.i = line, 0
	ok := k.fields(recordFields, func(f form) bool { return k.recordField(f) })
	return ok && k.i == len(line) && k.rec.Seq > 0 && k.rec.Seq <= maxSeq && k.rec.Kind != ""
}

// fields reads an object whose fields are some of list, in its order.
func (k *skimmer) fields(list []field, value func(form) bool) bool {
	if !k.byte('{') {
		return false
	}
	for at := 0; ; {
		name, ok := k.text()
		if !ok || !k.byte(':') {
			return false
		}
		for at < len(list) && list[at].name != string(name) {
			at++
		}
		if at == len(list) || !value(list[at].form) {
			return false
		}
		at++
		if !k.byte(',') {
			return k.byte('}')
		}
	}
}

func (k *skimmer) recordField(f form) bool {
	r := &k.rec
	switch f {
	case seqField:
		return k.number(&r.Seq)
	case tsField:
		return k.string(&r.TS)
	case kindField:
		return k.word(wordKind, &r.Kind)
	case writerField:
		return k.word(wordWriter, &r.Writer)
	case settledField:
		return k.number(&r.Settled)
	case refField:
		return k.number(&r.Ref)
	case callerField:
		return k.word(wordCaller, &r.Caller)
	case keyField:
		return k.string(&r.Key)
	case reasonField:
		return k.word(wordReason, &r.Reason)
	case levelField:
		return k.word(wordLevel, &r.Level)
	case manifestField:
		return k.string(&r.Manifest)
	case mutsField:
		return k.mutations()
	}
	return k.pass(f)
}

// mutations reads the list of them.
func (k *skimmer) mutations() bool {
	if !k.byte('[') {
		return false
	}
	for {
		k.rec.Muts = append(k.rec.Muts, Mutation{})
		m := &k.rec.Muts[len(k.rec.Muts)-1]
		if !k.fields(mutationFields, func(f form) bool { return k.mutationField(m, f) }) {
			return false
		}
		if !k.byte(',') {
			return k.byte(']')
		}
	}
}

func (k *skimmer) mutationField(m *Mutation, f form) bool {
	switch f {
	case opField:
		return k.word(wordOp, &m.Op)
	case pathField:
		return k.string(&m.Path)
	case realField:
		return k.string(&m.Real)
	case bytesField:
		return k.signed(&m.Bytes)
	case hashField:
		if k.previous {
			return k.string(&m.SHA256)
		}
		return k.pass(textForm)
	case prevField:
		if k.previous {
			return k.string(&m.PrevSHA256)
		}
		return k.presence(&m.PrevSHA256)
	case prevBytesField:
		return k.signed(&m.PrevBytes)
	case revField:
		return k.number(&m.Rev)
	case prevSeqField:
		return k.number(&m.PrevSeq)
	case payField:
		return k.presence(&m.PaySHA256)
	case payBytesField:
		return k.signed(&m.PayBytes)
	case slotField:
		return k.presence(&m.Slot)
	case classField:
		return k.word(wordClass, &m.Class)
	case objectField:
		return k.string(&m.Object)
	case importField:
		return k.string(&m.ImportID)
	}
	return k.pass(f)
}

// pass reads a value that is not needed.
func (k *skimmer) pass(f form) bool {
	var n uint64
	switch f {
	case textForm:
		_, ok := k.text()
		return ok
	case numForm:
		return k.number(&n)
	case smallForm:
		return k.number(&n) && n>>32 == 0
	case textsForm:
		return k.list(func() bool { _, ok := k.text(); return ok })
	case anyForm:
		return k.any(0)
	}
	return false
}

// any passes a value of a reply: all but the rarest forms.
func (k *skimmer) any(depth int) bool {
	var n uint64
	switch {
	case depth > 16 || k.i >= len(k.b):
		return false
	case k.b[k.i] == '"':
		_, ok := k.text()
		return ok
	case k.b[k.i] == '[':
		return k.list(func() bool { return k.any(depth + 1) })
	case k.b[k.i] == '{':
		return k.bracketed('{', '}', func() bool {
			_, ok := k.text()
			return ok && k.byte(':') && k.any(depth+1)
		})
	}
	return k.literal("true") || k.literal("false") || k.literal("null") || k.number(&n)
}

func (k *skimmer) list(element func() bool) bool { return k.bracketed('[', ']', element) }

// bracketed reads elements with commas between them.
func (k *skimmer) bracketed(from, to byte, element func() bool) bool {
	if !k.byte(from) {
		return false
	}
	if k.byte(to) {
		return true
	}
	for element() {
		if !k.byte(',') {
			return k.byte(to)
		}
	}
	return false
}

func (k *skimmer) byte(c byte) bool {
	if k.i < len(k.b) && k.b[k.i] == c {
		k.i++
		return true
	}
	return false
}

func (k *skimmer) literal(word string) bool {
	if len(k.b)-k.i < len(word) || string(k.b[k.i:k.i+len(word)]) != word {
		return false
	}
	k.i += len(word)
	return true
}

// number reads an integer below 1<<63 without a sign. What follows it, such
// as a fraction, is found by the caller, which expects a comma there.
func (k *skimmer) number(n *uint64) bool {
	from := k.i
	var sum uint64
	for k.i < len(k.b) && k.b[k.i]-'0' <= 9 && k.i-from < 20 {
		sum = 10*sum + uint64(k.b[k.i]-'0')
		k.i++
	}
	*n = sum
	digits := k.i - from
	return digits > 0 && digits <= 19 && sum <= math.MaxInt64 && (digits == 1 || k.b[from] != '0')
}

func (k *skimmer) signed(n *int64) bool {
	minus := k.byte('-')
	var sum uint64
	if !k.number(&sum) {
		return false
	}
	if *n = int64(sum); minus {
		*n = -*n
	}
	return true
}

// string reads a string that is needed. Invalid UTF-8 is left to decode, which replaces
// it.
func (k *skimmer) string(s *string) bool {
	text, ok := k.text()
	if !ok || !utf8.Valid(text) {
		return false
	}
	*s = string(text)
	return true
}

// word is string for one that was often the same in the row before.
func (k *skimmer) word(slot int, s *string) bool {
	text, ok := k.text()
	if !ok || !utf8.Valid(text) {
		return false
	}
	if k.seen[slot] != string(text) {
		k.seen[slot] = string(text)
	}
	*s = k.seen[slot]
	return true
}

// presence reads a text if only its presence matters.
func (k *skimmer) presence(s *string) bool {
	text, ok := k.text()
	if *s = ""; len(text) > 0 {
		*s = "present"
	}
	return ok
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text reads a string without escapes, eight bytes at a time: in each step it
// looks for the first byte that is a quote, a backslash or a control character.
func (k *skimmer) text() ([]byte, bool) {
	if !k.byte('"') {
		return nil, false
	}
	from, b := k.i, k.b
	for ; k.i+8 <= len(b); k.i += 8 {
		x := binary.LittleEndian.Uint64(b[k.i:])
		quote, slash := x^('"'*ones), x^('\\'*ones)
		special := ((quote-ones)&^quote | (slash-ones)&^slash | (x-0x20*ones)&^x) & highs
		if special != 0 {
			k.i += bits.TrailingZeros64(special) / 8
			break
		}
	}
	for ; k.i < len(b); k.i++ {
		switch c := b[k.i]; {
		case c == '"':
			k.i++
			return b[from : k.i-1], true
		case c == '\\' || c < 0x20:
			return nil, false
		}
	}
	return nil, false
}
