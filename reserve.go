package resilientwrite

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
// order, and for the calls by which somebody gets out of the corner: Delete,
// Undo, Compact. When such a call is over, what it did not need of it is taken
// back at once, before other writes use it up; the rest follows when there is
// room, behind a later commit or with the next Open.
const (
	reserveName = "reserve"
	reserveSize = 256 << 10 // bytes
)

// reserve is what this process has given up of it.
type reserve struct {
	mu    sync.Mutex
	users int   // calls that live on it now
	gave  int64 // bytes that were given up and not yet looked for again
	short atomic.Bool
}

// spare is a call's right to the reserve.
type spare struct {
	s    *engine
	may  bool
	uses bool
}

// spareKey marks a context whose calls all have the right.
type spareKey struct{}

func withSpare(ctx context.Context) context.Context { return context.WithValue(ctx, spareKey{}, true) }

// newSpare is the right of a call that is made with ctx.
func (s *engine) newSpare(ctx context.Context, may bool) spare {
	return spare{s: s, may: may || ctx.Value(spareKey{}) != nil}
}

// try runs op, and once more when there was no space for it and the reserve
// makes some. op must leave nothing of itself behind when it fails.
func (p *spare) try(op func() error) error {
	err := op()
	if err == nil || !p.may || !p.s.lacksSpace(err) || !p.take() {
		return err
	}
	return op()
}

// take gives the reserve up for this call and reports whether a second attempt
// is worth while.
func (p *spare) take() bool {
	r := &p.s.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	if !p.uses {
		p.uses = true
		r.users++
	}
	return p.s.giveUp()
}

// end is the end of the call.
func (p *spare) end() {
	if !p.uses {
		return
	}
	p.uses = false
	r := &p.s.reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users--
}

// lacksSpace reports whether err says that there was no space, and that nothing
// of what was tried is there.
func (s *engine) lacksSpace(err error) bool {
	var we *journal.WriteError
	if errors.As(err, &we) && we.Effect != journal.EffectNone || s.log != nil && s.log.Poisoned() {
		return false
	}
	return s.errorOf(err).Code == fault.DiskFull
}

// spareWriter writes to a file and goes on where there was no space.
type spareWriter struct {
	file  fsx.File
	spare *spare
}

func (w spareWriter) Write(b []byte) (n int, err error) {
	err = w.spare.try(func() error {
		k, err := w.file.Write(b[n:])
		n += k
		return err
	})
	return n, err
}

// giveUp removes the reserve. r.mu is held. When another process has just done
// that, there is room for this one as well.
func (s *engine) giveUp() bool {
	st, err := s.disk.state.Lstat(reserveName)
	if err == nil {
		err = s.disk.state.Remove(reserveName)
	}
	if err != nil {
		return isAbsent(err)
	}
	s.reserve.gave += st.Size
	s.reserve.short.Store(true)
	return true
}

// takeBack makes the reserve again after some of it was given up, as far as
// there is room. It costs nothing as long as nothing was given up.
func (s *engine) takeBack() {
	r := &s.reserve
	if !r.short.Load() || s.seam.noReserve {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == 0 && s.fillReserve(r.gave) == nil {
		r.short.Store(false)
	}
	if r.users == 0 {
		r.gave = 0
	}
}

// makeReserve makes the reserve whole where as much space as it takes is left
// to others.
func (s *engine) makeReserve() error {
	if s.seam.noReserve {
		return nil
	}
	s.reserve.mu.Lock()
	defer s.reserve.mu.Unlock()
	err := s.fillReserve(s.reserve.gave)
	if s.reserve.gave = 0; err == nil {
		s.reserve.short.Store(false)
	}
	return err
}

var errReserveSmall = errors.New("not enough free space for the reserve")

// fillReserve brings the reserve to its size. Where that would leave too little
// to others, it takes only the bytes that were its own before.
func (s *engine) fillReserve(own int64) error {
	have := int64(0)
	if st, err := s.disk.state.Lstat(reserveName); err == nil {
		have = st.Size
	}
	want := int64(reserveSize)
	if have >= want {
		return nil
	}
	if vol, err := s.disk.state.Volume(); err == nil && vol.Free < want-have+reserveSize {
		want = min(want, own, have+vol.Free)
	}
	if want > have {
		if err := s.extendReserve(have, want, own); err != nil {
			return err
		}
	}
	if want < reserveSize {
		return errReserveSmall
	}
	return nil
}

// extendReserve writes the reserve from one size to another; where a quota ends
// that, it keeps what was its own. Its bytes cannot be made smaller: a file
// system that compresses would keep no space for zeros.
func (s *engine) extendReserve(from, to, own int64) error {
	f, err := s.disk.state.Open(reserveName, fsx.Write|fsx.Create, 0o600)
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
				s.disk.state.Remove(reserveName)
			} else {
				f.Truncate(keep)
			}
			return err
		}
	}
	return nil
}
