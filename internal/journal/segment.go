package journal

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// SegmentFile is the file name of a segment: the seq of its first row.
func SegmentFile(first uint64) string { return fmt.Sprintf("%020d.jsonl", first) }

func parseSegment(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ".jsonl")
	if !ok || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

// segments lists the first seqs of the segments, in order.
func segments(dir fsx.Dir) ([]uint64, error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	var list []uint64
	for _, name := range names {
		if first, ok := parseSegment(name); ok {
			list = append(list, first)
		}
	}
	slices.Sort(list)
	return list, nil
}

// row is one line of a segment. NULs around it are left out: a power cut may
// take the sector that holds one of the newlines between two rows.
type row struct {
	line       []byte // only valid during the call
	start, end int64  // of the first byte that is not NUL; after the newline
}

// lines calls fn for every line of f from offset from to offset to that ends
// in a newline and holds more than NULs, whether it is a record or not.
func lines(f io.ReaderAt, from, to int64, fn func(row) error) error {
	err := linesBy(f, from, to, 64<<10, fn)
	if err == errStop {
		err = nil
	}
	return err
}

// linesBy is lines that reads block bytes at a time and returns errStop too.
func linesBy(f io.ReaderAt, from, to int64, block int, fn func(row) error) error {
	lent := borrow(block)
	defer lending.Put(lent)
	buf, kept := (*lent)[:block], 0 // the first kept bytes wait for their newline
	pos, done := from, from         // pos: next byte to read; done: after the last complete line
	for pos < to {
		if kept == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		n, err := f.ReadAt(buf[kept:min(int64(len(buf)), int64(kept)+to-pos)], pos)
		if err != nil && err != io.EOF {
			return err
		}
		if n == 0 {
			break
		}
		pos += int64(n)
		rest := buf[:kept+n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			start := done
			done += int64(i) + 1
			if line := bytes.TrimLeft(rest[:i], "\x00"); len(line) > 0 {
				start += int64(i - len(line))
				if err := fn(row{bytes.TrimRight(line, "\x00"), start, done}); err != nil {
					return err
				}
			}
			rest = rest[i+1:]
		}
		kept = copy(buf, rest)
	}
	return nil
}

// lending holds the buffers of linesBy; the large ones serve small blocks, too.
var lending sync.Pool

func borrow(block int) *[]byte {
	if b, ok := lending.Get().(*[]byte); ok && len(*b) >= block {
		return b
	}
	b := make([]byte, block)
	return &b
}

// firstNUL is the offset of the first NUL of f from an offset on, or that of its end.
func firstNUL(f io.ReaderAt, from int64) (int64, error) {
	lent := borrow(32 << 10)
	defer lending.Put(lent)
	for block := 64; ; block = min(8*block, len(*lent)) { // most often nothing follows
		n, err := f.ReadAt((*lent)[:block], from)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.IndexByte((*lent)[:n], 0); i >= 0 {
			return from + int64(i), nil
		}
		if from += int64(n); err == io.EOF {
			return from, nil
		}
	}
}

// dataEnd is the offset after the last byte of f that is not NUL: a
// preallocated segment ends in NULs.
func dataEnd(f io.ReaderAt, size, floor int64) (int64, error) {
	buf := make([]byte, max(0, min(64<<10, size-floor)))
	for size > floor {
		n := min(int64(len(buf)), size-floor)
		if _, err := f.ReadAt(buf[:n], size-n); err != nil && err != io.EOF {
			return 0, err
		}
		if i := lastByte(buf[:n]); i >= 0 {
			return size - n + i + 1, nil
		}
		size -= n
	}
	return floor, nil
}

// lastByte is the index of the last byte that is not NUL, -1 when all are.
func lastByte(b []byte) int64 {
	i := len(b) - 1
	for i >= 0 && b[i] == 0 {
		i--
	}
	return int64(i)
}

// seek finds where to begin reading for seq: the start of a line at or before
// the row, found by halving the segment.
func seek(f io.ReaderAt, end int64, seq uint64) (int64, error) {
	lo, hi := int64(0), end
	for hi-lo > 16<<10 {
		mid := lo + (hi-lo)/2
		at, found, err := firstRow(f, mid, hi)
		if err != nil {
			return 0, err
		}
		if at < 0 || found >= seq {
			hi = mid
			continue
		}
		lo = at
	}
	return lo, nil
}

// firstRow finds the first whole row that starts after from.
func firstRow(f io.ReaderAt, from, to int64) (at int64, seq uint64, err error) {
	at = -1
	first := true
	err = linesBy(f, from, to, 4<<10, func(r row) error {
		if first { // most likely the end of a line that began before
			first = false
			if from > 0 {
				return nil
			}
		}
		if s, ok := seqOf(r.line); ok {
			at, seq = r.start, s
			return errStop
		}
		return nil
	})
	if err == errStop {
		err = nil
	}
	return at, seq, err
}
