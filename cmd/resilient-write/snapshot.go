package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
)

// snapshot is the parent of the subcommands that make, list, compare and
// restore states of the whole workspace.
func (a *app) snapshot() *cobra.Command {
	var r rw.SnapshotRequest
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Record the state of the whole workspace, to compare and restore it", GroupID: "work", Args: noArguments,
		Long: `Record the state of the whole workspace, to compare and restore it: every file
that changes records, with its content.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), false, func(ctx context.Context, s *rw.Store) error {
				out, err := s.Snapshot(ctx, r)
				if err != nil {
					return err
				}
				return a.reply(out, func(p *printer, _ reply) {
					p.line("%s: %d files, %d of them in git", out.ID, out.Files, out.FromGit)
				})
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
			return a.withOldStore(cmd.Context(), true, func(ctx context.Context, s *rw.Store) error {
				out, err := s.SnapshotList(ctx, rw.SnapshotListRequest{})
				if err != nil {
					return err
				}
				return a.reply(out, func(p *printer, _ reply) {
					var rows [][]string
					for _, x := range out.Snapshots {
						rows = append(rows, []string{x.ID, when(x.At), fmt.Sprint(x.Files), short(x.BaseCommit), x.Label})
					}
					p.table([]string{"snapshot", "time", "files", "commit", "label"}, rows)
				})
			})
		},
	}
}

func (a *app) snapshotDiff() *cobra.Command {
	return &cobra.Command{
		Use: "diff ID [ID]", Short: "List the files that differ between two snapshots, or from the workspace",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return &misuse{"diff takes one or two snapshots", "resilient-write snapshot list shows them"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r := rw.SnapshotDiffRequest{From: args[0]}
			if len(args) == 2 {
				r.To = args[1]
			}
			return a.withOldStore(cmd.Context(), false, func(ctx context.Context, s *rw.Store) error {
				out, err := s.SnapshotDiff(ctx, r)
				if err != nil {
					return err
				}
				return a.reply(out, func(p *printer, _ reply) {
					for _, f := range out.Files {
						p.line("%-8s %s", f.Change, printable(f.Path))
					}
					p.line("%d created, %d changed, %d deleted", out.Created, out.Changed, out.Deleted)
				})
			})
		},
	}
}

func (a *app) snapshotRestore() *cobra.Command {
	var r rw.SnapshotRestoreRequest
	cmd := &cobra.Command{
		Use: "restore ID", Short: "Restore the workspace to a snapshot; undo reverts it",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &misuse{"restore takes one snapshot", "resilient-write snapshot list shows them"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r.ID = args[0]
			return a.withOldStore(cmd.Context(), false, func(ctx context.Context, s *rw.Store) error {
				out, err := s.SnapshotRestore(ctx, r)
				if err != nil {
					return err
				}
				return a.reply(out, func(p *printer, _ reply) {
					for _, f := range out.Results {
						p.line("%-8s %s", f.Op, printable(f.Path))
					}
					p.line("%s, %d files", out.Status, len(out.Results))
				})
			})
		},
	}
	cmd.Flags().BoolVar(&r.Force, "force", false, "also replace what was changed since without a tool call")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "check everything, change nothing")
	return cmd
}
