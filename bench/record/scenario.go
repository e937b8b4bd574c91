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

	"golang.org/x/sys/unix"
)

// scenario is one kind of fault with its oracle.
type scenario struct {
	id, name string
	fault    string // what goes wrong
	oracle   string // what must be so in spite of it
	level    string // at which resilientwrite is open
	noLoss   bool   // loss is not what it asks for
	unsteady bool   // what it finds depends on the scheduler
	timeless bool   // its times mean nothing
	caveat   string // what is to be known of the figures beyond that
	repeats  bool   // another scenario asks the same: it counts in no total
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

// extra is a figure of one scenario alone: a share of something, or so many in
// each trial.
type extra struct {
	title string
	count string
	of    string // "": of the trials, and not as a percentage
}

// ring is where one cell is fought out.
type ring struct {
	ctx   context.Context
	seed  uint64
	s     *scenario
	arm   string
	who   agent
	n     int             // trials
	base  string          // where its workspaces are
	dir   string          // the workspace
	known map[string]bool // its files that somebody asked for
	small bool            // a smoke run: cheap sizes
}

// dice are the numbers of one trial.
func (r *ring) dice(n int) *rand.Rand { return dice(r.seed, r.s.id, n) }

// tool opens the arm in this process.
func (r *ring) tool() (tool, error) { return openArm(r.arm, r.dir, r.s.level) }

// agent is the agent at work with a tool.
func (r *ring) agent(t tool) *run { return &run{ctx: r.ctx, who: r.who, tool: t} }

// put lays a file into the workspace that was there before.
func (r *ring) put(path, text string) error {
	full := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.WriteFile(full, []byte(text), 0o644)
}

// content is a file of the workspace as it is; there says whether it exists.
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

// link makes a symbolic link in the workspace.
func (r *ring) link(path, to string) error {
	full := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return os.Symlink(to, full)
}

// tree is a hash of every name and content of the workspace below dir, less
// what is resilientwrite's own.
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

// escaped reports whether something was written beside the workspace, and
// takes it away.
func (r *ring) escaped() (bool, error) {
	switch err := os.Remove(filepath.Join(filepath.Dir(r.dir), outside)); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}

// stateName is where resilientwrite keeps its own files.
const stateName = ".resilient_write"

// strays are the files of the workspace that nobody asked for.
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

// spreadText puts a text into the middle of another and tells where it is.
func spreadText(d *rand.Rand, around int, what string) (text string, at int) {
	head := prose(d, between(d, around/4, around))
	tail := prose(d, between(d, around/4, around))
	head = head[:strings.LastIndexByte(head, '\n')+1]
	return head + what + "\n" + tail, len(head)
}

// renew begins a new workspace, so that what is looked at as a whole stays
// small.
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

// topDir is FS_TOPDIR_FL of <linux/fs.h>: what is made in the directory is
// unrelated, and belongs far apart on the disk.
const topDir = 0x00020000

// spread gives every workspace made in dir inodes of its own, where the file
// system can. ext4 passes over inodes that were freed lately whenever it looks
// for a free one: without this the workspaces of one trial slow down the next.
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
