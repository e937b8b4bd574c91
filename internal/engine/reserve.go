package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// The reserve is a file of the state directory that only takes up space. When
// the disk is full it is given up for the rows that bring the store back to
// order, and for the calls that make room: Delete,
// Undo, Compact. When such a call is over, what it did not need of it is taken
// back at once, before other writes use it up; the rest follows when there is
// room, after a later commit or with the next Open.
const (
	reserveName = "reserve"
	ReserveSize = 256 << 10 // bytes
)

// reserve is what this process has given up of it.
type reserve struct {
	mu    sync.Mutex
	users int   // calls that live on it now
	Gave  int64 // bytes that were given up and not yet looked for again
	short atomic.Bool
}

// ReserveGrant is a call's right to the reserve.
type ReserveGrant struct {
	s    *Engine
	may  bool
	uses bool
}

// spareKey marks a context whose calls all have the right.
type spareKey struct{}

func WithSpare(ctx context.Context) context.Context { return context.WithValue(ctx, spareKey{}, true) }

// NewReserveGrant is the right of a call that is made with ctx.
func (s *Engine) NewReserveGrant(ctx context.Context, may bool) ReserveGrant {
	return ReserveGrant{s: s, may: may || ctx.Value(spareKey{}) != nil}
}

// Try runs op, and once more when there was no space for it and the reserve
// makes some. op must leave nothing of itself behind when it fails.
func (p *ReserveGrant) Try(op func() error) error {
	err := op()
	if err == nil || !p.may || !p.s.LacksSpace(err) || !p.take() {
		return err
	}
	return op()
}

// take gives the reserve up for this call and reports whether a second attempt
// is worth while.
func (p *ReserveGrant) take() bool {
	r := &p.s.Reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	if !p.uses {
		p.uses = true
		r.users++
	}
	return p.s.giveUp()
}

// End is the end of the call.
func (p *ReserveGrant) End() {
	if !p.uses {
		return
	}
	p.uses = false
	r := &p.s.Reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users--
}

// LacksSpace reports whether err says that there was no space, and that nothing
// of what was tried is there.
func (s *Engine) LacksSpace(err error) bool {
	var we *journal.WriteError
	if errors.As(err, &we) && we.Effect != journal.EffectNone || s.Log != nil && s.Log.Poisoned() {
		return false
	}
	return s.ErrorOf(err).Code == fault.DiskFull
}

// grantWriter writes to a file and goes on where there was no space.
type grantWriter struct {
	file  fsx.File
	grant *ReserveGrant
}

func (w grantWriter) Write(b []byte) (n int, err error) {
	err = w.grant.Try(func() error {
		k, err := w.file.Write(b[n:])
		n += k
		return err
	})
	return n, err
}

// giveUp removes the reserve. r.mu is held. When another process has just done
// that, there is room for this one as well.
func (s *Engine) giveUp() bool {
	st, err := s.Disk.State.Lstat(reserveName)
	if err == nil {
		err = s.Disk.State.Remove(reserveName)
	}
	if err != nil {
		return IsAbsent(err)
	}
	s.Reserve.Gave += st.Size
	s.Reserve.short.Store(true)
	return true
}

// refillReserve makes the reserve again after some of it was given up, as far as
// there is room. It costs nothing as long as nothing was given up.
func (s *Engine) refillReserve() {
	r := &s.Reserve
	if !r.short.Load() || s.TestHooks.NoReserve {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == 0 && s.fillReserve(r.Gave) == nil {
		r.short.Store(false)
	}
	if r.users == 0 {
		r.Gave = 0
	}
}

// MakeReserve makes the reserve whole where as much space as it takes is left
// to others.
func (s *Engine) MakeReserve() error {
	if s.TestHooks.NoReserve {
		return nil
	}
	s.Reserve.mu.Lock()
	defer s.Reserve.mu.Unlock()
	err := s.fillReserve(s.Reserve.Gave)
	if s.Reserve.Gave = 0; err == nil {
		s.Reserve.short.Store(false)
	}
	return err
}

var errReserveSmall = errors.New("not enough free space for the reserve")

// fillReserve brings the reserve to its size. Where that would leave too little
// to others, it takes only the bytes that were its own before.
func (s *Engine) fillReserve(own int64) error {
	have := int64(0)
	if st, err := s.Disk.State.Lstat(reserveName); err == nil {
		have = st.Size
	}
	want := int64(ReserveSize)
	if have >= want {
		return nil
	}
	if vol, err := s.Disk.State.Volume(); err == nil && vol.Free < want-have+ReserveSize {
		want = min(want, own, have+vol.Free)
	}
	if want > have {
		if err := s.extendReserve(have, want, own); err != nil {
			return err
		}
	}
	if want < ReserveSize {
		return errReserveSmall
	}
	return nil
}

// extendReserve writes the reserve from one size to another; where a quota ends
// that, it keeps what was its own. Its bytes cannot be made smaller: a file
// system that compresses would keep no space for zeros.
func (s *Engine) extendReserve(from, to, own int64) error {
	f, err := s.Disk.State.Open(reserveName, fsx.Write|fsx.Create, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	noise := rand.NewChaCha8([32]byte{})
	buf := make([]byte, 64<<10)
	for at := from; at < to; {
		noise.Read(buf)
		n, err := f.WriteAt(buf[:min(int64(len(buf)), to-at)], at)
		if at += int64(n); err != nil {
			if keep := max(from, min(at, own)); keep == 0 {
				s.Disk.State.Remove(reserveName)
			} else {
				f.Truncate(keep)
			}
			return err
		}
	}
	return nil
}
