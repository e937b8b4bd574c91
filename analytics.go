package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/analytics"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// AnalyticsRequest asks for usage figures.
type AnalyticsRequest struct {
	// Count only rows from this time on, RFC 3339. Default: all rows.
	Since time.Time `json:"since,omitzero" maxlen:"64"`
	// List only this session under sessions; the other figures still cover all
	// sessions.
	SessionFilter string `json:"session_filter,omitempty" maxlen:"200"`
}

// AnalyticsResult is how the store is used according to the journal. State objects,
// such as chunks and checkpoints, are no writes; they have their own figures.
type AnalyticsResult struct {
	// Number of files written, counting each file of a transaction.
	TotalWrites int `json:"total_writes"`
	UniquePaths int `json:"unique_paths"` // Number of distinct files written.
	// Bytes written: the whole file, or for an append only what was added.
	TotalBytesWritten int64 `json:"total_bytes_written"`
	// Writes by operation: create, overwrite, append …
	ByMode   map[string]int   `json:"by_mode"`
	ByCaller map[string]int   `json:"by_caller"` // Writes by caller; unknown when none was given.
	Timeline []AnalyticsWrite `json:"timeline"`  // The last 50 writes, oldest first.
	HotPaths []AnalyticsPath  `json:"hot_paths"` // The 5 files written most often.
	// Chunk sessions by name, restricted by session_filter.
	Sessions      map[string]AnalyticsSession `json:"sessions"`
	Checkpoints   AnalyticsCheckpoints        `json:"checkpoints"`    // Saved checkpoints.
	WriteVelocity AnalyticsVelocity           `json:"write_velocity"` // Rate of writes.
	// The time between the first and the last counted row.
	Period   AnalyticsPeriod   `json:"period"`
	Refusals AnalyticsRefusals `json:"refusals"` // Refused calls.
}

// AnalyticsWrite is one write.
type AnalyticsWrite struct {
	TS     Timestamp `json:"ts"`     // Time of the row; informational.
	Path   string    `json:"path"`   // Resolved path of the file, relative to the workspace.
	Mode   string    `json:"mode"`   // The operation: create, overwrite, append …
	Bytes  int64     `json:"bytes"`  // Bytes written.
	Caller string    `json:"caller"` // Who wrote it.
	Seq    uint64    `json:"seq"`    // Position in the journal.
}

// AnalyticsPath is a file that was written often.
type AnalyticsPath struct {
	Path       string `json:"path"`        // Resolved path of the file, relative to the workspace.
	WriteCount int    `json:"write_count"` // Number of writes.
	TotalBytes int64  `json:"total_bytes"` // Bytes written to it.
	// Time of the latest write, RFC 3339 UTC; empty when unknown.
	LastWrite Timestamp `json:"last_write"`
}

// AnalyticsSession is what was done in one chunk session.
type AnalyticsSession struct {
	ChunkWrites int `json:"chunk_writes"` // Number of chunks stored, counting replaced ones again.
	Composes    int `json:"composes"`     // Number of times a file was composed.
	// Time of the first chunk or composition, RFC 3339 UTC; empty when unknown.
	FirstWrite Timestamp `json:"first_write"`
	// Time of the last chunk or composition, RFC 3339 UTC; empty when unknown.
	LastWrite       Timestamp `json:"last_write"`
	DurationSeconds float64   `json:"duration_seconds"` // Seconds between the two.
}

// AnalyticsCheckpoints is what was saved as checkpoints.
type AnalyticsCheckpoints struct {
	TotalSaves int `json:"total_saves"` // Number of saves.
	Overwrites int `json:"overwrites"`  // Number of saves that replaced an earlier checkpoint.
	// What was saved, by name of the checkpoint.
	ByName map[string]AnalyticsSaves `json:"by_name"`
}

// AnalyticsSaves is what was saved under one name.
type AnalyticsSaves struct {
	Saves      int   `json:"saves"`       // Number of saves.
	TotalBytes int64 `json:"total_bytes"` // Bytes of all of them.
}

// AnalyticsVelocity is how fast files were written.
type AnalyticsVelocity struct {
	// Writes per minute of the period; 0 when the period has no length.
	WritesPerMinute  float64 `json:"writes_per_minute"`
	AvgBytesPerWrite float64 `json:"avg_bytes_per_write"` // Bytes per write; 0 without writes.
	// The minute with the most writes, the earliest if several tie.
	PeakMinute AnalyticsMinute `json:"peak_minute"`
}

// AnalyticsMinute is the minute with the most writes.
type AnalyticsMinute struct {
	// The minute, UTC, such as 2026-01-31T09:05Z; empty when there is none.
	Minute string `json:"minute"`
	Writes int    `json:"writes"` // Number of writes in it.
}

// AnalyticsPeriod is the time that the counted rows span.
type AnalyticsPeriod struct {
	// Earliest time of a counted row, refusals and state objects included, RFC
	// 3339 UTC; empty when there is none.
	FirstEntry Timestamp `json:"first_entry"`
	// Latest time of a counted row, RFC 3339 UTC; empty when there is none.
	LastEntry       Timestamp `json:"last_entry"`
	DurationSeconds float64   `json:"duration_seconds"` // Seconds between the two.
}

// AnalyticsRefusals counts the calls that were refused.
type AnalyticsRefusals struct {
	Total    int            `json:"total"`     // Number of refused calls.
	ByReason map[string]int `json:"by_reason"` // Refused calls by reason.
	// Refused calls by operation; a call with several operations counts once for
	// each.
	ByOp map[string]int `json:"by_op"`
	// Refused calls by caller; unknown when none was given.
	ByCaller map[string]int `json:"by_caller"`
}

// Analytics reports what was written, from the journal alone: totals, by mode
// and caller, the busiest paths, sessions of chunks, checkpoints, refusals.
// The journal is read twice, row by row, so the memory it takes grows only with
// the number of names. Commits that were rolled back are not counted.
//
// Errors: [ErrInvalidArgument] for an invalid time, the storage details,
// [ErrStoreClosed], [ErrCanceled]. Nothing is changed on disk.
func (s *Store) Analytics(ctx context.Context, r AnalyticsRequest) (AnalyticsResult, error) {
	return reading(ctx, s, "analytics", "", r, func() (out AnalyticsResult, err error) {
		if adapter.IsMalformed(ctx, "since") {
			return out, fault.New(fault.InvalidArgument).With("argument", "since").Hintf("since is a time such as 2026-01-31T09:00:00Z")
		}
		each := func(func(*journal.Record) error) error { return nil }
		if s.engine.Log != nil {
			each = s.engine.Log.Skim
		}
		found, err := analytics.Read(ctx, analytics.Options{Since: r.Since, Session: r.SessionFilter}, each)
		return analyticsOf(found), err
	})
}

// analyticsOf converts the figures of a journal.
func analyticsOf(r analytics.Result) AnalyticsResult {
	out := AnalyticsResult{
		TotalWrites: r.TotalWrites, UniquePaths: r.UniquePaths, TotalBytesWritten: r.TotalBytesWritten,
		ByMode: r.ByMode, ByCaller: r.ByCaller, Period: AnalyticsPeriod{timestamp(r.Period.FirstEntry), timestamp(r.Period.LastEntry), r.Period.DurationSeconds}, Refusals: AnalyticsRefusals(r.Refusals),
		Timeline: make([]AnalyticsWrite, len(r.Timeline)), HotPaths: make([]AnalyticsPath, len(r.HotPaths)),
		Sessions: map[string]AnalyticsSession{},
		Checkpoints: AnalyticsCheckpoints{
			TotalSaves: r.Checkpoints.TotalSaves, Overwrites: r.Checkpoints.Overwrites, ByName: map[string]AnalyticsSaves{},
		},
		WriteVelocity: AnalyticsVelocity{
			r.WriteVelocity.WritesPerMinute, r.WriteVelocity.AvgBytesPerWrite, AnalyticsMinute(r.WriteVelocity.PeakMinute),
		},
	}
	for i, w := range r.Timeline {
		out.Timeline[i] = AnalyticsWrite{timestamp(w.TS), w.Path, w.Mode, w.Bytes, w.Caller, w.Seq}
	}
	for i, p := range r.HotPaths {
		out.HotPaths[i] = AnalyticsPath{p.Path, p.WriteCount, p.TotalBytes, timestamp(p.LastWrite)}
	}
	for name, n := range r.Sessions {
		out.Sessions[name] = AnalyticsSession{n.ChunkWrites, n.Composes, timestamp(n.FirstWrite), timestamp(n.LastWrite), n.DurationSeconds}
	}
	for name, n := range r.Checkpoints.ByName {
		out.Checkpoints.ByName[name] = AnalyticsSaves(n)
	}
	return out
}
