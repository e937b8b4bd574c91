package analytics

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

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
	TotalSaves int            `json:"total_saves" desc:"Number of saves."`
	Overwrites int            `json:"overwrites" desc:"Number of saves that replaced an earlier checkpoint."`
	ByName     map[string]int `json:"by_name" desc:"Saves by name of the checkpoint."`
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

// Result counts what is still held and returns all figures. It ends the
// analysis: commits that were added before can no longer be taken back. No map
// or slice of it is nil, and none is shared with the Fold.
func (f *Fold) Result() Result {
	f.settle()
	f.trimTimeline()
	out := Result{
		TotalWrites: f.writes, UniquePaths: len(f.paths), TotalBytesWritten: f.bytes,
		ByMode: maps.Clone(f.modes), ByCaller: maps.Clone(f.callers),
		Timeline: append([]TimelineEntry{}, f.timeline...),
		HotPaths: f.hotPaths(), Sessions: make(map[string]Session, len(f.sessions)),
		Checkpoints: Checkpoints{TotalSaves: f.saves, Overwrites: f.overwrites, ByName: maps.Clone(f.checkpoints)},
		WriteVelocity: WriteVelocity{
			WritesPerMinute:  ratio(float64(f.writes)*60, f.period.seconds()),
			AvgBytesPerWrite: ratio(float64(f.bytes), float64(f.writes)),
			PeakMinute:       f.peakMinute(),
		},
		Period: Period{
			FirstEntry: f.period.first.String(), LastEntry: f.period.last.String(),
			DurationSeconds: round(f.period.seconds()),
		},
		Refusals: Refusals{
			Total: f.refusals, ByReason: maps.Clone(f.reasons),
			ByOp: maps.Clone(f.refusedOps), ByCaller: maps.Clone(f.refusedWho),
		},
	}
	for name, s := range f.sessions {
		out.Sessions[name] = Session{
			ChunkWrites: s.chunks, Composes: s.composes,
			FirstWrite: s.span.first.String(), LastWrite: s.span.last.String(),
			DurationSeconds: round(s.span.seconds()),
		}
	}
	return out
}

// hotPaths picks the paths with the most writes, then the most bytes, then the
// least name, without sorting all of them.
func (c *counters) hotPaths() []HotPath {
	var top []pathCount
	for _, p := range c.paths {
		at, _ := slices.BinarySearchFunc(top, p, hotter)
		if at == hotPathsLen {
			continue
		}
		top = slices.Insert(top, at, p)
		top = top[:min(len(top), hotPathsLen)]
	}
	list := make([]HotPath, 0, len(top))
	for _, p := range top {
		list = append(list, HotPath{Path: p.path, WriteCount: p.writes, TotalBytes: p.bytes, LastWrite: p.last.String()})
	}
	return list
}

// hotter orders paths by what makes them stand first.
func hotter(a, b pathCount) int {
	return cmp.Or(cmp.Compare(b.writes, a.writes), cmp.Compare(b.bytes, a.bytes), strings.Compare(a.path, b.path))
}

func (c *counters) peakMinute() PeakMinute {
	best, most := unknown, 0
	for at, n := range c.minutes {
		if n > most || n == most && at < best {
			best, most = at, n
		}
	}
	return PeakMinute{Minute: best.format(minuteFormat), Writes: most}
}

// ratio is a divided by b, 0 when there is nothing to divide by.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return round(a / b)
}

// round keeps two decimals.
func round(x float64) float64 { return math.Round(x*100) / 100 }
