package journal

import "context"

// Freeze runs fn while this process takes no row and with every row up to the
// position on stable storage: what fn writes about the rows up to there can
// know of no row that a power cut takes.
func (l *Log) Freeze(fn func(Pos) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && !l.o.ReadOnly {
		l.flushMu.Lock()
		err := l.file.Datasync()
		l.flushMu.Unlock()
		if err != nil {
			if unlock, lerr := l.kernelLock(context.Background(), lockByte, l.lockWait()); lerr == nil {
				defer unlock()
			}
			l.poisonLocked()
			return err
		}
		if err := l.know(l.pos.Seq); err != nil {
			return err
		}
	}
	return fn(l.pos)
}

// Refold passes every row that this process has taken to fn, in order, while
// it takes no other, and then runs done.
func (l *Log) Refold(fn func(*Record, Pos), done func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	head := l.pos.Seq
	_, err := l.rows(1, func(rec *Record, _ []byte, pos Pos) error {
		if rec.Seq > head {
			return errStop
		}
		fn(rec, pos)
		return nil
	})
	if err == nil {
		done()
	}
	return err
}

// Jump writes a row whose seq is greater than to, in a segment of its own: the rows up
// to to existed once, and none of their numbers may be assigned again. It does nothing
// if the journal has passed to.
func (l *Log) Jump(ctx context.Context, to uint64, rec *Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.begin(ctx, l.lockWait())
	if err != nil {
		return err
	}
	defer unlock()
	if l.pos.Seq >= to {
		return l.writeRows([]*Record{rec})
	}
	was := l.pos.Seq
	l.pos.Seq = to
	if err := l.roll(); err != nil {
		l.pos.Seq = was
		return err
	}
	return l.writeRows([]*Record{rec})
}
