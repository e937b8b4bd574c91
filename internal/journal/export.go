package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// An export is the journal as one stream of lines: a header, every row to the
// letter, and a footer with the hash of everything before it. After a row that
// has a manifest are its mutations, one a line; an export without any is of
// version 1.

// ExportFormat names the format of an export, ExportVersion its version.
const (
	ExportFormat  = "resilientwrite.journal-export"
	ExportVersion = 2
)

// ExportHeader is the first line of an export.
type ExportHeader struct {
	Format    string `json:"format"`
	Version   int    `json:"version"`
	Head      uint64 `json:"head"` // seq of the newest row that is exported
	CreatedAt string `json:"created_at"`
	Tool      string `json:"tool_version"`
}

// ExportFooter is the last line of an export.
type ExportFooter struct {
	End       bool   `json:"end"`
	First     uint64 `json:"first"` // seq of the first row; 0 if there is none
	Last      uint64 `json:"last"`
	Rows      int64  `json:"rows"`
	Malformed int64  `json:"malformed"` // lines that were left out because they are no rows
	Chain     string `json:"chain"`     // hash of the last row
	SHA256    string `json:"sha256"`    // of all bytes before this line
}

var (
	// ErrExport is wrapped by the error of an export that is incomplete or damaged.
	ErrExport = errors.New("the export is damaged or cut off")
	// ErrNewerExport is returned for an export of a later version.
	ErrNewerExport = errors.New("the export was made by a newer version")
)

// Export writes the rows after that readers may see now, archived ones
// too, up to the head that is given, 0 for all. Rows that are added meanwhile are
// left out. It takes constant memory.
func (l *Log) Export(w io.Writer, head ExportHeader, after uint64, each func() error) (ExportFooter, error) {
	foot := ExportFooter{End: true}
	if err := l.CatchUp(); err != nil {
		return foot, err
	}
	head.Format, head.Version = ExportFormat, max(head.Version, 1)
	if now := l.visible(); head.Head == 0 || head.Head > now {
		head.Head = now
	}
	if l.o.Manifests != nil && l.o.Manifests.Any() {
		head.Version = ExportVersion
	}
	sum := sha256.New()
	buf := bufio.NewWriterSize(w, 64<<10)
	out := io.MultiWriter(sum, buf)
	if err := writeLine(out, head); err != nil {
		return foot, err
	}
	bad, err := l.rows(after+1, func(rec *Record, line []byte, pos Pos) error {
		if rec.Seq > head.Head {
			return errStop
		}
		foot.First = cmp.Or(foot.First, rec.Seq)
		foot.Rows++
		foot.Last, foot.Chain = rec.Seq, chainText(pos.Chain)
		out.Write(line) // buf keeps its error
		if _, err := out.Write([]byte{'\n'}); err != nil {
			return err
		}
		if head.Version > 1 {
			if err := l.exportManifest(out, rec); err != nil {
				return err
			}
		}
		return each()
	})
	if err != nil {
		return foot, err
	}
	foot.Malformed, foot.SHA256 = int64(bad), hex.EncodeToString(sum.Sum(nil))
	if err := writeLine(buf, foot); err != nil {
		return foot, err
	}
	return foot, buf.Flush()
}

func writeLine(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// Imported is what reading an export found.
type Imported struct {
	Header  ExportHeader
	Footer  ExportFooter
	Aborted map[uint64]bool // commits that did not happen
}

// ReadExport reads an export and verifies it: header and footer, the order of the rows,
// the chain, the number of rows and the final hash. It passes every row to each before
// the whole is known to be sound. A defect is an ErrExport.
func ReadExport(r io.Reader, each func(*Record) error) (Imported, error) {
	s := NewSlices()
	out, err := s.Add(r, each)
	if err == nil {
		err = s.Settle()
	}
	return out, err
}

// Slices reads consecutive exports: each begins after the end of the previous one.
type Slices struct {
	in    *bufio.Reader
	sum   hash.Hash
	known *Known
	out   Imported
	rows  int64
	first uint64
	last  Pos
	doubt []doubt // what notes have to explain

	held   *Record // the last row, until its manifest is read
	weight int     // of that, in bytes
}

// NewSlices begins with the first one.
func NewSlices() *Slices {
	return &Slices{known: NewKnown(), out: Imported{Aborted: map[uint64]bool{}}}
}

// Add reads and verifies the next export, as [ReadExport] does, but for what only
// notes in later ones can explain. The result has all commits that did not happen.
func (v *Slices) Add(r io.Reader, each func(*Record) error) (Imported, error) {
	v.in, v.sum, v.rows, v.first = bufio.NewReaderSize(r, 64<<10), sha256.New(), 0, 0
	v.out.Header, v.out.Footer = ExportHeader{}, ExportFooter{}
	err := v.header()
	for done := false; !done && err == nil; {
		done, err = v.line(each)
	}
	return v.out, err
}

// doubt is a place where the chain is interrupted.
type doubt struct {
	seq      uint64 // of the row before
	was, now string // the hash that the next row carries, and the one that is
	from, to uint64 // rows that are not there
	torn     bool   // the row after them records that bytes were torn
}

// maxDoubts bounds the memory that a hostile export takes.
const maxDoubts = 1 << 20

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrExport, fmt.Sprintf(format, args...))
}

// next returns the next line without its newline.
func (v *Slices) next() ([]byte, error) {
	var line []byte
	for {
		part, err := v.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxRecord+1024:
			return nil, damaged("a line is too long")
		case err == nil:
			return line[:len(line)-1], nil
		case err == io.EOF:
			return nil, damaged("it ends before its last line")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func (v *Slices) header() error {
	line, err := v.next()
	if err != nil {
		return err
	}
	h := &v.out.Header
	if json.Unmarshal(line, h) != nil || h.Format != ExportFormat || h.Version < 1 {
		return damaged("the first line is no header")
	}
	if h.Version > ExportVersion {
		return ErrNewerExport
	}
	v.hash(line)
	return nil
}

func (v *Slices) hash(line []byte) {
	v.sum.Write(line)
	v.sum.Write([]byte{'\n'})
}

// line takes one row, or the footer.
func (v *Slices) line(each func(*Record) error) (done bool, err error) {
	line, err := v.next()
	if err != nil {
		return false, err
	}
	if bytes.HasPrefix(line, []byte(exportedMutPrefix)) {
		return false, v.manifestLine(line)
	}
	if err := v.handOver(each); err != nil {
		return false, err
	}
	rec, ok := decode(line)
	if !ok {
		return true, v.footer(line)
	}
	v.hash(line)
	if v.last.Seq > 0 && rec.Seq <= v.last.Seq || rec.Seq > v.out.Header.Head {
		return false, damaged("row %d is out of order", rec.Seq)
	}
	switch was, now := rec.Chain, chainText(v.last.Chain); {
	case rec.Seq > v.last.Seq+1:
		if v.last.Seq > 0 {
			torn := rec.Note != nil && rec.Note.What == NoteTorn
			v.doubt = append(v.doubt, doubt{from: v.last.Seq + 1, to: rec.Seq - 1, torn: torn})
		}
	case was != now:
		v.doubt = append(v.doubt, doubt{seq: v.last.Seq, was: was, now: now})
	}
	if len(v.doubt) > maxDoubts {
		return false, damaged("the chain is broken")
	}
	if v.rows == 0 {
		v.first = rec.Seq
	}
	v.rows++
	v.last = Pos{Seq: rec.Seq, Chain: chainOf(line)}
	v.known.Take(rec)
	if rec.Kind == KindAbort {
		v.out.Aborted[rec.Ref] = true
	}
	v.held = rec
	return false, nil
}

func (v *Slices) footer(line []byte) error {
	f := &v.out.Footer
	if json.Unmarshal(bytes.TrimSpace(line), f) != nil || !f.End {
		return damaged("a line after row %d is not a row", v.last.Seq)
	}
	if _, err := v.in.ReadByte(); err != io.EOF {
		if err != nil {
			return err
		}
		return damaged("something follows the last line")
	}
	chain := ""
	if v.rows > 0 {
		chain = chainText(v.last.Chain)
	}
	switch {
	case f.SHA256 != hex.EncodeToString(v.sum.Sum(nil)):
		return damaged("its bytes are not those that were exported")
	case f.Rows != v.rows || f.First != v.first || f.Last != v.last.Seq || f.Chain != chain:
		return damaged("its last line names other rows")
	}
	return nil
}

// Settle judges what only the notes can explain.
func (v *Slices) Settle() error {
	for _, d := range v.doubt {
		switch {
		case d.to > 0 && !d.torn && !v.known.explains(d.from, d.to) && !v.known.acceptsRow(ProblemMissing, d.from, fmt.Sprint(d.from, "-", d.to)):
			return damaged("rows %d to %d are missing", d.from, d.to)
		case d.to == 0 && !v.known.RowLeads(d.seq, d.was, d.now) && !v.known.acceptsRow(ProblemChain, d.seq+1, d.was+">"+d.now):
			return damaged("row %d does not carry the hash of the row before", d.seq+1)
		}
	}
	return nil
}

// acceptsRow is Accepts where the segment is not known.
func (k *Known) acceptsRow(code string, seq uint64, evidence string) bool {
	for a := range k.accepted {
		if a.Code == code && a.Seq == seq && a.Evidence == evidence {
			return true
		}
	}
	return false
}
