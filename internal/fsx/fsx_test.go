package fsx_test

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/fsx/fsxtest"
)

func TestRealFileSystem(t *testing.T) {
	fsxtest.Test(t, func(t *testing.T) fsx.Dir {
		d, err := fsx.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	})
}
