package fsx

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func openRoot(t *testing.T) Dir {
	t.Helper()
	d, err := OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func create(t *testing.T, d Dir, name string) File {
	t.Helper()
	f, err := d.Open(name, Read|Write|Create|Excl, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write([]byte(name)); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestSyncEachInParts: more files than a queue holds, and more callers than
// there are queues; a caller that gets none learns that nothing was done.
func TestSyncEachInParts(t *testing.T) {
	d := openRoot(t)
	var files []Syncer
	for i := range 2*queueDepth + 10 {
		files = append(files, create(t, d, fmt.Sprint("f", i)))
	}
	if _, err := d.SyncEach(files); err != nil {
		t.Skip("asynchronous flushes are not offered here:", err)
	}
	var wg sync.WaitGroup
	for range 4 * maxQueues {
		wg.Go(func() {
			for range 5 {
				if _, err := d.SyncEach(files[:40]); err != nil && !errors.Is(err, ErrUnsupported) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	queues.mu.Lock()
	defer queues.mu.Unlock()
	if queues.made > maxQueues || len(queues.free) != queues.made {
		t.Errorf("%d queues, %d came back", queues.made, len(queues.free))
	}
}

// TestSyncEachReportsFailures: a flush that fails is reported for its file alone, at any
// place of the list, and the queue serves the next caller. A directory is flushed too.
func TestSyncEachReportsFailures(t *testing.T) {
	d := openRoot(t)
	var files []Syncer
	for i := range queueDepth + 5 {
		files = append(files, create(t, d, fmt.Sprint("f", i)))
	}
	if _, err := d.SyncEach(files[:2]); err != nil {
		t.Skip("asynchronous flushes are not offered here:", err)
	}
	for _, at := range []int{1, 7, queueDepth - 1, queueDepth, queueDepth + 4} {
		// A descriptor that was opened only as a path cannot be flushed.
		fd, err := unix.Openat(d.(*dir).fd(), fmt.Sprint("f", at), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		bad := newFile(fd, "bad", false)
		list := slices.Clone(files)
		list[at] = bad
		errs, err := d.SyncEach(list)
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range errs {
			if (err != nil) != (i == at) || i == at && (!errors.Is(err, unix.EBADF) || !strings.Contains(err.Error(), "bad")) {
				t.Errorf("file %d of %d: %v", at, i, err)
			}
		}
		bad.Close()
	}
	if errs, err := d.SyncEach(append(files, d)); errors.Join(append(errs, err)...) != nil {
		t.Error(errs, err)
	}
}

// alien is a file of another implementation.
type alien struct{ File }

func TestSyncEachOfAnotherKind(t *testing.T) {
	d := openRoot(t)
	if _, err := d.SyncEach([]Syncer{create(t, d, "a"), alien{}}); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

// TestSyncEachIsOneFsyncForEach looks at what the kernel is asked for.
func TestSyncEachIsOneFsyncForEach(t *testing.T) {
	if dir := os.Getenv("RW_SYNC_DIR"); dir != "" {
		d, err := OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		var files []Syncer
		for i := range 5 {
			files = append(files, create(t, d, fmt.Sprint("staged", i)))
		}
		if _, err := d.SyncEach(files); err != nil {
			t.Fatal(err)
		}
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	log := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-y", "-s", "64", "-o", log, "-e", "trace=io_submit,io_getevents,fsync", os.Args[0], "-test.run", "TestSyncEachIsOneFsyncForEach$")
	cmd.Env = append(os.Environ(), "RW_SYNC_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		if text := string(out); strings.Contains(text, "ptrace") || strings.Contains(text, "not supported") {
			t.Skip("tracing, or asynchronous flushes, are not allowed here")
		}
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if n := strings.Count(text, "IOCB_CMD_FSYNC"); n != 5 || strings.Contains(text, "fsync(") {
		t.Errorf("%d flushes in the queue:\n%s", n, text)
	}
	for i := range 5 {
		if !strings.Contains(text, fmt.Sprintf("/staged%d>", i)) {
			t.Errorf("file %d is not flushed:\n%s", i, text)
		}
	}
}

// TestJournalIsSeen: Volume distinguishes file systems with a journal from those without.
func TestJournalIsSeen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for _, c := range []struct {
		make  []string
		lacks bool
	}{
		{[]string{"mkfs.ext4", "-q", "-F", "-O", "has_journal"}, false},
		{[]string{"mkfs.ext4", "-q", "-F", "-O", "^has_journal"}, true},
		{[]string{"mkfs.ext2", "-q", "-F"}, true},
	} {
		t.Run(strings.Join(c.make, " "), func(t *testing.T) {
			vol := volumeMadeBy(t, c.make)
			if vol.NoJournal != c.lacks || vol.Ordered == c.lacks || !vol.Births {
				t.Errorf("%+v", vol)
			}
		})
	}
}

// TestVolumeOf: what is known of a file system from its type.
func TestVolumeOf(t *testing.T) {
	for magic, want := range map[uint32]Volume{
		unix.MSDOS_SUPER_MAGIC:     {Type: "vfat", NoJournal: true},
		unix.EXFAT_SUPER_MAGIC:     {Type: "exfat", NoJournal: true},
		unix.XFS_SUPER_MAGIC:       {Type: "xfs", Births: true, Ordered: true},
		unix.OVERLAYFS_SUPER_MAGIC: {Type: "overlay"},
		unix.FUSE_SUPER_MAGIC:      {Type: "fuse", Remote: true},
		unix.CIFS_SUPER_MAGIC:      {Type: "cifs", Remote: true},
		1:                          {},
	} {
		st := unix.Statfs_t{Bavail: 3, Bsize: 4096, Blocks: 5}
		reflect.ValueOf(&st.Type).Elem().SetInt(int64(int32(magic))) // its size depends on the processor
		want.Free, want.Size = 3*4096, 5*4096
		if got := volumeOf(&st, nil); got != want {
			t.Errorf("%x: %+v, want %+v", magic, got, want)
		}
	}
}

// volumeMadeBy describes a file system in an image.
func volumeMadeBy(t *testing.T, make []string) Volume {
	t.Helper()
	base := t.TempDir()
	image, at := filepath.Join(base, "image"), filepath.Join(base, "at")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 32<<20), os.Mkdir(at, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{append(slices.Clone(make), image), {"mount", "-o", "loop", image, at}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
	}
	defer exec.Command("umount", at).Run()
	d, err := OpenRoot(at)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	vol, err := d.Volume()
	if err != nil {
		t.Fatal(err)
	}
	return vol
}
