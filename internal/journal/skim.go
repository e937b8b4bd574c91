package journal

import (
	"encoding/binary"
	"math"
	"math/bits"
	"reflect"
	"strings"
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
		parse: func(line []byte) (*Record, bool, error) { return l.skimmed(k, line) },
		block: 256 << 10,
		fn:    func(rec *Record, _ []byte, _ Pos) error { return fn(rec) },
	}
	_, err = l.pass(segs, from, &p)
	return err
}

// skimmed is whole, limited to the fields that Skim promises. The record is reused.
func (l *Log) skimmed(k *skimmer, line []byte) (rec *Record, ok bool, err error) {
	if rec, ok = k.read(line); ok && rec.Manifest != "" {
		long := *rec // the mutations of the skimmer are used again
		rec, err = &long, l.fill(&long)
	}
	return rec, ok, err
}

// skimmer reads rows in the form in which encode writes them: no blanks, the fields in
// the order of the struct, no escapes. It validates every byte of a row. It leaves rows
// of any other form to decode, which decides what is a record.
type skimmer struct {
	rec  Record
	m    *Mutation // the current one of rec
	b    []byte    // the line
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

// field is one field of a row.
type field struct {
	name string
	read func(*skimmer) bool
}

// fieldsOf are the fields of a type in the order in which they are written, with the
// functions that read some of them. The others are passed over.
func fieldsOf(t reflect.Type, read map[string]func(*skimmer) bool) (list []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fn := read[name]
		switch {
		case fn != nil:
		case f.Type.Kind() == reflect.String:
			fn = (*skimmer).skipText
		case f.Type.Kind() == reflect.Uint32:
			fn = (*skimmer).skipMode
		case f.Type.Kind() == reflect.Int64:
			fn = func(k *skimmer) bool { return k.signed(new(int64)) }
		case f.Type == reflect.TypeFor[[]string]():
			fn = func(k *skimmer) bool { return k.bracketed('[', ']', k.skipText) }
		default: // such a row is left to decode
			fn = func(*skimmer) bool { return false }
		}
		list = append(list, field{name, fn})
	}
	return list
}

var recordFields = fieldsOf(reflect.TypeFor[Record](), map[string]func(*skimmer) bool{
	"seq":      func(k *skimmer) bool { return k.number(&k.rec.Seq) },
	"ts":       func(k *skimmer) bool { return k.string(&k.rec.TS) },
	"kind":     func(k *skimmer) bool { return k.word(wordKind, &k.rec.Kind) },
	"writer":   func(k *skimmer) bool { return k.word(wordWriter, &k.rec.Writer) },
	"settled":  func(k *skimmer) bool { return k.number(&k.rec.Settled) },
	"ref":      func(k *skimmer) bool { return k.number(&k.rec.Ref) },
	"caller":   func(k *skimmer) bool { return k.word(wordCaller, &k.rec.Caller) },
	"via":      (*skimmer).skipAny,
	"key":      func(k *skimmer) bool { return k.string(&k.rec.Key) },
	"reason":   func(k *skimmer) bool { return k.word(wordReason, &k.rec.Reason) },
	"level":    func(k *skimmer) bool { return k.word(wordLevel, &k.rec.Level) },
	"reply":    (*skimmer).skipAny,
	"manifest": func(k *skimmer) bool { return k.string(&k.rec.Manifest) },
	"muts":     (*skimmer).mutations,
})

var mutationFields = fieldsOf(reflect.TypeFor[Mutation](), map[string]func(*skimmer) bool{
	"op":   func(k *skimmer) bool { return k.word(wordOp, &k.m.Op) },
	"path": func(k *skimmer) bool { return k.string(&k.m.Path) },
	"real": func(k *skimmer) bool { return k.string(&k.m.Real) },
	"sha256": func(k *skimmer) bool {
		if k.previous {
			return k.string(&k.m.SHA256)
		}
		return k.skipText()
	},
	"bytes": func(k *skimmer) bool { return k.signed(&k.m.Bytes) },
	"prev_sha256": func(k *skimmer) bool {
		if k.previous {
			return k.string(&k.m.PrevSHA256)
		}
		return k.presence(&k.m.PrevSHA256)
	},
	"prev_bytes": func(k *skimmer) bool { return k.signed(&k.m.PrevBytes) },
	"rev":        func(k *skimmer) bool { return k.number(&k.m.Rev) },
	"prev_seq":   func(k *skimmer) bool { return k.number(&k.m.PrevSeq) },
	"pay_sha256": func(k *skimmer) bool { return k.presence(&k.m.PaySHA256) },
	"pay_bytes":  func(k *skimmer) bool { return k.signed(&k.m.PayBytes) },
	"slot":       func(k *skimmer) bool { return k.presence(&k.m.Slot) },
	"prev_extra": (*skimmer).skipAny,
	"class":      func(k *skimmer) bool { return k.word(wordClass, &k.m.Class) },
	"object":     func(k *skimmer) bool { return k.string(&k.m.Object) },
	"import_id":  func(k *skimmer) bool { return k.string(&k.m.ImportID) },
})

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
	return k.fields(recordFields) && k.i == len(line) && k.rec.Seq > 0 && k.rec.Seq <= maxSeq && k.rec.Kind != ""
}

// fields reads an object whose fields are some of list, in its order.
func (k *skimmer) fields(list []field) bool {
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
		if at == len(list) || !list[at].read(k) {
			return false
		}
		at++
		if !k.byte(',') {
			return k.byte('}')
		}
	}
}

// mutations reads the list of them.
func (k *skimmer) mutations() bool {
	if !k.byte('[') {
		return false
	}
	for {
		k.rec.Muts = append(k.rec.Muts, Mutation{})
		k.m = &k.rec.Muts[len(k.rec.Muts)-1]
		if !k.fields(mutationFields) {
			return false
		}
		if !k.byte(',') {
			return k.byte(']')
		}
	}
}

func (k *skimmer) skipText() bool {
	_, ok := k.text()
	return ok
}

func (k *skimmer) skipMode() bool {
	var mode uint64
	return k.number(&mode) && mode>>32 == 0
}

func (k *skimmer) skipAny() bool { return k.any(0) }

// any passes a value of a reply: all but the rarest forms.
func (k *skimmer) any(depth int) bool {
	var n uint64
	switch {
	case depth > 16 || k.i >= len(k.b):
		return false
	case k.b[k.i] == '"':
		return k.skipText()
	case k.b[k.i] == '[':
		return k.bracketed('[', ']', func() bool { return k.any(depth + 1) })
	case k.b[k.i] == '{':
		return k.bracketed('{', '}', func() bool { return k.skipText() && k.byte(':') && k.any(depth+1) })
	}
	return k.literal("true") || k.literal("false") || k.literal("null") || k.number(&n)
}

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
