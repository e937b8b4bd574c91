package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// OpenSimWithReserve is OpenSim of a store that keeps a reserve.
func OpenSimWithReserve(fs *simfs.FS, opts *Options, sim Sim) (*Store, error) {
	when := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return openOn(context.Background(), fs.Root(), opts, engine.TestHooks{
		Now:    func() time.Time { return when },
		Nonce:  func() string { return sim.Nonce },
		InTurn: true, Manual: sim.Manual, Segment: sim.Segment, Preallocate: 4096,
	})
}

// ReserveSize is how large the reserve is when it is whole.
const ReserveSize = engine.ReserveSize
