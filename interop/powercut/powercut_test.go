// Package powercut tests the store on real file systems whose power is cut. A loop device on
// a FUSE file records each write and each flush of the device. Images that a power cut could
// leave are then mounted, opened and compared with what was acknowledged.
package powercut

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var background = context.Background()

// device is a block device in memory.
type device struct {
	fs.Inode
	mu     sync.Mutex
	image  []byte
	base   []byte // image when recording began
	record bool
	events []event
}

// event is a write to the device, or without data a flush.
type event struct {
	off  int64
	data []byte
}

func (d *device) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Size, out.Mode, out.Nlink = uint64(len(d.image)), 0o600|syscall.S_IFREG, 1
	return 0
}

func (d *device) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return d.Getattr(ctx, f, out)
}

func (d *device) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (d *device) Read(_ context.Context, _ fs.FileHandle, into []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := copy(into, d.image[min(off, int64(len(d.image))):])
	return fuse.ReadResultData(into[:n]), 0
}

func (d *device) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	copy(d.image[off:], data)
	if d.record {
		d.events = append(d.events, event{off, bytes.Clone(data)})
	}
	return uint32(len(data)), 0
}

func (d *device) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.record {
		d.events = append(d.events, event{})
	}
	return 0
}

// now is the number of events so far.
func (d *device) now() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.events)
}

// holder is a directory with the device.
type holder struct {
	fs.Inode
	device *device
}

func (h *holder) OnAdd(ctx context.Context) {
	h.AddChild("device", h.NewPersistentInode(ctx, h.device, fs.StableAttr{Mode: syscall.S_IFREG}), false)
}

// call is a call of the store that changes one file.
type call struct {
	path    string
	content []byte // of the file afterwards; nil: none
	began   int    // when, in events
	ended   int
}

// system is a file system to test.
type system struct {
	name    string
	make    []string
	options string // to mount a copy of it
	size    int64
}

var systems = []system{
	{"ext4", []string{"mkfs.ext4", "-q", "-F", "-O", "has_journal", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"}, "loop", 64 << 20},
	{"xfs", []string{"mkfs.xfs", "-q", "-f", "-K"}, "loop,nouuid", 320 << 20},
}

// TestPowerCuts: what was acknowledged is found after the next Open, also if the device has
// lost what was not flushed. No name leads to bytes that no call has written, also before.
func TestPowerCuts(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux can mount a file system")
	}
	for _, sys := range systems {
		if _, err := exec.LookPath(sys.make[0]); err != nil {
			t.Skip(err)
		}
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal} {
			for _, writers := range []int{1, 4} {
				t.Run(fmt.Sprintf("%s/%s/%d", sys.name, level, writers), func(t *testing.T) {
					seed := uint64(time.Now().UnixNano())
					t.Log("seed", seed)
					test := trial{sys: sys, level: level, writers: writers, seed: seed}
					test.run(t)
				})
			}
		}
	}
}

type trial struct {
	sys     system
	level   rw.SyncLevel
	writers int
	seed    uint64
	device  *device
	calls   []call
}

func (x *trial) options() *rw.Options {
	return &rw.Options{Sync: x.level, StateDir: ".resilient_write"}
}

func (x *trial) run(t *testing.T) {
	x.write(t)
	long, _ := strconv.Atoi(os.Getenv("RW_LONG"))
	rng := rand.New(rand.NewPCG(x.seed, 1<<32))
	found := counts{}
	for range 6 * max(1, long) {
		x.cut(t, rng, &found)
	}
	t.Logf("%d calls, %d events of the device; %d cuts that lost writes, %d files finished by recovery", len(x.calls), len(x.device.events), found.lossy, found.finished)
	if len(x.calls) < 20 || found.lossy == 0 {
		t.Error("too little was tested")
	}
}

// write has the store write on the device until there is enough to cut.
func (x *trial) write(t *testing.T) {
	x.device = &device{image: make([]byte, x.sys.size)}
	mounted, dir := t.TempDir(), t.TempDir()
	server, err := fs.Mount(mounted, &holder{device: x.device}, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, MaxWrite: 1 << 20}})
	if err != nil {
		t.Skip("FUSE is not offered here:", err)
	}
	defer server.Unmount()
	loop := command(t, "losetup", "--show", "-f", filepath.Join(mounted, "device"))
	defer command(t, "losetup", "-d", loop)
	command(t, append(x.sys.make, loop)...)
	command(t, "mount", loop, dir)
	defer command(t, "umount", dir)
	s, err := rw.Open(background, dir, x.options())
	testbed.Require(t, err == nil, "%v", err)
	defer func() { testbed.NoErr(t, s.Close(background)) }()
	command(t, "sync", "-f", dir)
	x.device.mu.Lock()
	x.device.base, x.device.record = bytes.Clone(x.device.image), true
	x.device.mu.Unlock()

	var mu sync.Mutex
	var all sync.WaitGroup
	for w := range x.writers {
		all.Add(1)
		go func() {
			defer all.Done()
			rng := rand.New(rand.NewPCG(x.seed, uint64(w)))
			have := map[string][]byte{}
			end := time.Now().Add(700 * time.Millisecond)
			for n := 0; n < 24/x.writers || time.Now().Before(end); n++ {
				c, err := x.change(s, rng, w, have)
				if err != nil {
					t.Errorf("%s: %v", c.path, err)
					return
				}
				have[c.path] = c.content
				mu.Lock()
				x.calls = append(x.calls, c)
				mu.Unlock()
				time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond)
			}
		}()
	}
	all.Wait()
	time.Sleep(300 * time.Millisecond) // what follows the last replies
	x.device.mu.Lock()
	x.device.record = false
	x.device.mu.Unlock()
}

// change changes a file of a writer; have is what its files hold.
func (x *trial) change(s *rw.Store, rng *rand.Rand, writer int, have map[string][]byte) (c call, err error) {
	c.path = fmt.Sprintf("w%d/f%d.txt", writer, rng.IntN(6))
	if rng.IntN(4) == 0 {
		c.path = fmt.Sprintf("w%d-%d.txt", writer, rng.IntN(6))
	}
	n := []int{0, 1, 700, 4096, 5000, 12000, 16383, 16384, 16385, 40000}[rng.IntN(10)]
	text := make([]byte, 0, n+64)
	for len(text) < n {
		text = fmt.Appendf(text, "line %d of a text that is written once\n", rng.Uint64())
	}
	text = text[:n]
	was := have[c.path]
	c.began = x.device.now()
	switch what := rng.IntN(10); {
	case was != nil && what == 0:
		_, err = s.Delete(background, rw.DeleteRequest{Path: c.path})
	case was != nil && what < 3:
		c.content = slices.Concat(was, text, []byte("\n"))
		_, err = s.SafeWrite(background, rw.SafeWriteRequest{Path: c.path, Content: c.content[len(was):], Mode: rw.ModeAppend})
	default:
		c.content = text
		_, err = s.SafeWrite(background, rw.SafeWriteRequest{Path: c.path, Content: text, Mode: rw.ModeOverwrite, AllowShrink: true})
	}
	c.ended = x.device.now()
	return c, err
}

type counts struct{ lossy, finished int }

// image is what the device may hold if the power is cut before event at: all that was
// written before the last flush, and any part of what came after.
func (x *trial) image(at int, rng *rand.Rand) (image []byte, lossy bool) {
	image, flushed := bytes.Clone(x.device.base), 0
	for i, e := range x.device.events[:at] {
		if e.data == nil {
			flushed = i
		}
	}
	const page = 4096
	kept := []int{0, 1, 2, 4}[rng.IntN(4)] // quarters of what was not flushed
	for i, e := range x.device.events[:at] {
		for from := 0; from < len(e.data); from += page {
			if i > flushed && rng.IntN(4) >= kept {
				lossy = true
				continue
			}
			copy(image[e.off+int64(from):], e.data[from:min(from+page, len(e.data))])
		}
	}
	return image, lossy
}

// cut cuts the power after a write, and compares what is found.
func (x *trial) cut(t *testing.T, rng *rand.Rand, found *counts) {
	at := 1 + rng.IntN(len(x.device.events))
	for x.device.events[at-1].data == nil {
		at = 1 + rng.IntN(len(x.device.events))
	}
	image, lossy := x.image(at, rng)
	if lossy {
		found.lossy++
	}
	file, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	testbed.NoErr(t, writeSparse(file, image))
	defer os.Remove(file)
	command(t, "mount", "-o", x.sys.options, file, dir)
	defer command(t, "umount", dir)

	may, ever := map[string][][]byte{}, map[string][][]byte{}
	last := map[string]call{}
	for _, c := range x.calls {
		if was, is := last[c.path]; c.ended <= at && (!is || was.ended <= c.began) {
			last[c.path] = c
		}
		if c.began <= at {
			ever[c.path] = append(ever[c.path], c.content)
			if c.ended > at {
				may[c.path] = append(may[c.path], c.content)
			}
		}
	}
	for path := range ever {
		may[path] = append(may[path], last[path].content)
		ever[path] = append(ever[path], nil)
	}
	compare := func(when string, with map[string][][]byte) {
		for _, path := range slices.Sorted(maps.Keys(with)) {
			got, err := os.ReadFile(filepath.Join(dir, path))
			gone := errors.Is(err, os.ErrNotExist)
			if !slices.ContainsFunc(with[path], func(c []byte) bool { return (c == nil) == gone && bytes.Equal(c, got) }) {
				t.Errorf("power cut before event %d, %s: %s has %d bytes, error %v", at, when, path, len(got), err)
			}
		}
	}
	compare("before Open", ever)
	if x.level == rw.SyncFull {
		compare("before Open", may)
	}
	s, err := rw.Open(background, dir, x.options())
	testbed.Require(t, err == nil, "%v", err)
	defer func() { testbed.NoErr(t, s.Close(background)) }()
	r := s.Recovery()
	found.finished += len(r.Finished)
	if len(r.Conflicts) > 0 {
		t.Errorf("power cut before event %d: conflicts %+v", at, r.Conflicts)
	}
	compare("after Open", may)
	checked, err := s.Check(background, admin.CheckRequest{Deep: true})
	if err != nil || len(checked.Problems) > 0 {
		t.Errorf("power cut before event %d: check %v %+v", at, err, checked.Problems)
	}
}

// writeSparse writes an image without its pages of zeros.
func writeSparse(name string, image []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	const page = 64 << 10
	zeros := make([]byte, page)
	for at := 0; at < len(image); at += page {
		part := image[at:min(at+page, len(image))]
		if bytes.Equal(part, zeros[:len(part)]) {
			continue
		}
		if _, err := f.WriteAt(part, int64(at)); err != nil {
			return err
		}
	}
	return f.Truncate(int64(len(image)))
}

func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	testbed.Require(t, err == nil, "%v: %v: %s", args, err, out)
	return string(bytes.TrimSpace(out))
}
