package fault_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestFault(t *testing.T) {
	f := fault.New(fault.NotFound).With("have", 1).Hintf("try %s", "x").Because(fs.ErrNotExist)
	f.Op, f.Path, f.Effect = "read", "a/b", fault.EffectUnknown
	if got, want := f.Error(), "read a/b: stale precondition: not_found (effect unknown)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	testbed.Expect(t, errors.Is(f, fault.NotFound) && errors.Is(f, fs.ErrNotExist) && !errors.Is(f, fault.FileNotFound),
		"errors.Is does not follow the code and the cause")
	testbed.Expect(t, f.Hint == "try x" && f.Context["have"] == 1, "%+v", f)
}

// An unknown code must not give a fault without kind and hint.
func TestUnknownCode(t *testing.T) {
	f := fault.New("no_such_code")
	testbed.Expect(t, f.Code == fault.Internal && f.Hint != "", "%+v", f)
	for _, c := range fault.Codes() {
		class := c.Class()
		testbed.Expect(t, class.Kind != "" && class.Reason != "" && class.Action != "" && class.Hint != "" && class.Exit != 0, "%s has no whole class: %+v", c, class)
	}
}
