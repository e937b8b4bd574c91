package scan

// Dumps of bytes in hexadecimal: lines that begin with an offset, after which
// come bytes or words of two bytes, each with a blank in front. So write xxd,
// hexdump and od; the same bytes as characters, at the end of a line, are passed
// over, and so are marks of comments in front.

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
	start := p
	for start > 0 && p-start < 2*mostOffset+mostDumped && b[start-1] != '\n' {
		start--
	}
	plain, swapped := t.room(maxJoined), false
	end := start
	for len(plain) < maxJoined-mostDumped {
		n, little, next := dumpLine(b, end, &plain)
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
	for i < len(b) && i-offset <= mostOffset && isHex(b[i]) {
		i++
	}
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
		for i < len(b) && b[i] == ' ' && i-blank < 4 {
			i++
		}
		from := i
		for i < len(b) && i-from <= 4 && isHex(b[i]) {
			i++
		}
		blanks, digits := from-blank, i-from
		if blanks == 0 || digits != 2 && digits != 4 || group > 0 && digits > group || n > 0 && (blanks > 2 || colon && blanks > 1) {
			break
		}
		for group = max(group, digits); from < i; from += 2 {
			*out = append(*out, nibble(b[from])<<4|nibble(b[from+1]))
			n++
		}
	}
	for i < len(b) && b[i] != '\n' && i-offset < 4*mostDumped {
		i++ // the same as characters
	}
	return n, !colon && group == 4, min(len(b), i+1)
}
