package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var update = flag.Bool("update", false, "write the golden pages again")

// TestThePageIsTheSameEveryTime: the page of a fixed input is known byte for
// byte, so that a change of it shows in review.
func TestThePageIsTheSameEveryTime(t *testing.T) {
	got := write(t, workday(t), redact(t))
	testbed.Equal(t, write(t, workday(t), redact(t)), got, "the same input gave two pages")
	name := filepath.Join("testdata", "workday.html")
	if *update {
		testbed.NoErr(t, os.MkdirAll("testdata", 0o777))
		testbed.NoErr(t, os.WriteFile(name, []byte(got), 0o666))
	}
	want, err := os.ReadFile(name)
	testbed.NoErr(t, err)
	testbed.Equal(t, cmp.Diff(string(want), got), "", "the page changed; see it, then go test -update")
}
