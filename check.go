package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// CheckRequest asks for the store to be checked.
type CheckRequest struct {
	// Also hash every kept version and every file that the journal says was
	// written.
	Deep bool `json:"deep,omitempty"`
}

// CheckResult is what a check found.
type CheckResult struct {
	// True when no problem was found.
	Clean bool `json:"clean"`
	// The problems found.
	Problems []CheckProblem `json:"problems"`
	// How much was examined.
	Counters CheckCounters `json:"counters"`
}

// CheckProblem is one thing that is wrong.
type CheckProblem struct {
	// Stable name of the problem.
	Code string `json:"code"`
	// The file concerned, relative to the workspace or the state directory.
	Path string `json:"path,omitempty"`
	// The journal row concerned.
	Seq uint64 `json:"seq,omitempty"`
	// What was found.
	Detail string `json:"detail,omitempty"`
}

// CheckCounters says how much was looked at.
type CheckCounters struct {
	// Journal segments.
	Segments int `json:"segments"`
	// Archived journal segments.
	Parked int `json:"parked"`
	// Problems that the operator has acknowledged; they are not reported again.
	Accepted int `json:"accepted"`
	// Journal rows.
	Rows int `json:"rows"`
	// Unreadable journal lines.
	Malformed int `json:"malformed"`
	// Kept versions.
	Objects int `json:"objects"`
	// Total size of kept versions in bytes.
	Bytes int64 `json:"bytes"`
	// Files of commits that are not settled.
	Staged int `json:"staged"`
	// Files compared with the journal.
	Paths int `json:"paths"`
}

// Check compares everything the store keeps with everything else: the chain
// and the order of the journal, the head that meta.json remembers, the entries
// of staging/, the kept versions, and – when deep – the bytes of every kept
// version and of every file as the journal last wrote it. It changes nothing.
//
// A file that differs from its newest row is no problem of the store: people
// edit files. Deep reports it as file_differs. Errors: the storage details,
// [ErrStoreClosed].
func (s *Store) Check(ctx context.Context, r CheckRequest) (CheckResult, error) {
	if err := s.engine.EnterReader(); err != nil {
		return CheckResult{}, s.verbError("check", err)
	}
	defer s.engine.Leave()
	_, account, end := progress.Begin(ctx)
	defer end()
	found, err := s.admin().Check(ctx, r.Deep, account)
	if err != nil {
		return CheckResult{}, s.verbError("check", err)
	}
	out := CheckResult{Clean: len(found.Problems) == 0, Problems: make([]CheckProblem, len(found.Problems)), Counters: CheckCounters(found.Counters)}
	for i, p := range found.Problems {
		out.Problems[i] = CheckProblem(p)
	}
	return out, nil
}
