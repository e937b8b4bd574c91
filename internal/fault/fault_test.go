package fault_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fault"
)

func TestFault(t *testing.T) {
	f := fault.New(fault.NotFound).With("have", 1).Hintf("try %s", "x").Because(fs.ErrNotExist)
	f.Op, f.Path, f.Effect = "read", "a/b", fault.EffectUnknown
	if got, want := f.Error(), "read a/b: stale precondition: not_found (effect unknown)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(f, fault.NotFound) || !errors.Is(f, fs.ErrNotExist) || errors.Is(f, fault.FileNotFound) {
		t.Error("errors.Is does not follow the code and the cause")
	}
	if f.Hint != "try x" || f.Context["have"] != 1 {
		t.Errorf("%+v", f)
	}
}

// An unknown code must not give a fault without kind and hint.
func TestUnknownCode(t *testing.T) {
	if f := fault.New("no_such_code"); f.Code != fault.Internal || f.Hint == "" {
		t.Errorf("%+v", f)
	}
	for _, c := range fault.Codes() {
		if class := c.Class(); class.Kind == "" || class.Reason == "" || class.Action == "" || class.Hint == "" || class.Exit == 0 {
			t.Errorf("%s has no whole class: %+v", c, class)
		}
	}
}
