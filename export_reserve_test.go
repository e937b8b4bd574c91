package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// OpenSimWithReserve is OpenSim of a store that keeps a reserve.
func OpenSimWithReserve(fs *simfs.FS, opts *Options, sim Sim) (*Store, error) {
	when := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return openOn(context.Background(), fs.Root(), opts, seam{
		now:    func() time.Time { return when },
		nonce:  func() string { return sim.Nonce },
		inTurn: true, manual: sim.Manual, segment: sim.Segment, preallocate: 4096,
	})
}

// ReserveSize is how large the reserve is when it is whole.
const ReserveSize = reserveSize
