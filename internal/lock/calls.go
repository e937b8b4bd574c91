package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Call is a call in progress.
type Call struct {
	Op     string   `json:"o"`
	Paths  []string `json:"p"` // some of them
	Caller string   `json:"c"`
	PID    int      `json:"i"`
	Since  int64    `json:"t"` // milliseconds since the Unix epoch
}

// notable is how long a call lasts before other processes see it.
var notable = 200 * time.Millisecond

const (
	callsStart = 64      // offset in the liveness file; the first byte is the lock
	callsSize  = 8 << 10 // bytes
)

// Calls are the calls in progress in a process. Those that last are written into
// its liveness file, where other processes read them. They are only there for a
// view: they are never flushed, there is room for some of them only, and nothing
// depends on them. nil keeps nothing.
type Calls struct {
	mu      sync.Mutex
	file    fsx.File
	list    []*timed // in the order in which they began to last
	written int      // bytes
}

// timed is one call.
type timed struct {
	Call
	ended bool
}

// Begin records the start of a call. It calls what only if the call takes long, in
// another goroutine. end is called once.
func (c *Calls) Begin(what func() Call) (end func()) {
	if c == nil {
		return func() {}
	}
	one := &timed{}
	began := time.Now()
	timer := time.AfterFunc(notable, func() {
		call := what()
		call.Since, call.PID = began.UnixMilli(), os.Getpid()
		c.mu.Lock()
		defer c.mu.Unlock()
		if one.Call = call; !one.ended {
			c.list = append(c.list, one)
			c.write()
		}
	})
	return func() {
		if timer.Stop() {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		one.ended = true
		if i := slices.Index(c.list, one); i >= 0 {
			c.list = slices.Delete(c.list, i, i+1)
			c.write()
		}
	}
}

// write puts the calls that have room into the file, one line each, and an empty
// line after the last. Zeros replace what was there of other calls, whose paths may
// be erased from everywhere else.
func (c *Calls) write() {
	if c.file == nil {
		return
	}
	var out []byte
	for _, x := range c.list {
		line, err := json.Marshal(x.Call)
		if err == nil && len(out)+len(line)+2 <= callsSize {
			out = append(append(out, line...), '\n')
		}
	}
	out = append(out, '\n')
	n := len(out)
	c.file.WriteAt(append(out, make([]byte, max(0, c.written-n))...), callsStart)
	c.written = n
}

// Reported lists the calls that the living processes of dir report, in no order.
func Reported(dir fsx.Dir) ([]Call, error) {
	writers, err := Writers(dir)
	if err != nil {
		return nil, err
	}
	var list []Call
	for _, writer := range writers {
		ok, err := Alive(dir, writer)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		f, err := dir.Open(alivePrefix+writer, fsx.Read, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		buf := make([]byte, callsSize)
		n, _ := f.ReadAt(buf, callsStart)
		f.Close()
		for line := range bytes.Lines(buf[:n]) {
			var call Call
			if len(line) <= 1 || json.Unmarshal(line, &call) != nil {
				break // the end, or it is being written
			}
			list = append(list, call)
		}
	}
	return list, nil
}
