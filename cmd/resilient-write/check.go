package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
)

// check verifies the store. With --repair it also repairs what it finds.
func (a *app) check() *cobra.Command {
	var repair bool
	var r admin.RepairRequest
	cmd := a.build(verb{"check", "check", "Check the store, like fsck; --repair repairs what it can", "upkeep", nil, "", showCheck})
	cmd.Long += `

The exit code is 7 when there are problems. With --repair the store is checked
deeply, caches are rebuilt, damaged objects are moved to quarantine/, and rows
that are complete but out of order are reordered. Nothing is deleted, no row is
invented, and no file of the workspace is changed; the exit code is 7 when
problems remain.`
	f := cmd.Flags()
	f.BoolVar(&repair, "repair", false, "repair what can be repaired, and report the rest")
	f.BoolVar(&r.DryRun, "dry-run", false, "with --repair: report what would be done, but change nothing")
	f.StringVar(&r.Acknowledge, "acknowledge", "", "with --repair: accept journal damage that cannot be repaired, for this `reason`, which is recorded in the journal; check no longer reports that damage")
	callerFlag(f, &r.Caller)
	f.Lookup("caller").Usage = "with --repair: " + f.Lookup("caller").Usage
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if repair {
			r.Session = a.session
			_, err := administer(cmd.Context(), a, a.withOldStore, admin.Operator.Repair, r, showRepair)
			if err == nil {
				a.leftUnclean()
			}
			return err
		}
		for _, name := range []string{"dry-run", "acknowledge", "caller"} {
			if cmd.Flags().Changed(name) {
				return &misuse{"--" + name + " without --repair", "a check alone changes nothing; add --repair"}
			}
		}
		if err := inner(cmd, args); err != nil {
			return err
		}
		a.leftUnclean()
		return nil
	}
	return cmd
}

// leftUnclean sets the exit code to storage if the store is not clean, for
// scripts.
func (a *app) leftUnclean() {
	var r struct{ Clean bool }
	a.left(rw.CodeStorage, json.Unmarshal(a.done.reply, &r) != nil || !r.Clean)
}

func showCheck(p *printer, r reply) {
	p.problems("problem", r.list("problems"), "detail")
	if r.text("clean") == "true" {
		p.line("%s", p.paint(green, "clean"))
	} else {
		p.line("%s", p.paint(red, several(len(r.list("problems")), "problem"))+p.paint(faint, "; check --repair --dry-run reports what can be repaired"))
	}
	if c := r.object("counters"); len(c.fields) > 0 {
		p.line("%s", p.paint(faint, pairs(c)))
	}
}

// several formats a number with the noun of what is counted.
func several(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// problems prints one row for each problem, with the text of the given field.
func (p *printer) problems(head string, list []reply, field string) {
	var rows [][]string
	for _, one := range list {
		rows = append(rows, []string{one.text("code"), one.text("path"), one.number("seq"), one.text(field)})
	}
	p.rows([]string{head, "path", "row", field}, rows)
}

func showRepair(p *printer, r reply) {
	dry := r.object("receipt").text("dry_run") == "true"
	actions, left := r.list("actions"), r.list("left")
	did := "did"
	if dry {
		did = "would be"
	}
	var rows [][]string
	for _, one := range actions {
		rows = append(rows, []string{strings.ReplaceAll(one.text("did"), "_", " "), one.text("code"), one.text("path"), one.number("seq"), one.text("detail")})
	}
	p.rows([]string{did, "problem", "path", "row", "detail"}, rows)
	p.problems("left", left, "why")
	switch {
	case len(left) > 0:
		p.line("%s", p.paint(red, fmt.Sprintf("%d repaired, %d left", len(actions), len(left))))
	case dry && len(actions) > 0:
		p.line("%s all can be repaired: %s", p.paint(yellow, "dry run"), several(len(actions), "problem"))
	case len(actions) > 0:
		p.line("%s repaired: %s", p.paint(green, "clean"), several(len(actions), "problem"))
	default:
		p.line("%s nothing to do", p.paint(green, "clean"))
	}
}
