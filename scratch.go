package resilientwrite

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/isoduration"
)

// The scratchpad keeps raw material out of the workspace: logs, dumps, replies
// that may hold secrets. Each object is scratch/<sha256>.bin, which is all that
// counts; scratch/index.jsonl says what people call them and can be lost,
// because scratch/<sha256>.jsonl of each object says it as well.

const (
	scratchDir       = "scratch"
	scratchIndexFile = "index.jsonl"
	scratchIndex     = scratchDir + "/" + scratchIndexFile
	maxScratch       = 64 << 20  // bytes of one object
	maxScratchTotal  = 512 << 20 // bytes of all objects
	maxNotes         = 2000      // characters
	maxExpired       = 100       // objects that one commit removes because their time is over
)

// ScratchPutRequest asks for something to be kept apart.
type ScratchPutRequest struct {
	Content        string `json:"content" required:"true" desc:"The content to keep, or base64 when encoding is base64. Secrets are allowed here; the content never reaches the workspace."`
	Encoding       string `json:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8" desc:"How content is encoded. Use base64 for bytes that are not UTF-8 text."`
	Label          string `json:"label,omitempty" maxlen:"200" desc:"A label to find it by. Several objects may share a label; the newest is returned."`
	ContentType    string `json:"content_type,omitempty" maxlen:"200" desc:"Media type, such as text/plain."`
	Notes          string `json:"notes,omitempty" maxlen:"2000" desc:"Remarks. Put no secrets here: notes are listed."`
	TTL            string `json:"ttl,omitempty" maxlen:"100" desc:"How long to keep it, an ISO 8601 duration such as PT12H or P1W. Default: until it is deleted."`
	DryRun         bool   `json:"dry_run,omitempty" desc:"Check everything and return the result, but change nothing."`
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200" desc:"Idempotency key. Send the same key again after a lost reply: the object is stored once and the first reply is returned."`
	Caller         string `json:"caller,omitempty" maxlen:"200" desc:"Who is writing; recorded in the index and the journal."`
	Session        string `json:"session,omitempty" maxlen:"200" desc:"Name of the working session; recorded in the journal."`
}

// ScratchPutResult is what a put did.
type ScratchPutResult struct {
	SHA256         string    `json:"sha256" desc:"SHA-256 of the bytes; rw_scratch_get takes it."`
	ScratchPath    string    `json:"scratch_path" desc:"Path of the bytes in the state directory."`
	Bytes          int64     `json:"bytes" desc:"Size in bytes."`
	Deduped        bool      `json:"deduped" desc:"True when the same bytes were already stored; they are stored once."`
	Repaired       bool      `json:"repaired" desc:"True when the stored bytes were damaged and were replaced; the damaged copy is in quarantine."`
	ExpiresAt      string    `json:"expires_at,omitempty" desc:"When it expires, RFC 3339 UTC; absent when it does not."`
	ExpiredRemoved int       `json:"expired_removed" desc:"Number of expired objects removed during the call."`
	JournalID      string    `json:"journal_id,omitempty" desc:"Identifier of the journal row; absent for a dry run."`
	Status         Status    `json:"status" desc:"Outcome of the call." enum:"succeeded,unchanged,replayed"`
	Warnings       []Warning `json:"warnings" desc:"What the caller should know although the call succeeded."`
	Receipt        Receipt   `json:"receipt" desc:"The full record of the call."`
}

// ScratchPut keeps bytes in the scratchpad, under their SHA-256 and a label.
// The content gate does not look at them: this is where raw material belongs.
//
// When it returns nil at [SyncFull], the bytes and their row of the index are
// on stable storage; both appear in one commit or neither does. The same bytes
// are stored once: a second put verifies the stored ones, replaces them when
// they are damaged (the damaged ones are copied to quarantine/ first), and adds
// its row, so that one object may have several labels. Things whose time is
// over are removed on the way, at most 100 in one call. One object has at most
// 64 MiB, all together 512 MiB.
//
// Errors: [NotValidUTF8], [BadBase64], [TooLarge], [ScratchFull],
// [InvalidArgument] for a ttl that is no duration, [IdempotencyKeyReused],
// [BadStateDir] when a part of the state directory is a symbolic link,
// [LockTimeout], the storage details, [StorePoisoned], [StoreClosed],
// [StoreReadOnly], [Canceled]. Nothing is kept then.
func (s *Store) ScratchPut(ctx context.Context, r ScratchPutRequest) (ScratchPutResult, error) {
	c := s.newCommit(ctx, request{args: r, op: "scratch_put", caller: r.Caller, session: r.Session, key: r.IdempotencyKey, dryRun: r.DryRun})
	p := &scratchPut{s: s, c: c, req: r}
	if err := p.prepare(); err != nil {
		return ScratchPutResult{}, c.Failed(err)
	}
	c.Also = []string{engine.PathLock(engine.StateDirName + "/" + scratchIndex)}
	c.Plan = p.plan
	if err := s.commit(ctx, c); err != nil {
		return ScratchPutResult{}, err
	}
	return p.result(), nil
}

// scratchPut is one put under way.
type scratchPut struct {
	s        *Store
	c        *commit
	req      ScratchPutRequest
	row      ScratchEntry
	object   *engine.Mutation // not a part of the commit when the bytes are there
	deduped  bool
	repaired bool
	expired  int
	before   string // when the newest entry of these bytes and this label expires
}

// prepare judges the arguments and decodes the content.
func (p *scratchPut) prepare() error {
	r := &p.req
	p.c.Req.Hash = engine.HashOf([]byte(strings.Join([]string{"scratch_put", engine.HashOf([]byte(r.Content)), r.Encoding, r.Label, r.ContentType, r.Notes, r.TTL}, "\x00")))
	if e := checkLabels(r.Caller, r.Session, r.IdempotencyKey); e != nil {
		return e
	}
	if e := checkTexts(
		boundedText{"label", r.Label, maxLabel}, boundedText{"content_type", r.ContentType, maxLabel}, boundedText{"notes", r.Notes, maxNotes},
	); e != nil {
		return e
	}
	now := p.c.Began.UTC()
	p.row = ScratchEntry{Label: r.Label, ContentType: r.ContentType, Notes: r.Notes, Caller: p.c.Req.Caller, TS: now.Format(engine.TimeFormat), BinExists: true}
	if r.TTL != "" {
		d, err := isoduration.Parse(r.TTL)
		if err != nil {
			return badTTL("PT12H or P1W")
		}
		p.row.ExpiresAt = d.After(now).Format(engine.TimeFormat)
	}
	content, e := decodeContent(r.Content, r.Encoding)
	if e != nil {
		return e
	}
	if limit := min(maxScratch, p.s.opts.MaxContentBytes); int64(len(content)) > limit {
		return fault.New(fault.TooLarge).With("bytes", len(content)).With("max_bytes", limit).
			Hintf("an object of the scratchpad has at most %d bytes; store it in several parts, each with its own label", limit)
	}
	p.req.Content = "" // it is held by the mutation
	var m engine.Mutation
	p.row.SHA256, p.row.Bytes = m.Hold(content), int64(len(content))
	p.object = scratchObject(p.row.SHA256, engine.OpOverwrite)
	p.object.Content, p.object.Measured = m.Content, m.Measured
	return nil
}

// plan decides under the lock of the index, which everybody who changes the
// scratchpad holds.
func (p *scratchPut) plan(context.Context) error {
	if done, err := p.briefly(); done || err != nil {
		return err
	}
	before, _ := p.s.indexStat()
	pad, err := p.s.openScratch()
	if err != nil {
		return err
	}
	p.s.pad.learn(p.s, before, pad)
	found, err := p.s.inspectScratch(p.row.SHA256)
	if err != nil {
		return err
	}
	p.before = pad.expiry(p.row.SHA256, p.row.Label)
	p.deduped, p.repaired = found == scratchIntact, found == scratchDamaged
	if p.repaired && !p.c.Req.DryRun {
		if _, err := p.s.quarantineObject(scratchDir, binName(p.row.SHA256)); err != nil {
			return err
		}
	}
	gone, err := p.s.expiredScratch(pad, p.row.SHA256)
	if err != nil {
		return err
	}
	p.expired = len(gone)
	if err := p.fits(pad, gone); err != nil {
		return err
	}
	var muts []*engine.Mutation
	if p.deduped {
		p.object.SHA, p.object.Size, p.object.Prev.SHA = p.row.SHA256, p.row.Bytes, p.row.SHA256
	} else {
		muts = append(muts, p.object)
	}
	facts, err := p.s.factsWith(p.c, pad, p.row)
	if err != nil {
		return err
	}
	index, err := p.s.indexWith(p.c, pad, gone, p.row)
	if err != nil {
		return err
	}
	muts = append(muts, facts, index)
	for _, sha := range gone {
		muts = append(muts, pad.removal(sha)...)
	}
	return p.c.choose(muts...)
}

// fits refuses an object for which there is no room.
func (p *scratchPut) fits(pad *scratchpad, gone []string) error {
	total := func() int64 {
		if pad.stored[p.row.SHA256] {
			return pad.total(gone)
		}
		return pad.total(gone) + p.row.Bytes
	}
	if total() <= maxScratchTotal {
		return nil
	}
	if err := p.s.weighAll(pad); err != nil {
		return err
	}
	if total() > maxScratchTotal {
		return fault.New(fault.ScratchFull).With("total_bytes", total()).With("max_bytes", maxScratchTotal).With("bytes", p.row.Bytes)
	}
	return nil
}

// result makes the reply of a commit that ended well.
func (p *scratchPut) result() ScratchPutResult {
	visible, err := p.s.stateDirVisible()
	if err == nil && visible {
		p.object.Warn(WarnStateDirVisible)
	}
	r, status := p.c.finishedWith(p.object, p.row.SHA256, p.row.Bytes)
	out := ScratchPutResult{
		SHA256: p.row.SHA256, ScratchPath: p.object.Path, Bytes: p.row.Bytes, Deduped: p.deduped, Repaired: p.repaired,
		ExpiresAt: p.row.ExpiresAt, ExpiredRemoved: p.expired, JournalID: r.JournalID,
		Status: status, Warnings: r.Warnings, Receipt: r,
	}
	if rec := p.c.Replayed; rec != nil { // as the first reply told it
		out.Deduped, out.Repaired, out.ExpiredRemoved = true, false, 0
		for _, m := range rec.Muts {
			switch {
			case m.Path == p.object.Path:
				out.Deduped, out.Repaired = false, m.PrevSHA256 != ""
			case m.SHA256 == "" && strings.HasSuffix(m.Path, binSuffix):
				out.ExpiredRemoved++
			}
		}
		if p.before != "" && p.req.TTL != "" {
			out.ExpiresAt = p.before
		}
	}
	return out
}

// ScratchDeleteRequest asks for something to be removed from the scratchpad.
type ScratchDeleteRequest struct {
	SHA256         string `json:"sha256,omitempty" maxlen:"200" desc:"SHA-256 of the bytes. Give this or label; if both are given, both must match."`
	Label          string `json:"label,omitempty" maxlen:"200" desc:"Label; the newest entry with it is used."`
	DryRun         bool   `json:"dry_run,omitempty" desc:"Report what would be removed, but change nothing."`
	Caller         string `json:"caller,omitempty" maxlen:"200" desc:"Who is removing; recorded in the journal."`
	Session        string `json:"session,omitempty" maxlen:"200" desc:"Name of the working session; recorded in the journal."`
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200" desc:"Idempotency key. Send the same key again after a lost reply: the first reply is returned, and objects stored under the label since are kept."`
}

// ScratchDeleteResult tells what was removed.
type ScratchDeleteResult struct {
	SHA256         string    `json:"sha256" desc:"SHA-256 of the removed object; empty when none was found."`
	Removed        bool      `json:"removed" desc:"False when nothing matched."`
	RowsRemoved    int       `json:"rows_removed" desc:"Number of index entries removed, under all labels."`
	BytesFreed     int64     `json:"bytes_freed" desc:"Size of the removed object in bytes."`
	ExpiredRemoved int       `json:"expired_removed" desc:"Number of other expired objects removed during the call."`
	JournalID      string    `json:"journal_id,omitempty" desc:"Identifier of the journal row; absent when nothing was written."`
	Status         Status    `json:"status" desc:"Outcome of the call." enum:"succeeded,unchanged,replayed"`
	Warnings       []Warning `json:"warnings" desc:"What the caller should know although the call succeeded."`
	Receipt        Receipt   `json:"receipt" desc:"The full record of the call."`
}

// ScratchDelete removes an object of the scratchpad for good, with all its
// entries, under whatever labels. There is no history of the scratchpad. What
// is not there is no error. Object and entries go in one commit; other things
// whose time is over go with it. A repeated idempotency key gives the first
// reply and removes nothing more.
//
// Errors: [MustProvideRef] for neither sha256 nor label, [BadSHA256],
// [InvalidArgument], [IdempotencyKeyReused], [BadStateDir], [LockTimeout], the
// storage details, [StorePoisoned], [StoreClosed], [StoreReadOnly], [Canceled].
func (s *Store) ScratchDelete(ctx context.Context, r ScratchDeleteRequest) (ScratchDeleteResult, error) {
	c := s.newCommit(ctx, request{args: r, op: "scratch_delete", caller: r.Caller, session: r.Session, key: r.IdempotencyKey, dryRun: r.DryRun})
	c.Req.Hash = engine.HashOf([]byte(strings.Join([]string{"scratch_delete", r.SHA256, r.Label}, "\x00")))
	sha, e := checkRef(r.SHA256, r.Label)
	if e == nil {
		e = checkLabels(r.Caller, r.Session, r.IdempotencyKey)
	}
	if e != nil {
		return ScratchDeleteResult{}, c.Failed(e)
	}
	out := ScratchDeleteResult{}
	object := &engine.Mutation{Private: true}
	c.Also = []string{engine.PathLock(engine.StateDirName + "/" + scratchIndex)}
	c.Plan = func(context.Context) error {
		if done, err := c.Answered(); done || err != nil {
			return err
		}
		var err error
		object, out, err = s.planScratchDelete(c, sha, r.Label)
		return err
	}
	c.Outcome = func() any {
		return outcome{Object: out.SHA256, Entries: out.RowsRemoved, Freed: out.BytesFreed, Expired: out.ExpiredRemoved}
	}
	if err := s.commit(ctx, c); err != nil {
		return ScratchDeleteResult{}, err
	}
	if c.Replayed != nil {
		was := c.told()
		out.SHA256, out.Removed, out.RowsRemoved = was.Object, was.Object != "", was.Entries
		out.BytesFreed, out.ExpiredRemoved = was.Freed, was.Expired
	}
	rec, status := c.finishedWith(object, "", 0)
	out.JournalID, out.Status, out.Warnings, out.Receipt = rec.JournalID, status, rec.Warnings, rec
	return out, nil
}

func (s *Store) planScratchDelete(c *commit, sha, label string) (*engine.Mutation, ScratchDeleteResult, error) {
	out, object := ScratchDeleteResult{}, &engine.Mutation{Private: true}
	pad, err := s.openScratch()
	if err != nil {
		return object, out, err
	}
	gone, err := s.expiredScratch(pad, "")
	if err != nil {
		return object, out, err
	}
	if entry, ok := pad.find(sha, label); ok {
		out.SHA256, out.Removed = entry.SHA256, true
		object = scratchObject(entry.SHA256, engine.OpDelete)
		out.RowsRemoved = pad.drop(entry.SHA256)
		if pad.stored[entry.SHA256] {
			out.BytesFreed = pad.sizes[entry.SHA256]
		}
	}
	var muts []*engine.Mutation
	if out.Removed {
		if muts = pad.removal(out.SHA256); pad.stored[out.SHA256] {
			object = muts[0]
		}
	}
	for _, sha := range gone {
		if sha != out.SHA256 {
			muts = append(muts, pad.removal(sha)...)
			out.ExpiredRemoved++
		}
	}
	if pad.exists && (out.RowsRemoved > 0 || len(gone) > 0) {
		index, err := s.indexWithout(c, pad, gone)
		if err != nil {
			return object, out, err
		}
		muts = append(muts, index)
	}
	return object, out, c.choose(muts...)
}

// choose makes muts what the commit does, from inside its plan.
func (c *commit) choose(muts ...*engine.Mutation) error {
	kept := map[*engine.Mutation]bool{}
	for _, m := range muts {
		kept[m] = true
	}
	for _, m := range c.Muts {
		if !kept[m] {
			m.Close()
			m.Target.Close()
		}
	}
	c.Muts = muts
	for _, m := range muts {
		if err := c.ResolveOne(m); err != nil {
			return err
		}
	}
	return nil
}

// finishedWith makes the receipt of a commit that ended well, as seen from one
// object that need not be a part of it.
func (c *commit) finishedWith(m *engine.Mutation, sha string, size int64) (Receipt, Status) {
	status := c.status()
	for _, other := range c.Muts {
		for _, w := range other.Warnings {
			m.Warn(w)
		}
	}
	r := c.receipt(m, status)
	r.SHA256, r.Bytes = sha, size
	if c.Replayed != nil {
		r.PrevSHA256 = ""
	}
	c.tell(r)
	return r, status
}

func scratchObject(sha string, op engine.WriteOp) *engine.Mutation {
	m := engine.NewObject(scratchDir+"/"+binName(sha), "scratch", op)
	m.Ungated, m.AbsentOK = true, op == engine.OpDelete
	return m
}

const binSuffix = ".bin"

func binName(sha string) string { return sha + binSuffix }

// boundedText is an argument that people read.
type boundedText struct {
	name, value string
	max         int // characters
}

func checkTexts(args ...boundedText) *fault.Fault {
	for _, a := range args {
		if !utf8.ValidString(a.value) {
			return fault.New(fault.NotValidUTF8).With("argument", a.name).Hintf("%s is not valid UTF-8", a.name)
		}
		if utf8.RuneCountInString(a.value) > a.max {
			return fault.New(fault.InvalidArgument).With("argument", a.name).Hintf("%s has at most %d characters", a.name, a.max)
		}
	}
	return nil
}

func badTTL(examples string) *fault.Fault {
	return fault.New(fault.InvalidArgument).With("argument", "ttl").Hintf("ttl must be a positive ISO 8601 duration, such as %s", examples)
}

// checkRef judges the two ways to name a thing in the scratchpad, and returns
// the hash in lower case.
func checkRef(sha, label string) (string, *fault.Fault) {
	if sha == "" && label == "" {
		return "", fault.New(fault.MustProvideRef)
	}
	sha = strings.ToLower(sha)
	if sha != "" && !engine.ValidSHA256(sha) {
		return "", fault.New(fault.BadSHA256).With("argument", "sha256")
	}
	if e := checkTexts(boundedText{"label", label, maxLabel}); e != nil {
		return "", e
	}
	return sha, nil
}
