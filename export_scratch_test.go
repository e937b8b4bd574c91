package resilientwrite

import (
	"time"

	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
)

// SetNow lets a test choose the time of a store that nothing else uses at the
// moment.
func (s *Store) SetNow(now time.Time) { s.engine.TestHooks.Now = func() time.Time { return now } }

// ScratchLimits are the caps of the scratchpad in bytes.
const (
	MaxScratch      = scratch.MaxObject
	MaxScratchTotal = scratch.MaxTotal
)
