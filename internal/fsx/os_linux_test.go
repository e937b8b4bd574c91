package fsx

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

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
			if vol.NoJournal != c.lacks || !vol.Births {
				t.Errorf("%+v", vol)
			}
		})
	}
}

// TestVolumeOf: what is known of a file system from its type.
func TestVolumeOf(t *testing.T) {
	for magic, want := range map[uint32]Volume{
		unix.MSDOS_SUPER_MAGIC:     {Type: "vfat", NoJournal: true, CaseInsensitive: true},
		unix.EXFAT_SUPER_MAGIC:     {Type: "exfat", NoJournal: true, CaseInsensitive: true},
		unix.XFS_SUPER_MAGIC:       {Type: "xfs", Births: true},
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
