package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/report"
)

// TestDiffsShowWhatChanged compares texts of every form.
func TestDiffsShowWhatChanged(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		gone           bool
		want           []string
		why            string
	}{
		{name: "a line", from: "a\nb\nc\n", to: "a\nB\nc\n", want: []string{" a", "-b", "+B", " c"}},
		{name: "new", gone: true, to: "a\nb\n", want: []string{"+a", "+b"}},
		{name: "new and empty", gone: true, why: "The file is new, and empty."},
		{name: "no end", from: "a\n", to: "a", want: []string{"-a", "+a", `\ No newline at the end of the file`}},
		{name: "no end before", from: "a", to: "a\n", want: []string{"-a", `\ No newline at the end of the file`, "+a"}},
		{name: "carriage returns", from: "a\r\n", to: "a\n", want: []string{"-a⟨U+000D⟩", "+a"}},
		{name: "bytes that are no text", from: "a\xff\n", to: "a\xfe\n", want: []string{"-a⟨0xFF⟩", "+a⟨0xFE⟩"}},
		{name: "tabs stay", from: "\ta\n", to: "\tb\n", want: []string{"-\ta", "+\tb"}},
		{name: "what looks like a diff", from: "--- x\n", to: "+++ x\n@@ -1 +1 @@\n", want: []string{"---- x", "++++ x", "+@@ -1 +1 @@"}},
		{name: "binary", from: "a\x00", to: "b", why: "The file is binary."},
		{name: "emptied", from: "a\n", want: []string{"-a"}},
		{name: "only a secret", from: "k = " + vendorKey + "\n", to: "k = " + vendorKey[:18] + "ZZ\n", why: "Only redacted parts or line ends differ."},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmpr := report.NewComparer(redact(t))
			from := cmpr.Text([]byte(c.from))
			if c.gone {
				from = report.Gone
			}
			d := cmpr.Compare(from, cmpr.Text([]byte(c.to)))
			diff := cmp.Diff(c.want, d.Texts())
			testbed.Expect(t, diff == "" && d.Why == c.why, "%q\n%s", d.Why, diff)
		})
	}
}

// TestDiffsAreCounted: the numbers are of the whole change, also where only the
// start of it is shown.
func TestDiffsAreCounted(t *testing.T) {
	var from, to strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&from, "line %d\n", i)
		if i%2 == 0 {
			fmt.Fprintf(&to, "other %d\n", i)
		}
	}
	c := report.NewComparer(same)
	d := c.Compare(c.Text([]byte(from.String())), c.Text([]byte(to.String())))
	testbed.Expect(t, d.Added == 2000 && d.Removed == 4000 && d.Cut && len(d.Texts()) == 120, "+%d -%d, cut %v, %d lines", d.Added, d.Removed, d.Cut, len(d.Texts()))
	testbed.Equal(t, c.Compare(c.Text(make([]byte, report.TextLimit+1)), report.Gone).Why, report.TooLarge, "a large file")
	testbed.Equal(t, c.Compare(report.Unread("why not"), report.Gone).Why, "why not", "what was not read")
}

// TestDiffsStayWithinTheirBudget: a thousand large changes, made of what takes
// the most room on a page, end in a remark, and in time.
func TestDiffsStayWithinTheirBudget(t *testing.T) {
	end := testbed.Within(t, time.Minute, "the report")
	c := report.NewComparer(same)
	in := &report.Input{Made: made}
	for i := range 50 {
		f := report.File{Path: fmt.Sprint("f", i)}
		before := report.Gone
		for j := range 20 {
			now := c.Text([]byte(strings.Repeat(fmt.Sprintf("%d.%d\"\u202e'\n", i, j)+strings.Repeat("\x01\"", 60)+"\n", 700)))
			f.Versions = append(f.Versions, report.Version{Seq: 1, Diff: c.Compare(before, now)})
			before = now
		}
		in.Files = append(in.Files, f)
	}
	page := write(t, in, same)
	testbed.Expect(t, len(page) <= 2<<20 && c.Spent() && c.Skipped >= 900, "%d bytes, spent %v, %d skipped", len(page), c.Spent(), c.Skipped)
	n := strings.Count(page, "Not shown: the diffs above")
	testbed.Expect(t, n == c.Skipped, "%d remarks for %d diffs", n, c.Skipped)
	end()
}

// TestCleanThatDropsLines: a redaction that breaks its promise shows nothing
// rather than lines under the wrong sign.
func TestCleanThatDropsLines(t *testing.T) {
	c := report.NewComparer(func(s string) string { return strings.ReplaceAll(s, "x\ny", "xy") })
	d := c.Compare(c.Text([]byte("x\n")), c.Text([]byte("y\n")))
	testbed.Expect(t, d.Why != "" && len(d.Texts()) == 0 && d.Added == 1, "%+v", d)
}
