package needle

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaskJSON is Mask for a valid JSON text, which stays valid: it compares the unescaped
// strings, and overwrites an escape completely or not at all. Digits of a number become
// ones.
//
// fixed names the fields that must not change; with it, neither names of fields nor
// numbers may change either. nil means that everything may. A match in a part that must
// not change, or one that extends beyond the inside of a string, is ErrStructure.
func (n *Needle) MaskJSON(text []byte, fixed func(field string) bool) ([]byte, bool, error) {
	m := masker{n: n, in: text, fixed: fixed}
	for m.at < len(text) {
		if err := m.token(); err != nil {
			return nil, false, err
		}
	}
	if m.out == nil {
		if n.Within(text) {
			return nil, false, ErrStructure
		}
		return text, false, nil
	}
	if n.Within(m.out) {
		return nil, false, ErrStructure
	}
	return m.out, true, nil
}

// masker goes through one JSON text.
type masker struct {
	n     *Needle
	in    []byte
	out   []byte // nil while nothing has changed
	at    int
	fixed func(string) bool

	nest  []byte // '{' or '[' of each open object or array
	names bool   // the next string is the name of a field
	field string // the field whose value follows
}

func (m *masker) token() error {
	switch c := m.in[m.at]; {
	case c == '{' || c == '[':
		m.nest = append(m.nest, c)
		m.names = c == '{'
	case c == '}' || c == ']':
		if len(m.nest) > 0 {
			m.nest = m.nest[:len(m.nest)-1]
		}
		m.names = false
	case c == ',':
		m.names = len(m.nest) > 0 && m.nest[len(m.nest)-1] == '{'
	case c == '"':
		return m.literal()
	case c == '-' || c >= '0' && c <= '9':
		return m.number()
	}
	m.at++
	return nil
}

// literal masks one string.
func (m *masker) literal() error {
	from := m.at + 1
	end := from
	for end < len(m.in) && m.in[end] != '"' {
		if m.in[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(m.in))
	m.at = end + 1
	raw := m.in[from:end]
	name := m.names
	if m.names {
		m.names, m.field = false, string(raw)
	}
	plain, starts := unescape(raw)
	spans := m.n.Find(plain)
	if len(spans) == 0 {
		return nil
	}
	if m.fixed != nil && (name || m.fixed(m.field)) {
		return ErrStructure
	}
	for _, s := range spans {
		to := len(raw)
		if s.To < len(starts) {
			to = starts[s.To]
			for i := s.To; to == starts[s.To-1] && i < len(starts); i++ {
				to = starts[i] // the match ends inside of an escape
			}
			if to == starts[s.To-1] {
				to = len(raw)
			}
		}
		m.write(from+starts[s.From], from+to)
	}
	return nil
}

func (m *masker) write(from, to int) {
	if m.out == nil {
		m.out = bytes.Clone(m.in)
	}
	fill(m.out[from:to])
}

// number masks the digits of a number.
func (m *masker) number() error {
	from := m.at
	for m.at < len(m.in) && bytes.IndexByte([]byte("+-.0123456789eE"), m.in[m.at]) >= 0 {
		m.at++
	}
	if !m.n.Within(m.in[from:m.at]) {
		return nil
	}
	if m.fixed != nil {
		return ErrStructure
	}
	if m.out == nil {
		m.out = bytes.Clone(m.in)
	}
	for i := from; i < m.at; i++ {
		if c := m.out[i]; c >= '0' && c <= '9' {
			m.out[i] = '1'
		}
	}
	return nil
}

// unescape returns the unescaped inside of a string and, for each of its bytes, the
// offset at which the escaped form begins.
func unescape(raw []byte) (plain []byte, starts []int) {
	for i := 0; i < len(raw); {
		from := i
		if raw[i] != '\\' || i+1 >= len(raw) {
			plain, starts = append(plain, raw[i]), append(starts, from)
			i++
			continue
		}
		r := rune(raw[i+1])
		i += 2
		switch r {
		case 'n':
			r = '\n'
		case 't':
			r = '\t'
		case 'r':
			r = '\r'
		case 'b':
			r = '\b'
		case 'f':
			r = '\f'
		case 'u':
			r = hexRune(raw, i)
			i = min(i+4, len(raw))
			if utf16.IsSurrogate(r) && i+1 < len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
				if both := utf16.DecodeRune(r, hexRune(raw, i+2)); both != utf8.RuneError {
					r, i = both, min(i+6, len(raw))
				}
			}
		}
		for _, b := range utf8.AppendRune(nil, r) {
			plain, starts = append(plain, b), append(starts, from)
		}
	}
	return plain, starts
}

// hexRune is the rune of the four digits at i.
func hexRune(raw []byte, i int) rune {
	if i+4 > len(raw) {
		return utf8.RuneError
	}
	v, err := strconv.ParseUint(string(raw[i:i+4]), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(v)
}
