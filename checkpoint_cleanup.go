package resilientwrite

import (
	"context"
	"strings"
)

// CheckpointCleanupRequest asks for checkpoints to be removed.
type CheckpointCleanupRequest struct {
	IncludeSession *bool  `json:"include_session,omitempty" default:"true" desc:"Also remove the checkpoints with ttl session, of every session. Pass false while other agents are at work."`
	DryRun         bool   `json:"dry_run,omitempty" desc:"Tell what would be removed, change nothing."`
	Caller         string `json:"caller,omitempty" maxlen:"200" desc:"Who is removing, for the journal."`
	Session        string `json:"session,omitempty" maxlen:"200" desc:"Name of the working session, for the journal."`
}

// CheckpointCleanupResult tells what was removed.
type CheckpointCleanupResult struct {
	Removed   []RemovedCheckpoint `json:"removed" desc:"The checkpoints that were removed, by name."`
	Kept      int                 `json:"kept" desc:"How many there are left."`
	More      bool                `json:"more" desc:"True when one call could not remove all; call again."`
	JournalID string              `json:"journal_id,omitempty" desc:"Identifier of the journal row; absent when nothing was written."`
	Status    Status              `json:"status" desc:"How the call ended." enum:"succeeded,unchanged"`
	Warnings  []Warning           `json:"warnings" desc:"What you should know although the call succeeded."`
	Receipt   Receipt             `json:"receipt" desc:"The full account of the call."`
}

// RemovedCheckpoint is one checkpoint that was removed.
type RemovedCheckpoint struct {
	Name   string `json:"name" desc:"Name of the checkpoint."`
	TTL    string `json:"ttl" desc:"How long it was to be kept; empty when that cannot be told."`
	Reason string `json:"reason" enum:"session_cleanup,expired,corrupt" desc:"Why it was removed. A corrupt one is kept in quarantine."`
}

// The reasons for which a checkpoint is removed.
const (
	removedSession = "session_cleanup"
	removedExpired = "expired"
	removedCorrupt = "corrupt"
)

// maxCleanup is how many checkpoints one commit removes.
const maxCleanup = 100

// CheckpointCleanup removes the checkpoints whose time is over, those of ttl
// session unless they are left out, and the damaged ones, which are copied to
// quarantine/ first. All of it is one commit: a crash leaves all of them or
// none. One call removes at most 100; More says that there are others.
//
// Errors: [InvalidArgument], [BadStateDir], [LockTimeout], the storage
// details, [StorePoisoned], [StoreClosed], [StoreReadOnly], [Canceled].
func (s *Store) CheckpointCleanup(ctx context.Context, r CheckpointCleanupRequest) (CheckpointCleanupResult, error) {
	session := r.IncludeSession == nil || *r.IncludeSession
	c := s.newCommit(ctx, request{op: "checkpoint_cleanup", caller: r.Caller, session: r.Session, dryRun: r.DryRun})
	c.req.hash = hashOf([]byte(strings.Join([]string{"checkpoint_cleanup", flag(session)}, "\x00")))
	if e := checkLabels(r.Caller, r.Session, ""); e != nil {
		return CheckpointCleanupResult{}, c.failed(e)
	}
	p := &cleanup{s: s, c: c, session: session}
	if err := p.choose(); err != nil {
		return CheckpointCleanupResult{}, c.failed(err)
	}
	c.plan = p.plan
	if err := s.commit(ctx, c); err != nil {
		return CheckpointCleanupResult{}, err
	}
	rec, status := c.finished()
	return CheckpointCleanupResult{
		Removed: p.removed, Kept: p.total - len(p.removed), More: p.more,
		JournalID: rec.JournalID, Status: status, Warnings: rec.Warnings, Receipt: rec,
	}, nil
}

// cleanup is one cleanup under way.
type cleanup struct {
	s       *Store
	c       *commit
	session bool
	due     []string // checkpoints that were to go when they were looked at first
	total   int
	more    bool
	removed []RemovedCheckpoint
}

// choose looks for the checkpoints that are to go and asks for their locks.
func (p *cleanup) choose() error {
	if err := p.s.enter(); err != nil {
		return err
	}
	defer p.s.leave()
	names, err := p.s.listCheckpoints()
	if err != nil {
		return err
	}
	for _, name := range names {
		old, err := p.s.readCheckpoint(name, false)
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		p.total++
		if p.reason(old) == "" {
			continue
		}
		if len(p.due) == maxCleanup {
			p.more = true
			continue
		}
		p.due = append(p.due, name)
		p.c.also = append(p.c.also, pathLock(checkpointPath(name)))
	}
	return nil
}

// reason says why a checkpoint is to go; "" when it stays.
func (p *cleanup) reason(c *storedCheckpoint) string {
	switch {
	case c.corrupt != "":
		return removedCorrupt
	case c.expired(p.s.now()):
		return removedExpired
	case c.TTL == ttlSession && p.session:
		return removedSession
	}
	return ""
}

// plan judges them again under their locks: one that was saved anew stays.
func (p *cleanup) plan(ctx context.Context) error {
	p.removed = []RemovedCheckpoint{}
	var muts []*mutation
	for _, name := range p.due {
		old, err := p.s.readCheckpoint(name, true)
		if isAbsent(err) {
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
		files, err := p.s.quarantineCheckpoint(old, p.c.req.dryRun)
		if err != nil {
			return err
		}
		for _, file := range files {
			muts = append(muts, checkpointObject(file, modeDelete))
		}
	}
	return p.c.choose(muts...)
}
