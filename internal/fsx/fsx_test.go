package fsx_test

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/fsx/fsxtest"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestRealFileSystem(t *testing.T) {
	fsxtest.Test(t, func(t *testing.T) fsx.Dir {
		d := testbed.Must(fsx.OpenRoot(t.TempDir()))(t)
		t.Cleanup(func() { d.Close() })
		return d
	})
}
