package lock

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Held is a lock that a living process has.
type Held struct {
	Holder
	Slot int64
}

// SlotOf is the slot of a key in the table of holders.
func SlotOf(key string) int64 { return slotOf(key) }

// Running lists the locks of living processes in the lock file name of dir, in
// no order. The table of holders has room for some of them only, and two keys may
// share a place there, so a lock may be missing; nothing but a view may depend
// on it. A missing file has none.
func Running(dir fsx.Dir, name string) ([]Held, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf := make([]byte, placeCount*placeSize)
	n, _ := f.ReadAt(buf, placeStart)
	var list []Held
	alive := map[string]bool{}
	for at := 0; at+placeSize <= n; at += placeSize {
		var p place
		if json.Unmarshal(buf[at:at+placeSize], &p) != nil || p.Writer == "" {
			continue
		}
		ok, known := alive[p.Writer]
		if !known {
			ok, _ = Alive(dir, p.Writer)
			alive[p.Writer] = ok
		}
		if ok {
			list = append(list, Held{Holder{p.Writer, p.PID, time.UnixMilli(p.Since), p.What}, p.Slot})
		}
	}
	return list, nil
}
