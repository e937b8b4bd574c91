package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// WhileQuiet makes fn run where a store waits whether another process is still writing
// the policy file.
func (s *Store) WhileQuiet(fn func()) { s.seam.quiet = fn }

// LetPatternsTake sets how long the patterns of the policy may compute in a call.
func (s *Store) LetPatternsTake(most time.Duration) { s.seam.patterns = most }

// OpenSimAs is OpenSim for a user.
func OpenSimAs(fs *simfs.FS, opts *Options, user int) (*Store, error) {
	return openOn(context.Background(), fs.Root(), opts, seam{
		now: time.Now, nonce: func() string { return "0000" }, user: func() int { return user }, inTurn: true, preallocate: 4096, noReserve: true,
	})
}
