package resilientwrite

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
)

// CheckpointCleanupRequest asks for checkpoints to be removed.
type CheckpointCleanupRequest struct {
	Call `omit:"accept_risk"`

	// Also remove checkpoints with ttl session, whichever session saved them.
	// Pass false while other agents are working.
	IncludeSession *bool `json:"include_session,omitempty" default:"true"`
}

// CheckpointCleanupResult reports what was removed.
type CheckpointCleanupResult struct {
	// The checkpoints that were removed, by name.
	Removed []RemovedCheckpoint `json:"removed"`
	// How many checkpoints remain.
	Kept int `json:"kept"`
	// True when one call could not remove all of them; call again, with another
	// idempotency key.
	More bool `json:"more"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// RemovedCheckpoint is one checkpoint that was removed.
type RemovedCheckpoint struct {
	// Name of the checkpoint.
	Name string `json:"name"`
	// Its TTL; empty when unknown.
	TTL string `json:"ttl"`
	// Why it was removed. A corrupt checkpoint is kept in quarantine.
	Reason string `json:"reason" enum:"session_cleanup,expired,corrupt"`
}

// The reasons for which a checkpoint is removed.
const (
	removedSession = "session_cleanup"
	removedExpired = "expired"
	removedCorrupt = "corrupt"
)

// maxCleanup is how many checkpoints one commit removes.
const maxCleanup = 100

// CheckpointCleanup removes expired checkpoints, those with ttl session unless
// they are left out, and damaged ones, which are first copied to quarantine/. All
// removals are one commit: a crash leaves all of them or none. One call removes
// at most 100, or fewer with an idempotency key and long names, because the
// journal keeps the reply; More reports that others remain. A repeated key
// returns the first reply and removes nothing more.
//
// Errors: [ErrInvalidArgument], [ErrIdempotencyKeyReused], [ErrBadStateDir],
// [ErrLockTimeout], the storage details, [ErrStorePoisoned], [ErrStoreClosed],
// [ErrStoreReadOnly], [ErrCanceled].
func (s *Store) CheckpointCleanup(ctx context.Context, r CheckpointCleanupRequest) (CheckpointCleanupResult, error) {
	session := r.IncludeSession == nil || *r.IncludeSession
	r.IncludeSession = &session
	c := s.newCommit(ctx, r.request("checkpoint_cleanup", r))
	if e := r.Call.check(ctx); e != nil {
		return CheckpointCleanupResult{}, c.Failed(e)
	}
	p := &cleanup{s: s, c: c, session: session}
	if err := p.choose(); err != nil {
		return CheckpointCleanupResult{}, c.Failed(err)
	}
	c.Plan, c.Outcome = p.plan, p.outcome
	if err := s.commit(ctx, c); err != nil {
		return CheckpointCleanupResult{}, err
	}
	out := CheckpointCleanupResult{Removed: p.removed, Kept: p.total - len(p.removed), More: p.more}
	if c.Replayed != nil {
		was := c.storedOutcome()
		out.Removed, out.Kept, out.More = []RemovedCheckpoint{}, was.Kept, was.More
		for _, text := range was.Cleaned {
			out.Removed = append(out.Removed, removedCheckpoint(text))
		}
	}
	rec, status := c.finished()
	out.JournalID, out.Status, out.Warnings, out.Receipt = rec.JournalID, status, rec.Warnings, rec
	return out, nil
}

// outcome returns what the journal keeps of the reply, for a repeated key.
func (p *cleanup) outcome() any {
	o := outcome{Kept: p.total - len(p.removed), More: p.more}
	for _, r := range p.removed {
		o.Cleaned = append(o.Cleaned, r.brief())
	}
	return o
}

// brief returns a removed checkpoint in one word per field: the first letter of
// the reason, the name, the TTL. A name holds no space.
func (r RemovedCheckpoint) brief() string { return r.Reason[:1] + " " + r.Name + " " + r.TTL }

func removedCheckpoint(brief string) (r RemovedCheckpoint) {
	letter, rest, _ := strings.Cut(brief, " ")
	for _, reason := range []string{removedSession, removedExpired, removedCorrupt} {
		if reason[:1] == letter {
			r.Reason = reason
		}
	}
	r.Name, r.TTL, _ = strings.Cut(rest, " ")
	return r
}

// maxCleaned limits the bytes of a reply that the journal keeps, with room for
// its numbers.
const maxCleaned = 3900

// cleanup is one cleanup in progress.
type cleanup struct {
	s       *Store
	c       *commit
	session bool
	due     []string // checkpoints that qualified for removal in the first pass
	total   int
	more    bool
	removed []RemovedCheckpoint
}

// choose finds the checkpoints to remove and requests their locks.
func (p *cleanup) choose() error {
	if err := p.s.engine.Enter(); err != nil {
		return err
	}
	defer p.s.engine.Leave()
	names, err := p.s.checkpoints.List()
	if err != nil {
		return err
	}
	listed := 0
	for _, name := range names {
		old, err := p.s.checkpoints.Read(name, false)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		p.total++
		if p.reason(old) == "" {
			continue
		}
		brief, _ := json.Marshal(RemovedCheckpoint{Name: name, TTL: old.TTL, Reason: p.reason(old)}.brief())
		if listed += len(brief) + 1; len(p.due) == maxCleanup || p.c.Req.Key != "" && listed > maxCleaned && len(p.due) > 0 {
			p.more = true
			continue
		}
		p.due = append(p.due, name)
		p.c.Also = append(p.c.Also, engine.PathLock(checkpoint.Path(name)))
	}
	return nil
}

// reason returns why a checkpoint is removed; "" if it stays.
func (p *cleanup) reason(c *checkpoint.Stored) string {
	switch {
	case c.Corrupt != "":
		return removedCorrupt
	case c.Expired(p.s.engine.Now()):
		return removedExpired
	case c.TTL == checkpoint.TTLSession && p.session:
		return removedSession
	}
	return ""
}

// plan checks them again under their locks: one that was saved since stays.
func (p *cleanup) plan(ctx context.Context) error {
	if done, err := p.c.Answered(); done || err != nil {
		return err
	}
	p.removed = []RemovedCheckpoint{}
	var muts []*engine.Mutation
	for _, name := range p.due {
		old, err := p.s.checkpoints.Read(name, true)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		why := p.reason(old)
		if why == "" {
			continue
		}
		p.removed = append(p.removed, RemovedCheckpoint{Name: name, TTL: old.TTL, Reason: why})
		files, err := p.s.checkpoints.Quarantine(old, p.c.Req.DryRun)
		if err != nil {
			return err
		}
		for _, file := range files {
			muts = append(muts, checkpoint.Object(file, engine.OpDelete))
		}
	}
	return p.c.Choose(muts...)
}
