package analytics

// Result is what the journal tells of how the store is used. State objects,
// such as chunks and checkpoints, are no writes; they have their own figures.
type Result struct {
	TotalWrites       int                `json:"total_writes" desc:"Number of files written, counting each file of a transaction."`
	UniquePaths       int                `json:"unique_paths" desc:"Number of distinct files written."`
	TotalBytesWritten int64              `json:"total_bytes_written" desc:"Bytes written: the whole file, or for an append only what was added."`
	ByMode            map[string]int     `json:"by_mode" desc:"Writes by operation: create, overwrite, append …"`
	ByCaller          map[string]int     `json:"by_caller" desc:"Writes by caller; unknown when none was given."`
	Timeline          []TimelineEntry    `json:"timeline" desc:"The last 50 writes, oldest first."`
	HotPaths          []HotPath          `json:"hot_paths" desc:"The 5 files written most often."`
	Sessions          map[string]Session `json:"sessions" desc:"Chunk sessions by name, restricted by session_filter."`
	Checkpoints       Checkpoints        `json:"checkpoints" desc:"Saved checkpoints."`
	WriteVelocity     WriteVelocity      `json:"write_velocity" desc:"Rate of writes."`
	Period            Period             `json:"period" desc:"The time between the first and the last counted row."`
	Refusals          Refusals           `json:"refusals" desc:"Refused calls."`
}

// TimelineEntry is one write.
type TimelineEntry struct {
	TS     string `json:"ts" desc:"Time of the row; informational."`
	Path   string `json:"path" desc:"Resolved path of the file, relative to the workspace."`
	Mode   string `json:"mode" desc:"The operation: create, overwrite, append …"`
	Bytes  int64  `json:"bytes" desc:"Bytes written."`
	Caller string `json:"caller" desc:"Who wrote it."`
	Seq    uint64 `json:"seq" desc:"Position in the journal."`
}

// HotPath is a file that was written often.
type HotPath struct {
	Path       string `json:"path" desc:"Resolved path of the file, relative to the workspace."`
	WriteCount int    `json:"write_count" desc:"Number of writes."`
	TotalBytes int64  `json:"total_bytes" desc:"Bytes written to it."`
	LastWrite  string `json:"last_write" desc:"Time of the latest write, RFC 3339 UTC; empty when unknown."`
}

// Session is what was done in one chunk session.
type Session struct {
	ChunkWrites     int     `json:"chunk_writes" desc:"Number of chunks stored, counting replaced ones again."`
	Composes        int     `json:"composes" desc:"Number of times a file was composed."`
	FirstWrite      string  `json:"first_write" desc:"Time of the first chunk or composition, RFC 3339 UTC; empty when unknown."`
	LastWrite       string  `json:"last_write" desc:"Time of the last chunk or composition, RFC 3339 UTC; empty when unknown."`
	DurationSeconds float64 `json:"duration_seconds" desc:"Seconds between the two."`
}

// Checkpoints is what was saved as checkpoints.
type Checkpoints struct {
	TotalSaves int              `json:"total_saves" desc:"Number of saves."`
	Overwrites int              `json:"overwrites" desc:"Number of saves that replaced an earlier checkpoint."`
	ByName     map[string]Saves `json:"by_name" desc:"What was saved, by name of the checkpoint."`
}

// Saves is what was saved under one name.
type Saves struct {
	Saves      int   `json:"saves" desc:"Number of saves."`
	TotalBytes int64 `json:"total_bytes" desc:"Bytes of all of them."`
}

// WriteVelocity is how fast files were written.
type WriteVelocity struct {
	WritesPerMinute  float64    `json:"writes_per_minute" desc:"Writes per minute of the period; 0 when the period has no length."`
	AvgBytesPerWrite float64    `json:"avg_bytes_per_write" desc:"Bytes per write; 0 without writes."`
	PeakMinute       PeakMinute `json:"peak_minute" desc:"The minute with the most writes, the earliest if several tie."`
}

// PeakMinute is the minute with the most writes.
type PeakMinute struct {
	Minute string `json:"minute" desc:"The minute, UTC, such as 2026-01-31T09:05Z; empty when there is none."`
	Writes int    `json:"writes" desc:"Number of writes in it."`
}

// Period is the time that the counted rows span.
type Period struct {
	FirstEntry      string  `json:"first_entry" desc:"Earliest time of a counted row, refusals and state objects included, RFC 3339 UTC; empty when there is none."`
	LastEntry       string  `json:"last_entry" desc:"Latest time of a counted row, RFC 3339 UTC; empty when there is none."`
	DurationSeconds float64 `json:"duration_seconds" desc:"Seconds between the two."`
}

// Refusals counts the calls that were refused.
type Refusals struct {
	Total    int            `json:"total" desc:"Number of refused calls."`
	ByReason map[string]int `json:"by_reason" desc:"Refused calls by reason."`
	ByOp     map[string]int `json:"by_op" desc:"Refused calls by operation; a call with several operations counts once for each."`
	ByCaller map[string]int `json:"by_caller" desc:"Refused calls by caller; unknown when none was given."`
}
