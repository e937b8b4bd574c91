//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// runEditor saves files as editors do. It notes the content that each save replaced,
// because the editor itself causes that loss.
func runEditor(ctx context.Context, ws, logs string, number int) {
	e := &editor{ws: ws, j: openJournal(logs, fmt.Sprintf("editor-%d.log", number)), name: fmt.Sprintf("e%d", number),
		rng: rand.New(rand.NewPCG(*seed, uint64(number)<<32))}
	for ctx.Err() == nil {
		e.save()
		pause(ctx, time.Duration(e.rng.IntN(40))*time.Millisecond)
	}
}

// saving keeps two editors from saving one file at once: what one of them does
// to the other is their own loss and could not be distinguished.
var saving [1000]sync.Mutex

type editor struct {
	ws, name string
	j        *journal
	rng      *rand.Rand
	n        int
}

// save makes one save, completely or not at all, and records it.
func (e *editor) save() {
	e.n++
	file := e.rng.IntN(*paths)
	saving[file].Lock()
	defer saving[file].Unlock()
	rel := pathOf(file)
	at := filepath.Join(e.ws, rel)
	id := fmt.Sprintf("%s-%d", e.name, e.n)
	content := []byte(text(e.rng, id, size(e.rng)))
	ev := event{Kind: "save", ID: id, Paths: []string{rel}, From: time.Now().UnixNano()}
	var gone []byte
	var err error
	switch e.rng.IntN(10) {
	case 0:
		ev.Verb = "delete"
		gone, err = e.discard(at)
	case 1, 2, 3:
		ev.Verb = "in place"
		gone, err = inPlace(at, content)
	default:
		ev.Verb = "rename"
		gone, err = e.byRename(at, content)
	}
	if gone != nil {
		ev.Gone = []string{sum(gone)}
	}
	if ev.OK = err == nil; ev.OK && ev.Verb != "delete" {
		ev.Files, ev.Bytes = map[string]string{rel: sum(content)}, len(content)
	}
	e.j.add(ev)
}

// byRename writes a file next to the workspace and swaps it in. The file that it gets
// back is the one that the save replaced.
func (e *editor) byRename(at string, content []byte) (gone []byte, err error) {
	tmp := filepath.Join(e.ws, "..", e.name+".swp")
	defer os.Remove(tmp)
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return nil, err
	}
	for range 3 {
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE)
		if err == nil {
			return os.ReadFile(tmp)
		}
		if err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, at, unix.RENAME_NOREPLACE); !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
	return nil, err
}

// inPlace reads a file and writes it again through one descriptor.
func inPlace(at string, content []byte) (gone []byte, err error) {
	f, err := os.OpenFile(at, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	gone = make([]byte, st.Size())
	if _, err := f.ReadAt(gone, 0); err != nil && len(gone) > 0 {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return gone, err
	}
	_, err = f.WriteAt(content, 0)
	return gone, err
}

// discard removes a file by moving it away first, to read its content.
func (e *editor) discard(at string) (gone []byte, err error) {
	tmp := filepath.Join(e.ws, "..", e.name+".trash")
	defer os.Remove(tmp)
	if err := os.Rename(at, tmp); err != nil {
		return nil, err
	}
	return os.ReadFile(tmp)
}
