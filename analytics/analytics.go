// Package analytics defines the figures of usage that a store reports.
package analytics

import (
	"time"

	"github.com/resilientwrite/resilientwrite/call"
)

// Request asks for usage figures.
type Request struct {
	// Count only rows from this time on, RFC 3339. Default: all rows.
	Since time.Time `json:"since,omitzero" maxlen:"64"`
	// List only this session under sessions; the other figures still cover all
	// sessions.
	SessionFilter string `json:"session_filter,omitempty" maxlen:"200"`
}

// Result is how the store is used according to the journal. State objects,
// such as chunks and checkpoints, are no writes; they have their own figures.
type Result struct {
	// Number of files written, counting each file of a transaction.
	TotalWrites int `json:"total_writes"`
	UniquePaths int `json:"unique_paths"` // Number of distinct files written.
	// Bytes written: the whole file, or for an append only what was added.
	TotalBytesWritten int64 `json:"total_bytes_written"`
	// Writes by operation: create, overwrite, append …
	ByMode   map[string]int `json:"by_mode"`
	ByCaller map[string]int `json:"by_caller"` // Writes by caller; unknown when none was given.
	Timeline []Write        `json:"timeline"`  // The last 50 writes, oldest first.
	HotPaths []Path         `json:"hot_paths"` // The 5 files written most often.
	// Chunk sessions by name, restricted by session_filter.
	Sessions      map[string]Session `json:"sessions"`
	Checkpoints   Checkpoints        `json:"checkpoints"`    // Saved checkpoints.
	WriteVelocity Velocity           `json:"write_velocity"` // Rate of writes.
	// The time between the first and the last counted row.
	Period   Period   `json:"period"`
	Refusals Refusals `json:"refusals"` // Refused calls.
}

// Write is one write.
type Write struct {
	TS     call.Timestamp `json:"ts"`     // Time of the row; informational.
	Path   string         `json:"path"`   // Resolved path of the file, relative to the workspace.
	Mode   string         `json:"mode"`   // The operation: create, overwrite, append …
	Bytes  int64          `json:"bytes"`  // Bytes written.
	Caller string         `json:"caller"` // Who wrote it.
	Seq    uint64         `json:"seq"`    // Position in the journal.
}

// Path is a file that was written often.
type Path struct {
	Path       string `json:"path"`        // Resolved path of the file, relative to the workspace.
	WriteCount int    `json:"write_count"` // Number of writes.
	TotalBytes int64  `json:"total_bytes"` // Bytes written to it.
	// Time of the latest write, RFC 3339 UTC; empty when unknown.
	LastWrite call.Timestamp `json:"last_write"`
}

// Session is what was done in one chunk session.
type Session struct {
	ChunkWrites int `json:"chunk_writes"` // Number of chunks stored, counting replaced ones again.
	Composes    int `json:"composes"`     // Number of times a file was composed.
	// Time of the first chunk or composition, RFC 3339 UTC; empty when unknown.
	FirstWrite call.Timestamp `json:"first_write"`
	// Time of the last chunk or composition, RFC 3339 UTC; empty when unknown.
	LastWrite       call.Timestamp `json:"last_write"`
	DurationSeconds float64        `json:"duration_seconds"` // Seconds between the two.
}

// Checkpoints is what was saved as checkpoints.
type Checkpoints struct {
	TotalSaves int `json:"total_saves"` // Number of saves.
	Overwrites int `json:"overwrites"`  // Number of saves that replaced an earlier checkpoint.
	// What was saved, by name of the checkpoint.
	ByName map[string]Saves `json:"by_name"`
}

// Saves is what was saved under one name.
type Saves struct {
	Saves      int   `json:"saves"`       // Number of saves.
	TotalBytes int64 `json:"total_bytes"` // Bytes of all of them.
}

// Velocity is how fast files were written.
type Velocity struct {
	// Writes per minute of the period; 0 when the period has no length.
	WritesPerMinute  float64 `json:"writes_per_minute"`
	AvgBytesPerWrite float64 `json:"avg_bytes_per_write"` // Bytes per write; 0 without writes.
	// The minute with the most writes, the earliest if several tie.
	PeakMinute Minute `json:"peak_minute"`
}

// Minute is the minute with the most writes.
type Minute struct {
	// The minute, UTC, such as 2026-01-31T09:05Z; empty when there is none.
	Minute string `json:"minute"`
	Writes int    `json:"writes"` // Number of writes in it.
}

// Period is the time that the counted rows span.
type Period struct {
	// Earliest time of a counted row, refusals and state objects included, RFC
	// 3339 UTC; empty when there is none.
	FirstEntry call.Timestamp `json:"first_entry"`
	// Latest time of a counted row, RFC 3339 UTC; empty when there is none.
	LastEntry       call.Timestamp `json:"last_entry"`
	DurationSeconds float64        `json:"duration_seconds"` // Seconds between the two.
}

// Refusals counts the calls that were refused.
type Refusals struct {
	Total    int            `json:"total"`     // Number of refused calls.
	ByReason map[string]int `json:"by_reason"` // Refused calls by reason.
	// Refused calls by operation; a call with several operations counts once for
	// each.
	ByOp map[string]int `json:"by_op"`
	// Refused calls by caller; unknown when none was given.
	ByCaller map[string]int `json:"by_caller"`
}
