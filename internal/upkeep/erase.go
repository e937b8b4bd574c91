package upkeep

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/needle"
)

// newEraser returns the erasure of exactly one of the secret, a hash and a draft. Caller,
// session and reason go into the journal, so none of them may have the secret in it.
func (c *Call) newEraser(r admin.EraseRequest) (e *eraser, err error) {
	e = &eraser{Call: c, sha: r.SHA256.String(), reason: c.SafeText(r.Reason), places: map[string]int{}, known: map[string]bool{}}
	e.out = admin.EraseResult{Places: []admin.ErasedPlace{}, Versions: []string{}, Removed: []string{}, Workspace: []string{}, Left: []string{}}
	given := 0
	for _, is := range []bool{len(r.Secret) > 0, e.sha != "", r.DraftRef != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, fault.New(fault.InvalidArgument).With("argument", "secret").Hintf("give exactly one of the secret, sha256 and draft_ref")
	case r.DraftRef != "":
		dir, facts, err := c.Drafts.Find(r.DraftRef)
		if err != nil {
			return nil, err
		}
		e.sha = facts.SHA256
		return e, dir.Close()
	case e.sha == engine.HashOf(nil):
		return nil, fault.New(fault.InvalidArgument).With("argument", "sha256").Hintf("this is the hash of empty content, which holds no secret")
	case e.sha != "":
		return e, nil
	}
	if e.n, err = needle.New(r.Secret); err != nil {
		return nil, fault.New(fault.InvalidArgument).With("argument", "secret").With("min_bytes", needle.MinBytes).
			Hintf("a secret must have at least %d bytes that are not all equal; a shorter one would match by chance", needle.MinBytes)
	}
	for name, text := range map[string]string{"caller": r.Caller, "session": r.Session, "reason": r.Reason} {
		if e.n.Within([]byte(text)) {
			return nil, fault.New(fault.InvalidArgument).With("argument", name).Hintf("%s contains the secret itself and would be recorded in the journal", name)
		}
	}
	return e, nil
}

// eraser is one Erase in progress.
type eraser struct {
	*Call
	n      *needle.Needle // nil when something is erased by its hash
	sha    string         // of whole contents, when there is no needle
	reason string
	found  int    // things that this round changed
	began  uint64 // newest row when this round began
	places map[string]int
	known  map[string]bool // files that are counted
	out    admin.EraseResult

	shas    []string        // of versions to be erased
	hit     map[string]bool // objects of the current directory, by their first files
	pending []*erasure      // of the current step
}

// maxRounds is the maximum number of passes over the state directory: a concurrent
// writer may have written the secret again.
const maxRounds = 4

// result is what was erased.
func (e *eraser) result() admin.EraseResult {
	slices.Sort(e.out.Versions)
	slices.Sort(e.out.Removed)
	for _, place := range slices.Sorted(maps.Keys(e.places)) {
		e.out.Places = append(e.out.Places, admin.ErasedPlace{Place: place, Count: e.places[place]})
	}
	return e.out
}

// run erases from every part of the state directory, and searches the workspace if asked.
func (e *eraser) run(ctx context.Context, workspace bool) error {
	if e.Engine.Log == nil {
		return nil
	}
	// A secret that is part of the structure of the journal is refused before anything
	// is changed.
	if err := e.redactions(func(*journal.Known, uint64, *journal.Redaction) error { return nil }); err != nil {
		return err
	}
	for range maxRounds {
		e.found = 0
		e.Meter.Things(StepErase, 0, "searching the state directory")
		if err := e.round(ctx); err != nil {
			return err
		}
		if e.DryRun {
			break
		}
		more, err := e.cameBetween()
		if err != nil {
			return err
		}
		if e.found == 0 && !more {
			break
		}
	}
	if !e.DryRun {
		if e.out.Rows > 0 || e.places["manifests"] > 0 { // caches know erased paths
			if err := e.renewRows(); err != nil {
				return err
			}
		}
		if err := e.whatIsLeft(ctx); err != nil {
			return err
		}
	}
	if workspace {
		return e.searchWorkspace(ctx)
	}
	return nil
}

// redactions calls fn with the plan to overwrite the secret in each segment.
func (e *eraser) redactions(fn func(known *journal.Known, first uint64, plan *journal.Redaction) error) error {
	if e.n == nil {
		return nil
	}
	known, err := e.Engine.Log.Known()
	if err != nil {
		return err
	}
	segs, err := e.allSegments()
	if err != nil {
		return err
	}
	for _, first := range segs {
		plan, err := e.Engine.Log.PlanRedaction(known, first, e.n)
		if errors.Is(err, needle.ErrStructure) {
			return fault.New(fault.InvalidArgument).With("argument", "secret").
				Hintf("these bytes also occur in the structure of the journal; give more of the secret, or another part of it")
		}
		if err != nil {
			return err
		}
		if err := fn(known, first, plan); err != nil {
			return err
		}
	}
	return nil
}

// allSegments lists the sealed segments and the one that is written to.
func (e *eraser) allSegments() ([]uint64, error) {
	if err := e.Engine.Log.CatchUp(); err != nil {
		return nil, err
	}
	segs, err := e.Engine.Log.Sealed()
	if err != nil {
		return nil, err
	}
	if now := e.Engine.Log.End().Segment; now > 0 && !slices.Contains(segs, now) {
		segs = append(segs, now)
	}
	return segs, nil
}

// round goes through everything once.
func (e *eraser) round(ctx context.Context) error {
	if err := e.quiet(ctx); err != nil {
		return err
	}
	return inTurn(ctx, e.journal, e.slots, e.files, e.versions)
}

// journal seals the segment in use if it contains something to erase, and waits for the
// commits whose rows are in it: recovery needs their paths unchanged.
func (e *eraser) journal(ctx context.Context) error {
	return e.redactions(func(known *journal.Known, first uint64, plan *journal.Redaction) (err error) {
		e.Meter.One()
		if len(plan.Changes) == 0 {
			return nil
		}
		if !e.DryRun && first == e.Engine.Log.End().Segment {
			if plan, err = e.seal(ctx, known, first); err != nil {
				return err
			}
		}
		if !e.DryRun {
			if err := e.noteChanges(ctx, journal.NoteErased, e.reason, plan.Changes); err != nil {
				return err
			}
			if err := plan.Apply(e.Engine.Disk.Staging, e.tempName()); err != nil {
				return err
			}
		}
		e.count("journal", max(1, plan.Rows))
		e.out.Rows += plan.Rows
		return nil
	})
}

// seal begins a new segment and plans the old one again, when nothing of it is
// in progress any more.
func (e *eraser) seal(ctx context.Context, known *journal.Known, first uint64) (*journal.Redaction, error) {
	e.Effect = fault.EffectUnknown
	if err := e.Engine.Log.Roll(ctx); err != nil {
		return nil, e.journalFailed(err)
	}
	if err := e.quiet(ctx); err != nil {
		return nil, err
	}
	return e.Engine.Log.PlanRedaction(known, first, e.n)
}

// count notes things that were erased.
func (e *eraser) count(place string, n int) {
	e.places[place] += n
	e.found += n
	if !e.DryRun {
		e.Effect = fault.EffectUnknown
	}
}

// shown is a path as it may be returned and journaled.
func (e *eraser) shown(path string) string {
	if e.n == nil {
		return path
	}
	out, _ := e.n.Mask([]byte(path))
	return string(out)
}

// quiet waits until every commit in progress is settled, and
// brings those of dead writers to their end.
func (e *eraser) quiet(ctx context.Context) error {
	if e.DryRun {
		return nil
	}
	if err := e.Engine.Drain(); err != nil {
		return err
	}
	if err := e.haltCopies(ctx); err != nil {
		return err
	}
	if err := e.Engine.RecoverDead(ctx, new(engine.Report)); err != nil {
		return err
	}
	under, err := e.slotsInUse()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(e.LockTimeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		now, err := e.slotsInUse()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(under, func(name string) bool { return slices.Contains(now, name) }) {
			return e.forGood()
		}
		if time.Now().After(deadline) {
			return fault.New(fault.LockTimeout).Hintf("another write is in progress, or a program has a file open that was replaced; call again when it has ended or closed the file")
		}
		select {
		case <-ctx.Done():
			return canceled(ctx)
		case <-time.After(wait):
		}
		if err := e.Engine.RecoverDead(ctx, new(engine.Report)); err != nil {
			return err
		}
		e.Engine.LookAgain(-1) // no commit of this process does
	}
}

// haltCopies makes all processes give up the copies of newest versions that they have
// not made yet, and removes the remains of interrupted ones.
func (e *eraser) haltCopies(ctx context.Context) error {
	unlock, err := e.aloneInHistory(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.Engine.Log.CatchUp(); err != nil {
		return err
	}
	if e.began = e.Engine.Log.Head(); e.began == 0 {
		return nil
	}
	if err := e.Engine.Locks.SetMark(e.began); err != nil {
		return err
	}
	return e.Engine.History.RemoveDrafts()
}

// aloneInHistory takes the lock of history. Each attempt waits for less time than a
// writer that adds a version does.
func (e *eraser) aloneInHistory(ctx context.Context) (unlock func(), err error) {
	for end := time.Now().Add(e.LockTimeout); ; {
		unlock, err = e.Engine.Locks.History(ctx, 4*engine.SweepWait, "erase")
		var timeout *lock.TimeoutError
		if !errors.As(err, &timeout) || time.Now().After(end) {
			return unlock, err
		}
	}
}

// cameBetween reports whether a commit was made since the round began: it may
// have brought the secret back.
func (e *eraser) cameBetween() (came bool, err error) {
	if err := e.Engine.Log.CatchUp(); err != nil {
		return false, err
	}
	err = e.Engine.Log.Range(e.began+1, func(rec *journal.Record, _ journal.Pos) error {
		came = came || rec.Kind == journal.KindCommit
		return nil
	})
	return came, err
}

// left are the slots in which recovery left a version that could not reach
// history, by their labels.
func (e *eraser) left() map[string]publish.Slot {
	slots := map[string]publish.Slot{}
	e.Engine.Unkept.Range(func(label, slot any) bool {
		slots[label.(string)] = slot.(publish.Slot)
		return true
	})
	return slots
}

// slotsInUse lists the slots that commits use.
func (e *eraser) slotsInUse() ([]string, error) {
	held, _, err := e.Engine.HeldSlots()
	left := e.left()
	return slices.DeleteFunc(held, func(label string) bool { return left[label].Name != "" }), err
}

// slots erases versions that were left in slots. Only files that were made as slots are
// overwritten. Another file in a slot has become a version, and the next round waits for a commit
// in progress.
func (e *eraser) slots(ctx context.Context) error {
	left := e.left()
	for _, label := range slices.Sorted(maps.Keys(left)) {
		slot := left[label]
		f := file{slot.Dir, strings.TrimSuffix(label, "/"+slot.Name), slot.Name}
		st, err := f.dir.Lstat(f.name)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if hit, err := e.contains(f); err != nil {
			return err
		} else if !hit || st.Ino != slot.Ino || st.Nlink > 1 {
			continue
		}
		was, err := fileSHA(f)
		if err != nil {
			return err
		}
		e.add(f, was, func() error { return zero(slot) }).place = "staging"
	}
	return e.carry(ctx)
}

// zero overwrites a slot before it is removed.
//
//	write NULs…  fsync  ftruncate(0)  fsync  unlinkat
func zero(slot publish.Slot) error {
	f, err := slot.Dir.Open(slot.Name, fsx.Write, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	for at, buf := int64(0), make([]byte, 64<<10); at < st.Size; {
		n, err := f.WriteAt(buf[:min(int64(len(buf)), st.Size-at)], at)
		if at += int64(n); err != nil {
			return err
		}
	}
	for _, step := range []func() error{f.Sync, func() error { return f.Truncate(0) }, f.Sync, slot.Remove} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
