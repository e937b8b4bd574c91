package engine

import (
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Changed returns the files that the commit has changed, or those of the commit
// that its idempotency key had completed.
func (c *Commit) Changed() []call.FileResult {
	if c.Replayed != nil {
		return ChangedBy(c.Replayed)
	}
	list := []call.FileResult{}
	for i, m := range c.Muts {
		if m.Forgotten { // the old name of a move
			continue
		}
		op := "write"
		switch {
		case m.Source != nil:
			op = "move"
		case m.Op == OpDelete:
			op = "delete"
		}
		seq := uint64(0)
		if c.Rec != nil {
			seq = c.Rec.Seq
		}
		list = append(list, fileResult(op, journal.Mutation{Path: m.Path, SHA256: m.SHA, PrevSHA256: m.Prev.SHA, Bytes: m.Size}, seq, i))
	}
	return list
}

// ChangedBy returns the files of the workspace that a commit changed.
func ChangedBy(rec *journal.Record) []call.FileResult {
	list := []call.FileResult{}
	for i := range rec.Muts {
		m := &rec.Muts[i]
		op := "write"
		switch {
		case m.Class != "":
			continue
		case m.From != "":
			op = "move"
		case m.SHA256 == "":
			op = "delete"
		}
		list = append(list, fileResult(op, *m, rec.Seq, i))
	}
	return list
}

// fileResult returns the i-th file of a row; seq is 0 if there is no row.
func fileResult(op string, m journal.Mutation, seq uint64, i int) call.FileResult {
	sha, _ := call.ParseDigest(m.SHA256)
	prev, _ := call.ParseDigest(m.PrevSHA256)
	out := call.FileResult{Op: op, Path: m.Path, SHA256: sha, PrevSHA256: prev, Bytes: m.Bytes}
	if seq > 0 {
		out.JournalID = JournalID(seq, i)
	}
	return out
}
