package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
)

// editFlags are for the one edit that people make by hand.
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
		call.fields["edits"], err = json.Marshal([]rw.EditOp{one})
		return err
	}
}
