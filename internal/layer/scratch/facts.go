package scratch

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

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
	_, err = readLines(dir, FactsName(sha), func(text []byte, tooLong bool) {
		if tooLong || indexed[string(text)] {
			return
		}
		if row, ok := p.parse(text, now); ok && row.SHA256 == sha {
			p.Rows = append(p.Rows, row)
			added++
		}
	})
	return added, err
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
