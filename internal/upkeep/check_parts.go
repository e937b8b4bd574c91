package upkeep

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// auditor returns the callbacks that the check needs from an audit of the journal.
func (c *checker) auditor() journal.Auditor {
	if data, err := durable.ReadFile(c.Engine.Disk.State, engine.MetaName, engine.MetaLimit); err == nil {
		if json.Unmarshal(data, &c.closed) != nil {
			c.closed = engine.Meta{}
		}
	}
	c.heads = map[uint64][32]byte{}
	if c.closed.NextSeq > 1 {
		c.heads[c.closed.NextSeq-1] = [32]byte{}
	}
	return journal.Auditor{
		Problem: c.rowProblem, Row: c.row, Deep: c.deep, Watch: c.heads,
		Start: func(known *journal.Known) { c.known = known },
	}
}

// rowProblem takes a problem of the journal.
func (c *checker) rowProblem(p journal.Problem) {
	c.problem(p.Code, p.Name, p.Seq, p.Detail)
	c.rows = append(c.rows, p)
}

// unlessAccepted takes a problem that the operator may have accepted.
func (c *checker) unlessAccepted(p journal.Problem) {
	if c.known.Accepts(p) {
		c.out.Counters.Accepted++
		return
	}
	c.rowProblem(p)
}

// head compares the journal with the head that the last Close saw: one that
// was cut off ends before it.
func (c *checker) head() {
	m := c.closed
	if c.known == nil || m.NextSeq < 2 || c.known.HeadTold(m.Head) {
		return
	}
	p := journal.Problem{Seq: m.NextSeq - 1, Evidence: m.Head}
	now := c.heads[m.NextSeq-1]
	switch {
	case m.NextSeq > c.pos.Seq+1:
		p.Code, p.Seq, p.Detail = journal.ProblemTruncated, c.pos.Seq+1, "the journal ends before the head recorded in meta.json"
	case m.Head == "" || now == [32]byte{} || c.known.RowLeads(p.Seq, m.Head, hex.EncodeToString(now[:])):
		return
	default:
		p.Code, p.Detail = journal.ProblemHead, "the newest row differs from the head recorded in meta.json"
	}
	c.unlessAccepted(p)
}

// follow notes which rows are not there.
func (c *checker) follow(seq uint64) {
	if seq > c.last+1 {
		c.gaps = append(c.gaps, [2]uint64{c.last + 1, seq - 1})
	}
	c.last = max(c.last, seq)
}

// unlinked reports whether two rows of a path cannot be expected to be linked:
// one of them is gone, or its path was erased.
func (c *checker) unlinked(seq, prev, was uint64) bool {
	return slices.ContainsFunc([]uint64{seq, prev, was}, c.known.RowChanged) ||
		slices.ContainsFunc(c.gaps, func(g [2]uint64) bool { return prev >= g[0] && prev <= g[1] })
}

// linkBroken names a row that does not point at the row of its path before it.
func (c *checker) linkBroken(path string, seq, prev, was uint64) {
	c.unlessAccepted(journal.Problem{
		Code: "history_link_broken", Seq: seq, Name: path, Evidence: fmt.Sprint(prev, "/", was),
		Detail: "the row does not refer to the previous row of its path",
	})
}

// manifestMissing reports a row whose mutations cannot be read. The row counts as a
// gap, so links to it are not checked.
func (c *checker) manifestMissing(rec *journal.Record) {
	c.gaps = append(c.gaps, [2]uint64{rec.Seq, rec.Seq})
	c.unlessAccepted(journal.Problem{
		Code: "manifest_missing", Seq: rec.Seq, Name: engine.ManifestDir + "/" + rec.Manifest, Evidence: rec.Manifest,
		Detail: "the row has more changes than a line holds, and the file with them is missing or damaged",
	})
}

// erasedMark ends the name of the mark that is left where a kept version was
// erased.
const erasedMark = ".erased"

// exportedRow begins the import_id of a row that came from an export.
const exportedRow = "export:"
