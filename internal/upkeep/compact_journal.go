package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// journal writes snapshots and parks segments. The order is what makes it
// safe: a segment moves only when two snapshots that were read back precede
// it and a durable row records it.
func (p *compaction) journal(ctx context.Context) error {
	p.Meter.Things(StepJournal, 0, "archiving old journal segments")
	if err := p.Engine.Log.CatchUp(); err != nil {
		return err
	}
	due, err := p.due(math.MaxUint64)
	if err != nil {
		return err
	}
	ends, err := p.snapshots()
	if err != nil {
		return err
	}
	fresh := len(ends) >= 2 && ends[0].Seq == p.Engine.Log.Head() // two are sound, and the newer one covers every row
	if p.DryRun {
		p.changed = p.changed || len(due) > 0 || !fresh
		return p.describe(due)
	}
	if fresh && len(due) == 0 && !p.changed {
		return p.finish()
	}
	p.changed = true
	if err := p.snapshot(); err != nil {
		return err
	}
	if err := p.noteSegments(ctx, due); err != nil {
		return err
	}
	if err := p.snapshot(); err != nil {
		return err
	}
	if ends, err = p.snapshots(); err != nil || len(ends) < 2 {
		return errors.Join(err, p.finish())
	}
	if due, err = p.due(min(ends[0].Segment, ends[1].Segment)); err != nil {
		return err
	}
	if err := p.park(ctx, due); err != nil {
		return err
	}
	return p.finish()
}

// due lists the segments that can be parked: sealed ones that hold none of the
// newest rows and precede the segment limit.
func (p *compaction) due(limit uint64) ([]uint64, error) {
	sealed, err := p.Engine.Log.Sealed()
	if err != nil {
		return nil, err
	}
	parked, err := p.Engine.Log.Parked()
	if err != nil {
		return nil, err
	}
	live, err := p.Engine.Log.Oldest()
	if err != nil {
		return nil, err
	}
	head := p.Engine.Log.Head()
	upto := head - min(head, uint64(p.keep)) // this row and those before it may go
	var list []uint64
	for i, first := range sealed {
		if first < live && slices.Contains(parked, first) {
			continue
		}
		next := p.Engine.Log.End().Segment
		if i+1 < len(sealed) {
			next = sealed[i+1]
		}
		if next <= upto+1 && first < limit {
			list = append(list, first)
		}
	}
	return list, nil
}

// describe fills in the known facts about the segments.
func (p *compaction) describe(due []uint64) error {
	for _, first := range due {
		f, err := p.facts(first)
		if err != nil {
			return err
		}
		p.archived(f)
		p.Meter.One()
	}
	return p.finish()
}

// facts returns the facts about a segment, which are read once.
func (p *compaction) facts(first uint64) (journal.SegmentFacts, error) {
	if f, ok := p.known[first]; ok {
		return f, nil
	}
	f, err := p.Engine.Log.Facts(first)
	if err == nil {
		p.known[first] = f
	}
	return p.known[first], err
}

// noteSegments writes a note for every segment that has none, and one for
// the call as a whole.
func (p *compaction) noteSegments(ctx context.Context, due []uint64) error {
	if len(due) > 0 {
		known, err := p.Engine.Log.Known()
		if err != nil {
			return err
		}
		for _, first := range due {
			if err := canceled(ctx); err != nil {
				return err
			}
			f, err := p.facts(first)
			if err != nil {
				return err
			}
			p.Meter.One()
			if known.Archived(first, f.SHA256) {
				continue
			}
			if err := p.note(ctx, journal.Note{
				What: journal.NoteArchived, Segment: first, Last: f.Last, Rows: f.Rows, To: f.Bytes, SHA256: f.SHA256,
			}); err != nil {
				return err
			}
		}
	}
	return p.note(ctx, journal.Note{What: journal.NoteCompact, Rows: int64(len(due)), Text: fmt.Sprintf("%d segments to the archive", len(due))})
}

func (p *compaction) park(ctx context.Context, due []uint64) error {
	if len(due) == 0 {
		return nil
	}
	facts := make([]journal.SegmentFacts, 0, len(due))
	for _, first := range due {
		f, err := p.facts(first)
		if err != nil {
			return err
		}
		facts = append(facts, f)
	}
	err := p.reserve.Try(func() error { return p.Engine.Log.Park(context.WithoutCancel(ctx), due) })
	if errors.Is(err, journal.ErrTaken) {
		return fault.New(fault.JournalDamaged).Because(err).Hintf("archive/ contains a different segment of the same name; examine it, move it away, then call again")
	}
	if err != nil {
		return err
	}
	for _, f := range facts {
		p.archived(f)
	}
	return nil
}

func (p *compaction) archived(f journal.SegmentFacts) {
	p.out.Archived = append(p.out.Archived, admin.ArchivedSegment{First: f.First, Last: f.Last, Rows: f.Rows, Bytes: f.Bytes, SHA256: digest(f.SHA256)})
}

// finish fills in the result.
func (p *compaction) finish() error {
	list, err := index.Snapshots(p.Engine.Disk.Index)
	if err != nil {
		return err
	}
	for _, snap := range list {
		if snap.Err == nil {
			p.out.Snapshots++
		}
	}
	p.out.LiveFrom, err = p.Engine.Log.Oldest()
	return err
}

// snapshot writes a snapshot of the index and reads it back.
func (p *compaction) snapshot() error {
	return p.Engine.Alone("snapshot", func() error {
		err := p.reserve.Try(func() error { return p.Engine.Rows.Write(p.Engine.Disk.Index, p.Engine.Log) })
		if err == nil || !p.Engine.LacksSpace(err) { // without space it did not get its name
			p.Effect = fault.EffectUnknown
		}
		if err != nil && p.Engine.Log.Poisoned() {
			return p.Engine.Poison(err)
		}
		if err != nil {
			return err
		}
		list, err := index.Snapshots(p.Engine.Disk.Index)
		if err != nil {
			return err
		}
		if len(list) == 0 || list[0].Err != nil {
			return fault.New(fault.ReadBackMismatch)
		}
		return nil
	})
}

// snapshots are the ends of the sound snapshots, newest first.
func (p *compaction) snapshots() ([]journal.Pos, error) {
	list, err := index.Snapshots(p.Engine.Disk.Index)
	if err != nil {
		return nil, err
	}
	var ends []journal.Pos
	for _, snap := range list {
		var st engine.SnapshotState
		if snap.Err == nil && json.Unmarshal(snap.State, &st) == nil && st.Format == engine.FormatVersion {
			ends = append(ends, st.Pos)
		}
	}
	return ends, nil
}
