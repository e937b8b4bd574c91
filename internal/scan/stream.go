package scan

import (
	"bytes"
	"math/bits"
	"slices"
)

const (
	// Window is how far one secret can reach: a scan that begins so many bytes
	// before a place finds every secret that touches it.
	Window = 32 << 10
	block  = 1 << 20 // bytes judged at a time
)

// Stream scans a text that comes in pieces, in constant memory. It finds what
// Score finds for everything that is not longer than Window.
type Stream struct {
	s       *Scanner
	opt     Options
	r       Report
	buf     []byte
	text    *text // the block that was judged last; its memory serves the next
	settled int   // bytes at the start of buf that are there as context only
	origin  origin
	block   int
	decoded map[[16]byte][]stretch // what the last block found after its end, and where in the whole text
	// settle, when set, gets the findings of each block instead of the report:
	// where the buffer that contains them begins, and up to where the text is
	// judged.
	settle func(found []raw, offset, end int)
}

// NewStream begins a scan.
func (s *Scanner) NewStream(opt Options) *Stream {
	st := s.stream(opt)
	return &st
}

func (s *Scanner) stream(opt Options) Stream { return Stream{s: s, opt: s.bounded(opt), block: block} }

// Write takes the next piece. It never fails.
func (st *Stream) Write(p []byte) (int, error) {
	n := len(p)
	st.r.Bytes += n
	for len(p) > 0 {
		room := st.settled + st.block + Window - len(st.buf)
		take := min(room, len(p))
		st.buf = append(st.buf, p[:take]...)
		p = p[take:]
		if take == room {
			drop := st.judge(len(st.buf) - Window)
			st.buf = append(st.buf[:0], st.buf[drop:]...)
		}
	}
	return n, nil
}

// whole takes a text that is there in one piece, without a copy of it. What is
// left of it is judged by Report.
func (st *Stream) whole(b []byte) {
	st.r.Bytes += len(b)
	for from := 0; ; {
		end := min(len(b), from+st.settled+st.block+Window)
		if st.buf = b[from:end:end]; end == len(b) {
			return
		}
		from += st.judge(len(st.buf) - Window)
	}
}

// Report ends the scan and returns what it found.
func (st *Stream) Report() Report {
	st.judge(len(st.buf))
	st.r.LineCount, st.r.MaxLineLen = st.text.runs.lines.total()
	if held := st.r.Findings; held != nil {
		st.r.Findings = append(make([]Finding, 0, len(held)), held...)
		clear(held)
		st.text.runs.listed = held[:0]
	}
	st.text.free()
	st.text = nil
	st.s.judge(&st.r)
	return st.r
}

// judge settles what begins before cut, and returns how many bytes of the
// buffer later pieces do not need.
func (st *Stream) judge(cut int) (drop int) {
	if st.text == nil {
		st.text = st.s.newText(st.buf)
	} else {
		st.text.again(st.buf)
	}
	st.text.ctx = st.opt.Context
	all := st.s.withPlaceholders(st.buf, st.text.findings(), st.opt)
	mine := all[:0]
	var later map[[16]byte][]stretch
	alone := st.decoded == nil && cut == len(st.buf) // no other block finds the same
	for _, f := range all {
		if f.from == "" {
			if f.start >= st.settled && f.start < cut {
				mine = append(mine, f)
			}
			continue
		}
		// Where a wrapped secret begins is known only roughly: it is counted
		// where it is seen first.
		if f.at < st.settled-Window/2 || f.at >= cut+Window/2 {
			continue
		}
		if alone {
			mine = append(mine, f)
			continue
		}
		print, place := f.rule.fingerprint(f.secret), stretch{st.origin.offset + f.start, st.origin.offset + f.end}
		if !slices.ContainsFunc(st.decoded[print], place.meets) {
			mine = append(mine, f)
		}
		if f.at >= cut-Window {
			if later == nil {
				later = map[[16]byte][]stretch{}
			}
			later[print] = append(later[print], place)
		}
	}
	if st.settle != nil {
		st.settle(mine, st.origin.offset, st.origin.offset+cut)
	} else {
		if st.r.Findings == nil {
			st.r.Findings = st.text.runs.listed[:0]
		}
		st.s.collect(&st.r, st.buf, mine, st.opt, st.origin)
	}
	st.decoded = later
	drop = max(0, cut-Window)
	gone := st.buf[:drop]
	if n := bytes.Count(gone, []byte{'\n'}); n > 0 {
		st.origin.line += n
		st.origin.column = 0
		gone = gone[bytes.LastIndexByte(gone, '\n')+1:]
	}
	st.origin.column += characters(gone)
	st.origin.offset += drop
	st.text.runs.lines.drop(st.buf, drop)
	st.settled = cut - drop
	return drop
}

// lineMeter counts lines and characters over the buffers of a text. Its offsets
// are those of the buffer.
type lineMeter struct {
	lines, longest int
	seen           int // up to here line feeds were counted
	start          int // of the line that goes on there
	// Of a line with more bytes than the longest has characters, these are counted.
	counted int // start of the line
	upTo    int
	chars   int
}

// read takes what was read of a text from base on.
func (m *lineMeter) read(b []byte, base int, read []lanes) {
	for i := range read {
		at := base + 64*i
		if at+64 <= m.seen {
			continue
		}
		marks := read[i].newlines()
		if at < m.seen {
			marks &^= 1<<(m.seen-at) - 1
		}
		m.lines += bits.OnesCount64(marks)
		for m.longest < 64 && marks&(marks-1) != 0 { // lines within the 64 bytes
			m.end(b, at+bits.TrailingZeros64(marks))
			m.start = at + bits.TrailingZeros64(marks) + 1
			marks &= marks - 1
		}
		if end := min(at+bits.TrailingZeros64(marks), len(b)); end-m.start > m.longest {
			m.end(b, end)
		}
		m.start += (at + bits.Len64(marks) - m.start) & whether(marks)
	}
}

// end counts the characters of the line up to a place.
func (m *lineMeter) end(b []byte, end int) {
	if m.counted != m.start {
		m.counted, m.upTo, m.chars = m.start, m.start, 0
	}
	m.chars += characters(b[m.upTo:end])
	m.upTo = end
	m.longest = max(m.longest, m.chars)
}

// drop takes the first n bytes off the buffer, which ends with b.
func (m *lineMeter) drop(b []byte, n int) {
	m.end(b, len(b))
	m.seen, m.start, m.counted, m.upTo = len(b)-n, m.start-n, m.counted-n, m.upTo-n
}

// total is what was counted. A line without an end counts if it has bytes.
func (m *lineMeter) total() (lines, longest int) {
	if m.start < m.seen {
		return m.lines + 1, m.longest
	}
	return m.lines, m.longest
}
