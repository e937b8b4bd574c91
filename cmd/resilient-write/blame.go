package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
)

// blame says who wrote the lines of a file.
func (a *app) blame() *cobra.Command {
	return &cobra.Command{
		Use: "blame FILE", Short: "Who wrote each line of a file, and in which call", GroupID: "look", Args: oneFile,
		Long: `Who wrote each line of a file, when, and in which call. Changes that other
programs made belong to the tool calls during which a scan found them. Lines that
an undo brought back belong to the call that wrote them; calls that were undone
are listed below the lines.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withOldStore(cmd.Context(), true, func(ctx context.Context, s *rw.Store) error {
				out, err := s.Blame(ctx, rw.BlameRequest{Path: args[0]})
				if err != nil {
					return err
				}
				return a.reply(out, func(p *printer, _ reply) { showBlame(p, out) })
			})
		},
	}
}

func showBlame(p *printer, r rw.BlameResult) {
	calls := map[uint64]rw.BlameCall{}
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
		rows = append(rows, []string{fmt.Sprint(l.Row), who, when(c.TS), printable(callOf(c)), fmt.Sprint(l.Line), printable(l.Text)})
	}
	p.table([]string{"row", "who", "when", "call", "line", ""}, rows)
	for _, c := range r.Calls {
		if c.UndoneBy > 0 {
			p.line("row %d (%s, %s) was undone by row %d", c.Row, printable(cmp.Or(c.Session, c.Caller)), when(c.TS), c.UndoneBy)
		}
	}
	if !r.Complete {
		p.line("%s not all versions are kept: lines of row 0 came before", p.paint(yellow, "note"))
	}
}

// callOf names the call, or those during which another program made a change.
func callOf(c rw.BlameCall) string {
	if c.Via != nil && c.Via.Call != "" {
		return c.Via.Call
	}
	if len(c.During) > 0 {
		return strings.Join(c.During, " or ")
	}
	return c.Op
}

func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &misuse{"blame takes the path of one file", "resilient-write blame notes.md"}
	}
	return nil
}
