package main

import (
	"fmt"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
)

// compact compacts the state directory.
func (a *app) compact() *cobra.Command {
	var r admin.CompactRequest
	var keep int
	cmd := &cobra.Command{
		Use: "compact", Short: "Archive old rows, apply the limits, remove what has expired", GroupID: "upkeep", Args: noArguments,
		Long: `Compact the state directory while writers are running.

Journal segments older than the newest --keep-rows rows move to archive/, where
history, tail, undo and check still read them; only cursors no longer reach
them. Limits of history are applied while no other process has the store open.
Expired objects are removed: raw material, checkpoints, refused drafts, staged
transactions, retry counts. Kept versions that another work tree of the
repository has too are then stored once.

If it is killed, the store remains valid and the next call continues.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("keep-rows") {
				r.KeepRows = &keep
			}
			r.Session = a.session
			_, err := administer(cmd.Context(), a, a.withOldStore, admin.Operator.Compact, r, showCompact)
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&keep, "keep-rows", 10_000, "keep at least this many of the newest `rows` where cursors can reach them")
	f.BoolVar(&r.DryRun, "dry-run", false, "report what would be archived and removed, but change nothing")
	callerFlag(f, &r.Caller)
	return cmd
}

// gone are the counts of what compact removes, in words.
var gone = []struct{ field, words string }{
	{"versions_removed", "kept versions over a limit"},
	{"scratch_removed", "objects of the scratchpad"},
	{"checkpoints_removed", "checkpoints"},
	{"drafts_removed", "refused drafts"},
	{"transactions_dropped", "staged transactions"},
	{"budgets_removed", "retry counts"},
}

func showCompact(p *printer, r reply) {
	switch dry := r.object("receipt").text("dry_run") == "true"; {
	case r.text("status") == string(rw.StatusUnchanged):
		p.line("%s nothing to do", p.paint(green, "compact"))
	case dry:
		p.line("%s nothing was changed; a call would write snapshots of the index and make the changes below", p.paint(yellow, "dry run"))
	default:
		p.line("%s done", p.paint(green, "compact"))
	}
	var rows [][]string
	for _, s := range r.list("archived") {
		rows = append(rows, []string{s.text("first") + "–" + s.text("last"), s.text("rows"), size(s.fields["bytes"]), short(s.text("sha256"))})
	}
	if len(rows) > 0 {
		p.line("to archive/:")
		p.table([]string{"rows", "count", "size", "sha256"}, rows)
	}
	for _, one := range gone {
		if n := r.number(one.field); n != "" {
			extra := ""
			if one.field == "versions_removed" {
				extra = fmt.Sprintf(", %s", size(r.fields["version_bytes"]))
			}
			p.line("removed: %s %s%s", n, one.words, extra)
		}
	}
	if n := r.number("versions_shared"); n != "" {
		p.line("shared with other work trees: %s kept versions", n)
	}
	p.line("%s", p.paint(faint, fmt.Sprintf("cursors reach back to row %s; %s snapshots of the index", r.text("live_from"), r.text("snapshots"))))
}
