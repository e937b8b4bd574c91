package resilientwrite

import (
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// The reserve is space that is given up when the disk is full, so that there
// is room for the rows that bring the store back to order.
const (
	reserveName = "reserve"
	reserveSize = 256 << 10 // bytes
)

func (s *Store) makeReserve() error {
	if s.seam.noReserve {
		return nil
	}
	if st, err := s.disk.state.Lstat(reserveName); err == nil && st.Size == reserveSize {
		return nil
	}
	if vol, err := s.disk.state.Volume(); err == nil && vol.Free < 2*reserveSize {
		return errors.New("not enough free space")
	}
	f, err := s.disk.state.Open(reserveName, fsx.Write|fsx.Create, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	zeros := make([]byte, 64<<10)
	for off := int64(0); off < reserveSize; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, off); err != nil {
			s.disk.state.Remove(reserveName)
			return err
		}
	}
	return nil
}

// releaseReserve gives the reserve up and reports whether there was one.
func (s *Store) releaseReserve() bool { return s.disk.state.Remove(reserveName) == nil }
