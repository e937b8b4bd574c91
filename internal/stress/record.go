//go:build linux

package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// event is one line of a log: the start or end of a call, or a save of the editor. The
// line is written before its event may be relied on.
type event struct {
	Kind   string            `json:"kind"` // begin, end, save
	ID     string            `json:"id"`   // marks the content of the call, or of the save
	Verb   string            `json:"verb,omitempty"`
	Paths  []string          `json:"paths,omitempty"`
	Key    string            `json:"key,omitempty"`
	OK     bool              `json:"ok,omitempty"`
	Files  map[string]string `json:"files,omitempty"` // hash by path, as the call reports the result
	Prev   []string          `json:"prev,omitempty"`  // hashes of the previous content, as the call reports it
	Effect string            `json:"effect,omitempty"`
	Reason string            `json:"reason,omitempty"`
	Cause  string            `json:"cause,omitempty"` // of an internal error
	Gone   []string          `json:"gone,omitempty"`  // hashes that the editor replaced
	Bytes  int               `json:"bytes,omitempty"` // of a save: its size
	At     int64             `json:"at"`              // nanoseconds
	From   int64             `json:"from,omitempty"`  // of a save: when it began
}

// journal is a log. A line is one write, so a kill leaves at most one torn
// line at the end.
type journal struct {
	mu sync.Mutex
	f  *os.File
}

func openJournal(dir, name string) *journal {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	must(err)
	return &journal{f: f}
}

func (j *journal) add(e event) {
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	line, err := json.Marshal(e)
	must(err)
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err = j.f.Write(append(line, '\n'))
	must(err)
}

// readEvents reads every log.
func readEvents(dir string) (list []event) {
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	must(err)
	for _, name := range names {
		f, err := os.Open(name)
		must(err)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				list = append(list, e)
			}
		}
		must(lines.Err())
		f.Close()
	}
	return list
}

var marker = regexp.MustCompile(`<<[a-z0-9.-]+>>`)

// text is ordinary content that holds the marker of its call once.
func text(rng *rand.Rand, id string, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<<%s>>\n", id)
	for b.Len() < size {
		for range 4 + rng.IntN(12) {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteByte(' ')
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var words = strings.Fields(`the value of each line is read before it is compared with what the file held when the
	caller asked for it and a table keeps one row for every name that was seen so far return error when size is
	larger than limit open close read write append range index length buffer record commit version`)

// size is mostly small, sometimes large.
func size(rng *rand.Rand) int {
	switch rng.IntN(100) {
	case 0:
		return 1<<20 + rng.IntN(1<<20)
	case 1, 2, 3:
		return 64<<10 + rng.IntN(128<<10)
	}
	return 20 + rng.IntN(4000)
}

func pathOf(i int) string {
	if i%3 == 0 {
		return fmt.Sprintf("d%d/f%02d.txt", i%4, i)
	}
	return fmt.Sprintf("f%02d.txt", i)
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
