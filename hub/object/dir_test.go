package object

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func TestDirectory(t *testing.T) {
	s, err := Open(ctx, "dir:"+t.TempDir()+"/hub")
	if err != nil {
		t.Fatal(err)
	}
	conform(t, s)
}
