package blob_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestSavedIsDurable: Save makes an object durable also where one of the same
// content is there that was never flushed.
func TestSavedIsDurable(t *testing.T) {
	const content = "what was there before\n"
	sum := sha256.Sum256([]byte(content))
	sha := hex.EncodeToString(sum[:])
	for seed := range uint64(20) {
		fs := simfs.New()
		root := fs.Root()
		root.Mkdir("history", 0o700)
		root.Sync()
		s := store(t, fs)
		f, err := root.Open("staged", fsx.Read|fsx.Write|fsx.Create, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteAt([]byte(content), 0)
		if err := s.Adopt(root, "staged", f, 0o600, sha); err != nil {
			t.Fatal(err)
		}
		if err := s.Save(strings.NewReader(content), int64(len(content)), sha); err != nil {
			t.Fatal(err)
		}
		for _, loss := range []simfs.Loss{simfs.Some, simfs.All} {
			if err := store(t, fs.Crash(seed, loss)).Verify(sha); err != nil {
				t.Fatalf("seed %d, loss %v: %v", seed, loss, err)
			}
		}
	}
}

func store(t *testing.T, fs *simfs.FS) *blob.Store {
	t.Helper()
	dir, err := fs.Root().OpenDir("history")
	if err != nil {
		t.Fatal(err)
	}
	return blob.New(dir)
}

// TestSavedAfterAFailedFlush: an object is durable after Save although another process
// has made its directory and not flushed it, or a flush failed before.
func TestSavedAfterAFailedFlush(t *testing.T) {
	const content = "some content\n"
	sha := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	for _, failing := range []string{"", "read", "history", "history/" + sha[:2], "history/" + sha[:2] + "/" + sha} {
		fs := simfs.New()
		fs.MkdirAll("history")
		dir, err := fs.Root().OpenDir("history")
		if err == nil {
			err = dir.Sync()
		}
		made := failing == "" || failing == "read"
		if err == nil && made {
			err = dir.Mkdir(sha[:2], 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		s := store(t, fs)
		if failing == "read" {
			s.Has(sha) // opens the directory
		}
		save := func() error { return s.Save(strings.NewReader(content), int64(len(content)), sha) }
		if strings.HasSuffix(failing, sha) { // that another process has not flushed
			if _, err := store(t, fs).Copy(strings.NewReader(content), int64(len(content)), sha); err != nil {
				t.Fatal(err)
			}
		}
		fs.Inject(func(op simfs.Op) simfs.Fault {
			if op.Path == failing && strings.Contains(op.Kind, "sync") {
				return simfs.Fault{Err: syscall.EIO}
			}
			return simfs.Fault{}
		})
		if err := save(); (err != nil) == made {
			t.Errorf("%s: %v", failing, err)
		}
		fs.Inject(nil)
		if err := save(); err != nil {
			t.Errorf("%s, then: %v", failing, err)
		}
		if err := store(t, fs.Crash(1, simfs.All)).Verify(sha); err != nil {
			t.Errorf("%s, after a power cut: %v", failing, err)
		}
	}
}

// TestCopyKeepsADurableObject: a store that does not rely on an object, or cannot read it, makes
// it again, and a power cut leaves one or the other.
func TestCopyKeepsADurableObject(t *testing.T) {
	const content = "some content\n"
	sha := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	for _, distrust := range []bool{true, false} {
		fs := simfs.New()
		fs.MkdirAll("history")
		s := store(t, fs)
		if err := s.Save(strings.NewReader(content), int64(len(content)), sha); err != nil {
			t.Fatal(err)
		}
		s.Distrust = distrust
		fs.Inject(func(op simfs.Op) simfs.Fault {
			if op.Kind == "read" && !distrust {
				return simfs.Fault{Err: syscall.EIO}
			}
			return simfs.Fault{}
		})
		if _, err := s.Copy(strings.NewReader(content), int64(len(content)), sha); err != nil {
			t.Fatal(err)
		}
		fs.Inject(nil)
		for seed := range uint64(50) {
			if err := store(t, fs.Crash(seed, simfs.Some)).Verify(sha); err != nil {
				t.Fatalf("distrust %v, seed %d: %v", distrust, seed, err)
			}
		}
	}
}

// TestRemovedDirectories: another program removes the directories of objects while they are
// open. They are made again.
func TestRemovedDirectories(t *testing.T) {
	const content = "some content\n"
	sha := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	fs := simfs.New()
	fs.MkdirAll("history")
	s := store(t, fs)
	save := func() error { return s.Save(strings.NewReader(content), int64(len(content)), sha) }
	adopt := func() error {
		fs.WriteFile("a", []byte(content), 0o600)
		f, err := fs.Root().Open("a", fsx.Read, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return s.Adopt(fs.Root(), "a", f, 0o600, sha)
	}
	for i, keep := range []func() error{save, save, adopt, adopt, save} {
		if err := keep(); err != nil {
			t.Fatalf("object %d: %v", i, err)
		}
		if err := s.Verify(sha); err != nil {
			t.Errorf("object %d: %v", i, err)
		}
		fs.Remove("history/" + sha[:2] + "/" + sha)
		dir, err := fs.Foreign().OpenDir("history")
		if err == nil {
			err = dir.Rmdir(sha[:2])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
