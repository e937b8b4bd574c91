package fsx

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestJournalIsSeen: Volume distinguishes file systems with a journal from those without.
func TestJournalIsSeen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for _, c := range []struct {
		make   []string
		lacks  bool
		births bool
	}{
		{[]string{"mkfs.ext4", "-q", "-F", "-O", "has_journal"}, false, true},
		{[]string{"mkfs.ext4", "-q", "-F", "-O", "^has_journal"}, true, true},
		{[]string{"mkfs.ext2", "-q", "-F"}, true, true},
		{[]string{"mkfs.vfat"}, true, false},
	} {
		t.Run(strings.Join(c.make, " "), func(t *testing.T) {
			vol := volumeMadeBy(t, c.make)
			if vol.NoJournal != c.lacks || vol.Births != c.births {
				t.Errorf("%+v", vol)
			}
		})
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
