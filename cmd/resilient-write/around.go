package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
)

// changesReply is the result of a scan, and the changes.
type changesReply struct {
	Scan *around.ScanResult `json:"scan,omitempty"`
	around.ChangesResult
}

// changes scans the workspace and lists what was changed.
func (a *app) changes() *cobra.Command {
	var r around.ChangesRequest
	var scan around.ScanRequest
	var since string
	var noScan, patch, stage bool
	cmd := &cobra.Command{
		Use: "changes", Short: "List changed files, whichever program changed them", GroupID: "look", Args: noArguments,
		Long: `List the changed files, whichever program changed them, and the groups of
changes that other programs made. undo --group undoes a group.

The command first scans the workspace for changes that other programs made since
the last scan. The first scan counts the current files as known.

With --patch it prints the listed changes as a patch for git apply, without the
changes that others made to the same files. With --stage it adds exactly these
changes to the git index, and changes neither files nor refs.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := changedSince(since, &r); err != nil {
				return err
			}
			if patch && stage {
				return &misuse{"--patch and --stage exclude each other", "give one of them"}
			}
			if r.Hunks = patch; stage {
				return a.stageChanges(cmd.Context(), noScan, scan, r)
			}
			return a.runChanges(cmd.Context(), noScan, scan, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Session, "session", "", "only changes of this session")
	f.StringVar(&r.Agent, "agent", "", "only changes of this caller or client")
	f.StringVar(&since, "since", "", "only later changes: a time (RFC 3339), how long ago (90m), or the `row` seq:N")
	f.BoolVar(&noScan, "no-scan", false, "read the journal only")
	f.BoolVar(&patch, "patch", false, "print the changes as a patch")
	f.BoolVar(&stage, "stage", false, "add the changes to the git index")
	f.StringArrayVar(&scan.Calls, "call", nil, "identifier of a tool call during which the changes were made; may be repeated")
	f.StringVar(&scan.Command, "command", "", "command line of that call")
	f.StringVar(&scan.Host, "host", "", "program that ran the call")
	return cmd
}

func changedSince(text string, r *around.ChangesRequest) (err error) {
	if seq, isRow := strings.CutPrefix(text, seqPrefix); isRow {
		r.AfterSeq, err = strconv.ParseUint(seq, 10, 64)
	} else {
		r.Since, err = sinceWhen(text, now())
	}
	if err != nil {
		return &misuse{"--since is not a time", "write 2026-01-31T12:00:00Z, 90m or seq:N"}
	}
	return nil
}

func (a *app) runChanges(ctx context.Context, noScan bool, scan around.ScanRequest, r around.ChangesRequest) error {
	var out changesReply
	err := a.scanned(ctx, noScan, scan, r, func(ctx context.Context, s *rw.Store, found *around.ScanResult) (err error) {
		out.Scan = found
		out.ChangesResult, err = s.Changes(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	if r.Hunks && !a.json {
		for _, f := range out.Files {
			if isTerminal(a.out.w) {
				a.printer().diff(f.Patch)
			} else {
				fmt.Fprint(a.out, f.Patch)
			}
			if f.Omitted != "" {
				fmt.Fprintf(a.errs, "%s: %s\n", printable(f.Path), f.Omitted)
			}
		}
		a.done.reply, err = success(out) // for --result-out: standard output holds the patch
		return err
	}
	return present(a, out, showChanges)
}

// scanned scans, unless that is not wanted, and does the work.
func (a *app) scanned(ctx context.Context, noScan bool, scan around.ScanRequest, r around.ChangesRequest, work func(context.Context, *rw.Store, *around.ScanResult) error) error {
	return a.withStore(ctx, noScan, func(ctx context.Context, s *rw.Store) error {
		if noScan {
			return work(ctx, s, nil)
		}
		if scan.Session = ""; len(scan.Calls) > 0 { // else it is not known to be its work
			scan.Session = r.Session
		}
		found, err := s.Scan(ctx, scan)
		if err != nil {
			return err
		}
		return work(ctx, s, &found)
	})
}

// stageChanges scans, and adds changes to git's index.
func (a *app) stageChanges(ctx context.Context, noScan bool, scan around.ScanRequest, r around.ChangesRequest) error {
	var out around.StageResult
	err := a.scanned(ctx, noScan, scan, r, func(ctx context.Context, s *rw.Store, _ *around.ScanResult) (err error) {
		out, err = s.StageChanges(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	return present(a, out, func(p *printer, out around.StageResult) {
		for _, path := range out.Staged {
			p.line("staged   %s", printable(path))
		}
		for _, path := range out.Already {
			p.line("already  %s", printable(path))
		}
		for _, f := range out.Skipped {
			p.line("%s  %s (%s)", p.paint(yellow, "skipped"), printable(f.Path), f.Reason)
		}
	})
}

func showChanges(p *printer, r changesReply) {
	if r.Scan != nil && r.Scan.Baseline {
		p.line("first scan: %s known from now on", several(r.Scan.Watched, "file"))
	}
	rows(p, []string{"change", "path", "bytes", "by", "row"}, r.Files, func(f around.ChangedFile) []string {
		return []string{f.Change, f.Path, fmt.Sprint(f.Bytes), strings.Join(f.Callers, ", "), fmt.Sprint(f.Seq)}
	})
	p.line("%s", changed(r.ChangesResult))
	rows(p, []string{"group", "time", "files", "during"}, r.Groups, func(g around.ObservedGroup) []string {
		during := cmp.Or(strings.Join(g.Calls, ", "), "no call")
		if g.Command != "" {
			during = strings.TrimPrefix(during+": "+g.Command, ": ")
		}
		return []string{g.Group, whenAt(g.TS), fmt.Sprint(g.Files), during}
	})
	if len(r.Groups) > 0 {
		p.line("%s", p.paint(faint, "undo one: resilient-write undo --group GROUP"))
	}
	rows(p, []string{"row", "time", "files", "exec"}, r.Executed, func(x around.ExecutedCommand) []string {
		return []string{fmt.Sprint(x.Seq), whenAt(x.TS), fmt.Sprint(x.Files), printable(x.Command)}
	})
	if r.Scan != nil {
		showScan(p, r.Scan)
	}
}

// showScan prints what needs attention.
func showScan(p *printer, r *around.ScanResult) {
	for _, f := range r.Findings {
		p.line("%s %s:%d %s (%s)", p.paint(yellow, "found"), printable(f.Path), f.Line, f.Pattern, f.Confidence)
	}
	for _, part := range []struct {
		what  string
		names []string
	}{
		{"no copy kept, too large", r.NotKept}, {"being written, for the next scan", r.Busy},
		{"not recorded", r.Skipped}, {"cannot be read", r.Unseen}, {"ignored by git, not kept", r.Ignored},
	} {
		if len(part.names) > 0 {
			p.line("%s %s: %s", p.paint(yellow, "note"), part.what, printable(strings.Join(part.names, ", ")))
		}
	}
	if r.Partial {
		p.line("%s the scan did not see everything; run it again", p.paint(yellow, "note"))
	}
}

// changed describes in words how many files were changed in which way.
func changed(r around.ChangesResult) string {
	var words []string
	for _, n := range []struct {
		files int
		what  string
	}{{r.Created, "created"}, {r.Changed, "changed"}, {r.Deleted, "deleted"}, {r.Reverted, "changed and changed back"}} {
		if n.files > 0 {
			words = append(words, fmt.Sprintf("%d %s", n.files, n.what))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "nothing was changed")
}

// snapshot is the parent of the subcommands that make, list, compare and
// restore states of the whole workspace.
func (a *app) snapshot() *cobra.Command {
	var r around.SnapshotRequest
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Record the state of the whole workspace, to compare and restore it", GroupID: "work", Args: noArguments,
		Long: `Record the state of the whole workspace, to compare and restore it. A snapshot
holds every file that changes would record, with its content.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return do(cmd.Context(), a, a.withStore, false, (*rw.Store).Snapshot, r, func(p *printer, out around.Snapshot) {
				p.line("%s: %s, %d of them in git", out.ID, several(out.Files, "file"), out.FromGit)
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
				if len(out.Snapshots) == 0 {
					p.line("there are no snapshots")
				}
				rows(p, []string{"snapshot", "time", "files", "commit", "label"}, out.Snapshots, func(x around.Snapshot) []string {
					return []string{x.ID, whenAt(x.At), fmt.Sprint(x.Files), short(x.BaseCommit), x.Label}
				})
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
				p.line("%s, %s", out.Status, several(len(out.Results), "file"))
			})
		},
	}
	cmd.Flags().BoolVar(&r.Force, "force", false, "also replace what was changed since without a tool call")
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "check everything, change nothing")
	return cmd
}

// claimsReply has the form of the tool's reply.
type claimsReply struct {
	Claims []around.Claim `json:"claims"`
}

// claim claims paths for one session, as the tool does.
func (a *app) claim() *cobra.Command {
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "claim PATH...", Short: "Keep other sessions from changing paths for a while", GroupID: "work",
		Long: `Keep the tools of other sessions from changing files or directories until the
claim ends or is released. Their calls are refused, and so are the edits of
hosts with hooks. If a shell command changes a claimed file, its model is told.
Claims do not apply to an operator, that is, to the commands of this program.

The claim belongs to --session, or else to the session "operator". The paths are
relative to the workspace.`,
		Args: takes(1, -1, "claim takes the paths to keep", "resilient-write claim src/parser docs/parser.md; resilient-write claim list shows the claims"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 && args[0] == "add" {
				return &misuse{"claim has no command add", "resilient-write claim PATH... claims the paths; ./add is a path"}
			}
			return a.withClaims(cmd.Context(), a.withStore, false, func(ctx context.Context, s *rw.Store) ([]around.Claim, error) {
				c, err := s.Claim(ctx, args, ttl)
				return []around.Claim{c}, err
			})
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", around.MaxClaim, "how long the claim holds, at most 10m")
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List the active claims", Args: noArguments, RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClaims(cmd.Context(), a.withOldStore, true, func(ctx context.Context, s *rw.Store) ([]around.Claim, error) { return s.Claims(ctx) })
		}},
		&cobra.Command{Use: "release NUMBER...", Short: "End claims of any session", Args: takes(1, -1, "release takes the numbers of claims", "resilient-write claim list shows them"), RunE: func(cmd *cobra.Command, args []string) error {
			var numbers []uint64
			for _, text := range args {
				n, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					return &misuse{"a claim is named by its number", "resilient-write claim list shows the numbers"}
				}
				numbers = append(numbers, n)
			}
			return a.withClaims(cmd.Context(), a.withStore, false, func(ctx context.Context, s *rw.Store) ([]around.Claim, error) {
				for _, n := range numbers {
					if err := s.Release(ctx, n); err != nil {
						return nil, err
					}
				}
				return s.Claims(ctx)
			})
		}},
	)
	return cmd
}

// withClaims lists or changes claims in the session of the command.
func (a *app) withClaims(ctx context.Context, open opener, looks bool, work func(context.Context, *rw.Store) ([]around.Claim, error)) error {
	return do(ctx, a, open, looks, func(s *rw.Store, ctx context.Context, session string) (claimsReply, error) {
		list, err := work(rw.WithGate(rw.WithCaller(ctx, "", session), rw.GateOfAgents), s)
		return claimsReply{list}, err
	}, cmp.Or(a.session, operator), func(p *printer, r claimsReply) {
		if len(r.Claims) == 0 {
			p.line("nothing is claimed")
		}
		rows(p, []string{"claim", "session", "until", "paths"}, r.Claims, func(c around.Claim) []string {
			return []string{fmt.Sprint(c.Fence), c.Session, c.Until.Local().Format(time.TimeOnly), strings.Join(c.Paths, ", ")}
		})
	})
}
