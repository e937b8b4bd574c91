package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden pages again")

// TestThePageIsTheSameEveryTime: the page of a fixed input is known byte for
// byte, so that a change of it shows in review.
func TestThePageIsTheSameEveryTime(t *testing.T) {
	got := write(t, workday(t), redact(t))
	if again := write(t, workday(t), redact(t)); again != got {
		t.Error("the same input gave two pages")
	}
	name := filepath.Join("testdata", "workday.html")
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the page changed; see it, then go test -update:\n%s", diff)
	}
}
