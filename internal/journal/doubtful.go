package journal

import "github.com/resilientwrite/resilientwrite/internal/durable"

// copyDoubtful writes the rows that are not known to be on stable storage to
// a new segment: the pages of the old one may be lost although they can still
// be read, and flushing them again proves nothing. All of them are in the last
// segment, as each segment is flushed before the next one begins.
func (l *Log) copyDoubtful() error {
	d, ok := l.readDurable()
	if !ok || d >= l.pos.Seq || l.file == nil {
		return nil
	}
	var keep [][]byte
	err := l.eachLine(max(d+1, l.pos.Segment), func(rec *Record, line []byte) error {
		keep = append(keep, append([]byte(nil), line...))
		return nil
	})
	if err != nil || len(keep) == 0 {
		return err
	}
	var data []byte
	for _, line := range keep {
		data = append(append(append(data, '\n'), line...), '\n')
	}
	first, _ := seqOf(keep[0])
	if err := durable.WriteFile(l.o.Dir, segmentName(first), data, 0o600); err != nil {
		return err
	}
	pos := l.pos
	if err := l.enter(first); err != nil {
		return err
	}
	l.pos = Pos{Segment: first, Offset: int64(len(data)), Seq: pos.Seq, Chain: pos.Chain}
	return nil
}
