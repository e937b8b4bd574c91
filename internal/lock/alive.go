package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Each writer holds a kernel lock on a file of its own during its lifetime. Process
// numbers are never used, because the system reuses them.

const (
	alivePrefix = "w-"
	newSuffix   = ".new"

	bootAt   = 1  // offset in the liveness file; the first byte is the lock
	bootSize = 48 // bytes, of which the rest is NUL
)

// thisBoot identifies the running system, "" if it is unknown.
var thisBoot = sync.OnceValue(bootID)

// Register makes the liveness file of writer in dir and locks it. release
// removes it and ends the lock; calls are those that the file lists.
//
// The file is locked before it gets its name, so that no process takes a writer that
// is just starting for a dead one.
func Register(dir fsx.Dir, writer string) (calls *Calls, release func() error, err error) {
	name := alivePrefix + writer
	f, err := dir.Open(name+newSuffix, fsx.Read|fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		return nil, nil, err
	}
	ok, err := f.TryLock(0, 1, true)
	if err == nil && !ok {
		err = errors.New("liveness lock is taken")
	}
	if err == nil {
		f.WriteAt([]byte(thisBoot()), bootAt) // there may be no space
		err = dir.Rename(name+newSuffix, dir, name)
	}
	if err != nil {
		dir.Remove(name + newSuffix)
		f.Close()
		return nil, nil, err
	}
	calls = &Calls{file: f}
	return calls, func() error {
		calls.mu.Lock()
		defer calls.mu.Unlock()
		calls.file = nil // a call may still be ending
		err := dir.Remove(name)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return err
	}, nil
}

// Alive reports whether a live process holds the liveness lock of writer. A
// missing file means that none does. The probe is a shared lock, so two probes
// do not mistake each other for the writer.
func Alive(dir fsx.Dir, writer string) (bool, error) {
	f, err := dir.Open(alivePrefix+writer, fsx.Read, 0)
	if err != nil {
		return false, fsx.Unless(err, fs.ErrNotExist)
	}
	defer f.Close()
	ok, err := f.TryLock(0, 1, false)
	return err == nil && !ok, err
}

// Elsewhere reports whether writer is alive on another system than this process: on another
// host, or in a sandbox with a kernel of its own. A writer of an older version does not say.
func Elsewhere(dir fsx.Dir, writer string) (bool, error) {
	f, err := dir.Open(alivePrefix+writer, fsx.Read, 0)
	if err != nil {
		return false, fsx.Unless(err, fs.ErrNotExist)
	}
	defer f.Close()
	boot := make([]byte, bootSize)
	n, err := f.ReadAt(boot, bootAt)
	if err != nil && err != io.EOF {
		return false, err
	}
	its := string(bytes.TrimRight(boot[:n], "\x00"))
	if its == "" || thisBoot() == "" || its == thisBoot() {
		return false, nil
	}
	return Alive(dir, writer)
}

// Forget removes the liveness file of a dead writer.
func Forget(dir fsx.Dir, writer string) error {
	return fsx.Unless(dir.Remove(alivePrefix+writer), fs.ErrNotExist)
}

// Writers lists the writers that have a liveness file.
func Writers(dir fsx.Dir) ([]string, error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names {
		writer, ok := strings.CutPrefix(name, alivePrefix)
		if ok && !strings.HasSuffix(writer, newSuffix) {
			list = append(list, writer)
		}
	}
	return list, nil
}

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
