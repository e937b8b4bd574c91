package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/clients"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/hostevent"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// initOptions are the flags of init.
type initOptions struct {
	all, approve, hooks, remove, dryRun, yes, noInstructions bool
	scope, tier                                              string
}

// init configures MCP clients.
func (a *app) init() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use: "init CLIENT...", Short: "Configure MCP clients, and instruct their agents to use the tools", GroupID: "upkeep",
		Long: `Add this server to the configuration of MCP clients, and add instructions to the
file that their agents read. With --hooks, also configure the client to report
its tool calls, so that changes made by shell commands can be listed and undone.
Only the entry, these hooks and the lines between two markers are changed; every
other byte of a file is kept. A file that cannot be parsed is left alone. Running
init again changes nothing. --remove removes everything that init added, and a
file in which nothing else is left.

On a terminal the changes are shown, and init asks before it writes them. In a
script it writes at once; --dry-run only shows the changes.

If the client has a configuration file for the project and reads it without
further steps, the entry is written there, otherwise into the file of the user.
--scope selects one of the two.

Clients: ` + strings.Join(clients.Names(), ", ") + ".",
		ValidArgs: clients.Names(),
		RunE:      func(_ *cobra.Command, args []string) error { return a.runInit(args, o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "configure every client that is found on this machine")
	f.BoolVar(&o.approve, "approve", false, "let the clients call the tools without asking, also when headless")
	f.BoolVar(&o.hooks, "hooks", false, "have the clients report what shell commands change")
	f.BoolVar(&o.remove, "remove", false, "remove the entry, the approval, the hooks and the instructions")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the changes, but write nothing")
	f.BoolVar(&o.yes, "yes", false, "do not ask for confirmation on a terminal")
	f.BoolVar(&o.noInstructions, "no-instructions", false, "write only the configuration")
	f.StringVar(&o.scope, "scope", "", "project or user; default: as described above")
	f.StringVar(&o.tier, "tier", "", "which tools the server lists: core, standard or full; default standard")
	complete(cmd, "scope", "project", "user")
	complete(cmd, "tier", "core", "standard", "full")
	return cmd
}

// setup is one run of init.
type setup struct {
	initOptions
	place clients.Place
	files []*edited // in the order of their first change
	reply initReply
}

// edited is one file, with its current and its intended content.
type edited struct {
	path, shown   string
	before, after string
	was           string // after the clients before
	there         bool
	exec          bool // it is executable
}

// initReply reports what init did.
type initReply struct {
	DryRun  bool         `json:"dry_run"`
	Clients []initClient `json:"clients"`
	Files   []initFile   `json:"files"`
}

type initClient struct {
	Client string   `json:"client"`
	Status string   `json:"status"` // configured, unchanged, removed or refused
	Notes  []string `json:"notes,omitempty"`
}

type initFile struct {
	File   string `json:"file"`
	Change string `json:"change"` // created, changed or deleted
	Diff   string `json:"diff"`
}

func (a *app) runInit(names []string, o initOptions) error {
	place, err := a.machine()
	if err != nil {
		return err
	}
	s := &setup{initOptions: o, place: place, reply: initReply{DryRun: o.dryRun, Clients: []initClient{}, Files: []initFile{}}}
	list, err := s.chosen(names)
	if err != nil {
		return err
	}
	if err := a.askMore(s, list); err != nil {
		return err
	}
	refused := false
	for _, c := range list {
		status, notes := s.plan(c)
		refused = refused || status == "refused"
		s.reply.Clients = append(s.reply.Clients, initClient{c.Name, status, notes})
	}
	s.files = slices.DeleteFunc(s.files, func(f *edited) bool { return f.before == f.after })
	for _, f := range s.files {
		s.reply.Files = append(s.reply.Files, initFile{f.shown, f.change(), f.diff()})
	}
	if !o.dryRun {
		if err := a.carryOut(s); err != nil {
			return err
		}
	}
	if err := present(a, s.reply, a.showInit); err != nil || !refused {
		return err
	}
	a.done.code = rw.CodeInvalid
	return nil
}

// machine describes this machine and the project, for the table of clients.
func (a *app) machine() (clients.Place, error) {
	root, err := a.realRoot()
	if err != nil {
		return clients.Place{}, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return clients.Place{}, &misuse{"the home directory is not known", "set HOME"}
	}
	config, err := os.UserConfigDir()
	return clients.Place{OS: runtime.GOOS, Home: relpath.Resolved(home), Config: config, Project: root}, err
}

// chosen returns the clients that are named, or found.
func (s *setup) chosen(names []string) (list []clients.Client, err error) {
	if s.scope != "" && s.scope != string(clients.Project) && s.scope != string(clients.User) {
		return nil, &misuse{"unknown scope", "use --scope project or --scope user"}
	}
	if tiers := []string{"", "core", "standard", "full"}; !slices.Contains(tiers, s.tier) {
		return nil, &misuse{"unknown tier", didYouMean(s.tier, "", tiers[1:], "the tiers are core, standard and full")}
	}
	for _, name := range names {
		c, ok := clients.Find(name)
		if !ok {
			return nil, &misuse{"unknown client", didYouMean(name, "", clients.Names(), "the clients are "+strings.Join(clients.Names(), ", "))}
		}
		list = append(list, c)
	}
	if s.all {
		for _, c := range clients.Table {
			if !slices.Contains(names, c.Name) && (s.found(c) || s.remove) {
				list = append(list, c)
			}
		}
	}
	if len(list) == 0 {
		what := "no client is named"
		if s.all {
			what = "no client is found"
		}
		return nil, &misuse{what, "the clients are " + strings.Join(clients.Names(), ", ")}
	}
	return list, nil
}

// found reports whether a client seems to be installed: its program is in PATH,
// or its file for the user, or the directory of that file, exists.
func (s *setup) found(c clients.Client) bool {
	if c.Program != "" {
		if _, err := exec.LookPath(c.Program); err == nil {
			return true
		}
	}
	f, ok := c.File(clients.User)
	if !ok {
		return false
	}
	path := s.place.Find(f)
	if dir := filepath.Dir(path); dir != s.place.Home {
		path = dir
	}
	_, err := os.Stat(path)
	return err == nil
}

// plan makes the changes for one client, in memory.
func (s *setup) plan(c clients.Client) (status string, notes []string) {
	for _, f := range s.files {
		f.was = f.after
	}
	for _, f := range c.Files {
		if s.scope != "" && string(f.Scope) != s.scope || s.scope == "" && !s.remove && f != c.Files[0] {
			continue
		}
		if needs := f.Scope == clients.Project || strings.Contains(f.Root, "{root}"); needs && !s.remove && s.place.Project == s.place.Home {
			return "refused", []string{"the home directory is not a project; change to one, or name it with --root"}
		}
		err := s.planFile(c, f)
		if err == nil {
			notes, err = s.planHooks(c, f, notes)
		}
		if err != nil {
			for _, f := range s.files { // a client is configured completely or not at all
				f.after = f.was
			}
			note := plainError(err) + "; nothing was changed for " + c.Title + ". Edit the file by hand, as docs/install.md shows"
			if text, err := s.alone(c, f); err == nil && !s.remove {
				note += ". A file with the entry alone:\n" + strings.TrimSpace(text)
			}
			return "refused", []string{note}
		}
		if !s.remove {
			notes = append(notes, c.Notes(s.approve)...)
			if s.hooks && c.Trust != "" {
				notes = append(notes, c.Trust)
			}
		}
		status = "configured"
	}
	switch {
	case status == "":
		return "refused", []string{c.Title + " has no file for this scope"}
	case !slices.ContainsFunc(s.files, func(f *edited) bool { return f.after != f.was }):
		status = "unchanged"
	case s.remove:
		status = "removed"
	}
	return status, notes
}

// edits returns what a file of a client says of this server, by path, if was is
// its entry.
func (s *setup) edits(c clients.Client, f clients.File, was map[string]any) (map[string][]clients.Edit, error) {
	edits := map[string][]clients.Edit{}
	command, err := ownCommand(c.Whole)
	if err != nil {
		return nil, err
	}
	for _, e := range c.Edits(f, clients.Setup{Command: command, Root: s.place.Project, Tier: s.tier, Approve: s.approve || s.remove, Was: was}) {
		path := s.place.Find(f)
		if e.File != "" {
			path = s.place.Path(e.File)
		}
		edits[path] = append(edits[path], e)
	}
	return edits, nil
}

// alone returns the text of a file that has the entry and nothing else.
func (s *setup) alone(c clients.Client, f clients.File) (string, error) {
	edits, err := s.edits(c, f, nil)
	if err != nil {
		return "", err
	}
	return clients.Set(c.Format, "", edits[s.place.Find(f)])
}

// planFile makes the changes that belong to one file of a client.
func (s *setup) planFile(c clients.Client, f clients.File) error {
	var was map[string]any
	if file, err := s.file(s.place.Find(f)); err == nil {
		was, _ = c.Ours(file.after)
	}
	edits, err := s.edits(c, f, was)
	if err != nil {
		return err
	}
	for path, list := range edits {
		err := s.edit(path, func(text string) (string, error) {
			switch {
			case !s.remove && path == s.place.Find(f) && c.Remote(text):
				return "", errors.New("the entry is for a server that runs already")
			case !s.remove:
				return clients.Set(c.Format, text, list)
			case path == s.place.Find(f):
				return clients.Unset(c.Format, text, clients.Edit{At: c.At, Key: clients.Server})
			}
			return clients.Unset(c.Format, text, list[0])
		})
		if err != nil {
			return err
		}
	}
	if f.Instructions == "" || s.noInstructions || s.remove && s.wanted(c, f) {
		return nil
	}
	return s.edit(s.place.Path(f.Instructions), func(text string) (string, error) {
		if s.remove {
			return clients.UnsetInstructions(text)
		}
		return clients.SetInstructions(f.Instructions, text)
	})
}

// planHooks makes the changes of the files with the hooks of a client, and adds to the notes
// which files stay.
func (s *setup) planHooks(c clients.Client, f clients.File, notes []string) ([]string, error) {
	if c.Hooks == "" || !s.hooks && !s.remove {
		return notes, nil
	}
	command, err := ownCommand(false)
	if err != nil {
		return notes, err
	}
	files, err := hostevent.Config(c.Hooks, command)
	if err != nil {
		return notes, err
	}
	for _, h := range files {
		path := s.place.Path(h.Project)
		if f.Scope == clients.User {
			path = s.place.Path(h.User)
		}
		err := s.edit(path, func(text string) (string, error) {
			own := h.Merge || h.Ours(text)
			switch {
			case !own && text != "" && s.remove:
				notes = append(notes, shownPath(s.place, path)+" is another hook, or was changed, and stays")
				return text, nil
			case !own && text != "":
				return "", errors.New("another hook is there, or one that was changed; move it away, and run init again")
			case s.remove && h.Merge:
				return clients.UnsetHooks(text)
			case s.remove:
				return "", nil
			case h.Merge:
				return clients.SetHooks(text, h.Text)
			}
			return h.Text, nil
		})
		if err != nil {
			return notes, err
		}
		if file, err := s.file(path); err == nil {
			file.exec = h.Exec
		}
	}
	return notes, nil
}

// wanted reports whether another client that is configured reads the same
// instructions.
func (s *setup) wanted(c clients.Client, f clients.File) bool {
	for _, other := range clients.Table {
		for _, g := range other.Files {
			if other.Name == c.Name || g.Instructions != f.Instructions {
				continue
			}
			file, err := s.file(s.place.Find(g))
			if err != nil {
				return true
			}
			if _, ok := other.Ours(file.after); ok {
				return true
			}
		}
	}
	return false
}

// edit changes one file in memory. Its error names the file.
func (s *setup) edit(path string, change func(string) (string, error)) (err error) {
	defer func() {
		if err != nil {
			err = errors.New(s.shown(path) + ": " + plainError(err))
		}
	}()
	f, err := s.file(path)
	if err != nil {
		return err
	}
	after, err := change(f.after)
	if err != nil || after == f.after {
		return err
	}
	if info, err := os.Stat(f.path); err == nil && info.Mode().Perm()&0o222 == 0 {
		return errors.New("it is read-only")
	}
	f.after = after
	return nil
}

// maxConfig limits the size of a configuration: a larger file is something
// else.
const maxConfig = 8 << 20

// file is a file of the run, read at its first use. A link is followed, so that
// the file that it names is replaced and not the link. A link of the project must
// not lead out of it: a clone could bring one that names a file of the user.
func (s *setup) file(path string) (*edited, error) {
	real, err := behindLinks(path)
	if err != nil {
		return nil, err
	}
	if relpath.Contains(s.place.Project, path) && !relpath.Contains(s.place.Project, real) {
		return nil, errors.New("it is, or lies behind, a link that leads out of the project")
	}
	path = real
	if i := slices.IndexFunc(s.files, func(f *edited) bool { return f.path == path }); i >= 0 {
		return s.files[i], nil
	}
	f := &edited{path: path, shown: s.shown(path)}
	text, err := readConfig(path)
	if err == nil {
		f.there, f.before, f.was, f.after = true, text, text, text
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.files = append(s.files, f)
	return f, nil
}

// behindLinks returns a path without links, also if its end does not exist yet.
func behindLinks(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
		return real, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", errors.New("it is a link to a file that does not exist")
	}
	dir, err := behindLinks(filepath.Dir(path))
	return filepath.Join(dir, filepath.Base(path)), err
}

func readConfig(path string) (string, error) {
	data, err := durable.ReadRegular(path, maxConfig)
	return string(data), err
}

// shown returns a path as people write it.
func (s *setup) shown(path string) string { return shownPath(s.place, path) }

func shownPath(p clients.Place, path string) string {
	if rest, ok := relpath.Below(p.Project, path); ok {
		return rest
	}
	if rest, ok := relpath.Below(p.Home, path); ok {
		return "~/" + rest
	}
	return filepath.Base(path)
}

func (f *edited) change() string {
	switch {
	case !f.there:
		return "created"
	case f.after == "":
		return "deleted"
	}
	return "changed"
}

// diff shows only the changed lines, and of a line that existed before only
// what changed in it: the rest of the line may be a secret of another server.
func (f *edited) diff() string {
	before, after := "a/"+f.shown, "b/"+f.shown
	if strings.HasPrefix(f.shown, "~/") { // a path outside the project
		before, after = f.shown, f.shown
	}
	text, err := udiff.ToUnified(before, after, f.before, udiff.Lines(f.before, f.after), 0)
	if err != nil {
		return ""
	}
	lines := strings.SplitAfter(text, "\n")
	for i := range lines {
		if !strings.HasPrefix(lines[i], "-") || i < 2 {
			continue
		}
		for j := i + 1; j < len(lines) && !strings.HasPrefix(lines[j], "@@"); j++ {
			if !strings.HasPrefix(lines[j], "+") {
				continue
			}
			if old, becomes, ok := middles(lines[i][1:], lines[j][1:]); ok {
				lines[i], lines[j] = "-"+old, "+"+becomes
				break
			}
		}
	}
	return strings.Join(lines, "")
}

// middles returns the parts of two lines between their common prefix and
// suffix, if these are long enough.
func middles(a, b string) (string, string, bool) {
	front, back := 0, 0
	for front < min(len(a), len(b)) && a[front] == b[front] {
		front++
	}
	for back < min(len(a), len(b))-front && a[len(a)-1-back] == b[len(b)-1-back] {
		back++
	}
	if front+back < 16 {
		return a, b, false
	}
	cut := func(line string) string {
		return strings.ToValidUTF8("…"+line[front:len(line)-back]+"…\n", "")
	}
	return cut(a), cut(b), true
}

// ownCommand returns how a client starts this program: by its name, if PATH
// leads to it, otherwise by its path.
func ownCommand(whole bool) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if found, err := exec.LookPath(clients.Program); err == nil && !whole && sameFile(own, found) {
		return clients.Program, nil
	}
	return own, nil
}

// askMore asks a person whether tools may run without a question, and whether
// hooks are wanted.
func (a *app) askMore(s *setup, list []clients.Client) (err error) {
	if s.remove || s.dryRun || s.yes || !a.person() {
		return nil
	}
	if !s.approve && slices.ContainsFunc(list, func(c clients.Client) bool { return len(c.Approve) > 0 }) {
		s.approve, err = a.agreed("May the agents call these tools without asking you each time? What they write can be undone.")
	}
	if err == nil && !s.hooks && slices.ContainsFunc(list, func(c clients.Client) bool { return c.Hooks != "" }) {
		s.hooks, err = a.agreed("Shall hooks report the agents' other tool calls? Then what a shell command changes can be listed and undone.")
	}
	return err
}

// person reports whether a user can be asked.
func (a *app) person() bool { return isTerminal(a.in) && !a.forPrograms() }

// agreed asks a question.
func (a *app) agreed(question string) (bool, error) {
	answer, err := a.answerTo(question + " [y/N] ")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// answerTo asks a question, and returns the line that is typed.
func (a *app) answerTo(question string) (string, error) {
	fmt.Fprint(a.messages(), question)
	line, err := lineOf(a.stdin)
	return strings.TrimSpace(string(line)), err
}

// carryOut writes the files.
func (a *app) carryOut(s *setup) error {
	if len(s.files) > 0 && a.person() && !s.yes {
		showDiffs(a.printer(), s.reply)
		yes, err := a.agreed("Write these changes?")
		if err != nil {
			return err
		}
		if !yes {
			return &declined{of: rw.NewError(a.command, rw.ErrCanceled, "--yes writes the changes without a question, --dry-run only shows them", nil)}
		}
	}
	for i, f := range s.files {
		err := f.write(s.place)
		if err == nil {
			continue
		}
		if errors.Is(err, errChanged) {
			err = rw.NewError(a.command, rw.ErrChangedDuringWrite, f.shown+" was not written: another program has changed it meanwhile; try again", nil)
		} else {
			err = streamError(a.command, f.shown+" was not written", err)
		}
		if e := (*rw.Error)(nil); i > 0 && errors.As(err, &e) { // others were
			e.Effect = rw.EffectUnknown
		}
		return err
	}
	return nil
}

// belowAny reports whether a directory is inside one of others, and is none of them.
func belowAny(dir string, others ...string) bool {
	return !slices.Contains(others, dir) && slices.ContainsFunc(others, func(o string) bool { return relpath.Contains(o, dir) })
}

var errChanged = errors.New("another program has changed it meanwhile")

// same fails if another program changed the file since it was read.
func (f *edited) same() error {
	switch text, err := readConfig(f.path); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && text != f.before, err == nil != f.there:
		return errChanged
	}
	return nil
}

// write replaces the file in one step, unless another program changed it since
// it was read.
func (f *edited) write(p clients.Place) error {
	if err := f.same(); err != nil {
		return err
	}
	perm, dirPerm := fs.FileMode(0o644), fs.FileMode(0o755)
	if !relpath.Contains(p.Project, f.path) {
		perm, dirPerm = 0o600, 0o700
	}
	if f.there {
		info, err := os.Stat(f.path)
		if err != nil {
			return err
		}
		perm = info.Mode().Perm()
	}
	if f.exec { // for those who may read it
		perm |= perm >> 2 & 0o111
	}
	if f.after == "" {
		err := os.Remove(f.path)
		for dir := filepath.Dir(f.path); err == nil && belowAny(dir, p.Project, p.Home); dir = filepath.Dir(dir) {
			if os.Remove(dir) != nil { // it holds something else
				break
			}
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), dirPerm); err != nil {
		return err
	}
	return replaceIn(f.path, perm, func(dir fsx.Dir, w fsx.File) error {
		if f.there {
			was, err := dir.Lstat(filepath.Base(f.path))
			if err != nil {
				return err
			}
			if w.Chown(was.UID, was.GID) != nil {
				w.Chown(-1, was.GID) // only root may give a file away
			}
			if err := w.Chmod(uint32(perm)); err != nil { // independent of the umask
				return err
			}
		}
		_, err := w.Write([]byte(f.after))
		return err
	}, f.same)
}

// showDiffs prints the changes of the files.
func showDiffs(p *printer, r initReply) {
	for _, f := range r.Files {
		p.diff(visible.Text(f.Diff, '?'))
	}
}

// showInit prints what was done, and what the user must do.
func (a *app) showInit(p *printer, r initReply) {
	if r.DryRun || !a.person() {
		showDiffs(p, r)
	}
	for _, f := range r.Files {
		what := f.Change
		if r.DryRun {
			what = "would be " + what
		}
		p.line("%s %s", p.paint(green, what), printable(f.File))
	}
	for _, c := range r.Clients {
		color := green
		if c.Status == "refused" {
			color = red
		}
		p.line("%s %s", p.paint(color, c.Status), c.Client)
		for _, note := range c.Notes {
			for line := range strings.SplitSeq(note, "\n") {
				p.line("  %s", printable(line))
			}
		}
	}
	p.line("%s", p.paint(faint, "resilient-write doctor starts each entry and tries it"))
}
