package main

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/clients"
	"github.com/resilientwrite/resilientwrite/internal/hostevent"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	"github.com/resilientwrite/resilientwrite/internal/place"
	htmlreport "github.com/resilientwrite/resilientwrite/report"
)

// statusReply is the overview for a person, and whether the store is sound.
type statusReply struct {
	Version string       `json:"version"`
	Store   bool         `json:"store"`           // a store exists
	Above   string       `json:"above,omitempty"` // if not, the nearest directory above that has one
	Sync    rw.SyncLevel `json:"sync"`
	Gate    rw.GateMode  `json:"gate"`
	// Programs that report the calls of their tools.
	Capture around.CaptureStatus `json:"capture"`
	// Configured hooks that have reported no event to this store.
	Silent []silentHooks `json:"hooks_without_events"`
	// How far a hub has the journal; absent if nothing is shipped.
	Hub *admin.HubFacts `json:"hub,omitempty"`
	*htmlreport.Overview
}

// silentHooks describes the hooks of a host that has reported nothing.
type silentHooks struct {
	Host string `json:"host"`
	File string `json:"file"`
	Note string `json:"note,omitempty"`
}

// silent returns the hosts whose hooks are configured, for the project or for
// the user, and that have reported nothing to this store: they were not used
// since, or do not trust the hooks.
func (a *app) silent(c around.CaptureStatus) []silentHooks {
	list := []silentHooks{}
	place, err := a.machine()
	if err != nil {
		return list
	}
	for _, client := range clients.Table {
		if client.Hooks == "" || slices.ContainsFunc(c.Hosts, func(h around.CaptureHost) bool { return h.Host == client.Hooks }) {
			continue
		}
		files, err := hostevent.Config(client.Hooks, clients.Program)
		if err != nil {
			continue
		}
		for _, name := range []string{files[0].Project, files[0].User} {
			text, err := readConfig(place.Path(name))
			if own := strings.Contains(text, "hook --host "+client.Hooks) || !files[0].Merge && strings.Contains(text, clients.Program); err == nil && own {
				list = append(list, silentHooks{client.Hooks, shownPath(place, place.Path(name)), client.Trust})
				break
			}
		}
	}
	return list
}

// newest is the number of changes and refusals that status shows.
const newest = 5

// recentRows is the number of journal rows that a view of the current state
// reads.
const recentRows = 200

func (a *app) status() *cobra.Command {
	all := false
	cmd := &cobra.Command{
		Use: "status", Short: "Show what changed last, what was refused, and what waits for you", GroupID: "look", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				return a.statusAll()
			}
			return a.runStatus(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list all state directories, with workspace, size and last use")
	return cmd
}

func (a *app) runStatus(ctx context.Context) error {
	has, err := a.hasStore()
	if err != nil {
		return err
	}
	out := statusReply{Version: rw.Version, Store: has}
	if dir, err := filepath.Abs(a.set.root); err == nil && !out.Store {
		if above := hookRoot(filepath.Dir(dir)); above != "" {
			if has, _ := place.Has(above); has {
				out.Above = above
			}
		}
	}
	err = a.withStore(ctx, true, func(ctx context.Context, s *rw.Store) error {
		d, err := s.Describe(rw.WithGate(ctx, rw.GateOfAgents), rw.DescribeRequest{})
		if err != nil {
			return err
		}
		out.Sync, out.Gate, out.Hub = d.Sync, d.Policy.Gate.Mode, d.Hub
		if out.Capture, err = s.Capture(ctx); err != nil {
			return err
		}
		out.Silent = a.silent(out.Capture)
		out.Overview, err = overview.Read(ctx, s, overview.NewCleaner(s), overview.Request{Rows: recentRows, Changes: newest, State: a.set.stateDirectory()})
		return err
	})
	if err != nil {
		return err
	}
	return present(a, out, showStatus)
}

// showStatus prints the status, with what to do.
func showStatus(p *printer, r statusReply) {
	if !r.Store {
		p.line("no agent has written here yet; %s puts the server into a client", p.paint(cyan, "resilient-write init CLIENT"))
		if r.Above != "" {
			p.line("a directory above has a store: --root %s", r.Above)
		}
		return
	}
	p.line("rows %d, durability %s, gate %s", r.Rows, r.Sync, r.Gate)
	for _, part := range parts(p, r.Overview) {
		if len(part.lines) > 0 {
			p.line("%s", p.paint(cyan, part.title))
		}
		for _, line := range part.lines {
			p.line("  %s", line)
		}
	}
	if r.Capture.DiskLow {
		p.line("%s", p.paint(red, "the disk is nearly full: of what other programs change only hashes are kept, which cannot be undone"))
	}
	hosts := captured(r.Capture)
	for _, h := range r.Silent {
		hosts = append(hosts, p.paint(yellow, strings.TrimSpace(printable(h.Host)+"  no event has come, though "+printable(h.File)+" has hooks. "+h.Note)))
	}
	if len(hosts) > 0 {
		p.line("%s", p.paint(cyan, "hooks"))
		for _, line := range hosts {
			p.line("  %s", line)
		}
	}
	if h := r.Hub; h != nil {
		p.line("%s", p.paint(cyan, "hub"))
		p.line("  %s", hubWords(h))
	}
	if len(r.Changes) > 0 {
		p.line("%s", p.paint(faint, fmt.Sprintf("undo the newest change: %s; versions of a file: resilient-write history PATH", r.Changes[0].Undo())))
	}
}

// captured describes which programs report the calls of their tools.
func captured(c around.CaptureStatus) (lines []string) {
	for _, h := range c.Hosts {
		line := fmt.Sprintf("%s  %s  last event %s", whenAt(h.At), printable(h.Host), printable(h.Event))
		if h.LagSeconds > 0 {
			line += fmt.Sprintf("  (changes of the %s before it are not all recorded)", time.Duration(h.LagSeconds*float64(time.Second)).Round(time.Second/10))
		}
		lines = append(lines, line)
	}
	for _, o := range c.Open {
		lines = append(lines, fmt.Sprintf("%s  %s  open call %s  %s", whenAt(o.Since), printable(o.Host), printable(o.ID), printable(o.Command)))
	}
	return lines
}

// part is one section of the overview, with one entry per line.
type part struct {
	title string
	lines []string
}

// partChanged is the index of the changes in parts.
const partChanged = 4

// parts returns an overview in words.
func parts(p *printer, o *htmlreport.Overview) []part {
	list := []part{{title: "stopped"}, {title: "running"}, {title: "waits for you"}, {title: "refused"}, {title: "changed last"}}
	say := func(i int, words ...string) {
		words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
		list[i].lines = append(list[i].lines, strings.Join(words, "  "))
	}
	for _, text := range o.Stopped {
		say(0, p.paint(red, printable(text)))
	}
	for _, c := range o.Running {
		say(1, sinceWords(c.Since), printable(c.Op), printable(strings.Join(c.Paths, ", ")), p.paint(faint, printable(caller(c))))
	}
	for _, w := range o.Waiting {
		say(2, printable(w.Text)+":", p.paint(faint, printable(w.Command)))
	}
	for _, f := range o.Refused {
		say(3, when(f.TS), printable(f.Path), p.paint(yellow, printable(f.Reason)), printable(spoken(f.Why)), p.paint(faint, "by "+printable(f.Caller)))
	}
	for _, c := range o.Changes {
		undone := ""
		if c.Undone {
			undone = p.paint(yellow, "undone")
		}
		size := ""
		if len(c.Files) == 1 && c.More == 0 {
			size = c.Files[0].Size()
		}
		say(partChanged, when(c.TS), printable(c.Op), printable(c.Summary()), size, undone, p.paint(faint, fmt.Sprintf("row %d by %s", c.Row, printable(c.Caller))))
	}
	return list
}

// caller describes who made a running call.
func caller(c htmlreport.Call) string {
	who := fmt.Sprint("process ", c.PID)
	if c.Caller != "" {
		who = "by " + c.Caller + ", " + who
	}
	return who
}

// welcome prints what the bare command shows to a person.
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
	Rows  int      `json:"rows"` // how many of the newest rows were read
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

// lsRows is the number of rows that ls reads.
const lsRows = 1000

// ls lists the files that agents changed.
func (a *app) ls() *cobra.Command {
	return &cobra.Command{
		Use: "ls [DIRECTORY]", Short: "List the files that were changed, newest first", GroupID: "look",
		Long: "List the files that the newest 1000 rows of the journal changed, newest first, with the number of their versions.",
		Args: takes(0, 1, "ls takes one directory", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			below := strings.TrimSuffix(path.Clean(strings.Join(append(args, "."), "/")), "/.")
			return do(cmd.Context(), a, a.withStore, true, func(s *rw.Store, ctx context.Context, r rw.JournalTailRequest) (lsReply, error) {
				tail, err := s.JournalTail(ctx, r)
				return lsReply{changedFiles(tail.Entries, below), len(tail.Entries)}, err
			}, rw.JournalTailRequest{N: lsRows}, showLs)
		},
	}
}

// changedFiles returns the files of rows, each by its newest row.
func changedFiles(rows []rw.JournalEntry, below string) []lsFile {
	list, seen := []lsFile{}, map[string]bool{}
	for _, e := range slices.Backward(rows) {
		in := below == "." || e.Path == below || strings.HasPrefix(e.Path, below+"/")
		if e.Kind != "commit" || overview.OfStore(e.Path) || overview.OfDirectory(e) || seen[e.Path] || !in {
			continue
		}
		seen[e.Path] = true
		list = append(list, lsFile{e.Path, e.Rev, e.SHA256.String() == "", e.Bytes, e.TS.String(), e.Op, e.Caller})
	}
	return list
}

func showLs(p *printer, r lsReply) {
	if len(r.Files) == 0 {
		p.line("nothing was changed")
	}
	rows(p, []string{"path", "size", "versions", "changed", "by", "caller"}, r.Files, func(f lsFile) []string {
		bytes := size(float64(f.Bytes))
		if f.Gone {
			bytes = "gone"
		}
		return []string{f.Path, bytes, fmt.Sprint(f.Versions), when(f.TS), f.Op, f.Caller}
	})
}
