package handoff

import (
	"context"
	"strings"

	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// drift compares files with the current content. sure holds the hashes of files
// that were hashed a moment ago.
func (l *Layer) drift(ctx context.Context, files []handoff.File, sure map[string]string) ([]handoff.Drift, error) {
	var list []handoff.Drift
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return list, err
		}
		want := strings.ToLower(f.SHA256)
		if sure[f.Path] == want && want != "" {
			continue
		}
		d := handoff.Drift{Path: f.Path, Index: i, ExpectedSHA256: want}
		have, err := l.hash(f.Path)
		switch {
		case err != nil && l.ErrorOf(err).Code.Class().Exit == fault.CodeStorage:
			return list, err // the disk failed, which says nothing of the file
		case err != nil:
			d.Reason = "invalid_path"
		case have == "":
			d.Reason = "missing"
		case have != want:
			d.Reason, d.ActualSHA256 = "hash_mismatch", have
		default:
			continue
		}
		list = append(list, d)
	}
	return list, nil
}

// hash hashes the file of a path that any user may have written; "" when it is
// absent.
func (l *Layer) hash(raw string) (string, error) {
	rel, _, err := relpath.Clean(raw, l.Tree.Rules)
	if err != nil {
		return "", err
	}
	return l.HashPath(rel)
}

const maxShown = 100 // entries that an error lists

// drifted refuses to continue from a state that no longer exists. The error shows
// no path that leads out of the workspace.
func (l *Layer) drifted(list []handoff.Drift) *fault.Fault {
	sent := append([]handoff.Drift{}, list[:min(len(list), maxShown)]...)
	for i := range sent {
		if _, _, err := relpath.Clean(sent[i].Path, l.Tree.Rules); err != nil {
			sent[i].Path = ""
		}
	}
	e := fault.New(fault.StateDrift).With("drift_warnings", sent)
	if n := len(list) - maxShown; n > 0 {
		e.With("drift_omitted", n)
	}
	return e
}
