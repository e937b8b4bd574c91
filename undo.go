package resilientwrite

import (
	"context"
	"fmt"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
)

// maxUndo is how many commits one call undoes.
const maxUndo = 50

// UndoRequest asks for the newest commits to be undone.
type UndoRequest struct {
	Call `omit:"accept_risk"`

	// Number of commits, newest first. A transaction counts as one.
	N int `json:"n,omitempty" default:"1" min:"1" max:"50"`

	// Row is the journal row of the one commit to undo, by any caller
	// and whatever was committed since to other files. 0: the newest. It is for
	// people; no tool has it.
	Row uint64 `json:"-"`

	// Undo this group of changes that other programs made, such as a shell
	// command, and nothing else: its identifier, or that of the tool call during
	// which they were made.
	Group string `json:"group,omitempty" maxlen:"200"`
}

// UndoResult reports what was undone.
type UndoResult struct {
	// The full record of the call, with the facts of the first file.
	Receipt `json:"receipt" copies:"wrote_at,status"`
	// The commits undone, newest first, by journal row; empty when they cancel
	// out and nothing was written.
	Undone  []uint64          `json:"undone"`
	Results []call.FileResult `json:"results"` // The changed files, as they are now.
	Seq     uint64            `json:"seq"`     // Journal row of the undo; 0 when nothing was written.
	// Directories that git ignores and that changed with the group. They were left
	// as they are.
	IgnoredNotUndone []string `json:"ignored_not_undone,omitempty"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
}

// Undo undoes the newest n commits of a caller, by default that of
// [Options], all in one commit: every file
// becomes what it was before the oldest of them, and a directory that they made
// is removed if nothing else is in it. Undoing is a commit itself, so undoing it
// again restores the changes. A request that names neither caller nor session
// undoes commits of its own session only, when the call belongs to one
// ([WithCaller], Options.Session).
//
// If the commits cancel each other out, such as a commit and its undo, there is
// nothing to do: the call ends as unchanged with the warning
// [call.WarnCommitsCancelOut], undone and results are empty and nothing is written, so
// the next call begins with the same commits.
//
// With a group it undoes the changes that other programs made and a
// [Store.Scan] found, all in one commit, and no others; without one such changes
// are never undone. Directories that git ignores are left as they are.
//
// A file gets back its owner, ACLs and attributes, or there is a warning that it
// does not. One that another program changed since, through this store or not, is never
// touched: the whole call fails with [ErrChangedOutside]. The same error is
// returned if a file would replace a directory that holds anything that is not
// undone with it (context files). Other errors: [ErrNothingToUndo],
// [ErrVersionNotKept], [ErrHashDriftOnRead], and those of [Store.SafeWrite].
func (s *Store) Undo(ctx context.Context, r UndoRequest) (UndoResult, error) {
	req := requestOf(r.Call, "undo", r)
	req.frees, req.long, req.hash = true, true, budget.RequestHash([]string{req.hash, r.Caller, r.Session}) // whose commits
	if r.IdempotencyKey == "" {                                                                             // with a key it is the same call wherever the journal is by now
		req.hash += fmt.Sprint(" ", s.headSeq())
	}
	c := s.newCommit(ctx, req)
	c.check(r.check())
	var undone changes.Undone
	c.Outcome = func() any { return outcome{Undone: undone.Rows} }
	err := s.commitPrepared(ctx, c, func(ctx context.Context) (err error) {
		undone, err = s.prepareUndo(ctx, c, r)
		return err
	})
	if err != nil {
		return UndoResult{}, err
	}
	if c.status() == StatusUnchanged { // there is no row, and the next call finds the same commits
		c.First().Warn(call.WarnCommitsCancelOut)
		undone.Rows = nil
	}
	rec := c.finished()
	out := UndoResult{
		Receipt: rec, Undone: []uint64{}, Results: []call.FileResult{}, Seq: rec.JournalSeq, IgnoredNotUndone: undone.Ignored, Diff: c.Diff,
		Warnings: []Warning{},
	}
	if rec.Status == StatusUnchanged {
		out.Warnings = append(out.Warnings, rec.Warnings...)
		return out, nil
	}
	out.Results, out.Undone = c.Changed(), append(out.Undone, c.storedOutcome().Undone...)
	for _, m := range c.Muts {
		if c.Replayed == nil {
			out.Warnings = append(out.Warnings, warningsOf(m.Warnings)...)
		}
	}
	return out, nil
}

func (r *UndoRequest) check() *fault.Fault {
	switch {
	case r.Group != "" && (r.N != 0 || r.Row != 0):
		return fault.New(fault.InvalidArgument).With("argument", "group").Hintf("give group alone")
	case r.N < 0 || r.N > maxUndo:
		return fault.New(fault.InvalidArgument).With("argument", "n").Hintf("n must be 1 to %d", maxUndo)
	}
	return nil
}

// prepareUndo finds the commits and takes the bytes from before them.
func (s *Store) prepareUndo(ctx context.Context, c *commit, r UndoRequest) (changes.Undone, error) {
	of, n := changes.WhoseOf(c.Commit, r.Caller, r.Session), max(r.N, 1)
	if r.Row != 0 {
		of, n = changes.Whose{Row: r.Row}, 1
	}
	if r.Group != "" {
		of, n = changes.Whose{Group: r.Group}, maxUndo
	}
	if s.keyKnown(c.Req.Key) {
		c.Muts = []*engine.Mutation{} // the key answers
		return changes.Undone{}, nil
	}
	out, err := s.changes().Undo(ctx, c.Commit, changes.Wanted{Made: of.Made, Group: of.Group, N: n}, c.taking(ctx))
	if e, ok := err.(*fault.Fault); ok && e.Code == fault.NothingToUndo {
		switch {
		case of.Group != "":
			e.Hintf("no group of observed changes has this identifier; resilient-write changes lists them")
		case of.Row != 0:
			e.Hintf("no commit of the workspace has this row; Store.JournalTail lists them; what other programs changed is undone by group, and resilient-write changes lists the groups")
		case of.None:
			e.Hintf("calls over this protocol have no session, so no commit is known to be yours; pass the session or the caller whose commits to undo")
		case of.Session != c.session:
			e.Hintf("this session has no commit left to undo; pass caller to undo commits of earlier or other sessions")
		}
	}
	return out, err
}
