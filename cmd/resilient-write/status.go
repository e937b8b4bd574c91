package main

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
)

// statusReply is what a person asks first: what changed last, what was refused,
// what is open, and whether the store is well.
type statusReply struct {
	Version   string              `json:"version"`
	Store     bool                `json:"store"` // there is one
	Sync      rw.SyncLevel        `json:"sync"`
	Gate      rw.GateMode         `json:"gate"`
	Policy    *rw.PolicyProblem   `json:"policy_problem,omitempty"`
	Poisoned  bool                `json:"poisoned"`
	Rows      uint64              `json:"rows"`
	Changes   []rw.JournalEntry   `json:"changes"` // the newest, newest first
	Refused   []rw.JournalEntry   `json:"refused"`
	Drafts    []rw.Draft          `json:"drafts"`
	Sessions  []rw.ChunkSession   `json:"sessions"` // not composed
	Staged    []string            `json:"open_transactions"`
	Handoff   *rw.HandoffEnvelope `json:"handoff,omitempty"`
	HandoffAt string              `json:"handoff_path,omitempty"`
}

// newest is how many rows status shows of a kind.
const newest = 5

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "What changed last, what was refused, and what waits for you", GroupID: "look", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runStatus(cmd.Context()) },
	}
}

func (a *app) runStatus(ctx context.Context) error {
	out := statusReply{Version: rw.Version, Store: a.hasStore(), Changes: []rw.JournalEntry{}, Refused: []rw.JournalEntry{}}
	err := a.withStore(ctx, true, func(ctx context.Context, s *rw.Store) error { return out.collect(ctx, s) })
	if err != nil {
		return err
	}
	return a.reply(out, showStatus)
}

func (r *statusReply) collect(ctx context.Context, s *rw.Store) error {
	d, err := s.Describe(rw.WithGate(ctx, rw.GateOfAgents), rw.DescribeRequest{})
	if err != nil {
		return err
	}
	r.Sync, r.Gate, r.Policy, r.Poisoned, r.Rows, r.Staged = d.Sync, d.Policy.Gate.Mode, d.Policy.Problem, d.Poisoned, d.HeadSeq, d.Transactions
	tail, err := s.JournalTail(ctx, rw.JournalTailRequest{N: 200, IncludeRefused: true})
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(tail.Entries) {
		switch {
		case e.Kind == "refused" && len(r.Refused) < newest:
			r.Refused = append(r.Refused, e)
		case e.Kind == "commit" && len(r.Changes) < newest:
			r.Changes = append(r.Changes, e)
		}
	}
	drafts, err := s.DraftList(ctx, rw.DraftListRequest{})
	if err != nil {
		return err
	}
	r.Drafts = drafts.Drafts
	chunks, err := s.ChunkList(ctx, rw.ChunkListRequest{})
	if err != nil {
		return err
	}
	r.Sessions = slices.DeleteFunc(chunks.Sessions, func(c rw.ChunkSession) bool { return c.Sealed })
	h, err := s.HandoffRead(ctx, rw.HandoffReadRequest{})
	var e *rw.Error
	switch {
	case err == nil:
		r.Handoff, r.HandoffAt = &h.Envelope, h.HandoffPath
	case !errors.As(err, &e):
		return err
	}
	return nil
}

// showStatus prints it, with what to do.
func showStatus(p *printer, r reply) {
	if r.text("store") != "true" {
		p.line("no agent has written here yet; %s puts the server into a client", p.paint(cyan, "resilient-write init CLIENT"))
		return
	}
	p.line("%s rows, durability %s, gate %s", r.text("rows"), r.text("sync"), r.text("gate"))
	if r.text("poisoned") == "true" {
		p.line("%s a flush failed: nothing can be written until the store is opened again", p.paint(red, "poisoned"))
	}
	if problem := r.object("policy_problem"); problem.text("hint") != "" {
		p.line("%s %s line %s: %s", p.paint(red, "policy"), problem.text("file"), problem.text("line"), problem.text("hint"))
	}
	p.section("changed last", r.list("changes"), func(e reply) string {
		return strings.Join([]string{when(e.text("ts")), e.text("op"), e.text("path"), p.paint(faint, "by "+e.text("caller"))}, "  ")
	})
	p.section("refused", r.list("refused"), func(e reply) string {
		return strings.Join([]string{when(e.text("ts")), e.text("path"), e.text("reason"), p.paint(faint, "by "+e.text("caller"))}, "  ")
	})
	p.section("waits for you", waiting(r), func(e reply) string { return e.text("what") })
	if len(r.list("changes")) > 0 {
		p.line("%s", p.paint(faint, "take the newest change back: resilient-write undo; versions of a file: resilient-write history PATH"))
	}
}

// waiting is what is open, each with the command that looks at it.
func waiting(r reply) (list []reply) {
	add := func(what string) { list = append(list, reply{fields: map[string]any{"what": what}}) }
	for _, d := range r.list("drafts") {
		add("a refused draft of " + d.text("path") + ": resilient-write draft get " + d.text("draft_ref"))
	}
	for _, s := range r.list("sessions") {
		add("a session that is not composed: resilient-write chunk status " + s.text("session"))
	}
	staged, _ := r.fields["open_transactions"].([]any)
	for _, id := range staged {
		add("an open transaction: resilient-write tx commit " + word(id))
	}
	if h := r.object("handoff"); h.text("status") != "" && h.text("status") != "complete" {
		add("the handoff of " + cmp.Or(h.text("task_id"), "a task") + ", " + h.text("status") + ": resilient-write handoff read")
	}
	return list
}

// section prints a list under a title, if there is something in it.
func (p *printer) section(title string, list []reply, line func(reply) string) {
	if len(list) == 0 {
		return
	}
	p.line("%s", p.paint(cyan, title))
	for _, one := range list {
		p.line("  %s", line(one))
	}
}

// welcome is what the bare command shows a person.
func (a *app) welcome(cmd *cobra.Command) error {
	if err := cmd.Help(); err != nil {
		return err
	}
	p := a.printer()
	p.line("\n%s", p.paint(cyan, "This directory"))
	return a.runStatus(cmd.Context())
}

// lsReply lists the files that changed.
type lsReply struct {
	Files []lsFile `json:"files"`
	Rows  int      `json:"rows"` // how many of the newest rows were looked at
}

type lsFile struct {
	Path     string `json:"path"`
	Versions uint64 `json:"versions"`
	Gone     bool   `json:"gone"` // the newest row removed it
	Bytes    int64  `json:"bytes"`
	TS       string `json:"ts"`
	Op       string `json:"op"`
	Caller   string `json:"caller"`
}

// lsRows is how far ls looks back.
const lsRows = 1000

// ls lists the files that agents changed.
func (a *app) ls() *cobra.Command {
	return &cobra.Command{
		Use: "ls [DIRECTORY]", Short: "List the files that were changed, newest first", GroupID: "look",
		Long: "List the files that the newest 1000 rows of the journal changed, newest first, with the number of their versions.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &misuse{"ls takes one directory", "usage: " + cmd.UseLine()}
			}
			below := strings.TrimSuffix(path.Clean(strings.Join(append(args, "."), "/")), "/.")
			return a.withStore(cmd.Context(), true, func(ctx context.Context, s *rw.Store) error {
				tail, err := s.JournalTail(ctx, rw.JournalTailRequest{N: lsRows})
				if err != nil {
					return err
				}
				return a.reply(lsReply{changedFiles(tail.Entries, below), len(tail.Entries)}, showLs)
			})
		},
	}
}

// changedFiles are the files of rows, by their newest one.
func changedFiles(rows []rw.JournalEntry, below string) []lsFile {
	list, seen := []lsFile{}, map[string]bool{}
	for _, e := range slices.Backward(rows) {
		in := below == "." || e.Path == below || strings.HasPrefix(e.Path, below+"/")
		if e.Kind != "commit" || e.Rev == 0 || seen[e.Path] || !in {
			continue
		}
		seen[e.Path] = true
		list = append(list, lsFile{e.Path, e.Rev, e.SHA256 == "", e.Bytes, e.TS, e.Op, e.Caller})
	}
	return list
}

func showLs(p *printer, r reply) {
	var rows [][]string
	for _, f := range r.list("files") {
		bytes := size(f.fields["bytes"])
		if f.text("gone") == "true" {
			bytes = "gone"
		}
		rows = append(rows, []string{f.text("path"), bytes, f.text("versions"), when(f.text("ts")), f.text("op"), f.text("caller")})
	}
	if len(rows) == 0 {
		p.line("nothing was changed")
		return
	}
	p.table([]string{"path", "size", "versions", "changed", "by", "caller"}, rows)
}
