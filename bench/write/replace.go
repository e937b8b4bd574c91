//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/bench/internal/minimal"
)

// stateOf returns the state directory of a workspace: inside it, so that it is on the
// measured file system, or on another one if requested. Child processes learn the place
// from the environment.
func stateOf(dir string) string {
	if elsewhere := os.Getenv(elsewhereName); elsewhere != "" {
		return filepath.Join(elsewhere, filepath.Base(dir))
	}
	return ".resilient_write"
}

const elsewhereName = "RW_BENCH_STATES"

// cell is one size and number of writers.
type cell struct{ size, writers int }

var cells = []cell{
	{1 << 10, 1}, {1 << 10, 16}, {1 << 10, 64}, {64 << 10, 1}, {64 << 10, 16}, {1 << 20, 1}, {1 << 20, 16},
}

// goals are throughputs relative to the minimal durable replace.
var goals = map[string]map[cell]float64{
	"full":    {{1 << 10, 1}: .75, {1 << 10, 16}: .70, {1 << 10, 64}: .9, {64 << 10, 1}: .75, {64 << 10, 16}: .65, {1 << 20, 1}: .7},
	"journal": {{1 << 10, 1}: 1.3, {1 << 10, 16}: 1.0, {64 << 10, 1}: 1.2, {64 << 10, 16}: .8, {1 << 20, 1}: .8},
}

// replaces compares the levels with the minimal durable replace.
func (b *bench) replaces() error {
	return b.replacing(cells, "size × writers")
}

func (b *bench) replacing(cells []cell, title string) error {
	b.printf("| %s | os.WriteFile | `full` | bare | goal | `journal` | bare | goal | `off` |\n|---|---|---|---|---|---|---|---|---|\n", title)
	for _, c := range cells {
		if !b.wanted(c.String()) {
			continue
		}
		m, err := b.measure(c.writers, []arm{
			{"minimal", c.plain(minimal.Replace)},
			{"os.WriteFile", c.plain(func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) })},
			{"full", c.store(rw.SyncFull)}, {"journal", c.store(rw.SyncJournal)}, {"off", c.store(rw.SyncOff)},
			{"bare full", c.bare(true)}, {"bare journal", c.bare(false)},
		})
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		b.printf("| %v | %s | %s | %s | %s | %s | %s | %s | %s |\n", c, m["os.WriteFile"],
			m["full"], m["bare full"], goal("full", c), m["journal"], m["bare journal"], goal("journal", c), m["off"])
	}
	b.printf("\n")
	return nil
}

// onXFS measures a part of replaces on another file system.
func (b *bench) onXFS() error {
	dir, err := b.mountImage("mkfs.xfs", "-q", "-f", "-K")
	if err != nil {
		b.printf("xfs was not measured: none can be made and mounted here.\n\n")
		return nil
	}
	defer unmount(dir)
	x := &bench{place: dir, image: b.image, rounds: b.rounds, turn: b.turn, only: b.only}
	err = x.replacing([]cell{{1 << 10, 1}, {1 << 10, 16}, {64 << 10, 1}}, "on xfs")
	b.out.WriteString(x.out.String())
	return err
}

// onTwo measures a part of replaces with the state directory on another file system than
// the files: another ext4 image.
func (b *bench) onTwo() error {
	dir, err := b.mountExt4()
	if err != nil {
		b.printf("With the state on another file system nothing was measured: none can be mounted here.\n\n")
		return nil
	}
	defer unmount(dir)
	os.Setenv(elsewhereName, dir)
	defer os.Unsetenv(elsewhereName)
	return b.replacing([]cell{{1 << 10, 1}, {1 << 10, 16}, {64 << 10, 1}}, "state on another file system")
}

func goal(arm string, c cell) string {
	if g, ok := goals[arm][c]; ok {
		return fmt.Sprint(g)
	}
	return "–"
}

func (c cell) String() string {
	size := fmt.Sprintf("%d KiB", c.size>>10)
	if c.size >= 1<<20 {
		size = fmt.Sprintf("%d MiB", c.size>>20)
	}
	return fmt.Sprintf("%s × %d", size, c.writers)
}

type starter = func(dir string) (func(w, i int) error, func() error, error)

// texts returns what the writers of a cell write, different each time.
func (c cell) texts() func(w, i int) []byte {
	texts := make([][]byte, c.writers)
	for w := range texts {
		texts[w] = text(c.size, w)
	}
	return func(w, i int) []byte {
		copy(texts[w], fmt.Sprintf("Line %d of %d.\n", i, w))
		return texts[w]
	}
}

func (c cell) plain(write func(string, []byte) error) starter {
	return func(dir string) (func(w, i int) error, func() error, error) {
		data := c.texts()
		return func(w, i int) error { return write(filepath.Join(dir, name(w)), data(w, i)) }, func() error { return nil }, nil
	}
}

func (c cell) store(level rw.SyncLevel) starter {
	data := c.texts()
	return onStore(level, func(s *rw.Store, w, i int) error { return replace(s, name(w), data(w, i)) })
}

// onStore does something with a store. Its gate scans everything and advises, as it does
// by default.
func onStore(level rw.SyncLevel, do func(s *rw.Store, w, i int) error) starter {
	return func(dir string) (func(w, i int) error, func() error, error) {
		s, err := rw.Open(context.Background(), dir, &rw.Options{Sync: level, StateDir: stateOf(dir)})
		if err != nil {
			return nil, nil, err
		}
		return func(w, i int) error { return do(s, w, i) }, func() error { return s.Close(context.Background()) }, nil
	}
}

func replace(s *rw.Store, path string, data []byte) error {
	_, err := s.SafeWriteFrom(context.Background(), rw.SafeWriteRequest{Path: path, Mode: rw.ModeOverwrite, AllowShrink: true}, bytes.NewReader(data))
	return err
}

func name(w int) string { return fmt.Sprintf("f%d.txt", w) }

// words are the words of the written texts: ordinary English.
var words = strings.Fields(`the store keeps a version of every file that is replaced so that a call can be taken back later and
the journal says what was written when and by whom while readers see the old bytes or the new ones but never a mixture of both`)

// text returns ordinary prose that differs for every n.
func text(size, n int) []byte {
	var b bytes.Buffer
	x := uint32(n)*2654435761 + 1
	for b.Len() < size {
		x = x*1664525 + 1013904223
		b.WriteString(words[int(x>>16)%len(words)])
		if x>>28 == 0 {
			b.WriteString(".\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.Bytes()[:size]
}

// fillImage makes an image without holes: the first write to a hole makes the
// file system below allocate, which no disk does.
func (b *bench) fillImage(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	zeros := make([]byte, 1<<20)
	for range b.image {
		if _, err := f.Write(zeros); err != nil {
			return err
		}
	}
	return f.Sync()
}

// mountExt4 makes an ext4 with a journal, complete: no thread of the kernel goes on
// initializing it while the arms run.
func (b *bench) mountExt4() (dir string, err error) {
	return b.mountImage("mkfs.ext4", "-q", "-F", "-O", "has_journal", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0")
}

// mountImage makes a file system in a file and mounts it. The file goes with the mount.
func (b *bench) mountImage(make ...string) (dir string, err error) {
	dir, err = os.MkdirTemp("", "mnt")
	if err != nil {
		return "", err
	}
	image := dir + ".image"
	defer os.Remove(image)
	err = b.fillImage(image)
	for _, args := range [][]string{append(make, image), {"mount", "-o", "loop", image, dir}} {
		if err != nil {
			break
		}
		var out []byte
		if out, err = exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: %w: %s", args[0], err, bytes.TrimSpace(out))
		}
	}
	return dir, err
}

// unmount ends what mountImage mounted, to free its space.
func unmount(dir string) { exec.Command("umount", dir).Run() }
