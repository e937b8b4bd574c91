package checkpoint

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
)

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
