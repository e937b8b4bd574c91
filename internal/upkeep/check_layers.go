package upkeep

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/feed"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
)

// The problems that Check finds outside the journal and the kept versions. Most of them
// are in caches: a damaged cache costs time or a label, never a row.
const (
	problemSnapshot     = "snapshot_damaged"
	problemScratch      = "scratch_damaged"
	problemScratchIndex = "scratch_index_damaged"
	problemCheckpoint   = "checkpoint_damaged"
	problemManifest     = "manifest_damaged"
	problemDraft        = "draft_damaged"
	problemBudgets      = "budgets_damaged"
	problemCursor       = "cursor_damaged"
	problemHandoffs     = "handoff_records_damaged"
	problemForeign      = "unknown_file"
)

// parts checks everything but the journal.
func (c *checker) parts() error {
	for _, part := range parts {
		if part.check == nil || !part.isFile && c.misplaced(part.name) {
			continue
		}
		if err := part.check(c); err != nil {
			return err
		}
	}
	return nil
}

// quarantineName is where damaged things are moved to.
const quarantineName = "quarantine"

// misplaced reports an entry that has the name of a part of the state directory and is
// not a directory. It must not keep the check from the other parts.
func (c *checker) misplaced(part string) bool {
	st, err := c.Engine.Disk.State.Lstat(part)
	if err != nil || st.Kind == fsx.Directory {
		return false
	}
	c.problem(problemForeign, part, 0, "this should be a directory of the state directory, and is not a directory")
	return true
}

func (c *checker) snapshots() error {
	if c.Engine.Disk.Index == nil {
		return nil
	}
	list, err := index.Snapshots(c.Engine.Disk.Index)
	for _, snap := range list {
		if snap.Err != nil {
			c.problem(problemSnapshot, "index/"+snap.Name, 0, "the cache is damaged; it can be rebuilt from the journal")
		}
	}
	return err
}

func (c *checker) scratchpad() error {
	pad, err := c.Scratch.Open()
	if err != nil {
		return err
	}
	bad := pad.Malformed
	if pad.Torn && bad > 0 { // another process may be writing it
		bad--
	}
	if bad > 0 {
		c.problem(problemScratchIndex, scratch.Index, 0, "the index has unreadable lines")
	} else if said, err := c.unlisted(pad); err != nil {
		return err
	} else if said != "" && !pad.Odd {
		c.problem(problemScratchIndex, scratch.Index, 0, said)
	}
	dir, err := c.Engine.StatePart(scratch.Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	if pad.Odd {
		c.problem(problemScratchIndex, scratch.Index, 0, "the index is not a regular file")
	}
	for _, sha := range slices.Sorted(maps.Keys(pad.Facts)) {
		if c.notAFile(scratch.Dir, scratch.FactsName(sha)) {
			c.problem(problemScratchIndex, scratch.Dir+"/"+scratch.FactsName(sha), 0, "the sidecar of an object is not a regular file")
		}
	}
	for _, sha := range slices.Sorted(maps.Keys(pad.Stored)) {
		object := scratch.Dir + "/" + scratch.BinName(sha)
		if c.notAFile(scratch.Dir, scratch.BinName(sha)) {
			c.problem(problemScratch, object, 0, "the object is not a file")
			continue
		}
		if !c.deep {
			continue
		}
		if sound, err := holdsSHA(dir, scratch.BinName(sha), sha); err != nil {
			return err
		} else if !sound {
			c.problem(problemScratch, object, 0, "the object does not match its hash")
		}
	}
	return nil
}

// unlisted reports what the index has lost. A put in progress may have its object in
// place but not yet its entry, so missing entries are looked up again.
func (c *checker) unlisted(pad *scratch.Pad) (said string, err error) {
	lost := pad.Unlisted
	for range 3 {
		if len(lost) == 0 {
			return "", nil
		}
		time.Sleep(20 * time.Millisecond)
		if pad, err = c.Scratch.Open(); err != nil {
			return "", err
		}
		lost = slices.DeleteFunc(lost, func(sha string) bool { return !slices.Contains(pad.Unlisted, sha) })
	}
	if len(lost) == 0 {
		return "", nil
	}
	said = fmt.Sprintf("it lacks the entries of %d objects", len(lost))
	if pad.Rebuilt > 0 {
		return said + fmt.Sprintf("; label, notes and expiry of %d of them are lost", pad.Rebuilt), nil
	}
	return said + ", which the sidecars of the objects still have", nil
}

// notAFile reports whether a name is there and is something else than a
// regular file.
func (s *Store) notAFile(part, name string) bool {
	st, err := s.Engine.LstatPart(part, name)
	return err == nil && st.Kind != fsx.Regular
}

// holdsSHA reports whether a file is there as it should be; one that is gone
// by now is.
func holdsSHA(dir fsx.Dir, name, sha string) (bool, error) {
	f, _, err := engine.OpenIfThere(dir, name)
	var kind *fsx.TypeError
	if errors.As(err, &kind) {
		return false, nil
	}
	if err != nil || f == nil {
		return true, err
	}
	defer f.Close()
	have, _, err := engine.HashFile(f)
	return have == sha, err
}

func (c *checker) checkpoints() error {
	names, err := c.Checkpoints.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !c.deep {
			if c.notAFile(checkpoint.Dir, name+checkpoint.FileSuffix) {
				c.problem(problemCheckpoint, checkpoint.Dir+"/"+name+checkpoint.FileSuffix, 0, "it is not a file")
			}
			continue
		}
		saved, err := c.Checkpoints.Read(name, false)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if saved.Corrupt != "" {
			c.problem(problemCheckpoint, checkpoint.Dir+"/"+name+checkpoint.FileSuffix, 0, saved.Corrupt)
		}
	}
	return nil
}

func (c *checker) sessions() error {
	return c.Engine.EachIn(chunks.Dir, func(all fsx.Dir, name string) error {
		if chunks.CheckName(name) != nil {
			c.problem(problemForeign, chunks.SessionObject(name), 0, "this is not the name of a session")
			return nil
		}
		if st, err := all.Lstat(name); err == nil && st.Kind != fsx.Directory {
			c.problem(problemForeign, chunks.SessionObject(name), 0, "not a session: it is not a directory")
			return nil
		}
		return c.session(name)
	})
}

// session checks the names in one session, and its list.
func (c *checker) session(name string) error {
	sess, err := c.Chunks.Read(name)
	if err != nil {
		return err
	}
	dir, err := c.Chunks.OpenDir(name)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Lstat(chunks.ManifestName); err == nil && sess.State == chunks.ManifestLost {
		c.problem(problemManifest, chunks.ManifestObject(name), 0, "the manifest of the session cannot be read; it can be rebuilt from the chunks")
	}
	for _, odd := range sess.Odd {
		if odd != chunks.ManifestName {
			c.problem(problemForeign, chunks.SessionObject(name)+"/"+odd, 0, "this is not the name of a chunk")
		}
	}
	for _, part := range sess.Parts { // chunks.Read did not check those that the manifest lists
		if st, err := dir.Lstat(chunks.PartName(part.Index)); err == nil && st.Kind != fsx.Regular {
			c.problem(problemForeign, chunks.PartObject(name, part.Index), 0, "the chunk is not a regular file")
		}
	}
	return nil
}

func (c *checker) drafts() error {
	return c.Engine.EachIn(quarantineName, func(dir fsx.Dir, name string) error {
		ref, ok := strings.CutSuffix(name, drafts.FactsSuffix)
		if !ok || !drafts.ValidRef(ref) {
			return nil
		}
		d, err := drafts.ReadFacts(dir, ref)
		if engine.IsAbsent(err) {
			return nil
		}
		sound := err == nil
		if sound && c.deep {
			if sound, err = holdsSHA(dir, ref+drafts.BytesSuffix, d.SHA256); err != nil {
				return err
			}
		}
		if !sound {
			c.problem(problemDraft, "quarantine/"+name, 0, "the refused draft does not match its hash")
		}
		return nil
	})
}

func (c *checker) budgets() error {
	data, err := durable.ReadFile(c.Engine.Disk.State, budget.Name, budget.Limit)
	if engine.IsAbsent(err) {
		return nil
	}
	if _, ok := c.Budgets.Decode(data); err != nil || !ok {
		c.problem(problemBudgets, budget.Name, 0, "the retry counts cannot be read; they start again from zero")
	}
	return nil
}

func (c *checker) cursors() error {
	return c.Engine.EachIn("cursors", func(dir fsx.Dir, name string) error {
		if strings.HasSuffix(name, durable.TempSuffix) {
			return nil
		}
		data, err := durable.ReadFile(dir, name, engine.MetaLimit)
		if engine.IsAbsent(err) {
			return nil
		}
		var cur struct{ Agent string }
		if err != nil || json.Unmarshal(data, &cur) != nil || name != feed.CursorName(cur.Agent) {
			c.problem(problemCursor, "cursors/"+name, 0, "the cursor cannot be read; its agent starts at the first row")
		}
		return nil
	})
}

func (c *checker) handoffs() error {
	_, whole, err := c.Handoffs.Records()
	if err == nil && !whole {
		c.problem(problemHandoffs, handoff.Dir+"/"+handoff.ReadName, 0, "it is unknown who has read which handoff")
	}
	return err
}
