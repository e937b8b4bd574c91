// Package scratch keeps raw material out of the workspace: logs, dumps, replies that
// may hold secrets. Each object is scratch/<sha256>.bin, which is authoritative.
// scratch/index.jsonl holds the labels of objects. It can be lost, because the facts
// file of each object, scratch/<sha256>.jsonl, contains them as well.
package scratch

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/isoduration"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

const (
	maxLabel = 200  // characters of a label or a media type
	maxNotes = 2000 // characters

	Dir        = "scratch"
	IndexFile  = "index.jsonl"
	Index      = Dir + "/" + IndexFile
	MaxObject  = 64 << 20  // bytes of one object
	MaxTotal   = 512 << 20 // bytes of all objects
	maxExpired = 100       // expired objects that one commit removes
)

// Layer keeps the scratchpad of a store.
type Layer struct {
	*engine.Engine
	memo padMemo
}

// Put is one put in progress.
type Put struct {
	l        *Layer
	c        *engine.Commit
	Row      Entry
	Object   *engine.Mutation // not a part of the commit when the bytes are stored
	Expires  bool             // the put sets the expiry time of the entry
	Deduped  bool
	Repaired bool
	Expired  int
	Before   string // when the newest entry of these bytes and this label expires
}

// Facts are what a caller says about an object. TTL is an ISO 8601 duration; "" is
// no limit.
type Facts struct{ Label, ContentType, Notes, TTL string }

// NewPut makes c a put of content.
func (s *Layer) NewPut(c *engine.Commit, f Facts, content []byte) (*Put, *fault.Fault) {
	if e := cmp.Or(
		fault.CheckText("label", f.Label, maxLabel), fault.CheckText("content_type", f.ContentType, maxLabel), fault.CheckText("notes", f.Notes, maxNotes),
	); e != nil {
		return nil, e
	}
	now := c.Began.UTC()
	row := Entry{Label: f.Label, ContentType: f.ContentType, Notes: f.Notes, Caller: c.Req.Caller, TS: stamp.Text(now), BinExists: true}
	if f.TTL != "" {
		d, err := isoduration.Parse(f.TTL)
		if err != nil {
			return nil, fault.New(fault.InvalidArgument).With("argument", "ttl").Hintf("ttl must be a positive ISO 8601 duration, such as PT12H or P1W")
		}
		row.ExpiresAt = stamp.Text(d.After(now))
	}
	if limit := min(MaxObject, s.Opts.MaxContentBytes); int64(len(content)) > limit {
		return nil, fault.New(fault.TooLarge).With("bytes", len(content)).With("max_bytes", limit).
			Hintf("an object of the scratchpad has at most %d bytes; store it in several parts, each with its own label", limit)
	}
	p := &Put{l: s, c: c, Row: row, Expires: row.ExpiresAt != ""}
	var m engine.Mutation
	p.Row.SHA256, p.Row.Bytes = m.Hold(content), int64(len(content))
	p.Object = scratchObject(p.Row.SHA256, engine.OpOverwrite)
	p.Object.Content, p.Object.Measured = m.Content, m.Measured
	c.ExtraLocks, c.Plan = locks(), p.plan
	return p, nil
}

// Finish completes the facts of a put that succeeded. Those of a repeated call are
// those of the first one.
func (p *Put) Finish() {
	if visible, err := p.l.visible(); err == nil && visible {
		p.Object.Warn("state_dir_not_gitignored")
	}
	if p.c.Replayed == nil {
		return
	}
	p.Deduped, p.Repaired, p.Expired = true, false, 0
	for _, m := range p.c.Replayed.Muts {
		switch {
		case m.Path == p.Object.Path:
			p.Deduped, p.Repaired = false, m.PrevSHA256 != ""
		case m.SHA256 == "" && strings.HasSuffix(m.Path, BinSuffix):
			p.Expired++
		}
	}
	if p.Before != "" && p.Expires {
		p.Row.ExpiresAt = p.Before
	}
}

// visible reports whether git would see the state directory. The directory's own
// .gitignore must ignore everything, and nothing after that line may re-include
// it. A .gitignore of the workspace that names the directory also suffices.
func (s *Layer) visible() (bool, error) {
	own, err := durable.ReadFile(s.Disk.State, engine.IgnoreName, engine.MetaLimit)
	if err != nil && !engine.IsAbsent(err) {
		return false, err
	}
	hidden := false
	for line := range strings.Lines(string(own)) {
		switch line = strings.TrimSpace(line); {
		case line == "*" || line == "/*" || line == "**" || line == "/**":
			hidden = true
		case strings.HasPrefix(line, "!"):
			hidden = false
		}
	}
	if hidden {
		return false, nil
	}
	root, err := durable.ReadFile(s.Disk.Root, engine.IgnoreName, engine.MetaLimit)
	if err != nil {
		return true, nil
	}
	for line := range strings.Lines(string(root)) {
		if strings.Trim(strings.TrimSpace(line), "/") == engine.StateDirName {
			return false, nil
		}
	}
	return true, nil
}

// locks are the names that a change of the scratchpad must own.
func locks() []string {
	return []string{engine.PathLock(engine.StateDirName + "/" + Index)}
}

// plan decides under the lock of the index, which every writer of the
// Pad holds.
func (p *Put) plan(context.Context) error {
	if done, err := p.briefly(); done || err != nil {
		return err
	}
	before, _ := p.l.indexStat()
	pad, err := p.l.Open()
	if err != nil {
		return err
	}
	p.l.memo.learn(p.l, before, pad)
	found, err := p.l.inspectScratch(p.Row.SHA256)
	if err != nil {
		return err
	}
	p.Before = pad.expiry(p.Row.SHA256, p.Row.Label)
	p.Deduped, p.Repaired = found == scratchIntact, found == scratchDamaged
	if p.Repaired && !p.c.Req.DryRun {
		if _, err := p.l.QuarantineObject(Dir, BinName(p.Row.SHA256)); err != nil {
			return err
		}
	}
	gone, err := p.l.Expired(pad, p.Row.SHA256)
	if err != nil {
		return err
	}
	p.Expired = len(gone)
	if err := p.fits(pad, gone); err != nil {
		return err
	}
	var muts []*engine.Mutation
	if p.Deduped {
		p.Object.SHA, p.Object.Size, p.Object.Prev.SHA = p.Row.SHA256, p.Row.Bytes, p.Row.SHA256
	} else {
		muts = append(muts, p.Object)
	}
	facts, err := p.l.factsWith(p.c, pad, p.Row)
	if err != nil {
		return err
	}
	index, err := p.l.indexWith(p.c, pad, gone, p.Row)
	if err != nil {
		return err
	}
	return p.c.Choose(slices.Concat(muts, []*engine.Mutation{facts, index}, pad.removal(gone...))...)
}

// fits refuses an object for which there is no room.
func (p *Put) fits(pad *Pad, gone []string) error {
	total := func() int64 {
		if pad.Stored[p.Row.SHA256] {
			return pad.Total(gone)
		}
		return pad.Total(gone) + p.Row.Bytes
	}
	if total() <= MaxTotal {
		return nil
	}
	if err := p.l.weighAll(pad); err != nil {
		return err
	}
	if total() > MaxTotal {
		return fault.New(fault.ScratchFull).With("total_bytes", total()).With("max_bytes", MaxTotal).With("bytes", p.Row.Bytes)
	}
	return nil
}

// Removal is what a deletion removes.
type Removal struct {
	SHA     string // "" when nothing matched
	Rows    int    // entries, under all labels
	Freed   int64
	Expired int // other objects that go with it
	Object  *engine.Mutation
}

// NewDelete makes c remove an object and those that are expired.
func (s *Layer) NewDelete(c *engine.Commit, sha, label string) (*Removal, *fault.Fault) {
	out := &Removal{Object: &engine.Mutation{Private: true}}
	c.ExtraLocks = locks()
	c.Plan = func(context.Context) error {
		done, err := c.Answered()
		if !done && err == nil {
			*out, err = s.planDelete(c, sha, label)
		}
		return err
	}
	return out, checkRef(sha, label)
}

func (s *Layer) planDelete(c *engine.Commit, sha, label string) (Removal, error) {
	out := Removal{Object: &engine.Mutation{Private: true}}
	pad, gone, err := s.openExpired()
	if err != nil {
		return out, err
	}
	var muts []*engine.Mutation
	if entry, ok := pad.Find(sha, label); ok {
		out.SHA, out.Object = entry.SHA256, scratchObject(entry.SHA256, engine.OpDelete)
		rows := len(pad.Rows)
		pad.Rows = slices.DeleteFunc(pad.Rows, func(row Row) bool { return row.SHA256 == entry.SHA256 })
		out.Rows = rows - len(pad.Rows)
		if muts = pad.removal(entry.SHA256); pad.Stored[entry.SHA256] {
			out.Freed, out.Object = pad.sizes[entry.SHA256], muts[0]
		}
	}
	for _, sha := range gone {
		if sha != out.SHA {
			muts = append(muts, pad.removal(sha)...)
			out.Expired++
		}
	}
	if pad.exists && (out.Rows > 0 || len(gone) > 0) {
		index, err := s.IndexWithout(c, pad, gone)
		if err != nil {
			return out, err
		}
		muts = append(muts, index)
	}
	return out, c.Choose(muts...)
}

// openExpired reads the scratchpad and lists the objects that have expired.
func (s *Layer) openExpired() (*Pad, []string, error) {
	pad, err := s.Open()
	if err != nil {
		return nil, nil, err
	}
	gone, err := s.Expired(pad, "")
	return pad, gone, err
}

// Expire makes c remove expired objects and their entries, and counts them once c is
// planned.
func (s *Layer) Expire(c *engine.Commit) (removed *int) {
	removed = new(int)
	c.ExtraLocks = locks()
	c.Plan = func(context.Context) error {
		pad, gone, err := s.openExpired()
		if err != nil {
			return err
		}
		if *removed = len(gone); *removed == 0 {
			return c.Choose()
		}
		index, err := s.IndexWithout(c, pad, gone)
		if err != nil {
			return err
		}
		return c.Choose(append([]*engine.Mutation{index}, pad.removal(gone...)...)...)
	}
	return removed
}

// checkRef validates the two ways to name an object.
func checkRef(sha, label string) *fault.Fault {
	if sha == "" && label == "" {
		return fault.New(fault.MustProvideRef)
	}
	return fault.CheckText("label", label, maxLabel)
}

func notFound() *fault.Fault {
	return fault.New(fault.NotFound).Hintf("the scratchpad has no such object; Store.ScratchList lists the objects")
}

// Ref returns the newest entry with a hash, a label or both, and the number of such
// entries.
func (s *Layer) Ref(sha, label string) (newest Entry, aliases int, err error) {
	if e := checkRef(sha, label); e != nil {
		return newest, 0, e
	}
	pad, err := s.Open()
	if err != nil {
		return newest, 0, err
	}
	for e := range pad.matching(sha, label) {
		if aliases++; aliases == 1 {
			newest = e
		}
	}
	if aliases == 0 {
		return newest, 0, notFound()
	}
	return newest, aliases, nil
}

// maxRead exceeds the limit of a put, because another program may have stored the
// object.
const maxRead = 4 * MaxObject

// Get returns the bytes of an object, after comparing them with their hash, and its
// newest entry.
func (s *Layer) Get(sha string) (Entry, []byte, error) {
	if sha == "" {
		return Entry{}, nil, fault.New(fault.BadSHA256).With("argument", "sha256")
	}
	pad, err := s.Open()
	if err != nil {
		return Entry{}, nil, err
	}
	entry, ok := pad.Find(sha, "")
	if !ok || !entry.BinExists {
		return entry, nil, notFound()
	}
	content, err := s.ReadPart(Dir, BinName(sha), maxRead)
	if engine.IsAbsent(err) {
		return entry, nil, notFound()
	}
	if engine.IsOdd(err) || err == nil && engine.HashOf(content) != sha {
		err = fault.New(fault.HashDriftOnRead).With("sha256", sha).Hintf("the stored bytes were changed on disk; store the original bytes again to repair the object, or delete it")
	}
	return entry, content, err
}

// DefaultList is the number of entries that a list has if the caller sets no limit.
const DefaultList = 100

// Listing is a part of the entries, newest first, and what is known of all.
type Listing struct {
	*Pad
	Entries []Entry
	Count   int // entries that match
	Removed int // expired objects that were removed
}

// List lists the entries with a label, or all. expire removes expired objects and
// returns their number.
func (s *Layer) List(label string, limit, offset int, expire func() int) (Listing, error) {
	var out Listing
	if e := fault.CheckText("label", label, maxLabel); e != nil {
		return out, e
	}
	if limit < 0 || offset < 0 || limit > 10*DefaultList {
		return out, fault.New(fault.InvalidArgument).Hintf("limit must be 0 to %d and offset must not be negative", 10*DefaultList)
	}
	pad, err := s.Open()
	if err != nil {
		return out, err
	}
	malformed, rebuilt := pad.Malformed, pad.Rebuilt
	if len(pad.Over("")) > 0 && !s.Opts.ReadOnly && !s.Poisoned.Load() {
		out.Removed = expire()
		if pad, err = s.Open(); err != nil {
			return out, err
		}
		pad.Malformed, pad.Rebuilt = malformed, rebuilt
	}
	if out.Pad = pad; limit == 0 {
		limit = DefaultList
	}
	for e := range pad.matching("", label) {
		if out.Count++; out.Count > offset && len(out.Entries) < limit {
			out.Entries = append(out.Entries, e)
		}
	}
	return out, nil
}
