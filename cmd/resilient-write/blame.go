package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
)

// blame reports who wrote the lines of a file.
func (a *app) blame() *cobra.Command {
	x := &exporting{app: a}
	cmd := &cobra.Command{
		Use: "blame FILE...", Short: "Who wrote each line of a file, and in which call", GroupID: "look",
		Long: `Who wrote each line of a file, when, and in which call. Changes that other
programs made belong to the tool calls during which a scan found them. Lines that
an undo brought back belong to the call that wrote them; calls that were undone
are listed below the lines.

With --format it prints this for other programs: as a record of Agent Trace 0.1,
for files as they are or for the lines that a commit brought, or as the authorship
log of Git AI 3.0.0 for a commit. Lines that an agent is not known for certain to
have written are unknown there. Without files it is about all that the commit
changed. --write-note also makes the log the note of the commit in refs/notes/ai,
unless it has one; nothing else writes into the repository.`,
		Args: func(_ *cobra.Command, args []string) error {
			if err := x.misused(args); err != nil || x.format != "" {
				return err
			}
			if len(args) != 1 {
				return &misuse{"blame takes one file, or with --format several", "resilient-write blame notes.md"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if x.format == "" {
				return do(cmd.Context(), a, a.withOldStore, true, (*rw.Store).Blame, around.BlameRequest{Path: args[0]}, showBlame)
			}
			return a.withOldStore(cmd.Context(), true, func(ctx context.Context, s *rw.Store) error {
				x.ctx, x.store = ctx, s
				return x.run(args)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.format, "format", "", "print it as agent-trace or git-ai")
	f.StringVar(&x.commit, "commit", "", "with --format: the lines that this `commit` brought; git-ai: HEAD")
	f.BoolVar(&x.write, "write-note", false, "with --format git-ai: also write the note")
	complete(cmd, "format", formatTrace, formatGitAI)
	return cmd
}

func showBlame(p *printer, r around.BlameResult) {
	calls := map[uint64]around.BlameCall{}
	for _, c := range r.Calls {
		calls[c.Row] = c
	}
	var rows [][]string
	for _, l := range r.Lines {
		c := calls[l.Row]
		who := printable(cmp.Or(c.Session, c.Caller))
		if l.Unrecorded {
			who = "not recorded"
		}
		rows = append(rows, []string{fmt.Sprint(l.Row), who, when(c.TS.String()), printable(callOf(c)), fmt.Sprint(l.Line), printable(l.Text)})
	}
	p.table([]string{"row", "who", "when", "call", "line", ""}, rows)
	for _, c := range r.Calls {
		if c.UndoneBy > 0 {
			p.line("row %d (%s, %s) was undone by row %d", c.Row, printable(cmp.Or(c.Session, c.Caller)), when(c.TS.String()), c.UndoneBy)
		}
	}
	if !r.Complete {
		p.line("%s not all versions are kept: lines of row 0 came before", p.paint(yellow, "note"))
	}
}

// callOf names the call, or the calls during which another program made a
// change.
func callOf(c around.BlameCall) string {
	if c.Via != nil && c.Via.Call != "" {
		return c.Via.Call
	}
	if len(c.During) > 0 {
		return strings.Join(c.During, " or ")
	}
	return c.Op
}
