package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// result is the record of the run that --result-out and --result-fd get, for
// programs that must not read standard output.
type result struct {
	Command string          `json:"command"`
	Code    rw.Code         `json:"code"`
	Receipt json.RawMessage `json:"receipt"` // null if the call has none
	Reply   json.RawMessage `json:"reply"`   // reply that an MCP client would have received
}

// resultPlaces are the destinations of the result; each may be missing.
type resultPlaces struct {
	file string
	open *os.File
}

// tryResults checks, before any work, that the result can be written where the
// caller wants it. A destination that cannot be used gets nothing later.
func (a *app) tryResults() error {
	if a.results != nil {
		return nil
	}
	a.results = &resultPlaces{}
	var wrong error
	if a.resultFD != 0 {
		a.results.open, wrong = a.resultFD.open("--result-fd")
	}
	if a.resultFD != 0 || a.resultOut != "" {
		ignorePipeSignal() // the reader of standard output may close it: the result is written anyway
	}
	if a.resultOut == "" {
		return wrong
	}
	if err := a.tryReplacing(a.resultOut); err != nil {
		return errors.Join(wrong, err)
	}
	a.results.file = a.resultOut
	return wrong
}

// tryReplacing checks that a file may be replaced by another one: that its
// directory accepts new files, and that the existing entry is a regular file.
func (a *app) tryReplacing(name string) error {
	set := a.set
	if a.command == "" { // the flags were not read, or not all of them
		set.root, set.stateDir = cmp.Or(early(a.args, "--root"), set.root), cmp.Or(early(a.args, "--state-dir"), set.stateDir)
	}
	if err := set.place("--result-out", name); err != nil {
		return err
	}
	if info, err := os.Stat(name); err == nil {
		if out, ok := a.out.w.(*os.File); ok {
			if own, err := out.Stat(); err == nil && os.SameFile(info, own) {
				return &misuse{"--result-out is standard output, which is reserved for the reply", "name another file"}
			}
		}
	}
	f, err := os.OpenFile(durable.TempName(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return streamError(a.command, "--result-out cannot be written", err)
	}
	return nil
}

// leaveResult writes the result where the caller asked for it.
func (a *app) leaveResult() error {
	wrong := a.tryResults() // if the command line was wrong, they were not checked yet
	if a.results.file == "" && a.results.open == nil {
		return wrong
	}
	r := result{Command: a.command, Code: a.done.code, Receipt: json.RawMessage("null"), Reply: json.RawMessage("null")}
	if len(a.done.reply) > 0 {
		r.Reply, r.Receipt = a.done.reply, receiptOf(a.done.reply)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if a.results.open != nil {
		if _, err := a.results.open.Write(data); err != nil {
			wrong = errors.Join(wrong, err)
		}
	}
	if a.results.file != "" {
		wrong = errors.Join(wrong, replace(a.results.file, 0o600, writing(data)))
	}
	return wrong
}

// receiptOf finds the receipt of a reply: next to the facts of a success, in
// the context of a refusal.
func receiptOf(reply json.RawMessage) json.RawMessage {
	var r struct {
		Receipt json.RawMessage
		Context struct{ Receipt json.RawMessage }
	}
	json.Unmarshal(reply, &r)
	for _, one := range []json.RawMessage{r.Receipt, r.Context.Receipt} {
		if len(one) > 0 {
			return one
		}
	}
	return json.RawMessage("null")
}

// writing returns a function that writes data.
func writing(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// replace replaces a file with what write writes, in one step: completely and on
// stable storage, or not at all.
func replace(name string, perm fs.FileMode, write func(io.Writer) error) error {
	return replaceIn(name, perm, func(_ fsx.Dir, f fsx.File) error { return write(f) }, nil)
}

// replaceIn is replace with a function that is given the directory too, in which the old
// file still has its name, and with one that is asked before the old file is replaced.
func replaceIn(name string, perm fs.FileMode, write func(fsx.Dir, fsx.File) error, last func() error) error {
	dir, err := fsx.OpenRoot(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	name = filepath.Base(name)
	removeTemps(dir, name)
	err = durable.PlaceIf(dir, name, durable.TempName(name), uint32(perm), func(f fsx.File) error {
		f.TryLock(0, 1, true)
		return write(dir, f)
	}, last)
	if err == nil {
		dir.Sync() // not supported by some systems; the file exists anyway
	}
	return err
}

var tempOf = regexp.MustCompile(`^\.\d+-\d+\` + durable.TempSuffix + "$")

// removeTemps removes what killed processes have left of a file. A process locks what it
// writes, except for a moment at the beginning and at the end.
func removeTemps(dir fsx.Dir, name string) {
	names, _ := dir.Names()
	for _, n := range names {
		if rest, ok := strings.CutPrefix(n, name); !ok || !tempOf.MatchString(rest) {
			continue
		}
		f, err := dir.Open(n, fsx.Write, 0)
		if err != nil {
			continue
		}
		st, err := f.Stat()
		free, _ := f.TryLock(0, 1, true)
		f.Close()
		if err == nil && free && time.Since(st.ModTime()) > time.Second {
			dir.Remove(n)
		}
	}
}

// checkOut checks the file that --out names for an export or a page.
func (a *app) checkOut(out, article, what, example string) error {
	switch {
	case out == "":
		return &misuse{"--out names no file", "name a file, or - for standard output"}
	case out != "-":
		return a.set.place("--out", out)
	case isTerminal(a.out.w):
		return &misuse{"the " + what + " cannot be written to a terminal", "name a file: --out " + example}
	case a.json:
		return &misuse{"--json and " + article + " " + what + " on standard output", "name a file for the " + what + ": --out " + example}
	}
	return nil
}

// deliver writes an output to the file or to standard output, and reports it.
func deliver[T any](a *app, out, what string, write func(io.Writer) error, r T, show func(*printer, T)) (err error) {
	if out == "-" {
		err = write(a.out)
	} else {
		err = replace(out, 0o600, write)
	}
	if err != nil {
		return streamError(a.command, "the "+what+" was not written", err)
	}
	if out != "-" {
		return present(a, r, show)
	}
	a.done.reply, err = success(r) // for --result-out: standard output holds the output
	return err
}

// progressLog writes JSON lines that report the progress of a run. Each run
// begins with one event "begin" and ends with one event "end".
type progressLog struct {
	mu sync.Mutex
	w  io.Writer
}

type progressEvent struct {
	Event   string   `json:"event"` // begin, progress or end
	TS      string   `json:"ts"`
	Command string   `json:"command,omitempty"`
	Stage   rw.Stage `json:"stage,omitempty"`
	Done    int64    `json:"done,omitempty"`
	Total   int64    `json:"total,omitempty"`
	Message string   `json:"message,omitempty"`
	Code    *rw.Code `json:"code,omitempty"`
}

func (p *progressLog) write(e progressEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.TS = time.Now().UTC().Format(time.RFC3339Nano)
	if data, err := json.Marshal(e); err == nil {
		p.w.Write(append(data, '\n')) // errors are ignored
	}
}

// withProgress reports the progress of long calls: to the log, and as a bar on
// a terminal. done removes the bar.
func (a *app) withProgress(ctx context.Context) (_ context.Context, done func()) {
	bar := isTerminal(a.errs) && !a.json && !a.dumb()
	if a.progress == nil && !bar {
		return ctx, func() {}
	}
	drawn, began := false, now()
	ctx = rw.WithProgress(ctx, func(p rw.Progress) {
		if a.progress != nil {
			a.progress.write(progressEvent{Event: "progress", Stage: p.Stage, Done: p.Done, Total: p.Total, Message: p.Message})
		}
		if bar {
			drawn = true
			fmt.Fprint(a.errs, drawBar(p, now().Sub(began)))
		}
	})
	a.wipeBar = func() { // nothing draws any more: the call has ended
		if drawn {
			drawn = false
			fmt.Fprint(a.errs, wipe)
		}
	}
	return ctx, a.wipeBar
}

// wipe removes a bar.
const wipe = "\r\x1b[K"

const barCells = 24

// unitOf is the unit that a step counts.
var unitOf = map[rw.Stage]string{
	rw.StepVersions: "versions", rw.StepJournal: "rows", rw.StepHistory: "versions", rw.StepFiles: "files",
	rw.StepExport: "rows", rw.StepImport: "rows", rw.StepErase: "places", rw.StepSweep: "things", rw.StepRepair: "things",
}

// drawBar returns a line that the next one overwrites: how much is done, of
// what, and after the first second how fast.
func drawBar(p rw.Progress, since time.Duration) string {
	amount := func(n float64) string {
		if unit := unitOf[p.Stage]; unit != "" {
			return fmt.Sprintf("%.0f %s", n, unit)
		}
		return size(n)
	}
	line := amount(float64(p.Done))
	if p.Total > 0 {
		done := min(p.Done, p.Total)
		full := int(done * barCells / p.Total)
		line = fmt.Sprintf("[%s%s] %3d%%  %s of %s", strings.Repeat("#", full), strings.Repeat(" ", barCells-full), done*100/p.Total, amount(float64(done)), amount(float64(p.Total)))
	}
	if since >= time.Second { // a rate over less is meaningless
		line += "  " + amount(float64(p.Done)/since.Seconds()) + "/s"
	}
	return fmt.Sprintf("%s%-10s %s", wipe, p.Stage, line)
}

// descriptor is the value of a flag that names an open descriptor of the caller
// to write to; 0 means none.
type descriptor int

func (d *descriptor) String() string { return strconv.Itoa(int(*d)) }

func (d *descriptor) Type() string { return "int" }

// Set refuses the descriptors that have another meaning.
func (d *descriptor) Set(text string) error {
	const hint = "open one above 2 and name it, as in 3>file"
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return &misuse{"it is not the number of a descriptor", hint}
	case n == 0:
		return &misuse{"0 is standard input", hint}
	case n == 1:
		return &misuse{"1 is standard output, which is reserved for the reply", hint}
	}
	*d = descriptor(n)
	return nil
}

// open takes over the descriptor from the caller, who must have opened it for
// writing.
func (d descriptor) open(flag string) (*os.File, error) {
	if !handedOver(int(d)) {
		return nil, &misuse{fmt.Sprintf("%s: %d is not open for writing", flag, d), "open it for the command, as in " + strconv.Itoa(int(d)) + ">file"}
	}
	return os.NewFile(uintptr(d), flag), nil
}

// place checks where a file outside the workspace may be written: a result, a
// report, an export. The state directory, directories of version control
// systems, and what git reads or runs, are refused under every name and link. A
// file that does not exist yet is judged by its directory.
func (s *settings) place(flag, name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return &misuse{flag + " names no file", "name a file"}
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	real := filepath.Dir(abs)
	if there, err := filepath.EvalSymlinks(real); err == nil {
		real = there
	}
	for _, way := range []string{abs, filepath.Join(real, filepath.Base(abs))} {
		for part := range strings.SplitSeq(filepath.ToSlash(way), "/") {
			if relpath.ProtectedName(part, []string{".resilient_write"}) {
				return &misuse{flag + " is in a state directory, or in a directory of a version control system", "name a file elsewhere"}
			}
		}
	}
	if gitdir.Inside(real) {
		return &misuse{flag + " is in a directory of a version control system", "name a file elsewhere"}
	}
	root, err := filepath.Abs(s.root)
	if err != nil {
		return err
	}
	if gitdir.Uses(filepath.Join(real, filepath.Base(abs)), gitdir.ThisUser(), root) {
		return &misuse{flag + " is in a place that git reads or runs", "name a file elsewhere"}
	}
	own, err := s.findState()
	if err != nil {
		return err
	}
	for dir := real; ; dir = filepath.Dir(dir) {
		switch {
		case sameFile(dir, own):
			return &misuse{flag + " is in the state directory", "name a file elsewhere"}
		case filepath.Dir(dir) == dir:
			return nil
		}
	}
}

// stateDirectory is findState for callers that have the store open, or can do without.
func (s *settings) stateDirectory() string {
	dir, _ := s.findState()
	return dir
}

// findState returns the state directory of the workspace. The error is why it is not
// known whether there is one.
func (s *settings) findState() (string, error) {
	switch dir := s.stateDir; {
	case dir == "":
		at, err := place.At(s.root)
		if err != nil {
			err = streamError("open", "the state directory cannot be found", err)
		}
		return at, err
	case filepath.IsAbs(dir):
		return dir, nil
	default:
		return filepath.Join(s.root, dir), nil
	}
}

// tellPlace prints the warnings about the location of the state directory.
func (a *app) tellPlace(list []rw.Warning) {
	for _, w := range list {
		switch w.Reason {
		case call.WarnStateInTree, call.WarnSeveralStateDirs, call.WarnStateOfOtherRoot:
			a.warn(w)
		}
	}
}
