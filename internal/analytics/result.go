package analytics

// Result is how the store is used according to the journal. The types of the
// root package with these fields describe them.
type Result struct {
	TotalWrites       int
	UniquePaths       int
	TotalBytesWritten int64
	ByMode            map[string]int
	ByCaller          map[string]int
	Timeline          []TimelineEntry
	HotPaths          []HotPath
	Sessions          map[string]Session
	Checkpoints       Checkpoints
	WriteVelocity     WriteVelocity
	Period            Period
	Refusals          Refusals
}

// TimelineEntry is one write.
type TimelineEntry struct {
	TS     string
	Path   string
	Mode   string
	Bytes  int64
	Caller string
	Seq    uint64
}

// HotPath is a file that was written often.
type HotPath struct {
	Path       string
	WriteCount int
	TotalBytes int64
	LastWrite  string
}

// Session is what was done in one chunk session.
type Session struct {
	ChunkWrites     int
	Composes        int
	FirstWrite      string
	LastWrite       string
	DurationSeconds float64
}

// Checkpoints is what was saved as checkpoints.
type Checkpoints struct {
	TotalSaves int
	Overwrites int
	ByName     map[string]Saves
}

// Saves is what was saved under one name.
type Saves struct {
	Saves      int
	TotalBytes int64
}

// WriteVelocity is how fast files were written.
type WriteVelocity struct {
	WritesPerMinute  float64
	AvgBytesPerWrite float64
	PeakMinute       PeakMinute
}

// PeakMinute is the minute with the most writes.
type PeakMinute struct {
	Minute string
	Writes int
}

// Period is the time that the counted rows span.
type Period struct {
	FirstEntry      string
	LastEntry       string
	DurationSeconds float64
}

// Refusals counts the calls that were refused.
type Refusals struct {
	Total    int
	ByReason map[string]int
	ByOp     map[string]int
	ByCaller map[string]int
}
