package resilientwrite

import (
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// FlushWidth is how many flushes of one commit run at a time on goroutines.
const FlushWidth = engine.FlushWidth

// Together runs all as a commit runs its flushes.
func Together(all ...func() error) error {
	return (&engine.Engine{Opts: engine.Options{Sync: engine.SyncFull}}).Together(all...)
}

// VolumeFlusher flushes the file system of dir as the commits of one store do.
func VolumeFlusher(dir fsx.Dir) func() error {
	v := &engine.VolumeFlush{}
	return func() error { return v.Flush(dir) }
}

// PrepareHistory makes the directories of history at once, as every Open on a
// real file system does.
func (s *Store) PrepareHistory() error { return s.engine.History.Prepare() }
