// package scratch keeps raw material out of the workspace: logs, dumps, replies that
// may hold secrets. Each object is scratch/<sha256>.bin, which is authoritative.
// scratch/index.jsonl holds the labels of objects. It can be lost, because the facts
// file of each object, scratch/<sha256>.jsonl, contains them as well.
package scratch

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

const (
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

// NewPut prepares a put of content and sets its hash and size in the row.
func (s *Layer) NewPut(c *engine.Commit, row Entry, content []byte) *Put {
	p := &Put{l: s, c: c, Row: row, Expires: row.ExpiresAt != ""}
	var m engine.Mutation
	p.Row.SHA256, p.Row.Bytes = m.Hold(content), int64(len(content))
	p.Object = scratchObject(p.Row.SHA256, engine.OpOverwrite)
	p.Object.Content, p.Object.Measured = m.Content, m.Measured
	c.Also, c.Plan = Locks(), p.plan
	return p
}

// Locks are the names that a change of the scratchpad must own.
func Locks() []string {
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
	muts = append(muts, facts, index)
	for _, sha := range gone {
		muts = append(muts, pad.removal(sha)...)
	}
	return p.c.Choose(muts...)
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

// Removal lists the objects that a deletion removes.
type Removal struct {
	SHA     string // "" when nothing matched
	Rows    int    // entries, under all labels
	Freed   int64
	Expired int // other objects that go with it
	Object  *engine.Mutation
}

// PlanDelete plans the removal of an object and of those that are expired.
func (s *Layer) PlanDelete(c *engine.Commit, sha, label string) (Removal, error) {
	out := Removal{Object: &engine.Mutation{Private: true}}
	pad, err := s.Open()
	if err != nil {
		return out, err
	}
	gone, err := s.Expired(pad, "")
	if err != nil {
		return out, err
	}
	var muts []*engine.Mutation
	if entry, ok := pad.Find(sha, label); ok {
		out.SHA, out.Object = entry.SHA256, scratchObject(entry.SHA256, engine.OpDelete)
		out.Rows = pad.drop(entry.SHA256)
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

// Expire makes c remove expired objectsand their entries, and counts them once c is
// planned.
func (s *Layer) Expire(c *engine.Commit) (removed *int) {
	removed = new(int)
	c.Also = Locks()
	c.Plan = func(context.Context) error {
		pad, err := s.Open()
		if err != nil {
			return err
		}
		gone, err := s.Expired(pad, "")
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
		muts := []*engine.Mutation{index}
		for _, sha := range gone {
			muts = append(muts, pad.removal(sha)...)
		}
		return c.Choose(muts...)
	}
	return removed
}
