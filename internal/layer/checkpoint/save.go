package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/aside"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

// Request is what a save keeps.
type Request struct {
	Name        string
	Data        json.RawMessage
	Format, TTL string
}

// Save is one save in progress.
type Save struct {
	Head
	Doc     *engine.Mutation
	l       *Layer
	c       *engine.Commit
	data    json.RawMessage // as the request has it
	content []byte          // the JSON text, or the string
	old     *Stored         // the checkpoint stored under the name; nil if there is none
}

// NewSave makes c a save.
func (l *Layer) NewSave(ctx context.Context, c *engine.Commit, r Request) (*Save, *fault.Fault) {
	if e := CheckName(r.Name); e != nil {
		return nil, e
	}
	now := c.Began.UTC()
	expires, e := Expiry(r.TTL, now)
	if e != nil {
		return nil, e
	}
	content, raw, e := l.content(ctx, r.Data, r.Format)
	if e != nil {
		return nil, e
	}
	p := &Save{l: l, c: c, Doc: &engine.Mutation{Private: true}, data: r.Data, content: content, Head: Head{
		Version: Version, Name: r.Name, Format: r.Format, TTL: r.TTL,
		CreatedAt: stamp.Text(now), UpdatedAt: stamp.Text(now), ExpiresAt: expires,
		Session: c.Req.Session, Caller: c.Req.Caller,
		SHA256: engine.HashOf(content), Bytes: int64(len(content)), Chunked: len(content) > MaxInlineData, Raw: raw,
	}}
	for name, i := r.Name, 0; i <= keptNames; name, i = KeptName(name), i+1 {
		c.ExtraLocks = append(c.ExtraLocks, engine.PathLock(Path(name)))
	}
	c.Plan = p.plan
	return p, nil
}

// content returns the bytes to keep, once their format is verified. raw reports
// that they are a JSON value although the format is yaml, which includes JSON.
func (l *Layer) content(ctx context.Context, data json.RawMessage, format string) (content []byte, raw bool, e *fault.Fault) {
	if len(data) == 0 {
		return nil, false, fault.New(fault.MissingContent).With("argument", "data").Hintf("data is required")
	}
	if limit := l.Opts.MaxContentBytes; int64(len(data)) > limit {
		return nil, false, fault.New(fault.TooLarge).With("bytes", len(data)).With("max_bytes", limit)
	}
	if !utf8.Valid(data) {
		return nil, false, fault.New(fault.NotValidUTF8).With("argument", "data")
	}
	if e := wellFormed(ctx, "json", data); e != nil {
		return nil, false, e
	}
	if !json.Valid(data) {
		return nil, false, fault.New(fault.SyntaxInvalid).With("format", "json").Hintf("data must be a single JSON value")
	}
	if format == "json" {
		return bytes.Clone(data), false, nil
	}
	if format != "yaml" && format != "markdown" {
		return nil, false, fault.BadChoice("format", "json", "yaml", "markdown")
	}
	plain, ok := StringIn(data)
	if !ok && format == "yaml" {
		return bytes.Clone(data), true, nil
	}
	if !ok {
		return nil, false, fault.New(fault.InvalidArgument).With("argument", "data").Hintf("data of format %s must be a string; for an object use format json", format)
	}
	if format == "yaml" {
		e = wellFormed(ctx, "yaml", []byte(plain))
	}
	return []byte(plain), false, e
}

// wellFormed refuses a text that is not of its format, with the position of the
// first problem.
func wellFormed(ctx context.Context, format string, text []byte) *fault.Fault {
	rep, err := aside.Run(ctx, len(text), func() syntax.Report { return syntax.Check(format, text) })
	if err != nil {
		return fault.New(fault.Canceled).Because(err)
	}
	for _, p := range rep.Problems {
		if p.Severity == syntax.Error {
			return fault.New(fault.SyntaxInvalid).With("format", format).With("argument", "data").With("line", p.Line).With("col", p.Col).
				Hintf("data is not valid %s: line %d, column %d: %s", format, p.Line, p.Col, p.Message)
		}
	}
	return nil
}

// plan reads the checkpoint stored under that name.
func (p *Save) plan(context.Context) error {
	old, err := p.l.Read(p.Name, true)
	if err != nil && !engine.IsAbsent(err) {
		return err
	}
	p.CreatedAt, p.old = p.UpdatedAt, nil
	var obsolete []string
	if err == nil {
		p.old = old
		if old.Corrupt == "" && old.OtherName(p.Name) {
			return fault.New(fault.InvalidArgument).With("argument", "name").Hintf("a checkpoint exists whose name differs only in letter case, which this file system ignores; choose another name")
		}
		if !engine.ParseTime(old.CreatedAt).IsZero() {
			p.CreatedAt = old.CreatedAt
		}
		if obsolete, err = p.l.Quarantine(old, p.c.Req.DryRun); err != nil {
			return err
		}
	}
	muts, doc := p.mutations(p.content, p.data, obsolete)
	if p.Doc = doc; !relpath.Portable(p.Name + FileSuffix) {
		doc.Warn("name_not_portable")
	}
	if p.old != nil && p.old.Corrupt == "" && p.old.Session != "" && p.old.Session != p.Session && p.old.SHA256 != p.SHA256 {
		kept, err := p.keep()
		if err != nil {
			return err
		}
		doc.Warn("replaced_other_session")
		muts = append(muts, kept...)
	}
	return p.c.Choose(muts...)
}

// keptNames is how many names there are for the replaced checkpoint.
const keptNames = 2

// keep returns the mutations that store the replaced checkpoint under [KeptName],
// in the place of one that was kept before. If that name was given to another
// checkpoint, it is the KeptName of that.
func (p *Save) keep() ([]*engine.Mutation, error) {
	name := KeptName(p.Name)
	before, err := p.l.Read(name, true)
	for i := 1; err == nil && before.Corrupt == "" && before.KeptOf != p.Name; i++ {
		if i == keptNames {
			return nil, fault.New(fault.InvalidArgument).With("argument", "name").
				Hintf("another session saved the checkpoint of this name, which cannot be kept, because %s is a checkpoint too; choose another name", name)
		}
		name = KeptName(name)
		before, err = p.l.Read(name, true)
	}
	if err != nil && !engine.IsAbsent(err) {
		return nil, err
	}
	var obsolete []string
	if err == nil {
		if obsolete, err = p.l.Quarantine(before, p.c.Req.DryRun); err != nil {
			return nil, err
		}
	}
	h := p.old.Head
	h.Name, h.KeptOf, h.Version = name, p.Name, Version
	if engine.ParseTime(h.UpdatedAt).IsZero() { // of another program
		h.UpdatedAt = p.UpdatedAt
	}
	content := []byte(p.old.Data)
	if plain, ok := StringIn(p.old.Data); ok && h.Format != "json" && !h.Raw {
		content = []byte(plain)
	}
	h.Chunked = len(content) > MaxInlineData
	muts, _ := h.mutations(content, p.old.Data, obsolete)
	for _, m := range muts {
		m.Ungated = true // the gate has judged it when it was saved
	}
	return muts, nil
}

// mutations returns the document and, in the same commit, the file of its data if
// that is long. The data comes first, so that the document never names a missing
// file. obsolete are the files of the checkpoint that is replaced.
func (h *Head) mutations(content []byte, data json.RawMessage, obsolete []string) (muts []*engine.Mutation, doc *engine.Mutation) {
	doc = Object(h.Name+FileSuffix, engine.OpOverwrite)
	blob := ""
	if h.Chunked {
		blob = BlobName(h.Name, h.SHA256)
		m := Object(blob, engine.OpOverwrite)
		m.Hold(content)
		muts, data = append(muts, m), nil
	} else if h.Format == "json" {
		data = content
	}
	doc.Hold(h.Document(data))
	muts = append(muts, doc)
	for _, name := range obsolete {
		if name != blob && name != h.Name+FileSuffix {
			muts = append(muts, Object(name, engine.OpDelete))
		}
	}
	return muts, doc
}

// Finish completes the facts of a save that succeeded. The times of a repeated call
// are those of the first reply, if they are known: a later save may have replaced
// the checkpoint.
func (p *Save) Finish() {
	if p.c.Replayed == nil {
		return
	}
	at := engine.ParseTime(p.c.Replayed.TS)
	if p.old != nil && p.old.SHA256 == p.SHA256 && p.old.TTL == p.TTL && !engine.ParseTime(p.old.UpdatedAt).IsZero() {
		at = engine.ParseTime(p.old.UpdatedAt)
	}
	p.UpdatedAt = stamp.Text(at)
	if at.Before(engine.ParseTime(p.CreatedAt)) || p.old == nil {
		p.CreatedAt = p.UpdatedAt
	}
	p.ExpiresAt, _ = Expiry(p.TTL, at)
}

// Removed is one checkpoint that a cleanup removed.
type Removed struct{ Name, TTL, Reason string }

// The reasons for which a checkpoint is removed.
const (
	removedSession = "session_cleanup"
	removedExpired = "expired"
	removedCorrupt = "corrupt"
)

const (
	// maxCleanup is how many checkpoints one commit removes.
	maxCleanup = 100
	// maxBriefs limits the bytes of a reply that the journal keeps, with room for its
	// numbers.
	maxBriefs = 3900
)

// brief returns a removed checkpoint in one word per field: the first letter of
// the reason, the name, the TTL. A name holds no space.
func (r Removed) brief() string { return r.Reason[:1] + " " + r.Name + " " + r.TTL }

// Unbrief reads what [Cleanup.Briefs] returned.
func Unbrief(briefs []string) (list []Removed) {
	for _, brief := range briefs {
		var r Removed
		letter, rest, _ := strings.Cut(brief, " ")
		for _, reason := range []string{removedSession, removedExpired, removedCorrupt} {
			if reason[:1] == letter {
				r.Reason = reason
			}
		}
		r.Name, r.TTL, _ = strings.Cut(rest, " ")
		list = append(list, r)
	}
	return list
}

// Cleanup is one cleanup in progress.
type Cleanup struct {
	Removed []Removed
	More    bool // other checkpoints qualify for removal

	l       *Layer
	c       *engine.Commit
	session bool
	due     []string // checkpoints that qualified in the first pass
	total   int
}

// Kept is the number of checkpoints that remain.
func (p *Cleanup) Kept() int { return p.total - len(p.Removed) }

// Briefs is what the journal keeps of the list, for a repeated key.
func (p *Cleanup) Briefs() (list []string) {
	for _, r := range p.Removed {
		list = append(list, r.brief())
	}
	return list
}

// NewCleanup makes c remove checkpoints that are expired or damaged and, with
// session, those with that TTL. It finds them and requests their locks.
func (l *Layer) NewCleanup(c *engine.Commit, session bool) (*Cleanup, error) {
	p := &Cleanup{l: l, c: c, session: session}
	c.Plan = p.plan
	if err := l.Enter(); err != nil {
		return nil, err
	}
	defer l.Leave()
	names, err := l.List()
	if err != nil {
		return nil, err
	}
	size := 0
	return p, l.each(names, false, func(name string, old *Stored) error {
		p.total++
		why := p.reason(old)
		if why == "" {
			return nil
		}
		brief, _ := json.Marshal(Removed{Name: name, TTL: old.TTL, Reason: why}.brief())
		if size += len(brief) + 1; len(p.due) == maxCleanup || c.Req.Key != "" && size > maxBriefs && len(p.due) > 0 {
			p.More = true
			return nil
		}
		p.due = append(p.due, name)
		c.ExtraLocks = append(c.ExtraLocks, engine.PathLock(Path(name)))
		return nil
	})
}

// reason returns why a checkpoint is removed; "" if it stays.
func (p *Cleanup) reason(c *Stored) string {
	switch {
	case c.Unread != nil:
		return ""
	case c.Corrupt != "":
		return removedCorrupt
	case c.Expired(p.l.Now()):
		return removedExpired
	case c.TTL == TTLSession && p.session:
		return removedSession
	}
	return ""
}

// plan checks them again under their locks: one that was saved since stays.
func (p *Cleanup) plan(context.Context) error {
	if done, err := p.c.Answered(); done || err != nil {
		return err
	}
	p.Removed = nil
	var muts []*engine.Mutation
	if err := p.l.each(p.due, true, func(name string, old *Stored) error {
		why := p.reason(old)
		if why == "" {
			return nil
		}
		p.Removed = append(p.Removed, Removed{Name: name, TTL: old.TTL, Reason: why})
		files, err := p.l.Quarantine(old, p.c.Req.DryRun)
		for _, file := range files {
			muts = append(muts, Object(file, engine.OpDelete))
		}
		return err
	}); err != nil {
		return err
	}
	return p.c.Choose(muts...)
}
