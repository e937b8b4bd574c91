package object

import (
	"testing"
)

func TestDirectory(t *testing.T) {
	s, err := Open(ctx, "dir:"+t.TempDir()+"/hub")
	if err != nil {
		t.Fatal(err)
	}
	conform(t, s)
}
