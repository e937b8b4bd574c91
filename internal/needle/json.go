package needle

import (
	"bytes"
	"encoding/json"
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
	out := bytes.Clone(text)
	changed, field := false, ""
	for at := 0; at < len(text); at++ {
		from, isString, isName := at, text[at] == '"', false
		switch {
		case isString:
			from++
			for at++; at < len(text) && text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
			at = min(at, len(text)) // of a text that was cut off
			if isName = bytes.HasPrefix(bytes.TrimLeft(text[min(at+1, len(text)):], " \t\r\n"), []byte(":")); isName {
				field = string(text[from:at])
			}
		case inNumber(text[at]):
			for at++; at < len(text) && inNumber(text[at]); at++ {
			}
		default:
			continue
		}
		if hit := n.maskToken(out[from:at], isString); hit && fixed != nil && (!isString || isName || fixed(field)) {
			return nil, false, ErrStructure
		} else if hit {
			changed = true
		}
	}
	if n.Within(out) {
		return nil, false, ErrStructure
	}
	return out, changed, nil
}

func inNumber(c byte) bool { return c >= '0' && c <= '9' || bytes.IndexByte([]byte("+-.eE"), c) >= 0 }

// maskToken overwrites the matches in the inside of a string, or a number that has one.
func (n *Needle) maskToken(token []byte, isString bool) (hit bool) {
	if !isString {
		if hit = n.Within(token); hit {
			for i, c := range token {
				if c >= '0' && c <= '9' {
					token[i] = '1'
				}
			}
		}
		return hit
	}
	plain, starts := unescape(token)
	spans := n.Find(plain)
	for _, s := range spans {
		to := s.To
		for starts[to] == starts[s.To-1] {
			to++ // the match ends inside of an escape
		}
		fill(token[starts[s.From]:starts[to]])
	}
	return len(spans) > 0
}

// unescape returns the unescaped inside of a string, the offset at which the escaped form
// of each of its bytes begins, and that of its end.
func unescape(raw []byte) (plain []byte, starts []int) {
	for i := 0; i < len(raw); {
		unit, n := raw[i:i+1], 1
		if raw[i] == '\\' {
			unit, n = escape(raw[i:])
		}
		plain = append(plain, unit...)
		for range len(unit) {
			starts = append(starts, i)
		}
		i += n
	}
	return plain, append(starts, len(raw))
}

// escape returns what the escape is for with which a text begins, and its length: that of
// a pair of surrogates, of one character, or of one letter.
func escape(raw []byte) ([]byte, int) {
	var is string
	lengths := []int{2}
	if bytes.HasPrefix(raw, []byte(`\u`)) {
		lengths = []int{12, 6}
	}
	for _, n := range lengths {
		if n <= len(raw) && json.Unmarshal([]byte(`"`+string(raw[:n])+`"`), &is) == nil && utf8.RuneCountInString(is) == 1 {
			return []byte(is), n
		}
	}
	return raw[:1], 1
}
