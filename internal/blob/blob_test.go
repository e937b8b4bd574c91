package blob_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
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
