package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/aitrace"
	"github.com/resilientwrite/resilientwrite/internal/gitcmd"
	"github.com/resilientwrite/resilientwrite/internal/merge"
)

// blame reports who wrote the lines of a file.
func (a *app) blame() *cobra.Command {
	x := &exporting{app: a}
	cmd := &cobra.Command{
		Use: "blame FILE...", Short: "Show who wrote each line of a file, and in which call", GroupID: "look",
		Long: `Show who wrote each line of a file, when, and in which call. Changes that other
programs made belong to the tool calls during which a scan found them. Lines
that an undo restored belong to the call that wrote them; calls that were undone
are listed below the lines.

With --format it prints this for other programs: agent-trace is a record of
Agent Trace 0.1, for the files as they are or for the lines that a commit added;
git-ai is the authorship log of Git AI 3.0.0 for a commit. A line is unknown
there unless it is certain that an agent wrote it. Without files, all files that
the commit changed are included. --write-note also stores the log as the note of
the commit in refs/notes/ai, unless the commit has one; nothing else writes to
the repository.`,
		Args: func(_ *cobra.Command, args []string) error {
			if err := x.misused(args); err != nil || x.format != "" {
				return err
			}
			if len(args) != 1 {
				return &misuse{"blame takes one file, or with --format several", "resilient-write blame notes.md"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if x.format == "" {
				return do(cmd.Context(), a, a.withOldStore, true, (*rw.Store).Blame, around.BlameRequest{Path: args[0]}, showBlame)
			}
			return a.withOldStore(cmd.Context(), true, func(ctx context.Context, s *rw.Store) error {
				x.ctx, x.store = ctx, s
				return x.run(args)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.format, "format", "", "print it as agent-trace or git-ai")
	f.StringVar(&x.commit, "commit", "", "with --format: the lines that this `commit` added; git-ai: HEAD")
	f.BoolVar(&x.write, "write-note", false, "with --format git-ai: also write the note")
	complete(cmd, "format", formatTrace, formatGitAI)
	return cmd
}

func showBlame(p *printer, r around.BlameResult) {
	calls := map[uint64]around.BlameCall{}
	for _, c := range r.Calls {
		calls[c.Row] = c
	}
	var rows [][]string
	for _, l := range r.Lines {
		c := calls[l.Row]
		who := printable(cmp.Or(c.Session, c.Caller))
		if l.Unrecorded {
			who = "not recorded"
		}
		rows = append(rows, []string{fmt.Sprint(l.Row), who, when(c.TS.String()), printable(callOf(c)), fmt.Sprint(l.Line), printable(l.Text)})
	}
	p.table([]string{"row", "who", "when", "call", "line", ""}, rows)
	for _, c := range r.Calls {
		if c.UndoneBy > 0 {
			p.line("row %d (%s, %s) was undone by row %d", c.Row, printable(cmp.Or(c.Session, c.Caller)), when(c.TS.String()), c.UndoneBy)
		}
	}
	if !r.Complete {
		p.line("%s not all versions are kept: lines of row 0 came before", p.paint(yellow, "note"))
	}
}

// callOf names the call, or the calls during which another program made a
// change.
func callOf(c around.BlameCall) string {
	if c.Via != nil && c.Via.Call != "" {
		return c.Via.Call
	}
	if len(c.During) > 0 {
		return strings.Join(c.During, " or ")
	}
	return c.Op
}

const (
	formatTrace = "agent-trace"
	formatGitAI = "git-ai"
	notesRef    = "refs/notes/ai"
)

// exporting is a call of blame for a program that reads another format.
type exporting struct {
	*app
	ctx    context.Context
	store  *rw.Store
	root   string
	below  string // the workspace, from the top of the work tree, with a / at its end
	format string
	commit string // "": files as they are
	write  bool   // the note

	files   []aitrace.File
	skipped []skippedBlame
}

// skippedBlame is a file that the output does not cover.
type skippedBlame struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func (x *exporting) misused(paths []string) error {
	switch {
	case x.format == "" && (x.commit != "" || x.write):
		return &misuse{"--commit and --write-note go with --format", "add --format git-ai"}
	case x.format != "" && x.format != formatTrace && x.format != formatGitAI:
		return &misuse{"the format is unknown", didYouMean(x.format, "", []string{formatTrace, formatGitAI}, "the formats are agent-trace and git-ai")}
	case x.write && x.format != formatGitAI:
		return &misuse{"only git-ai is written as a note", "drop --write-note, or use --format git-ai"}
	case x.format == formatTrace && x.commit == "" && len(paths) == 0:
		return &misuse{"agent-trace takes files, or a commit", "resilient-write blame --format agent-trace --commit HEAD"}
	}
	if x.format == formatGitAI && x.commit == "" {
		x.commit = "HEAD"
	}
	return nil
}

// run exports the given files. If there are none, it exports those that the
// commit changed.
func (x *exporting) run(paths []string) error {
	var err error
	if x.root, err = x.realRoot(); err != nil {
		return err
	}
	if below, err := x.git(nil, "rev-parse", "--show-prefix"); err == nil {
		x.below = strings.TrimSuffix(below, "\n")
	} else if x.commit != "" {
		return rw.NewError(x.command, rw.ErrInvalidArgument, "the workspace is in no git repository, or git cannot be run", nil)
	}
	if x.commit == "" {
		for _, path := range paths {
			if err := x.add(filepath.ToSlash(path), around.BlameRequest{Path: path}, nil); err != nil {
				return err
			}
		}
		return x.print()
	}
	changed, err := x.changed()
	if err != nil {
		return err
	}
	for _, c := range changed {
		if len(paths) > 0 && !slices.Contains(paths, c.path) {
			continue
		}
		if err := x.addChange(c); err != nil {
			return err
		}
	}
	return x.print()
}

// git runs a git command in the workspace.
func (x *exporting) git(in io.Reader, args ...string) (string, error) {
	cmd := gitcmd.New(x.ctx, x.root, args...)
	cmd.Stdin = in
	out, err := cmd.Output()
	return string(out), err
}

// gitChange is a file of the workspace that a commit has changed.
type gitChange struct{ path, old, now string } // objects; old is "" for a new file

// changed resolves the commit and lists what it changed, compared with its first
// parent.
func (x *exporting) changed() (list []gitChange, err error) {
	line, err := x.git(nil, "rev-list", "--parents", "-n", "1", "--end-of-options", x.commit)
	ids := strings.Fields(line)
	if err != nil || len(ids) == 0 {
		return nil, rw.NewError(x.command, rw.ErrInvalidArgument, "the repository has no such commit; name another one with --commit", nil)
	}
	x.commit = ids[0]
	args := []string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-commit-id", "--root", x.commit}
	if len(ids) > 1 {
		args = append(args[:len(args)-2], ids[1], x.commit)
	}
	out, err := x.git(nil, args...)
	if err != nil {
		return nil, err
	}
	fields := strings.Split(out, "\x00") // :mode mode object object letter, path
	for i := 0; i+1 < len(fields); i += 2 {
		of := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		path, here := strings.CutPrefix(fields[i+1], x.below)
		if len(of) != 5 || !here || !strings.HasPrefix(of[1], "100") {
			continue // outside, deleted, a link or a submodule
		}
		c := gitChange{path: path, now: of[3]}
		if strings.HasPrefix(of[0], "100") {
			c.old = of[2]
		}
		list = append(list, c)
	}
	return list, nil
}

// addChange adds the lines that the commit brought into a file.
func (x *exporting) addChange(c gitChange) error {
	var old string
	now, err := x.git(nil, "cat-file", "blob", c.now)
	if err == nil && c.old != "" {
		old, err = x.git(nil, "cat-file", "blob", c.old)
	}
	if err != nil {
		return err
	}
	list, err := merge.Hunks([]byte(old), []byte(now))
	if err != nil {
		x.skipped = append(x.skipped, skippedBlame{c.path, string(rw.ErrTooLarge)})
		return nil
	}
	return x.add(c.path, around.BlameRequest{Path: c.path, SHA256: sha256.Sum256([]byte(now))}, func(line int) bool {
		return slices.ContainsFunc(list, func(h merge.Hunk) bool { return line > h.NewFrom && line <= h.NewTo })
	})
}

// add adds a file; in, if not nil, chooses its lines.
func (x *exporting) add(path string, r around.BlameRequest, in func(int) bool) error {
	b, err := x.store.Blame(x.ctx, r)
	var e *rw.Error
	if errors.As(err, &e) && slices.Contains([]rw.Detail{rw.ErrVersionNotFound, rw.ErrVersionNotKept, rw.ErrNotUTF8, rw.ErrTooLarge}, e.Detail) {
		x.skipped = append(x.skipped, skippedBlame{path, string(e.Detail)})
		return nil
	}
	if err != nil {
		return err
	}
	authors := map[uint64]aitrace.Author{}
	for _, c := range b.Calls {
		authors[c.Row] = authorOf(c)
	}
	f := aitrace.File{Path: x.below + path}
	for _, l := range b.Lines {
		if in == nil || in(l.Line) {
			f.Lines = append(f.Lines, aitrace.Line{Number: l.Line, By: authors[l.Row]})
		}
	}
	x.files = append(x.files, f)
	return nil
}

// authorOf returns the author of a call. An agent is certain to have made the
// changes that an adapter or a host reported. For other changes, and those during
// several calls, the author is unknown.
func authorOf(c around.BlameCall) aitrace.Author {
	if c.Via == nil || c.Caller == around.CallerOutside && len(c.During) != 1 {
		return aitrace.Author{}
	}
	return aitrace.Author{AI: true, Tool: cmp.Or(c.Via.Client, c.Caller), Session: c.Session, Model: c.Via.Model, Call: fmt.Sprint(c.Row, " ", c.TS)}
}

// print prints the document, and writes the note if requested.
func (x *exporting) print() error {
	var text []byte
	var err error
	if x.format == formatTrace {
		text, err = aitrace.AgentTrace(x.files, x.commit, rw.Version, now())
	} else {
		var left []string
		text, left, err = aitrace.GitAI(x.files, x.commit)
		for _, path := range left {
			x.skipped = append(x.skipped, skippedBlame{path, "path"})
		}
	}
	if err == nil && x.write {
		err = x.writeNote(text)
	}
	if err != nil {
		return err
	}
	r := struct {
		Format  string         `json:"format"`
		Commit  string         `json:"commit,omitempty"`
		Text    string         `json:"text"`
		Skipped []skippedBlame `json:"skipped"`
	}{x.format, x.commit, string(text), append([]skippedBlame{}, x.skipped...)}
	if x.json {
		return present(x.app, r, nil)
	}
	for _, f := range x.skipped {
		fmt.Fprintf(x.errs, "skipped %s (%s)\n", printable(f.Path), f.Reason)
	}
	x.out.Write(text)
	x.done.reply, err = success(r) // for --result-out: standard output holds the document
	return err
}

// writeNote makes the text the note of the commit.
func (x *exporting) writeNote(text []byte) error {
	if bytes.HasPrefix(text, []byte("---\n")) {
		return rw.NewError(x.command, rw.ErrInvalidArgument, "no line of the commit is known to be of an agent, so no note was written", nil)
	}
	if _, err := x.git(nil, "notes", "--ref="+notesRef, "list", x.commit); err == nil {
		return rw.NewError(x.command, rw.ErrFileAlreadyExists, "the commit has a note in "+notesRef+" already, and it was left as it is", nil)
	}
	if _, err := x.git(bytes.NewReader(text), "notes", "--ref="+notesRef, "add", "-F", "-", x.commit); err != nil {
		return rw.NewError(x.command, rw.ErrIO, "git did not write the note; it needs user.name and user.email, and a repository that can be written", nil)
	}
	return nil
}
