package lock

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// holders is a small table in the lock file that records who took a lock last. It is
// used only for the message to a waiter: two keys may share a place, it is never
// flushed, and nothing depends on it.
type holders struct{ file fsx.File }

const (
	placeSize  = 160 // bytes
	placeCount = 128
	placeStart = 4096 // offset of the first place
	maxWhat    = 40   // bytes
)

// place is one entry in the file: JSON, padded with blanks.
type place struct {
	Slot   int64  `json:"s"`
	Writer string `json:"w"`
	PID    int    `json:"p"`
	Since  int64  `json:"t"` // milliseconds since the Unix epoch
	What   string `json:"o"`
}

func offsetOf(slot int64) int64 { return placeStart + slot%placeCount*placeSize }

func (h holders) write(slot int64, who Holder) {
	if len(who.What) > maxWhat {
		who.What = who.What[:maxWhat]
	}
	buf := make([]byte, 0, 2*placeSize)
	buf = strconv.AppendInt(append(buf, `{"s":`...), slot, 10)
	buf = strconv.AppendQuoteToASCII(append(buf, `,"w":`...), who.Writer)
	buf = strconv.AppendInt(append(buf, `,"p":`...), int64(who.PID), 10)
	buf = strconv.AppendInt(append(buf, `,"t":`...), who.Since.UnixMilli(), 10)
	buf = strconv.AppendQuoteToASCII(append(buf, `,"o":`...), who.What)
	if buf = append(buf, '}'); len(buf) > placeSize {
		return
	}
	for len(buf) < placeSize {
		buf = append(buf, ' ')
	}
	h.file.WriteAt(buf, offsetOf(slot))
}

func (h holders) clear(slot int64) {
	h.file.WriteAt(make([]byte, placeSize), offsetOf(slot))
}

// read returns who took the lock of slot, the zero Holder when that is not
// known.
func (h holders) read(slot int64) Holder {
	buf := make([]byte, placeSize)
	n, _ := h.file.ReadAt(buf, offsetOf(slot))
	var p place
	if json.Unmarshal(buf[:n], &p) != nil || p.Slot != slot {
		return Holder{}
	}
	return Holder{Writer: p.Writer, PID: p.PID, Since: time.UnixMilli(p.Since), What: p.What}
}
