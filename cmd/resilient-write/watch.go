package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/dirwatch"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	htmlreport "github.com/resilientwrite/resilientwrite/report"
)

// watch shows what happens in the store, in any process.
func (a *app) watch() *cobra.Command {
	capture := false
	cmd := &cobra.Command{
		Use: "watch", Short: "Show live what runs, what changed, what was refused and what waits", GroupID: "look", Args: noArguments,
		Long: `Show live, until Ctrl-C, which calls run, what waits for you, what was refused
and why, and what changed, with the diff of one change. It sees every process
that writes, and only reads: it creates no store and does not count as a writer.

On a terminal the arrow keys choose the change whose diff is shown, and q quits.
Elsewhere, and if TERM is dumb, it prints a line for each event, or with --json an object.

With --capture it writes to the store. Whenever something changes in the
workspace, it scans, records what other programs changed, and prints a line for
each group. This works without hooks, but then the command lines are not known.
If hooks are used too, a change made during a call is recorded as part of that
call.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if capture {
				return a.capture(cmd.Context())
			}
			if a.json || !isTerminal(a.out.w) || a.dumb() {
				return a.everyLook(cmd.Context(), (&eventWatch{a: a}).poll)
			}
			return (&screenWatch{a: a, p: a.printer()}).run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&capture, "capture", false, "record what other programs change, as it happens")
	return cmd
}

// watchRows is how many rows one poll reads when every change is printed.
const watchRows = 1000

// eventWatch prints what happens, one line per event.
type eventWatch struct {
	a     *app
	begun bool
	memo  overview.Memo
	last  uint64          // last printed row
	open  map[string]bool // entries printed as waiting, running or stopped
}

// event is one thing that happened, for programs.
type event struct {
	row     uint64
	Event   string              `json:"event"` // watching, changed, refused, waiting, running, ended, stopped or missed
	TS      string              `json:"ts"`
	Change  *htmlreport.Change  `json:"change,omitempty"`
	Diffs   []overview.FileDiff `json:"diffs,omitempty"`
	Refused *htmlreport.Refusal `json:"refused,omitempty"`
	Waiting *htmlreport.Waiting `json:"waiting,omitempty"`
	Running *htmlreport.Call    `json:"running,omitempty"`
	Text    string              `json:"text,omitempty"`
	Scan    *around.ScanResult  `json:"scan,omitempty"` // of captured
}

// poll prints new events, the oldest first.
func (w *eventWatch) poll(ctx context.Context, s *rw.Store) error {
	clean := overview.NewCleaner(s)
	o, err := overview.Read(ctx, s, clean, overview.Request{Rows: watchRows, Changes: watchRows, After: w.last, State: w.a.set.stateDirectory(), Memo: &w.memo})
	if err != nil {
		return err
	}
	list := w.states(o)
	if !w.begun { // earlier events are in the journal
		w.begun, w.last, o.Changes, o.Refused = true, o.Rows, nil, nil
		list = append([]event{{Event: "watching", Text: fmt.Sprintf("from row %d on", o.Rows+1)}}, list...)
	}
	if o.From > w.last+1 && o.Rows > w.last+watchRows {
		list = append(list, event{Event: "missed", Text: fmt.Sprintf("rows %d to %d are not shown; resilient-write log shows them", w.last+1, o.From-1)})
	}
	var news []event
	for _, c := range slices.Backward(o.Changes) {
		diffs, err := overview.Diffs(ctx, s, clean, c.Row)
		if err != nil {
			return err
		}
		news = append(news, event{row: c.Row, Event: "changed", TS: c.TS, Change: &c, Diffs: diffs})
	}
	for _, r := range slices.Backward(o.Refused) {
		news = append(news, event{row: r.Row, Event: "refused", TS: r.TS, Refused: &r})
	}
	slices.SortStableFunc(news, func(a, b event) int { return cmp.Compare(a.row, b.row) })
	if len(news) > 0 {
		w.last = news[len(news)-1].row
	}
	for _, e := range append(list, news...) {
		if err := w.a.event(e); err != nil {
			return err
		}
	}
	return nil
}

// states returns the events of entries that last for some time: began, or
// ended.
func (w *eventWatch) states(o *htmlreport.Overview) (list []event) {
	open, was := map[string]bool{}, w.open
	state := func(name string, e event) {
		if open[name] = true; !was[name] {
			list = append(list, e)
		}
	}
	for _, text := range o.Stopped {
		state("stopped "+text, event{Event: "stopped", Text: text})
	}
	for _, c := range o.Running {
		state(fmt.Sprint("running ", c.Op, c.PID, c.Since), event{Event: "running", Running: &c})
	}
	for _, one := range o.Waiting {
		state("waiting "+one.Kind+" "+one.Name, event{Event: "waiting", Waiting: &one})
	}
	for name := range was {
		if !open[name] && strings.HasPrefix(name, "waiting ") {
			list = append(list, event{Event: "ended", Text: strings.TrimPrefix(name, "waiting ")})
		}
	}
	w.open = open
	return list
}

// event prints an event: an object for a program, a line for a person.
func (a *app) event(e event) error {
	e.TS = cmp.Or(e.TS, now().UTC().Format(time.RFC3339))
	if a.json {
		data, err := schema.Encode(e)
		if err != nil {
			return err
		}
		return a.document(data)
	}
	words := []string{e.Text}
	switch {
	case e.Change != nil:
		added, removed := 0, 0
		for _, d := range e.Diffs {
			added, removed = added+d.Diff.Added, removed+d.Diff.Removed
		}
		words = []string{e.Change.Op, e.Change.Summary(), fmt.Sprintf("+%d -%d lines", added, removed), fmt.Sprintf("row %d by %s", e.Change.Row, e.Change.Caller)}
	case e.Refused != nil:
		words = []string{e.Refused.Op, e.Refused.Path, e.Refused.Reason, spoken(e.Refused.Why), "by " + e.Refused.Caller}
	case e.Waiting != nil:
		words = []string{e.Waiting.Text + ": " + e.Waiting.Command}
	case e.Running != nil:
		words = []string{e.Running.Op, strings.Join(e.Running.Paths, ", "), caller(*e.Running)}
	}
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	ts := e.TS
	if t, err := time.Parse(time.RFC3339Nano, ts); err == nil {
		ts = t.Local().Format("2006-01-02 15:04:05")
	}
	fmt.Fprintf(a.out, "%s  %-8s %s\n", printable(ts), e.Event, printable(strings.Join(words, "  ")))
	return a.out.failed()
}

// screenWatch shows the current state on a terminal.
type screenWatch struct {
	a      *app
	p      *printer
	o      *htmlreport.Overview
	memo   overview.Memo
	chosen uint64 // row whose diff is shown; 0: the newest
	shown  uint64 // row of the diff
	diff   []string
}

// Escape sequences sent to a terminal at the beginning and at the end: the alternate
// screen, without a cursor, where long lines are cut.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

func (w *screenWatch) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	keys := make(chan string)
	if in, ok := w.a.in.(*os.File); ok && isTerminal(in) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return err
		}
		defer term.Restore(int(in.Fd()), before)
		go readKeys(ctx, in, keys)
	}
	io.WriteString(w.a.out, enterScreen)
	defer io.WriteString(w.a.out.w, leaveScreen) // also if a signal ended it
	l := &overview.Looker{State: w.a.set.stateDirectory()}
	for {
		if l.Due() {
			if err := w.read(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		w.draw()
		if ctx.Err() != nil || w.a.out.failed() != nil {
			return w.a.out.failed()
		}
		select {
		case <-ctx.Done():
			return nil
		case key := <-keys:
			if !w.press(key) {
				return nil
			}
			l.Again() // the diff of another change
		case <-time.After(overview.Every):
		}
	}
}

// readKeys sends the keys that are typed.
func readKeys(ctx context.Context, in io.Reader, keys chan<- string) {
	part := make([]byte, 64)
	for {
		n, err := in.Read(part)
		if err != nil {
			return
		}
		select {
		case keys <- string(part[:n]):
		case <-ctx.Done():
			return
		}
	}
}

// press handles a key. It returns false to end.
func (w *screenWatch) press(key string) bool {
	switch key {
	case "q", "\x03", "\x04":
		return false
	case "k", "\x1b[A", "\x1bOA":
		w.choose(-1)
	case "j", "\x1b[B", "\x1bOB":
		w.choose(1)
	}
	return true
}

// at returns the index of the chosen change in the list.
func (w *screenWatch) at() int {
	return max(0, slices.IndexFunc(w.o.Changes, func(c htmlreport.Change) bool { return c.Row == w.chosen }))
}

func (w *screenWatch) choose(by int) {
	if w.o == nil || len(w.o.Changes) == 0 {
		return
	}
	at := w.at() + by
	if w.chosen = 0; at > 0 { // the newest stays the newest
		w.chosen = w.o.Changes[min(at, len(w.o.Changes)-1)].Row
	}
}

// read reads the overview, and the diff of the chosen change.
func (w *screenWatch) read(ctx context.Context) error {
	return w.a.withStore(ctx, true, func(ctx context.Context, s *rw.Store) error {
		clean := overview.NewCleaner(s)
		o, err := overview.Read(ctx, s, clean, overview.Request{Rows: recentRows, Changes: newest, State: w.a.set.stateDirectory(), Memo: &w.memo})
		if err != nil {
			return err
		}
		w.o = o
		if len(o.Changes) == 0 {
			return nil
		}
		c := o.Changes[w.at()]
		if c.Row != w.shown {
			diffs, err := overview.Diffs(ctx, s, clean, c.Row)
			if err != nil {
				return err
			}
			w.shown, w.diff = c.Row, nil
			for _, f := range diffs {
				w.diff = append(w.diff, w.p.paint(cyan, printable(f.Path)))
				w.diff = append(w.diff, w.lines(f.Diff)...)
			}
		}
		return nil
	})
}

// lines returns the lines of a diff, in color.
func (w *screenWatch) lines(d htmlreport.Diff) (list []string) {
	if d.Why != "" {
		return []string{w.p.paint(faint, d.Why)}
	}
	colors := map[string]string{"+": green, "-": red, "@": cyan}
	for _, l := range d.Lines() {
		text := printable(l.Op + strings.ReplaceAll(l.Text, "\t", "    "))
		if color := colors[l.Op]; color != "" {
			text = w.p.paint(color, text)
		}
		list = append(list, text)
	}
	return list
}

// draw draws the screen, from top to bottom, in one write.
func (w *screenWatch) draw() {
	high := 24
	if f, ok := w.a.out.w.(*os.File); ok {
		if _, h, err := term.GetSize(int(f.Fd())); err == nil && h > 0 {
			high = h
		}
	}
	lines := []string{w.p.paint(faint, "resilient-write watch   arrows choose a change, q ends")}
	if w.o != nil {
		for i, part := range parts(w.p, w.o) {
			if len(part.lines) == 0 {
				continue
			}
			lines = append(lines, w.p.paint(cyan, part.title))
			for j, line := range part.lines[:min(len(part.lines), newest)] {
				mark := "  "
				if i == partChanged && j == w.at() {
					mark = "> "
				}
				lines = append(lines, mark+line)
			}
			if n := len(part.lines) - newest; n > 0 {
				lines = append(lines, fmt.Sprintf("  and %d more: resilient-write status", n))
			}
		}
		if len(w.o.Changes) == 0 && len(w.o.Refused) == 0 {
			lines = append(lines, "nothing was changed yet")
		} else if len(w.o.Changes) > 0 {
			lines = append(lines, w.p.paint(faint, "undo it: "+w.o.Changes[w.at()].Undo()), "")
			lines = append(lines, w.diff...)
		}
	}
	if len(lines) > high {
		lines = append(lines[:high-1], w.p.paint(faint, "…"))
	}
	fmt.Fprintf(w.a.out, "\x1b[H%s\x1b[K\x1b[J", strings.Join(lines, "\x1b[K\r\n"))
}

const (
	captureQuiet   = 250 * time.Millisecond // quiet time before a scan
	captureLongest = 2 * time.Second        // after the first change
	captureBlind   = 30 * time.Second       // between scans if not all directories are watched
	captureAgain   = time.Second            // before a scan is repeated
	captureEnd     = 5 * time.Second        // for the last scan
)

// capturing records changes of other programs until it is stopped.
type capturing struct {
	a     *app
	s     *rw.Store
	d     *dirwatch.Watcher
	begun bool // all directories have been watched once
	blind bool // not all of them are watched
}

// capture scans whenever something changes below the root.
func (a *app) capture(ctx context.Context) error {
	root, err := a.realRoot()
	if err != nil {
		return err
	}
	return a.withStore(ctx, false, func(ctx context.Context, s *rw.Store) error {
		d, err := dirwatch.New(root)
		c := &capturing{a: a, s: s, d: d}
		if err != nil { // everything is looked at from time to time
			text := "the system cannot watch files: " + plainError(err)
			if errors.Is(err, syscall.EMFILE) {
				text += "; raise the sysctl fs.inotify.max_user_instances, or the limit of open files, and start it again"
			}
			if err := c.say("limited", text); err != nil {
				return err
			}
		}
		defer d.Close()
		if err := c.run(ctx); ctx.Err() == nil {
			return err
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), captureEnd)
		defer cancel()
		_, _, err = c.scan(last)
		return err
	})
}

// run scans until the context ends. Directories that a scan finds are watched
// only after it, so the scan is repeated until it finds no new ones.
func (c *capturing) run(ctx context.Context) error {
	for ctx.Err() == nil {
		r, seen, err := c.scan(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		every := captureAgain // a file is being written, or a commit takes long: scan again soon
		if seen {
			added, unwatched := c.d.Watch(r.Directories())
			if err := c.announce(len(r.Directories()), unwatched); err != nil {
				return err
			}
			if added > 0 || r.Partial {
				continue
			}
			switch {
			case len(r.Busy) > 0:
			case c.blind:
				every = captureBlind
			default:
				every = 0
			}
		}
		if err := c.d.Wait(ctx, captureQuiet, captureLongest, every); err != nil && ctx.Err() == nil {
			if err := c.say("limited", "the system reports: "+plainError(err)); err != nil {
				return err
			}
		}
	}
	return nil
}

// announce prints what is watched, once.
func (c *capturing) announce(all, unwatched int) error {
	begun, blind := c.begun, c.blind
	c.begun, c.blind = true, unwatched > 0
	if c.blind && !blind {
		return c.say("limited", fmt.Sprintf("the system does not watch %d of %d directories; everything is looked at every %v", unwatched, all, captureBlind))
	}
	if !begun {
		return c.say("capturing", fmt.Sprintf("directories: %d, until it is interrupted", all))
	}
	return nil
}

// scan records what changed, during the open tool calls. It reports false if it
// must be repeated.
func (c *capturing) scan(ctx context.Context) (r around.ScanResult, seen bool, err error) {
	r, err = c.s.BeginCall(ctx, around.ToolCall{Host: "watch", Event: "scan"})
	var e *rw.Error
	switch {
	case ctx.Err() != nil, errors.As(err, &e) && e.Detail == rw.ErrLockTimeout:
		return r, false, nil
	case err != nil || r.Group == "":
		return r, true, err
	}
	text := fmt.Sprintf("%d created, %d changed, %d deleted, %d moved, %d with another mode; undo with: resilient-write undo --group %s", r.Created, r.Changed, r.Deleted, r.Moved, r.Modes, r.Group)
	if err := c.a.event(event{Event: "captured", Text: text, Scan: &r}); err != nil {
		return r, true, err
	}
	for _, f := range r.Findings {
		if err := c.say("finding", fmt.Sprintf("%s:%d looks like %s (%s)", f.Path, f.Line, f.Pattern, f.Confidence)); err != nil {
			return r, true, err
		}
	}
	return r, true, nil
}

func (c *capturing) say(name, text string) error { return c.a.event(event{Event: name, Text: text}) }
