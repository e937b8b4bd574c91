package scan

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"io"
)

// maxUnpacked bounds what is unpacked of one text, all members together.
const maxUnpacked = 1 << 20

// What looking at a member counts at least: of an archive, and where the bytes
// after its magic number are not compressed data.
const (
	memberCost = 1 << 10
	falseCost  = 64 << 10
)

var (
	gzipMagic = []byte("\x1f\x8b\x08")    // RFC 1952, deflate
	zipMagic  = []byte("PK\x03\x04")      // a local file header
	packedRun = []string{"H4sI", "UEsDB"} // the same in base64
)

// archived scans the members of gzip and zip files whose bytes are in the
// text. What is in a member that is an archive itself is not unpacked.
func (t *text) archived() {
	if t.packed {
		return
	}
	t.members(t.b, func(plain []byte, how string, at, n int) { t.within(plain, how, at, at+n) })
}

// members calls fn with what the members of gzip and zip files in b hold, for each
// that holds anything, its kind, its place and its length, until no more is unpacked
// of the text. Each byte is searched once for either kind.
func (t *text) members(b []byte, fn func(plain []byte, how string, at, n int)) {
	gzip, zip := -1, -1 // the places of the next ones
	for p := 0; t.runs.archive >= memberCost; {
		if gzip < p {
			gzip = indexFrom(b, p, gzipMagic)
		}
		if zip < p {
			zip = indexFrom(b, p, zipMagic)
		}
		at, how := gzip, "gzip"
		if zip < gzip {
			at, how = zip, "zip"
		}
		if at == len(b) {
			return
		}
		plain, n, sound := t.unpack(b[at:])
		if len(plain) > 0 {
			fn(plain, how, at, n)
		}
		if p = at + len(gzipMagic); sound {
			p = at + n
		}
	}
}

// archivedRun scans the members of an archive in base64; false when the run is
// none.
func (t *text) archivedRun(head, raw []byte, joined bool, start, end int) bool {
	if t.packed || !hasPrefixAt(head, 0, packedRun[0], false) && !hasPrefixAt(head, 0, packedRun[1], false) {
		return false
	}
	chars := t.runOf(raw, joined)
	if _, ok := t.runs.afford(len(chars), true); !ok {
		return true
	}
	packed := make([]byte, base64Of(chars).DecodedLen(len(chars)))
	n, _ := base64Of(chars).Decode(packed, chars)
	t.members(packed[:n], func(plain []byte, how string, _, _ int) { t.within(plain, "base64>"+how, start, padded(t.b, end)) })
	return true
}

// unpack is what the member at the start of b holds, as far as it may still be
// decoded, the bytes that the member takes, and whether it is undamaged.
func (t *text) unpack(b []byte) (plain []byte, n int, sound bool) {
	t.runs.archive -= memberCost
	most := t.runs.unpackable()
	if most < shortest {
		return nil, 0, false
	}
	body := 0
	if b[0] != 'P' && !gzipHeader(b) {
		t.runs.archive -= falseCost
		return nil, 0, false
	}
	if b[0] == 'P' {
		if len(b) < 30 || binary.LittleEndian.Uint16(b[8:]) != 8 { // what is stored is there as it is
			return nil, 0, false
		}
		if body = 30 + int(binary.LittleEndian.Uint16(b[26:])) + int(binary.LittleEndian.Uint16(b[28:])); body > len(b) {
			return nil, 0, false
		}
	}
	in := bytes.NewReader(b[body:])
	from, err := t.runs.unpacker(in, b[0] == 'P')
	if err == nil {
		plain, err = io.ReadAll(io.LimitReader(from, int64(most))) // of a cut member, what there is
		t.runs.archive -= len(plain)
	}
	if len(plain) == 0 || err != nil && err != io.ErrUnexpectedEOF {
		t.runs.archive -= falseCost
		return plain, len(b) - in.Len(), false
	}
	return plain, len(b) - in.Len(), true
}

// gzipHeader reports whether the header of a member of gzip is one: flags that
// are in use, and what compressors say of themselves (RFC 1952, 2.3.1).
func gzipHeader(b []byte) bool {
	return len(b) >= 18 && b[3]&0xe0 == 0 && (b[8] == 0 || b[8] == 2 || b[8] == 4) && (b[9] <= 13 || b[9] == 0xff)
}

// unpacker reads a member that begins with in. Its memory serves the next
// member.
func (m *runMemory) unpacker(in *bytes.Reader, zip bool) (io.Reader, error) {
	switch {
	case zip && m.flate == nil:
		m.flate = flate.NewReader(in)
		return m.flate, nil
	case zip:
		return m.flate, m.flate.(flate.Resetter).Reset(in, nil)
	case m.gzip == nil:
		m.gzip = new(gzip.Reader)
	}
	if err := m.gzip.Reset(in); err != nil {
		return nil, err
	}
	m.gzip.Multistream(false)
	return m.gzip, nil
}
