package resilientwrite

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/index"
)

// What Check finds in the parts beside the journal and the kept versions. Most
// of it is caches; a damaged one costs time or a label, never a row.
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

// parts looks at what lies beside the journal and the kept versions.
func (c *checker) parts() error {
	for _, look := range []func() error{
		c.snapshots, c.scratchpad, c.checkpoints, c.sessions, c.drafts, c.budgets, c.cursors, c.handoffs,
	} {
		if err := look(); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) snapshots() error {
	if c.s.disk.index == nil {
		return nil
	}
	list, err := index.Snapshots(c.s.disk.index)
	for _, snap := range list {
		if snap.Err != nil {
			c.problem(problemSnapshot, "index/"+snap.Name, 0, "the cache is not what was written; the journal has all of it")
		}
	}
	return err
}

func (c *checker) scratchpad() error {
	pad, err := c.s.openScratch()
	if err != nil {
		return err
	}
	bad := pad.malformed
	if pad.torn && bad > 0 { // somebody may just be writing it
		bad--
	}
	if bad > 0 {
		c.problem(problemScratchIndex, scratchIndex, 0, "lines of the index cannot be read; what they named is listed without a label")
	}
	dir, err := c.s.statePart(scratchDir)
	if dir == nil || err != nil || !c.deep {
		return err
	}
	defer dir.Close()
	for sha := range pad.stored {
		if sound, err := holdsSHA(dir, binName(sha), sha); err != nil {
			return err
		} else if !sound {
			c.problem(problemScratch, scratchDir+"/"+binName(sha), 0, "the object does not hash to its name")
		}
	}
	return nil
}

// holdsSHA reports whether a file is there as it should be; one that is gone
// by now is.
func holdsSHA(dir fsx.Dir, name, sha string) (bool, error) {
	f, st, err := openIfThere(dir, name)
	var kind *fsx.TypeError
	if errors.As(err, &kind) {
		return false, nil
	}
	if err != nil || f == nil {
		return true, err
	}
	defer f.Close()
	have, err := shaOf(f, st.Size)
	return have == sha, err
}

func (c *checker) checkpoints() error {
	if !c.deep {
		return nil
	}
	names, err := c.s.listCheckpoints()
	if err != nil {
		return err
	}
	for _, name := range names {
		saved, err := c.s.readCheckpoint(name, false)
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if saved.corrupt != "" {
			c.problem(problemCheckpoint, checkpointDir+"/"+name+checkpointFile, 0, saved.corrupt)
		}
	}
	return nil
}

func (c *checker) sessions() error {
	all, err := c.s.openChunks()
	if all == nil || err != nil {
		return err
	}
	defer all.Close()
	names, err := all.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if checkSession(name) != nil {
			c.problem(problemForeign, sessionObject(name), 0, "no session has this name")
			continue
		}
		sess, err := c.s.readSession(name)
		if err != nil {
			return err
		}
		dir, err := c.s.openSession(name)
		if dir == nil || err != nil {
			continue
		}
		if _, err := dir.Lstat(manifestName); err == nil && sess.state == manifestLost {
			c.problem(problemManifest, manifestObject(name), 0, "the list of the session cannot be read; the pieces have all of it")
		}
		for _, odd := range sess.odd {
			if odd != manifestName {
				c.problem(problemForeign, sessionObject(name)+"/"+odd, 0, "no piece has this name")
			}
		}
		dir.Close()
	}
	return nil
}

func (c *checker) drafts() error {
	dir, err := c.s.draftDir()
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		ref, ok := strings.CutSuffix(name, draftFacts)
		if !ok || !validDraftRef(ref) {
			continue
		}
		d, err := readFacts(dir, ref)
		if isAbsent(err) {
			continue
		}
		sound := err == nil
		if sound && c.deep {
			if sound, err = holdsSHA(dir, ref+draftBytes, d.SHA256); err != nil {
				return err
			}
		}
		if !sound {
			c.problem(problemDraft, "quarantine/"+name, 0, "the refused draft is not what was kept")
		}
	}
	return nil
}

func (c *checker) budgets() error {
	data, err := durable.ReadFile(c.s.disk.state, guardName, guardLimit)
	if isAbsent(err) {
		return nil
	}
	var t tally
	if err != nil || json.Unmarshal(data, &t) != nil {
		c.problem(problemBudgets, guardName, 0, "the counts of failed calls cannot be read; they begin anew")
	}
	return nil
}

func (c *checker) cursors() error {
	dir, err := c.s.statePart("cursors")
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, durable.TempSuffix) {
			continue
		}
		data, err := durable.ReadFile(dir, name, metaLimit)
		if isAbsent(err) {
			continue
		}
		var cur cursorFile
		if err != nil || json.Unmarshal(data, &cur) != nil || name != hashOf([]byte(cur.Agent))[:32]+".json" {
			c.problem(problemCursor, "cursors/"+name, 0, "the cursor cannot be read; its agent begins at the first row")
		}
	}
	return nil
}

func (c *checker) handoffs() error {
	_, whole, err := c.s.readHandoffRecords()
	if err == nil && !whole {
		c.problem(problemHandoffs, handoffsDir+"/"+readName, 0, "it is not known who has read which handoff")
	}
	return err
}
