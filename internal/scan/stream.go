package scan

import (
	"bytes"
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
	lines   lineMeter
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
	st.lines.add(p)
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
	st.lines.add(b)
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
	if held := st.r.Findings; held != nil {
		st.r.Findings = append(make([]Finding, 0, len(held)), held...)
		clear(held)
		st.text.runs.listed = held[:0]
	}
	st.text.free()
	st.text = nil
	st.r.LineCount, st.r.MaxLineLen = st.lines.total()
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
	st.settled = cut - drop
	return drop
}

// lineMeter counts lines and characters over pieces.
type lineMeter struct {
	lines, longest, current int
	open                    bool // the current line has bytes
}

func (m *lineMeter) add(p []byte) {
	for len(p) > 0 {
		if !m.open && len(p) > m.longest {
			// Lines that end within the length of the longest are none longer.
			if last := m.skip(p); last > 0 {
				m.lines += bytes.Count(p[:last], []byte{'\n'})
				p = p[last:]
				continue
			}
		}
		end := bytes.IndexByte(p, '\n')
		line := p
		if end >= 0 {
			line, p = p[:end], p[end+1:]
		} else {
			p = nil
		}
		if m.open || len(line) > m.longest || end < 0 {
			m.current += characters(line)
			m.longest = max(m.longest, m.current)
		}
		m.open = end < 0
		if end >= 0 {
			m.lines++
			m.current = 0
		}
	}
}

// skip is the end of the first lines of p, none of which has more bytes than
// the longest so far has characters.
func (m *lineMeter) skip(p []byte) int {
	at := 0
	for at+m.longest < len(p) {
		last := lastNewline(p[at : at+m.longest+1])
		if last < 0 {
			break
		}
		at += last + 1
	}
	return at
}

func (m *lineMeter) total() (lines, longest int) {
	if m.open {
		return m.lines + 1, m.longest
	}
	return m.lines, m.longest
}
