package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
)

// snapshot is the parent of the subcommands that make, list, compare and
// restore states of the whole workspace.
func (a *app) snapshot() *cobra.Command {
	var r around.SnapshotRequest
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Record the state of the whole workspace, to compare and restore it", GroupID: "work", Args: noArguments,
		Long: `Record the state of the whole workspace, to compare and restore it: every file
that changes records, with its content.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return do(cmd.Context(), a, a.withStore, false, (*rw.Store).Snapshot, r, func(p *printer, out around.Snapshot) {
				p.line("%s: %d files, %d of them in git", out.ID, out.Files, out.FromGit)
			})
		},
	}
	cmd.Flags().StringVar(&r.Label, "label", "", "what it is for, in a few words")
	cmd.Flags().StringVar(&r.Session, "session", "", "name of the working session")
	cmd.AddCommand(a.snapshotList(), a.snapshotDiff(), a.snapshotRestore())
	return cmd
}

func (a *app) snapshotList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the snapshots, newest first", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return do(cmd.Context(), a, a.withOldStore, true, (*rw.Store).SnapshotList, around.SnapshotListRequest{}, func(p *printer, out around.SnapshotListResult) {
				var rows [][]string
				for _, x := range out.Snapshots {
					rows = append(rows, []string{x.ID, whenAt(x.At), fmt.Sprint(x.Files), short(x.BaseCommit), x.Label})
				}
				p.table([]string{"snapshot", "time", "files", "commit", "label"}, rows)
			})
		},
	}
}

func (a *app) snapshotDiff() *cobra.Command {
	return &cobra.Command{
		Use: "diff ID [ID]", Short: "List the files that differ between two snapshots, or from the workspace",
		Args: takes(1, 2, "diff takes one or two snapshots", "resilient-write snapshot list shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := around.SnapshotDiffRequest{From: args[0], To: strings.Join(args[1:], "")}
			return do(cmd.Context(), a, a.withOldStore, false, (*rw.Store).SnapshotDiff, r, func(p *printer, out around.SnapshotDiffResult) {
				for _, f := range out.Files {
					p.line("%-8s %s", f.Change, printable(f.Path))
				}
				p.line("%d created, %d changed, %d deleted", out.Created, out.Changed, out.Deleted)
			})
		},
	}
}

func (a *app) snapshotRestore() *cobra.Command {
	var r rw.SnapshotRestoreRequest
	cmd := &cobra.Command{
		Use: "restore ID", Short: "Restore the workspace to a snapshot; undo reverts it",
		Args: takes(1, 1, "restore takes one snapshot", "resilient-write snapshot list shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.ID = args[0]
			return do(cmd.Context(), a, a.withOldStore, false, (*rw.Store).SnapshotRestore, r, func(p *printer, out rw.SnapshotRestoreResult) {
				for _, f := range out.Results {
					p.line("%-8s %s", f.Op, printable(f.Path))
				}
				p.line("%s, %d files", out.Status, len(out.Results))
			})
		},
	}
	cmd.Flags().BoolVar(&r.Force, "force", false, "also replace what was changed since without a tool call")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "check everything, change nothing")
	return cmd
}
