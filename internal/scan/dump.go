package scan

import "strings"

// Dumps of bytes in hexadecimal: lines that begin with an offset, after which
// come bytes or words of two bytes, each with a blank in front. So write xxd,
// hexdump and od; the same bytes as characters, at the end of a line, are passed
// over, and so are marks of comments in front. In octal, od writes words of two
// bytes, or each byte, as a number or a character, in four columns.

const (
	leastOffset = 6 // digits of an offset
	mostOffset  = 16
	mostDumped  = 64 // bytes of one line
	mostMark    = 4  // bytes of a mark of a comment or a quotation in front
)

// commentMark are the characters of such marks.
var commentMark = [256]bool{'/': true, '*': true, '#': true, ';': true, '-': true, '>': true, '|': true, '%': true, '!': true, '"': true}

// dump decodes the dump that has a line around p, and returns where it ends; p
// when there is none.
func (t *text) dump(p int) int {
	b := t.b
	start := behind(b, p, 2*mostOffset+mostDumped, inLine)
	plain, swapped := t.room(maxJoined), false
	end := start
	for len(plain) < maxJoined-mostDumped {
		n, little, next := dumpLine(b, end, &plain)
		if n == 0 {
			n, next = octalLine(b, end, &plain)
		}
		if n == 0 {
			break
		}
		swapped, end = little, next
	}
	if len(plain) < shortest {
		return p
	}
	end = max(p, end)
	t.within(plain, "hexdump", start, end)
	if swapped {
		for i := 0; i+1 < len(plain); i += 2 {
			plain[i], plain[i+1] = plain[i+1], plain[i]
		}
		t.within(plain, "hexdump", start, end)
	}
	return end
}

// dumpLine appends the bytes of the line of a dump that begins at i to out and
// returns their number, whether they may be words whose low byte comes first,
// and where the next line begins.
func dumpLine(b []byte, i int, out *[]byte) (n int, swapped bool, next int) {
	for mark := i; i < len(b) && (b[i] == ' ' || b[i] == '\t' || i-mark < mostMark && commentMark[b[i]]); i++ {
		if b[i] == ' ' || b[i] == '\t' {
			mark = i + 1
		}
	}
	offset := i
	i = ahead(b, i, mostOffset+1, isHex)
	if i-offset < leastOffset || i-offset > mostOffset {
		return 0, false, 0
	}
	colon := i < len(b) && b[i] == ':'
	if colon {
		i++
	}
	group := 0 // digits of the first
	for n < mostDumped {
		blank := i
		from := ahead(b, blank, 4, func(c byte) bool { return c == ' ' })
		i = ahead(b, from, 5, isHex)
		blanks, digits := from-blank, i-from
		if blanks == 0 || digits != 2 && digits != 4 || group > 0 && digits > group || n > 0 && (blanks > 2 || colon && blanks > 1) {
			break
		}
		for group = max(group, digits); from < i; from += 2 {
			*out = append(*out, nibble(b[from])<<4|nibble(b[from+1]))
			n++
		}
	}
	i = ahead(b, i, offset+4*mostDumped-i, inLine) // the same as characters
	return n, !colon && group == 4, min(len(b), i+1)
}

// octalLine does the same for a line of a dump in octal, which may be without an
// offset; marks of comments are not passed over.
func octalLine(b []byte, i int, out *[]byte) (n, next int) {
	offset := i
	i = ahead(b, i, mostOffset+1, isHex)
	if i > offset && i-offset < leastOffset || i-offset > mostOffset {
		return 0, 0
	}
	for words := false; n < mostDumped; {
		if low, high, ok := octalWord(b, i); ok {
			*out = append(*out, low, high)
			n, i, words = n+2, i+7, true
		} else if c, ok := octalCell(b, i); ok && !words {
			*out = append(*out, c)
			n, i = n+1, i+4
		} else {
			break
		}
	}
	end := i
	for i < len(b) && (b[i] == ' ' || b[i] == '\r') {
		i++
	}
	if i < len(b) && b[i] != '\n' {
		*out = (*out)[:len(*out)-n]
		return 0, end
	}
	return n, min(len(b), i+1)
}

// octalWord reads a blank and six octal digits at i: two bytes, the low one first.
func octalWord(b []byte, i int) (low, high byte, ok bool) {
	if i+7 > len(b) || b[i] != ' ' || i+7 < len(b) && digit(b[i+7]) {
		return 0, 0, false
	}
	v, ok := octal(b[i+1 : i+7])
	return byte(v), byte(v >> 8), ok && v < 1<<16
}

// octalCell reads four columns at i: three octal digits, or a character or an
// escape at the right.
func octalCell(b []byte, i int) (c byte, ok bool) {
	if i+4 > len(b) || b[i] != ' ' || i+4 < len(b) && b[i+4] != ' ' && b[i+4] != '\n' && b[i+4] != '\r' {
		return 0, false
	}
	switch cell := b[i+1 : i+4]; {
	case cell[0] == ' ' && cell[1] == ' ':
		return cell[2], cell[2] >= ' ' && cell[2] < 0x7f
	case cell[0] == ' ' && cell[1] == '\\':
		at := strings.IndexByte("0abtnvfr", cell[2])
		return "\x00\a\b\t\n\v\f\r"[max(at, 0)], at >= 0
	default:
		v, ok := octal(cell)
		return byte(v), ok && v < 1<<8
	}
}

// octal is the number that octal digits stand for.
func octal(digits []byte) (v int, ok bool) {
	for _, c := range digits {
		if c < '0' || c > '7' {
			return 0, false
		}
		v = v<<3 | int(c-'0')
	}
	return v, true
}
