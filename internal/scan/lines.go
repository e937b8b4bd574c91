package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// characters counts the code points of UTF-8 text: every byte but those that
// go on with one.
func characters(b []byte) int {
	n := len(b)
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		n -= bits.OnesCount64(x &^ (x << 1) & highBits)
	}
	for _, c := range b {
		if c&0xc0 == 0x80 {
			n--
		}
	}
	return n
}

// origin is the position of a text in the longer one that it is a part of.
type origin struct {
	offset int // bytes
	line   int // line ends
	column int // characters of the line that the text goes on with
}

// place finds line and column of ascending offsets in one pass.
type place struct {
	b      []byte
	line   int
	column int // characters before the text
	seen   int
	chars  int // characters of the line up to seen
}

func (p *place) of(off int) (line, column int) {
	if off > p.seen {
		piece := p.b[p.seen:off]
		if n := bytes.Count(piece, []byte{'\n'}); n > 0 {
			p.line += n
			p.chars, p.column = 0, 0
			piece = piece[bytes.LastIndexByte(piece, '\n')+1:]
		}
		p.chars += characters(piece)
		p.seen = off
	}
	return p.line, p.column + p.chars + 1
}

// marked reports whether the line at off holds the marker.
func marked(b []byte, off int) bool {
	low := max(0, off-4096)
	from := low + bytes.LastIndexByte(b[low:off], '\n') + 1
	to := min(len(b), off+4096)
	if n := bytes.IndexByte(b[off:to], '\n'); n >= 0 {
		to = off + n
	}
	return bytes.Contains(b[from:to], []byte(Marker))
}
