// Package overview reads from a store what people are shown: by status and
// watch, on the dashboard, and at the top of a report. It only reads.
package overview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/report"
)

// Request limits what is read.
type Request struct {
	Rows    int       // of the journal, the newest
	Changes int       // commits that are listed, and as many refusals
	Since   time.Time // what happened before is left out
	After   uint64    // rows up to this one are left out
	State   string    // the state directory, for the calls that run; "": they are left out
	Memo    *Memo     // of the reader before; nil: everything is read
}

// Memo caches results that are costly to read repeatedly: reading a handoff hashes the
// files that it lists.
type Memo struct {
	handoff string // hash of the handoff that was read
	items   []report.Waiting
}

const (
	filesOfChange = 20 // that are listed
	itemsWaiting  = 50 // of a kind
)

// Read reads an overview.
func Read(ctx context.Context, s *rw.Store, clean *Cleaner, r Request) (*report.Overview, error) {
	f := &fold{clean: clean, r: r, out: &report.Overview{
		Running: []report.Call{}, Changes: []report.Change{}, Refused: []report.Refusal{}, Waiting: []report.Waiting{}, Stopped: []string{},
	}}
	d, err := s.Describe(rw.WithGate(ctx, rw.GateOfAgents), rw.DescribeRequest{})
	if err != nil {
		return nil, err
	}
	f.out.Rows = d.HeadSeq
	f.stopped(d)
	tail, err := s.JournalTail(ctx, rw.JournalTailRequest{N: r.Rows, IncludeRefused: true})
	if err != nil {
		return nil, err
	}
	drafts, err := s.DraftList(ctx, rw.DraftListRequest{})
	if err != nil {
		return nil, err
	}
	if len(tail.Entries) > 0 {
		f.out.From = tail.Entries[0].Seq
	}
	f.rows(tail.Entries, drafts.Drafts)
	if err := f.waiting(ctx, s, d, drafts.Drafts); err != nil {
		return nil, err
	}
	if r.State != "" {
		if err := f.running(); err != nil {
			return nil, rw.NewError("status", rw.ErrIO, "the calls in progress could not be read; try again", nil)
		}
	}
	return f.out, errors.Join(clean.Err(), ctx.Err())
}

// fold builds an overview from the data that was read.
type fold struct {
	clean *Cleaner
	r     Request
	out   *report.Overview
}

func (f *fold) text(s string) string { return f.clean.Clean(s) }

// stopped reports why nothing can be written.
func (f *fold) stopped(d rw.DescribeResult) {
	if d.Poisoned {
		f.out.Stopped = append(f.out.Stopped, "A flush failed: nothing can be written until the store is opened again.")
	}
	if p := d.Policy.Problem; p != nil {
		f.out.Stopped = append(f.out.Stopped, f.text(fmt.Sprintf("The policy file %s is invalid at line %d: %s.", p.File, p.Line, p.Hint)))
	}
}

// rows takes the commits and the refusals, newest first.
func (f *fold) rows(entries []rw.JournalEntry, drafts []rw.Draft) {
	undone := map[string]bool{} // states of files that a later undo reverted
	at := -1
	for _, e := range slices.Backward(entries) {
		if f.early(e.TS.Time) || e.Seq <= f.r.After {
			continue
		}
		state := e.Path + "\x00" + e.SHA256.String()
		back := undone[state]
		delete(undone, state)
		if e.Kind == "commit" && e.Op == "undo" && !back {
			undone[e.Path+"\x00"+e.PrevSHA256.String()] = true
		}
		switch {
		case e.Kind == "refused" || e.Kind == "conflict":
			if len(f.out.Refused) < f.r.Changes {
				f.out.Refused = append(f.out.Refused, f.refusal(e, drafts))
			}
		case e.Kind != "commit" || OfStore(e.Path):
		case at >= 0 && f.out.Changes[at].Row == e.Seq:
			f.addFile(&f.out.Changes[at], e)
		case len(f.out.Changes) < f.r.Changes:
			f.out.Changes = append(f.out.Changes, report.Change{
				Row: e.Seq, TS: e.TS.String(), Op: e.Op, Caller: f.text(who(e)), Session: f.text(e.Session), Undone: back,
			})
			at = len(f.out.Changes) - 1
			f.addFile(&f.out.Changes[at], e)
		}
	}
	for i := range f.out.Changes { // files were met from the last one
		slices.Reverse(f.out.Changes[i].Files)
	}
}

// early reports whether a time is before all that is wanted.
func (f *fold) early(t time.Time) bool { return !t.IsZero() && t.Before(f.r.Since) }

// who made a call: the client, where the server knew one, and the name that the
// call claims.
func who(e rw.JournalEntry) string {
	if e.Via == nil || e.Via.Client == "" || e.Via.Client == e.Caller {
		return e.Caller
	}
	return strings.TrimPrefix(e.Caller+" of "+e.Via.Client, "mcp of ")
}

// OfStore reports whether a row is about an object of the store, no file of the
// workspace.
func OfStore(path string) bool { return strings.HasPrefix(path, ".resilient_write/") }

// OfDirectory reports whether a row is about a directory, which has no content.
func OfDirectory(e rw.JournalEntry) bool {
	return e.Op == "mkdir" || e.Op == "rmdir" || e.Op == "chmod" && e.SHA256.IsZero()
}

// addFile adds a file of a change. Directories are only named where nothing else is.
func (f *fold) addFile(c *report.Change, e rw.JournalEntry) {
	dir := OfDirectory(e)
	if dir && len(c.Files) > 0 {
		return
	}
	if e.Op != c.Op {
		c.Op = "tx"
	}
	if len(c.Files) == filesOfChange {
		c.More++
		return
	}
	c.Files = append(c.Files, report.ChangedFile{Path: f.text(e.Path), Op: e.Op, Bytes: e.Bytes, Gone: e.SHA256.IsZero() && (!dir || e.Op == "rmdir")})
}

// refusal describes why a call was refused: in words, and for content with the findings
// of the gate in its draft.
func (f *fold) refusal(e rw.JournalEntry, drafts []rw.Draft) report.Refusal {
	r := report.Refusal{Row: e.Seq, TS: e.TS.String(), Op: e.Op, Path: f.text(e.Path), Caller: f.text(who(e)), Reason: f.text(e.Reason)}
	if e.Kind == "conflict" {
		r.Reason, r.Why = "conflict", "another program changed the file while it was written; its content is a version"
		return r
	}
	_, _, _, _, r.Why = rw.Detail(e.Reason).Describe()
	i := slices.IndexFunc(drafts, func(d rw.Draft) bool { return d.Path == e.Path && d.Caller == e.Caller })
	if e.Reason == string(rw.ErrRiskBlocked) && i >= 0 && len(drafts[i].Patterns) > 0 {
		r.Why = f.text("the content holds what looks like a secret: " + strings.Join(drafts[i].Patterns, ", "))
	}
	return r
}

// waiting lists work that was begun and not ended, each with the command that shows it.
func (f *fold) waiting(ctx context.Context, s *rw.Store, d rw.DescribeResult, drafts []rw.Draft) error {
	for _, one := range drafts[:min(len(drafts), itemsWaiting)] {
		f.wait("draft", one.DraftRef, "a refused draft of "+one.Path, rw.Timestamp{Time: one.CreatedAt}, "draft get "+one.DraftRef)
	}
	chunks, err := s.ChunkList(ctx, rw.ChunkListRequest{})
	if err != nil {
		return err
	}
	open := slices.DeleteFunc(chunks.Sessions, func(c rw.ChunkSession) bool { return c.Sealed })
	for _, one := range open[:min(len(open), itemsWaiting)] {
		of := ""
		if one.TotalExpected != nil {
			of = fmt.Sprint(" of ", *one.TotalExpected)
		}
		text := fmt.Sprintf("a session that is not composed: %s, chunks: %d%s", one.Session, one.ChunkCount, of)
		if one.Unreadable {
			text = "a session that cannot be read: " + one.Session
		}
		f.wait("session", one.Session, text, rw.Timestamp{}, "chunk status "+one.Session)
	}
	for _, id := range d.Transactions[:min(len(d.Transactions), itemsWaiting)] {
		f.wait("transaction", id, "an open transaction: "+id, rw.Timestamp{}, "tx commit "+id+", or tx rollback "+id)
	}
	return f.handoff(ctx, s)
}

// handoff adds the handoff that is not complete.
func (f *fold) handoff(ctx context.Context, s *rw.Store) error {
	memo := f.r.Memo
	memo = cmp.Or(memo, &Memo{})
	file, err := s.Read(ctx, rw.ReadRequest{Path: handoff.DefaultPath, MaxBytes: 1})
	if err != nil {
		return f.unreadHandoff(ctx, err)
	}
	if file.SHA256.String() == memo.handoff {
		f.out.Waiting = append(f.out.Waiting, memo.items...)
		return nil
	}
	h, err := s.HandoffRead(ctx, handoff.ReadRequest{})
	if err != nil {
		return f.unreadHandoff(ctx, err)
	}
	before := len(f.out.Waiting)
	if h.Envelope.Status != handoff.Complete {
		text := fmt.Sprintf("the handoff of %s, %s", cmp.Or(h.Envelope.TaskID, "a task"), h.Envelope.Status)
		if n := len(h.Envelope.OpenQuestions); n > 0 {
			text += fmt.Sprintf("; question 1 of %d: %s", n, h.Envelope.OpenQuestions[0])
		}
		f.wait("handoff", h.HandoffPath, text, h.Envelope.UpdatedAt, "handoff read")
	}
	*memo = Memo{file.SHA256.String(), slices.Clone(f.out.Waiting[before:])}
	return ctx.Err()
}

// unreadHandoff lists a handoff that cannot be read, unless there is none.
func (f *fold) unreadHandoff(ctx context.Context, err error) error {
	if !errors.Is(err, rw.ErrNotFound) && !errors.Is(err, rw.ErrMissingDelimiter) {
		f.wait("handoff", handoff.DefaultPath, "a handoff that cannot be read: "+ReasonOf(err), rw.Timestamp{}, "handoff read")
	}
	return ctx.Err()
}

func (f *fold) wait(kind, name, text string, ts rw.Timestamp, command string) {
	if f.early(ts.Time) {
		return
	}
	f.out.Waiting = append(f.out.Waiting, report.Waiting{Kind: kind, Name: f.text(name), Text: f.text(text), TS: f.text(ts.String()), Command: "resilient-write " + f.text(command)})
}

// running lists the calls in progress that take long, as their processes report them.
func (f *fold) running() error {
	state, err := fsx.OpenRoot(f.r.State)
	if err != nil {
		return fsx.Unless(err, fs.ErrNotExist)
	}
	defer state.Close()
	locks, err := state.OpenDir("locks")
	if err != nil {
		return fsx.Unless(err, fs.ErrNotExist)
	}
	defer locks.Close()
	reported, err := lock.Reported(locks)
	if err != nil {
		return err
	}
	for _, c := range reported {
		one := report.Call{Op: f.text(c.Op), Paths: []string{}, Caller: f.text(c.Caller), PID: c.PID, Since: time.UnixMilli(c.Since).UTC().Format(time.RFC3339Nano)}
		for _, path := range c.Paths {
			one.Paths = append(one.Paths, f.text(path))
		}
		f.out.Running = append(f.out.Running, one)
	}
	slices.SortStableFunc(f.out.Running, func(a, b report.Call) int { return cmp.Compare(a.Since, b.Since) })
	return nil
}

// Cleaner removes secrets from texts that are shown: those that the policy of the store
// defines, and those that the default rules detect, even where the policy allows them
// in the workspace.
type Cleaner struct {
	store *rw.Store
	any   *scan.Scanner     // with the default rules and no exceptions
	known map[string]string // texts that were cleaned
	err   error
}

// NewCleaner returns a Cleaner for texts from a store.
func NewCleaner(s *rw.Store) *Cleaner {
	c := &Cleaner{store: s, known: map[string]string{}}
	c.any, c.err = scan.New(nil)
	return c
}

// Err returns the error of the first text that could not be cleaned. The texts shown
// since then are incomplete.
func (c *Cleaner) Err() error { return c.err }

const (
	knownBytes = 1024 // of a text that is remembered
	knownTexts = 10_000
)

// Clean takes the secrets out of a text. A text that cannot be cleaned is
// empty, and so is every later one.
func (c *Cleaner) Clean(text string) string {
	if text == "" || c.err != nil {
		return ""
	}
	if have, ok := c.known[text]; ok {
		return have
	}
	out, err := c.store.Redact(context.Background(), rw.RedactRequest{Content: []byte(text)})
	if err != nil {
		c.err = err
		return ""
	}
	clean, _ := c.any.Redact(out.Content, scan.Options{})
	if len(text) < knownBytes && len(c.known) < knownTexts {
		c.known[text] = string(clean)
	}
	return string(clean)
}
