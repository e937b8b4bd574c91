package scratch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// The index has one JSON object per line and one line per put, oldest first. It is a
// cache: a line that cannot be read is skipped, and lost lines are restored from the
// facts files of the objects.

const (
	maxIndexLine = 64 << 10 // bytes; a longer line was not written by this program
	// compactFrom is the number of lines from which an index is rewritten when
	// more than half of it is dead.
	compactFrom = 64
)

// Entry is one entry of the scratchpad, and its line of the index.
type Entry struct {
	SHA256      string `json:"sha256"`
	Bytes       int64  `json:"bytes"`
	Label       string `json:"label"`
	ContentType string `json:"content_type"`
	Notes       string `json:"notes"`
	Caller      string `json:"caller"`
	TS          string `json:"ts"`
	ExpiresAt   string `json:"expires_at,omitempty"`
	BinExists   bool   `json:"-"`                 // its bytes are stored
	Rebuilt     bool   `json:"rebuilt,omitempty"` // the index had lost it: label, notes and caller are unknown, ts is the time of the file
}

// line returns the line of the entry in the index.
func (e Entry) line() []byte {
	text, _ := jsontext.Encode(e, "") // strings, a number and a flag: that cannot fail
	return text
}

// Row is one line that was read.
type Row struct {
	Entry
	text []byte // the original text, with unknown fields; nil for none
	Over bool   // it has expired
}

// Pad is the content of scratch/ at one moment.
type Pad struct {
	Rows      []Row            // oldest first, those of lost lines before all others
	Stored    map[string]bool  // objects that exist
	Facts     map[string]bool  // objects with a facts file
	sizes     map[string]int64 // of them
	exists    bool             // the index exists
	Odd       bool             // something other than a file has its name
	Torn      bool             // its last line has no end
	lines     int
	Malformed int
	Rebuilt   int      // objects known only by their file
	recalled  int      // rows that only the facts files had
	Unlisted  []string // objects of which the index has lost rows
}

// Open reads the index and the names of the objects.
func (s *Layer) Open() (*Pad, error) {
	pad := &Pad{Stored: map[string]bool{}, Facts: map[string]bool{}, sizes: map[string]int64{}}
	dir, err := s.StatePart(Dir)
	if dir == nil || err != nil {
		return pad, err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return pad, err
	}
	for _, name := range names {
		if sha, ok := strings.CutSuffix(name, BinSuffix); ok && engine.ValidSHA256(sha) {
			pad.Stored[sha] = true
		} else if sha, ok := FactsOf(name); ok {
			pad.Facts[sha] = true
		}
	}
	if err := pad.readIndex(dir, s.Now()); err != nil {
		return pad, err
	}
	return pad, pad.rebuild(dir, s.Now())
}

func (p *Pad) readIndex(dir fsx.Dir, now time.Time) error {
	torn, err := readLines(dir, IndexFile, func(text []byte, tooLong bool) {
		p.lines++
		if row, ok := p.parse(text, now); ok && !tooLong {
			p.Rows = append(p.Rows, row)
		} else {
			p.Malformed++
		}
	})
	if p.exists, p.Odd, p.Torn = err == nil, engine.IsOdd(err), torn; engine.IsUnread(err) {
		return err
	}
	return nil
}

// readLines reads the lines of a file of the scratchpad that are not empty. torn means
// that the last one has no end.
func readLines(dir fsx.Dir, name string, fn func(text []byte, tooLong bool)) (torn bool, err error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxIndexLine)
	for {
		line, err := in.ReadSlice('\n')
		tooLong := false
		for errors.Is(err, bufio.ErrBufferFull) {
			tooLong = true
			line, err = in.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return false, err
		}
		if text := bytes.TrimSpace(line); len(text) > 0 || tooLong {
			fn(text, tooLong)
		}
		if err == io.EOF {
			return len(line) > 0 || tooLong, nil
		}
	}
}

// parse reads one line. It is lenient: another program may have written it, and only
// its hash is required.
func (p *Pad) parse(text []byte, now time.Time) (Row, bool) {
	row := Row{text: bytes.Clone(text)}
	var odd *json.UnmarshalTypeError // of a field, which keeps its zero value
	if err := json.Unmarshal(text, &row.Entry); err != nil && !errors.As(err, &odd) {
		return Row{}, false
	}
	if row.SHA256 = strings.ToLower(row.SHA256); !engine.ValidSHA256(row.SHA256) {
		return Row{}, false
	}
	row.BinExists = p.Stored[row.SHA256]
	if until := engine.ParseTime(row.ExpiresAt); !until.IsZero() && !until.After(now) {
		row.Over = true
	}
	return row, true
}

// matching passes the entries with the given hash and label, newest first; empty
// values match any.
func (p *Pad) matching(sha, label string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := len(p.Rows) - 1; i >= 0; i-- {
			row := &p.Rows[i]
			if !row.Over && (sha == "" || row.SHA256 == sha) && (label == "" || row.Label == label) && !yield(row.Entry) {
				return
			}
		}
	}
}

// Find returns the newest entry with the given hash and label; empty values match any.
func (p *Pad) Find(sha, label string) (Entry, bool) {
	for e := range p.matching(sha, label) {
		return e, true
	}
	return Entry{}, false
}

// expiry is when the newest entry of the bytes with the label expires.
func (p *Pad) expiry(sha, label string) string {
	for i := len(p.Rows) - 1; i >= 0; i-- {
		if row := &p.Rows[i]; row.SHA256 == sha && row.Label == label {
			return row.ExpiresAt
		}
	}
	return ""
}

// kept returns the objects that an entry keeps.
func (p *Pad) kept() map[string]bool {
	kept := map[string]bool{}
	for i := range p.Rows {
		if row := &p.Rows[i]; !row.Over {
			kept[row.SHA256] = true
		}
	}
	return kept
}

// Over lists objects that no entry keeps any longer, but for one that is about
// to be put.
func (p *Pad) Over(but string) []string {
	kept, seen := p.kept(), map[string]bool{}
	kept[but] = true
	var list []string
	for _, row := range p.Rows {
		if !kept[row.SHA256] && !seen[row.SHA256] && p.Stored[row.SHA256] && len(list) < maxExpired {
			seen[row.SHA256] = true
			list = append(list, row.SHA256)
		}
	}
	return list
}

// Expired lists objects that can be removed because they have expired. Entries with
// such a name that are not files stay: they must not block the others.
func (s *Layer) Expired(p *Pad, but string) ([]string, error) {
	list := p.Over(but)
	if len(list) == 0 {
		return nil, nil
	}
	dir, err := s.StatePart(Dir)
	if dir == nil || err != nil {
		return nil, err
	}
	defer dir.Close()
	var gone []string
	for _, sha := range list {
		if st, err := dir.Lstat(BinName(sha)); err == nil && st.Kind == fsx.Regular {
			gone = append(gone, sha)
		}
	}
	return gone, nil
}

// Total is the size of all objects but those that go.
func (p *Pad) Total(gone []string) int64 {
	var sum int64
	for _, size := range p.sizes {
		sum += size
	}
	for _, sha := range gone {
		sum -= p.sizes[sha]
	}
	return sum
}

// indexWith is the change of the index that adds a row: an append, or the
// rewritten index when it has lost lines or holds too much that is dead.
func (s *Layer) indexWith(c *engine.Commit, p *Pad, gone []string, row Entry) (*engine.Mutation, error) {
	dead := p.Malformed
	for i := range p.Rows {
		if p.Rows[i].Over {
			dead++
		}
	}
	if len(gone) > 0 || p.Odd || p.Rebuilt+p.recalled+p.Malformed > 0 || p.lines >= compactFrom && 2*dead > p.lines {
		m, err := s.IndexWithout(c, p, gone)
		if err == nil {
			m.Hold(append(bytes.Clone(m.Content.Mem), row.line()...))
		}
		return m, err
	}
	return addedRow(row, p.Torn), nil
}

// addedRow adds a row to the index.
func addedRow(row Entry, torn bool) *engine.Mutation {
	m := mutation(IndexFile, "scratch_index", engine.OpAppend)
	line := row.line()
	if torn { // a line that was cut off must not swallow ours
		line = append([]byte{'\n'}, line...)
	}
	m.Hold(line)
	return m
}

// IndexWithout returns the rewritten index without dead entries. Lines are copied
// unchanged. Lines that cannot be read are dropped, so the old index is moved to
// quarantine/ if it has some; anything that is not a file is moved there too.
func (s *Layer) IndexWithout(c *engine.Commit, p *Pad, gone []string) (*engine.Mutation, error) {
	if (p.Malformed > 0 || p.Odd) && !c.Req.DryRun {
		if _, err := s.QuarantineObject(Dir, IndexFile); err != nil {
			return nil, err
		}
	}
	kept, going := p.kept(), map[string]bool{}
	for _, sha := range gone {
		going[sha] = true
	}
	var b bytes.Buffer
	for i := range p.Rows {
		row := &p.Rows[i]
		// The rows of an object that expired but cannot be removed yet must stay: they
		// show that it may be removed.
		if going[row.SHA256] || row.Over && (kept[row.SHA256] || !row.BinExists) {
			continue
		}
		b.Write(row.asLine())
	}
	m := mutation(IndexFile, "scratch_index", engine.OpOverwrite)
	m.Hold(b.Bytes())
	return m, nil
}

// Each object has a facts file, scratch/<sha256>.jsonl, with the lines of the index for
// this object. If the index is lost, every entry is restored with its label, its notes
// and its expiry time. The facts file is removed with the object, unlike anything that
// the journal would remember. Objects that were put before facts files existed have
// none until they are put again.

// factsRewrite is the size in bytes from which a facts file is rewritten when half of
// its lines are expired.
const factsRewrite = 64 << 10

const factsSuffix = ".jsonl"

func FactsName(sha string) string { return sha + factsSuffix }

// FactsOf returns the hash in the name of a facts file.
func FactsOf(name string) (sha string, ok bool) {
	sha, ok = strings.CutSuffix(name, factsSuffix)
	return sha, ok && engine.ValidSHA256(sha)
}

// mutation changes a file of the scratchpad.
func mutation(name, kind string, op engine.WriteOp) *engine.Mutation {
	m := engine.NewObject(Dir+"/"+name, kind, op)
	m.Ungated, m.AbsentOK = true, op == engine.OpDelete
	return m
}

func scratchFacts(sha string, op engine.WriteOp) *engine.Mutation {
	return mutation(FactsName(sha), "scratch_index", op)
}

func scratchObject(sha string, op engine.WriteOp) *engine.Mutation {
	return mutation(BinName(sha), "scratch", op)
}

// removal removes objects and their facts files.
func (p *Pad) removal(gone ...string) (muts []*engine.Mutation) {
	for _, sha := range gone {
		if p.Stored[sha] {
			muts = append(muts, scratchObject(sha, engine.OpDelete))
		}
		if p.Facts[sha] {
			muts = append(muts, scratchFacts(sha, engine.OpDelete))
		}
	}
	return muts
}

// factsWith returns the change to the facts file of an object that adds a row: an
// append, or a rewrite if there is no file yet, or it has too many lines.
func (s *Layer) factsWith(c *engine.Commit, p *Pad, row Entry) (*engine.Mutation, error) {
	var live bytes.Buffer
	for i := range p.Rows {
		if r := &p.Rows[i]; r.SHA256 == row.SHA256 && !r.Over && !r.Rebuilt {
			live.Write(r.asLine())
		}
	}
	size, err := s.factsSize(c, p, row.SHA256)
	if err != nil {
		return nil, err
	}
	if size == 0 || size >= factsRewrite && size >= 2*int64(live.Len()) {
		m := scratchFacts(row.SHA256, engine.OpOverwrite)
		m.Hold(append(live.Bytes(), row.line()...))
		return m, nil
	}
	return addedFacts(row), nil
}

// addedFacts adds a row to the facts file of an object.
func addedFacts(row Entry) *engine.Mutation {
	m := scratchFacts(row.SHA256, engine.OpAppend)
	m.Hold(append([]byte{'\n'}, row.line()...)) // after a line that was cut off
	return m
}

// factsSize returns the size of the facts file of an object, or 0 if there is none.
// Anything with its name that is not a file is moved to quarantine/.
func (s *Layer) factsSize(c *engine.Commit, p *Pad, sha string) (int64, error) {
	if !p.Facts[sha] {
		return 0, nil
	}
	st, err := s.LstatPart(Dir, FactsName(sha))
	if engine.IsAbsent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if st.Kind == fsx.Regular {
		return st.Size, nil
	}
	if !c.Req.DryRun {
		_, err = s.QuarantineObject(Dir, FactsName(sha))
	}
	return 0, err
}

// asLine returns the line of a row in the index.
func (r *Row) asLine() []byte {
	if r.text == nil {
		return r.line()
	}
	return append(bytes.Clone(r.text), '\n')
}

// rebuild lists the objects that no line of the index names. Lost lines of the index
// are read from the facts file of the object; an object without one is still listed,
// without its label.
func (p *Pad) rebuild(dir fsx.Dir, now time.Time) error {
	known, indexed := map[string]bool{}, map[string]bool{}
	whole := p.exists && p.Malformed == 0
	for i := range p.Rows {
		row := &p.Rows[i]
		known[row.SHA256] = true
		if row.BinExists && row.Bytes > 0 && row.Bytes <= MaxObject {
			p.sizes[row.SHA256] = row.Bytes
		}
		if !whole {
			indexed[string(row.text)] = true
		}
	}
	var lost []Row
	for _, sha := range slices.Sorted(maps.Keys(p.Stored)) {
		recalled := 0
		if p.Facts[sha] && (!whole || !known[sha]) {
			var err error
			if recalled, err = p.recall(dir, sha, indexed, now); err != nil {
				return err
			}
		}
		if p.recalled += recalled; recalled > 0 || !known[sha] {
			p.Unlisted = append(p.Unlisted, sha)
		}
		row, err := p.weigh(dir, sha)
		if err != nil {
			return err
		}
		if row != nil && recalled == 0 && !known[sha] {
			lost = append(lost, *row)
		}
	}
	if p.recalled > 0 { // rows of two sources are sorted by time
		sort.SliceStable(p.Rows, func(i, j int) bool { return engine.ParseTime(p.Rows[i].TS).Before(engine.ParseTime(p.Rows[j].TS)) })
	}
	p.Rebuilt = len(lost)
	p.Rows = append(lost, p.Rows...)
	return nil
}

// weighAll takes the size of every object from its file: before the scratchpad
// is called full, the index is not believed.
func (s *Layer) weighAll(p *Pad) error {
	dir, err := s.StatePart(Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	clear(p.sizes)
	for sha := range p.Stored {
		if _, err := p.weigh(dir, sha); err != nil {
			return err
		}
	}
	return nil
}

// recall adds the rows of a facts file that the index does not have.
func (p *Pad) recall(dir fsx.Dir, sha string, indexed map[string]bool, now time.Time) (added int, err error) {
	if _, err = readLines(dir, FactsName(sha), func(text []byte, tooLong bool) {
		if tooLong || indexed[string(text)] {
			return
		}
		if row, ok := p.parse(text, now); ok && row.SHA256 == sha {
			p.Rows = append(p.Rows, row)
			added++
		}
	}); engine.IsUnread(err) {
		return added, err
	}
	return added, nil
}

// weigh determines the size of an object that has no row. The row contains what the
// file alone shows about the object.
func (p *Pad) weigh(dir fsx.Dir, sha string) (*Row, error) {
	if p.sizes[sha] > 0 {
		return nil, nil
	}
	st, err := dir.Lstat(BinName(sha))
	if engine.IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if st.Kind == fsx.Regular {
		p.sizes[sha] = st.Size
	}
	return &Row{Entry: Entry{
		SHA256: sha, Bytes: st.Size, TS: stamp.Text(st.ModTime()), BinExists: true, Rebuilt: true,
	}}, nil
}

// The states of a stored object.
const (
	scratchAbsent = iota
	scratchIntact
	scratchDamaged
)

// inspectScratch compares a stored object with its name. One that is intact is
// made durable: its writer may not have done so.
func (s *Layer) inspectScratch(sha string) (int, error) {
	dir, err := s.StatePart(Dir)
	if dir == nil || err != nil {
		return scratchAbsent, err
	}
	defer dir.Close()
	f, err := dir.Open(BinName(sha), fsx.Read, 0)
	switch {
	case engine.IsAbsent(err):
		return scratchAbsent, nil
	case engine.IsOdd(err): // something else has its name
		return scratchDamaged, nil
	case err != nil:
		return scratchAbsent, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return scratchAbsent, err
	}
	d, t, err := engine.Measure(io.NewSectionReader(f, 0, st.Size))
	if err != nil {
		return scratchAbsent, err
	}
	if d.Hex() != sha {
		// The remembered hash of the file is not valid.
		s.Hashes.Put(st, engine.HashEntry{SHA: d.Hex(), State: d.State(), Traits: t})
		return scratchDamaged, nil
	}
	if s.Opts.Sync == engine.SyncOff {
		return scratchIntact, nil
	}
	if err := f.Sync(); err != nil {
		return scratchIntact, s.Poison(err)
	}
	return scratchIntact, s.SyncDir(dir)
}

const BinSuffix = ".bin"

func BinName(sha string) string { return sha + BinSuffix }

func Path(sha string) string {
	return engine.StateDirName + "/" + Dir + "/" + BinName(sha)
}
