package demo_test

import (
	"io"
	"os"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

// TestMainLeavesNothing: neither the workspace nor the state of its store.
func TestMainLeavesNothing(t *testing.T) {
	temp, home := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", home)
	demo.Main("example", func(_ io.Writer, dir string) error {
		s, err := rw.Open(t.Context(), dir, nil)
		if err != nil {
			return err
		}
		return s.Close(t.Context())
	})
	for _, dir := range []string{temp, home} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v %v", left, err)
		}
	}
}
