package observe

import (
	"fmt"
	"slices"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// A group is the changes of one observed row. Its identifier names the row; the
// identifier of a tool call names the groups that were made during the call.

// GroupID returns the identifier of the group of a row.
func GroupID(seq uint64) string { return fmt.Sprint("obs_", seq) }

// InGroup reports whether a row belongs to the group that an identifier names.
func InGroup(rec *journal.Record, id string) bool {
	if rec.Kind != journal.KindObserved {
		return false
	}
	return GroupID(rec.Seq) == id || rec.Group != nil && slices.Contains(rec.Group.Calls, id)
}

// CheckGroup refuses a group that belongs to several calls if it is named by one of
// them.
func CheckGroup(recs []*journal.Record, id string) error {
	for _, rec := range recs {
		if rec.Group != nil && len(rec.Group.Calls) > 1 && GroupID(rec.Seq) != id {
			return fault.New(fault.InvalidArgument).With("argument", "group").With("calls", rec.Group.Calls).
				Hintf("the changes were made while several calls were open; pass %s to undo all of them", GroupID(rec.Seq))
		}
	}
	return nil
}

// maxListed is how many files, directories and findings are listed.
const maxListed = 1000

// listChanges adds the changes of the row of a scan to its result.
func listChanges(out *around.ScanResult, rec *journal.Record) {
	out.Seq, out.Group, out.Dirs = rec.Seq, GroupID(rec.Seq), DirsIn(rec)
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if m.Class != "" {
			continue
		}
		switch {
		case m.Op == "create":
			out.Created++
		case m.Op == "overwrite":
			out.Changed++
		case m.Op == "delete":
			out.Deleted++
		case m.Op == "chmod":
			out.Modes++
		case m.From != "":
			out.Moved++
		default:
			continue // the old name of a move
		}
		if len(out.Files) < maxListed {
			f := around.ObservedFile{Path: m.Path, Op: m.Op, From: m.From, Bytes: m.Bytes, Link: m.Link()}
			f.SHA256.UnmarshalText([]byte(m.SHA256)) // "" for none
			f.PrevSHA256.UnmarshalText([]byte(m.PrevSHA256))
			out.Files = append(out.Files, f)
		}
	}
}

// DirsIn returns the directories that a row records.
func DirsIn(rec *journal.Record) (list []around.ObservedDir) {
	change := map[string]string{"mkdir": "created", "rmdir": "deleted", "chmod": "mode"}
	for i := range rec.Muts {
		if d, ok := rec.Muts[i].Directory(); ok && len(list) < maxListed {
			list = append(list, around.ObservedDir{Path: d.Path, Change: change[engine.DirectoryOp(&d)]})
		}
	}
	return list
}
