package journal

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/durable"
)

// rewriteLost writes the segments again that hold rows which a failed flush may
// have lost: their pages can still be read, but flushing them again proves
// nothing, and neither does a flush of the directory for their names. Each gets
// the same bytes under the same name, so that no row changes its place and none
// that was added since is left out.
func (l *Log) rewriteLost() error {
	if l.o.Lost == nil {
		return nil
	}
	first, err := l.o.Lost()
	if err != nil || first == 0 {
		return err
	}
	segs, err := segments(l.o.Dir)
	if err != nil {
		return err
	}
	for i, seg := range segs {
		if i+1 < len(segs) && segs[i+1] <= first {
			continue
		}
		data, err := readWhole(l.o.Dir, SegmentFile(seg))
		if err != nil {
			return err
		}
		data = data[:lastByte(data)+1]
		if err := durable.WriteFrom(l.o.Temp, l.o.Writer+"-segment.tmp", l.o.Dir, SegmentFile(seg), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Alone runs fn under the journal lock.
func (l *Log) Alone(ctx context.Context, fn func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.kernelLock(ctx, lockByte, l.lockWait())
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}
