package analytics

// Result is how the store is used according to the journal. State objects,
// such as chunks and checkpoints, are no writes; they have their own figures.
type Result struct {
	// Number of files written, counting each file of a transaction.
	TotalWrites int `json:"total_writes"`
	// Number of distinct files written.
	UniquePaths int `json:"unique_paths"`
	// Bytes written: the whole file, or for an append only what was added.
	TotalBytesWritten int64 `json:"total_bytes_written"`
	// Writes by operation: create, overwrite, append …
	ByMode map[string]int `json:"by_mode"`
	// Writes by caller; unknown when none was given.
	ByCaller map[string]int `json:"by_caller"`
	// The last 50 writes, oldest first.
	Timeline []TimelineEntry `json:"timeline"`
	// The 5 files written most often.
	HotPaths []HotPath `json:"hot_paths"`
	// Chunk sessions by name, restricted by session_filter.
	Sessions map[string]Session `json:"sessions"`
	// Saved checkpoints.
	Checkpoints Checkpoints `json:"checkpoints"`
	// Rate of writes.
	WriteVelocity WriteVelocity `json:"write_velocity"`
	// The time between the first and the last counted row.
	Period Period `json:"period"`
	// Refused calls.
	Refusals Refusals `json:"refusals"`
}

// TimelineEntry is one write.
type TimelineEntry struct {
	// Time of the row; informational.
	TS string `json:"ts"`
	// Resolved path of the file, relative to the workspace.
	Path string `json:"path"`
	// The operation: create, overwrite, append …
	Mode string `json:"mode"`
	// Bytes written.
	Bytes int64 `json:"bytes"`
	// Who wrote it.
	Caller string `json:"caller"`
	// Position in the journal.
	Seq uint64 `json:"seq"`
}

// HotPath is a file that was written often.
type HotPath struct {
	// Resolved path of the file, relative to the workspace.
	Path string `json:"path"`
	// Number of writes.
	WriteCount int `json:"write_count"`
	// Bytes written to it.
	TotalBytes int64 `json:"total_bytes"`
	// Time of the latest write, RFC 3339 UTC; empty when unknown.
	LastWrite string `json:"last_write"`
}

// Session is what was done in one chunk session.
type Session struct {
	// Number of chunks stored, counting replaced ones again.
	ChunkWrites int `json:"chunk_writes"`
	// Number of times a file was composed.
	Composes int `json:"composes"`
	// Time of the first chunk or composition, RFC 3339 UTC; empty when unknown.
	FirstWrite string `json:"first_write"`
	// Time of the last chunk or composition, RFC 3339 UTC; empty when unknown.
	LastWrite string `json:"last_write"`
	// Seconds between the two.
	DurationSeconds float64 `json:"duration_seconds"`
}

// Checkpoints is what was saved as checkpoints.
type Checkpoints struct {
	// Number of saves.
	TotalSaves int `json:"total_saves"`
	// Number of saves that replaced an earlier checkpoint.
	Overwrites int `json:"overwrites"`
	// What was saved, by name of the checkpoint.
	ByName map[string]Saves `json:"by_name"`
}

// Saves is what was saved under one name.
type Saves struct {
	// Number of saves.
	Saves int `json:"saves"`
	// Bytes of all of them.
	TotalBytes int64 `json:"total_bytes"`
}

// WriteVelocity is how fast files were written.
type WriteVelocity struct {
	// Writes per minute of the period; 0 when the period has no length.
	WritesPerMinute float64 `json:"writes_per_minute"`
	// Bytes per write; 0 without writes.
	AvgBytesPerWrite float64 `json:"avg_bytes_per_write"`
	// The minute with the most writes, the earliest if several tie.
	PeakMinute PeakMinute `json:"peak_minute"`
}

// PeakMinute is the minute with the most writes.
type PeakMinute struct {
	// The minute, UTC, such as 2026-01-31T09:05Z; empty when there is none.
	Minute string `json:"minute"`
	// Number of writes in it.
	Writes int `json:"writes"`
}

// Period is the time that the counted rows span.
type Period struct {
	// Earliest time of a counted row, refusals and state objects included, RFC
	// 3339 UTC; empty when there is none.
	FirstEntry string `json:"first_entry"`
	// Latest time of a counted row, RFC 3339 UTC; empty when there is none.
	LastEntry string `json:"last_entry"`
	// Seconds between the two.
	DurationSeconds float64 `json:"duration_seconds"`
}

// Refusals counts the calls that were refused.
type Refusals struct {
	// Number of refused calls.
	Total int `json:"total"`
	// Refused calls by reason.
	ByReason map[string]int `json:"by_reason"`
	// Refused calls by operation; a call with several operations counts once for
	// each.
	ByOp map[string]int `json:"by_op"`
	// Refused calls by caller; unknown when none was given.
	ByCaller map[string]int `json:"by_caller"`
}
