package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/overview"
)

// candidates are values that a shell may complete, each with a description, by
// the argument that takes them. before holds the preceding arguments.
var candidates = map[string]func(ctx context.Context, s *rw.Store, before []string) ([]string, error){
	"draft_ref": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		r, err := s.DraftList(ctx, rw.DraftListRequest{})
		for _, d := range r.Drafts {
			list = append(list, d.DraftRef+"\t"+d.Path)
		}
		return list, err
	},
	"session": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		r, err := s.ChunkList(ctx, rw.ChunkListRequest{})
		for _, c := range r.Sessions {
			list = append(list, fmt.Sprintf("%s\t%d chunks", c.Session, c.ChunkCount))
		}
		return list, err
	},
	"tx_id": func(ctx context.Context, s *rw.Store, _ []string) ([]string, error) {
		d, err := s.Describe(ctx, rw.DescribeRequest{})
		return d.Transactions, err
	},
	"name": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		r, err := s.CheckpointList(ctx, rw.CheckpointListRequest{})
		for _, c := range r.Checkpoints {
			list = append(list, c.Name)
		}
		return list, err
	},
	"path": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		r, err := s.JournalTail(ctx, rw.JournalTailRequest{N: lsRows})
		for _, f := range changedFiles(r.Entries, ".") {
			list = append(list, fmt.Sprintf("%s\t%d versions", f.Path, f.Versions))
		}
		return list, err
	},
	"version": func(ctx context.Context, s *rw.Store, before []string) (list []string, err error) {
		if len(before) == 0 {
			return nil, nil
		}
		r, err := s.History(ctx, rw.HistoryRequest{Path: before[0]})
		for _, v := range r.Versions {
			list = append(list, fmt.Sprintf("%d\t%s %s", v.Rev, v.Op, when(v.TS.String())))
		}
		return list, err
	},
	"row": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		o, err := overview.Read(ctx, s, overview.NewCleaner(s), overview.Request{Rows: recentRows, Changes: recentRows})
		if err != nil {
			return nil, err
		}
		for _, c := range o.Changes {
			list = append(list, fmt.Sprintf("%d\t%s %s, %s", c.Row, c.Op, c.Summary(), when(c.TS)))
		}
		return list, nil
	},
}

// completes returns the completion of an argument: from the store if the store
// knows its values, otherwise the shell's default.
func (a *app) completes(name string) cobra.CompletionFunc {
	find := candidates[name]
	return func(cmd *cobra.Command, before []string, start string) (list []string, _ cobra.ShellCompDirective) {
		if find == nil || !a.hasStore() {
			return nil, cobra.ShellCompDirectiveDefault
		}
		a.withStore(cmd.Context(), true, func(ctx context.Context, s *rw.Store) (err error) { // completion reports no errors
			list, err = find(ctx, s, before)
			return err
		})
		list = slices.DeleteFunc(list, func(one string) bool { return !strings.HasPrefix(one, start) })
		for i := range list {
			value, about, _ := strings.Cut(list[i], "\t")
			if printable(value) != value { // not to be typed by a shell
				value, about = "", ""
			}
			list[i] = strings.TrimSuffix(value+"\t"+printable(about), "\t")
		}
		list = slices.DeleteFunc(list, func(one string) bool { return one == "" })
		directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if name == "path" {
			directive = cobra.ShellCompDirectiveDefault
		}
		return list, directive
	}
}

// completions completes the arguments of a verb, and its flags that name
// versions.
func (a *app) completions(cmd *cobra.Command, v verb) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, before []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(before) >= len(v.args) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completes(strings.TrimRight(v.args[len(before)], "?@"))(cmd, before, start)
	}
	for _, name := range versionFields[v.tool] {
		if cmd.Flags().Lookup(name) != nil {
			cmd.RegisterFlagCompletionFunc(name, a.completes("version"))
		}
	}
	if cmd.Flags().Lookup("row") != nil {
		cmd.RegisterFlagCompletionFunc("row", a.completes("row"))
	}
}
