package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
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
	maxExpired       = 100       // objects that one commit removes because their time is over
)

// scratchLayer keeps the scratchpad of a store.
type scratchLayer struct {
	*engine.Engine
	memo padMemo
}

// scratchPut is one put in progress.
type scratchPut struct {
	l        *scratchLayer
	c        *engine.Commit
	row      scratchItem
	object   *engine.Mutation // not a part of the commit when the bytes are stored
	expires  bool             // the put says until when the entry is kept
	deduped  bool
	repaired bool
	expired  int
	before   string // when the newest entry of these bytes and this label expires
}

// newPut prepares a put of content, whose hash and size the row gets.
func (s *scratchLayer) newPut(c *engine.Commit, row scratchItem, content []byte) *scratchPut {
	p := &scratchPut{l: s, c: c, row: row, expires: row.ExpiresAt != ""}
	var m engine.Mutation
	p.row.SHA256, p.row.Bytes = m.Hold(content), int64(len(content))
	p.object = scratchObject(p.row.SHA256, engine.OpOverwrite)
	p.object.Content, p.object.Measured = m.Content, m.Measured
	c.Also, c.Plan = scratchLocks(), p.plan
	return p
}

// scratchLocks are the names that a change of the scratchpad must own.
func scratchLocks() []string {
	return []string{engine.PathLock(engine.StateDirName + "/" + scratchIndex)}
}

// plan decides under the lock of the index, which everybody who changes the
// scratchpad holds.
func (p *scratchPut) plan(context.Context) error {
	if done, err := p.briefly(); done || err != nil {
		return err
	}
	before, _ := p.l.indexStat()
	pad, err := p.l.openScratch()
	if err != nil {
		return err
	}
	p.l.memo.learn(p.l, before, pad)
	found, err := p.l.inspectScratch(p.row.SHA256)
	if err != nil {
		return err
	}
	p.before = pad.expiry(p.row.SHA256, p.row.Label)
	p.deduped, p.repaired = found == scratchIntact, found == scratchDamaged
	if p.repaired && !p.c.Req.DryRun {
		if _, err := p.l.QuarantineObject(scratchDir, binName(p.row.SHA256)); err != nil {
			return err
		}
	}
	gone, err := p.l.expiredScratch(pad, p.row.SHA256)
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
	facts, err := p.l.factsWith(p.c, pad, p.row)
	if err != nil {
		return err
	}
	index, err := p.l.indexWith(p.c, pad, gone, p.row)
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
	if err := p.l.weighAll(pad); err != nil {
		return err
	}
	if total() > maxScratchTotal {
		return fault.New(fault.ScratchFull).With("total_bytes", total()).With("max_bytes", maxScratchTotal).With("bytes", p.row.Bytes)
	}
	return nil
}

// scratchRemoval is what a deletion removes.
type scratchRemoval struct {
	sha     string // "" when nothing matched
	rows    int    // entries, under all labels
	freed   int64
	expired int // other objects that go with it
	object  *engine.Mutation
}

// planDelete plans the removal of an object and of those that are expired.
func (s *scratchLayer) planDelete(c *engine.Commit, sha, label string) (scratchRemoval, error) {
	out := scratchRemoval{object: &engine.Mutation{Private: true}}
	pad, err := s.openScratch()
	if err != nil {
		return out, err
	}
	gone, err := s.expiredScratch(pad, "")
	if err != nil {
		return out, err
	}
	var muts []*engine.Mutation
	if entry, ok := pad.find(sha, label); ok {
		out.sha, out.object = entry.SHA256, scratchObject(entry.SHA256, engine.OpDelete)
		out.rows = pad.drop(entry.SHA256)
		if muts = pad.removal(entry.SHA256); pad.stored[entry.SHA256] {
			out.freed, out.object = pad.sizes[entry.SHA256], muts[0]
		}
	}
	for _, sha := range gone {
		if sha != out.sha {
			muts = append(muts, pad.removal(sha)...)
			out.expired++
		}
	}
	if pad.exists && (out.rows > 0 || len(gone) > 0) {
		index, err := s.indexWithout(c, pad, gone)
		if err != nil {
			return out, err
		}
		muts = append(muts, index)
	}
	return out, c.Choose(muts...)
}

// expire makes c remove objects whose time is over, with their entries, and
// counts them once it is planned.
func (s *scratchLayer) expire(c *engine.Commit) (removed *int) {
	removed = new(int)
	c.Also = scratchLocks()
	c.Plan = func(context.Context) error {
		pad, err := s.openScratch()
		if err != nil {
			return err
		}
		gone, err := s.expiredScratch(pad, "")
		if err != nil {
			return err
		}
		if *removed = len(gone); *removed == 0 {
			return c.Choose()
		}
		index, err := s.indexWithout(c, pad, gone)
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
