package upkeep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// rows returns what a row of the old store becomes: nothing if it refers to that store
// itself, several rows if one would be too long.
func (in *importing) rows(rec *journal.Record) []*journal.Record {
	switch rec.Kind {
	case journal.KindCommit:
		if in.info.Aborted[rec.Seq] {
			return nil
		}
	case journal.KindConflict, journal.KindRefused, journal.KindObserved:
	default:
		return nil
	}
	if !importable(rec.Caller, rec.Session, rec.Reason, rec.Invocation, rec.Tx, rec.Policy, rec.TS) {
		return nil
	}
	if v := rec.Via; v != nil && !importable(v.Client, v.Version, v.Connection, v.Thread, v.Call) {
		return nil
	}
	if g := rec.Group; g != nil && (!importable(g.Calls...) || !importable(g.Ignored...) || len(g.Command) > observe.MaxCommand || len(g.Calls) > observe.MaxCalls) {
		return nil
	}
	var out []*journal.Record
	size := 0
	for i := range rec.Muts {
		m, ok := in.mutation(rec, i)
		if !ok {
			continue
		}
		if n := len(out); n == 0 || len(out[n-1].Muts) == importedMuts || size > importedRow {
			size = 0
			out = append(out, &journal.Record{
				TS: rec.TS, Kind: rec.Kind, Writer: in.Engine.Writer, Caller: rec.Caller, Session: rec.Session, Via: rec.Via,
				Invocation: rec.Invocation, Tx: rec.Tx, Reason: rec.Reason, Policy: rec.Policy, AcceptRisk: in.SafeText(rec.AcceptRisk), Group: rec.Group,
			})
		}
		row := out[len(out)-1]
		m.ImportID = fmt.Sprintf("%s%d.%d", in.id, rec.Seq, len(out)-1)
		row.Muts = append(row.Muts, m)
		size += len(m.Path) + len(m.Real) + len(m.From) + 512
	}
	return out
}

// maxText bounds a text of a row, in bytes.
const maxText = 500

// importable reports whether texts can be in a row: an export may have been
// made by hand.
func importable(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(t string) bool { return len(t) > maxText })
}

// mutation is one file of an old row. Objects of the old state directory are
// not taken over, and neither are paths that no row of ours could have.
func (in *importing) mutation(rec *journal.Record, i int) (journal.Mutation, bool) {
	old := rec.Muts[i]
	for _, p := range []string{old.Path, old.Real, old.From} {
		clean, _, err := relpath.Clean(p, relpath.Rules{})
		if p != "" && (err != nil || clean != p || strings.HasPrefix(p, engine.StateDirName+"/")) {
			return old, false
		}
	}
	for _, sha := range []string{old.SHA256, old.PrevSHA256, old.PaySHA256} {
		if sha != "" && !engine.ValidSHA256(sha) {
			return old, false
		}
	}
	if old.Path == "" || old.Class != "" || !importable(old.Op, old.How, old.JournalID) || old.Bytes < 0 {
		return old, false
	}
	m := journal.Mutation{
		Op: old.Op, Path: old.Path, Real: old.Real, From: old.From, SHA256: old.SHA256, Bytes: old.Bytes,
		PrevSHA256: old.PrevSHA256, PrevBytes: old.PrevBytes, PrevMode: old.PrevMode, PrevGit: old.PrevGit, Mode: old.Mode, How: old.How, JournalID: old.JournalID,
	}
	if rec.Kind == journal.KindConflict && old.Rev == 0 { // it is only a record
		m.How = ""
	}
	if m.JournalID == "" {
		m.JournalID = engine.JournalID(rec.Seq, i)
	}
	return m, true
}
