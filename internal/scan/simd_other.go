//go:build !amd64

package scan

// lanesIn sets the lanes of each 64 bytes of b.
func lanesIn(b []byte, out []lanes) { lanesPortable(b, out) }

// fastBuckets says that buckets cost less than other filters.
const fastBuckets = false

func (t *buckets) places(b []byte, out []uint64) { t.placesPortable(b, out) }
