package resilientwrite

import (
	"context"
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/merge"
)

// MergeMode says what becomes of a write or an edit whose expected version is
// not there any more.
//
// A merge takes three texts: the version that the call expects, which history
// must still keep, what others made of it, and what the call makes of it. Changes
// with at least one unchanged line between them are both applied; equal ones
// count once. It decides as git merge-file does. The texts must be UTF-8 of at
// most 8 MiB, and the result must pass the syntax check of its format. Everything
// else is refused with [ErrHashMismatch], as without a merge; the refusal
// shows both sides. The gate, the verifiers and the journal see the merged bytes.
type MergeMode string

const (
	// MergeOff refuses it, with ErrHashMismatch.
	MergeOff MergeMode = "off"
	// MergeClean merges it where that is possible without a conflict. The policy
	// file can forbid it.
	MergeClean MergeMode = "clean"
)

func (m MergeMode) check() *fault.Fault {
	switch m {
	case "", MergeOff, MergeClean:
		return nil
	}
	return badChoice("merge", string(MergeOff), string(MergeClean))
}

// merger returns how a stale call with the given mode is merged; nil: it is
// refused. The key merge of the policy file applies to calls that name no mode,
// and off applies to all.
func (s *Store) merger(asked MergeMode, m *engine.Mutation) engine.Merger {
	set := MergeMode(s.policy().file.Merge)
	if asked == "" {
		asked = set
	}
	if asked != MergeClean || set == MergeOff {
		return nil
	}
	return func(ctx context.Context, base, theirs, mine []byte) ([]byte, []int, error) {
		got, err := merge.Three(base, theirs, mine)
		if errors.Is(err, merge.ErrTooMuchWork) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		var lines []int
		for _, c := range got.Conflicts[:min(len(got.Conflicts), maxListed)] {
			lines = append(lines, c.Ours[0]+1)
		}
		if len(got.Conflicts) > 0 {
			return nil, lines, nil
		}
		rep, err := s.checkSyntax(ctx, "", m.Target.Path, got.Content)
		if err != nil || !rep.Valid {
			return nil, nil, err
		}
		return got.Content, nil, nil
	}
}

// merged reports whether a commit of one file was merged, and what others had
// changed.
func (s *Store) merged(ctx context.Context, c *commit) (merged bool, others string) {
	if c.Replayed == nil {
		return c.First().Base != "", c.First().Others
	}
	m := c.Replayed.Muts[0]
	if m.Base == "" || s.engine.EnterReader() != nil {
		return m.Base != "", ""
	}
	defer s.engine.Leave()
	return true, s.engine.KeptDiff(ctx, m.Identity(), m.Base, m.PrevSHA256)
}
