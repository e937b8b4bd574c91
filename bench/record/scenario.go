//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// scenario is one kind of fault with its oracle.
type scenario struct {
	id, name string
	fault    string // what goes wrong
	oracle   string // what must hold in spite of it
	level    string // durability level of resilientwrite
	noLoss   bool   // the scenario does not measure loss
	unsteady bool   // its results depend on the scheduler
	timeless bool   // its times are meaningless
	caveat   string // what else a reader must know about the figures
	repeats  bool   // another scenario measures the same: it counts in no total
	extra    []extra
	trials   int // of a full run, in each cell
	smoke    int // of a smoke run
	// run makes the trials of one cell.
	run func(r *ring, add func(trial)) error
	// whole makes all cells, for a scenario that cannot go cell by cell.
	whole func(ctx context.Context, s settings, sc *scenario) ([]*cell, error)
}

// scenarios in the order of the tables.
func scenarios() []scenario {
	return []scenario{contentFilter, truncation, killAtCall, killAnywhere, thrash, opaque, sessionLoss, leakage, handoffs, concurrency, machineCrash}
}

// inside makes the trials of one cell with the tool in this process.
func inside(one func(r *ring, t tool, n int) (trial, error)) func(*ring, func(trial)) error {
	return func(r *ring, add func(trial)) error {
		t, err := r.tool()
		if err != nil {
			return err
		}
		defer closeTool(t)
		return r.each(add, func(n int) (trial, error) { return one(r, t, n) })
	}
}

// apart makes the trials of one cell with the tool in a process of its own. So many of
// them share a process and a workspace.
func apart(share int, one func(r *ring, p *proc, n int) (trial, error)) func(*ring, func(trial)) error {
	return func(r *ring, add func(trial)) error {
		var p *proc
		defer func() {
			if p != nil {
				p.stop()
			}
		}()
		return r.each(add, func(n int) (_ trial, err error) {
			if n > 0 && n%share == 0 {
				p.stop()
				err = r.renew()
			}
			if err == nil && n%share == 0 {
				p, err = startProc(r.arm, r.dir, r.s.level)
			}
			if err != nil {
				return trial{}, err
			}
			return one(r, p, n)
		})
	}
}

// each makes the trials of one cell.
func (r *ring) each(add func(trial), one func(n int) (trial, error)) error {
	for n := range r.n {
		got, err := one(n)
		if err != nil {
			return fmt.Errorf("trial %d: %w", n, err)
		}
		add(got)
	}
	return nil
}

// extra is a figure of one scenario only: a share, or a number per trial.
type extra struct {
	title string
	count string
	of    string // "": of the trials, and not as a percentage
}

// ring is the environment in which one cell is measured.
type ring struct {
	ctx   context.Context
	seed  uint64
	s     *scenario
	arm   string
	who   agent
	n     int             // trials
	base  string          // directory of its workspaces
	dir   string          // the workspace
	known map[string]bool // its expected files
	small bool            // a smoke run: small sizes
}

// dice returns the random numbers of one trial.
func (r *ring) dice(n int) *rand.Rand { return dice(r.seed, r.s.id, n) }

// tool opens the arm in this process.
func (r *ring) tool() (tool, error) { return openArm(r.arm, r.dir, r.s.level) }

// agent returns the agent with a tool.
func (r *ring) agent(t tool) *run { return &run{ctx: r.ctx, who: r.who, tool: t} }

// put writes an initial file of the workspace.
func (r *ring) put(path, text string) error {
	full := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.WriteFile(full, []byte(text), 0o644)
}

// content returns the current content of a file of the workspace; there reports
// whether it exists.
func (r *ring) content(path string) (text string, there bool, err error) {
	data, err := os.ReadFile(filepath.Join(r.dir, path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return string(data), err == nil, err
}

// is reports whether a file of the workspace holds the text.
func (r *ring) is(path, text string) bool {
	got, there, err := r.content(path)
	return err == nil && there && got == text
}

// read calls fn with the content of each file below a directory of the workspace, the
// tool's own files included, until it returns false. It skips directories of the name
// without, and what disappears meanwhile.
func (r *ring) read(dir, without string, fn func(data []byte) (more bool)) error {
	return filepath.WalkDir(filepath.Join(r.dir, dir), func(p string, d fs.DirEntry, err error) error {
		var data []byte
		switch {
		case err != nil:
		case d.IsDir() && d.Name() == without:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		default:
			data, err = os.ReadFile(p)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil && !fn(data):
			return fs.SkipAll
		}
		return err
	})
}

// link makes a symbolic link in the workspace.
func (r *ring) link(path, to string) error {
	full := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.Symlink(to, full)
}

// tree returns a hash of every name and content of the workspace below dir,
// except resilientwrite's own files.
func (r *ring) tree(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(filepath.Join(r.dir, dir), func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == stateName:
			return filepath.SkipDir
		}
		fmt.Fprintf(h, "%q %v\n", p, d.Type())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			h.Write(data)
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// escaped reports whether something was written outside the workspace, and
// removes it.
func (r *ring) escaped() (bool, error) {
	err := os.Remove(filepath.Join(filepath.Dir(r.dir), outside))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// stateName is the directory in which resilientwrite keeps its own files.
const stateName = ".resilient_write"

// strays returns the unexpected files of the workspace.
func (r *ring) strays() ([]string, error) {
	var list []string
	err := filepath.WalkDir(r.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(r.dir, p)
		switch {
		case err != nil:
			return err
		case rel == stateName:
			return filepath.SkipDir
		case !d.IsDir() && !r.known[filepath.ToSlash(rel)]:
			list = append(list, rel)
		}
		return nil
	})
	return list, err
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// spreadText puts a text into the middle of another and returns its position.
func spreadText(d *rand.Rand, around int, what string) (text string, at int) {
	head := prose(d, between(d, around/4, around))
	tail := prose(d, between(d, around/4, around))
	head = head[:strings.LastIndexByte(head, '\n')+1]
	return head + what + "\n" + tail, len(head)
}

// renew starts a new workspace, so that checks of the whole workspace stay
// fast.
func (r *ring) renew() error {
	if r.dir != "" {
		if err := os.RemoveAll(r.dir); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(r.base, r.arm+"-")
	r.dir, r.known = dir, map[string]bool{}
	return err
}

// elsewhere calls fn with a workspace of its own, and with the tool on it.
func (r *ring) elsewhere(fn func(own *ring, p *proc) error) error {
	own := *r
	own.dir = ""
	if err := own.renew(); err != nil {
		return err
	}
	defer os.RemoveAll(own.dir)
	p, err := startProc(own.arm, own.dir, own.s.level)
	if err != nil {
		return err
	}
	defer p.stop()
	return fn(&own, p)
}

// measured is what all cells of an arm share: functions that measure once.
var measured sync.Map

// once returns what measure returned when it was first called for the key.
func once[T any](key string, measure func() (T, error)) (T, error) {
	got, _ := measured.LoadOrStore(key, sync.OnceValues(measure))
	return got.(func() (T, error))()
}

// topDir is FS_TOPDIR_FL of <linux/fs.h>: directories created in this directory
// are unrelated, and are placed far apart on the disk.
const topDir = 0x00020000

// spread gives every workspace created in dir separate inodes, if the file
// system can. ext4 skips recently freed inodes whenever it looks for a free
// one: without this the workspaces of one trial slow down the next.
func spread(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	if flags, err := unix.IoctlGetInt(int(d.Fd()), unix.FS_IOC_GETFLAGS); err == nil {
		unix.IoctlSetPointerInt(int(d.Fd()), unix.FS_IOC_SETFLAGS, flags|topDir)
	}
}
