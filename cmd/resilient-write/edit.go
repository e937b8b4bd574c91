package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// editFlags adds the flags for the single edit that people make by hand.
func editFlags(cmd *cobra.Command) func(*asked) error {
	var old, becomes string
	var all bool
	f := cmd.Flags()
	f.StringVar(&old, "old", "", "`text` to replace, instead of EDITS.json; it must occur once")
	f.StringVar(&becomes, "new", "", "replacement `text`; empty removes the old text")
	f.BoolVar(&all, "all", false, "replace every occurrence of --old")
	return func(call *asked) error {
		switch {
		case call.fields["edits"] != nil && (f.Changed("old") || f.Changed("new") || all):
			return &misuse{"the edits were given twice", "give EDITS.json, or --old and --new"}
		case call.fields["edits"] != nil:
			return nil
		case old == "":
			return &misuse{"no edit was given", "give EDITS.json, or --old and --new"}
		}
		one := rw.EditOp{Old: old, New: becomes}
		if all {
			one.Count = -1
		}
		var err error
		call.fields["edits"], err = schema.Encode([]rw.EditOp{one})
		return err
	}
}

// undoFlags adds the flag that names one commit to undo, of any caller.
func undoFlags(cmd *cobra.Command) func(*asked) error {
	var row string
	cmd.Flags().StringVar(&row, "row", "", "the `row` of one commit to undo, of any caller, as shown by log and status")
	cmd.Long += "\n\nWithout --row it takes commits of your own; name others with --caller or --session."
	return func(call *asked) error {
		if !cmd.Flags().Changed("row") {
			return nil
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(row, "wj_"), ".")
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return &misuse{"--row names no row", "give its number, as resilient-write log shows it"}
		}
		if call.fields["n"] != nil || call.fields["caller"] != nil || call.fields["session"] != nil || call.fields["group"] != nil {
			return &misuse{"--row and another choice of commits", "give --row alone"}
		}
		call.row = n
		return nil
	}
}

// undoRow undoes one commit.
func (a *app) undoRow(ctx context.Context, v verb, call asked) error {
	var r rw.UndoRequest
	return carry(ctx, a, v, call, &r, func(ctx context.Context, s *rw.Store) (rw.UndoResult, error) {
		r.Row, r.Session = call.row, a.session
		return s.Undo(ctx, r)
	})
}
