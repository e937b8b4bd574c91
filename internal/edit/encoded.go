package edit

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// replace applies to the raw bytes of a text the changes that were made in the text. It
// copies the bytes of unchanged characters.
func (c *charset) replace(raw, text, next []byte, places []place, limit int) ([]byte, *Failure) {
	w := walk{c: c, raw: raw, text: text}
	out := make([]byte, 0, len(raw)+max(0, len(next)-len(text)))
	done := 0
	var was, encoded []byte // most replacements are the same
	for _, p := range places {
		p.shrink(text, next)
		start, end := w.to(p.start), w.to(p.end)
		out = append(out, raw[done:start]...)
		if now := next[p.newStart:p.newEnd]; encoded == nil || !bytes.Equal(was, now) {
			one, bad, ok := c.encode(now)
			if !ok {
				return nil, &Failure{Reason: NotEncodable, Char: bad, InNew: true, Encodings: []string{c.name}}
			}
			was, encoded = now, one
		}
		if out = append(out, encoded...); len(out) > 2*limit {
			return nil, &Failure{Reason: ResultTooLarge, Matches: len(places)}
		}
		done = end
	}
	out = append(out, raw[done:]...)
	if bytes.IndexByte(text, undecoded) >= 0 {
		// A byte that was no character may be one with what now follows it.
		if d, _ := c.decode(out, false); !bytes.Equal(d.text, next) {
			return nil, &Failure{Reason: NotEncodable, InNew: true, Encodings: []string{c.name}}
		}
	}
	return out, nil
}

// shrink leaves out of a place the characters with which the match and its
// replacement both begin and end.
func (p *place) shrink(text, next []byte) {
	was, is := text[p.start:p.end], next[p.newStart:p.newEnd]
	n := 0
	for n < min(len(was), len(is)) && was[n] == is[n] {
		n++
	}
	for n > 0 && !(border(was, n) && border(is, n)) {
		n--
	}
	was, is = was[n:], is[n:]
	m := 0
	for m < min(len(was), len(is)) && was[len(was)-1-m] == is[len(is)-1-m] {
		m++
	}
	for m > 0 && !(border(was, len(was)-m) && border(is, len(is)-m)) {
		m--
	}
	p.start, p.newStart, p.end, p.newEnd = p.start+n, p.newStart+n, p.end-m, p.newEnd-m
}

// border reports whether no character of a text extends over a position.
func border(text []byte, at int) bool { return at == len(text) || utf8.RuneStart(text[at]) }

// A walk goes through a text and the bytes that it was decoded from.
type walk struct {
	c         *charset
	raw, text []byte
	from, at  int // in the bytes, and in the text
}

// to is where in the bytes a position of the text is. Positions ascend.
func (w *walk) to(at int) int {
	for w.at < at {
		_, size := w.c.next(w.raw[w.from:])
		_, n := utf8.DecodeRune(w.text[w.at:])
		w.from, w.at = w.from+size, w.at+n
	}
	return w.from
}

// wideOf is the charset of a content in UTF-16: one that begins with a byte order
// mark, or in which every other byte, and no other, is mostly zero.
func wideOf(content []byte) *charset {
	n := len(content)
	little, big := charsetOf("utf-16le"), charsetOf("utf-16be")
	switch {
	case n >= 4 && string(content[:4]) == "\xff\xfe\x00\x00": // UTF-32
		return nil
	case n >= 2 && string(content[:2]) == "\xff\xfe":
		return little
	case n >= 2 && string(content[:2]) == "\xfe\xff":
		return big
	case n == 0 || n%2 == 1 || bytes.IndexByte(content[:min(n, 4096)], 0) < 0:
		return nil
	}
	zero := [2]int{}
	for i, b := range content {
		if b == 0 {
			zero[i%2]++
		}
	}
	switch {
	case zero[0] == 0 && zero[1] > n/4:
		return little
	case zero[1] == 0 && zero[0] > n/4:
		return big
	}
	return nil
}

// A reading is a content read in one encoding, and the result of the edits in it.
type reading struct {
	charset *charset
	decoding
	out Result
	err error
}

// likely is how many of the characters that are not ASCII are usual ones, if a
// text is in an encoding.
const likely = 0.9

func (r *reading) isLikely() bool { return r.share >= likely }

// guess makes the edits in a content that is neither UTF-8 nor UTF-16 and whose
// encoding is not named. If an Old that is not all ASCII is found in one encoding, that
// is the encoding. Edits of ASCII that begin after ASCII are the same in every
// encoding; otherwise all readings that are likely, or have characters of several
// bytes, must agree. A New that is not all ASCII must have the same bytes in all likely
// encodings. If the readings do not agree, the failure names them.
func (a *apply) guess(edits []Edit) (Result, error) {
	if bytes.IndexByte(a.content, 0) >= 0 {
		return Result{}, &Failure{Reason: NotUTF8}
	}
	all := a.readings()
	plain, asciiOld, asciiNew := plainEdits(edits)
	if !asciiOld {
		return agree(a.try(all, edits, func(r *reading) bool { return !isMiss(r.err) }), all)
	}
	byBytes, err := a.in(charsets[0], plain)
	if f, ok := err.(*Failure); err != nil && (!ok || f.Reason == OldStringNotFound || f.Reason == TooMuchWork) {
		return Result{}, err
	}
	list := slices.DeleteFunc(slices.Clone(all), func(r *reading) bool { return !r.isLikely() && (byBytes.clear || r.charset.double == nil) })
	if err != nil || !byBytes.clear {
		if _, err := agree(a.try(list, plain, nil), all); err != nil {
			return Result{}, err
		}
	}
	list = slices.DeleteFunc(list, func(r *reading) bool { return !r.isLikely() })
	switch {
	case asciiNew && byBytes.clear && len(list) == 0:
		byBytes.Encoding = "ascii"
		return byBytes, nil
	case asciiNew && byBytes.clear:
		byBytes.Encoding = list[0].charset.name
		return byBytes, nil
	}
	return agree(a.try(list, edits, nil), all)
}

// readings are the content in all encodings that it can have, the likeliest
// first.
func (a *apply) readings() []*reading {
	var all []*reading
	for _, c := range charsets {
		if c.usual == nil {
			continue
		}
		mixed := c.enc == nil // UTF-8 with bytes that are not
		if d, ok := c.decode(a.content, !mixed); ok && (!mixed || d.share > 0) {
			all = append(all, &reading{charset: c, decoding: d})
		}
	}
	slices.SortStableFunc(all, func(x, y *reading) int { return cmp.Compare(y.share, x.share) })
	return all
}

// try makes the edits in each reading, and keeps those that are wanted.
func (a *apply) try(all []*reading, edits []Edit, wanted func(*reading) bool) (list []*reading) {
	for _, r := range all {
		if r.out, r.err = a.decoded(r.charset, r.decoding, edits); wanted == nil || wanted(r) {
			list = append(list, r)
		}
	}
	return list
}

// isMiss reports whether an edit failed because Old is not there.
func isMiss(err error) bool {
	f, ok := err.(*Failure)
	return ok && (f.Reason == OldStringNotFound || f.Reason == NotEncodable && !f.InNew)
}

// agree is the outcome of readings that all have the same, and otherwise a
// failure that names them. Of no reading, all are named.
func agree(list, all []*reading) (Result, error) {
	same := func(r *reading) bool {
		f, ok := list[0].err.(*Failure)
		g, too := r.err.(*Failure)
		if ok && too {
			return f.Reason == g.Reason && f.Edit == g.Edit && f.Matches == g.Matches
		}
		return r.err == list[0].err && bytes.Equal(r.out.Content, list[0].out.Content)
	}
	if len(list) > 0 && !slices.ContainsFunc(list, func(r *reading) bool { return !same(r) }) {
		return list[0].out, list[0].err
	}
	if len(list) == 0 {
		list = all
	}
	f := &Failure{Reason: NotUTF8}
	for _, r := range list {
		f.Encodings = append(f.Encodings, r.charset.name)
	}
	return Result{}, f
}

// plainEdits are the edits with every New in ASCII.
func plainEdits(edits []Edit) (plain []Edit, asciiOld, asciiNew bool) {
	asciiOld, asciiNew = true, true
	for _, e := range edits {
		asciiOld = asciiOld && isASCII(e.Old)
		if !isASCII(e.New) {
			asciiNew = false
			e.New = strings.Map(func(r rune) rune {
				if r >= utf8.RuneSelf {
					return 0
				}
				return r
			}, e.New)
		}
		plain = append(plain, e)
	}
	return plain, asciiOld, asciiNew
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}
