package usage

import (
	"regexp"
	"strings"
	"testing"
)

var objectCases = []struct {
	path string
	what object
	name string
}{
	{"chunks/s/part-001.txt", objectPart, "s"},
	{".resilient_write/chunks/s/part-001.txt", objectPart, "s"},
	{"chunks/A_b-9/part-999999.txt", objectPart, "A_b-9"},
	{"chunks/s", objectSession, "s"},
	{".resilient_write/chunks/s", objectSession, "s"},
	{"chunks/part-001.txt", objectNone, ""},
	{"chunks/" + strings.Repeat("x", 64), objectSession, strings.Repeat("x", 64)},
	{"chunks/" + strings.Repeat("x", 65), objectNone, ""},
	{"chunks/s/", objectNone, ""},
	{"chunks//part-001.txt", objectNone, ""},
	{"chunks/s/part-000.txt", objectNone, ""},
	{"chunks/s/part-01.txt", objectNone, ""},
	{"chunks/s/part-0001.txt", objectNone, ""},
	{"chunks/s/part-1000000.txt", objectNone, ""},
	{"chunks/s/part-0x1.txt", objectNone, ""},
	{"chunks/s/part-001.txt.tmp", objectNone, ""},
	{"chunks/s/t/part-001.txt", objectNone, ""},
	{"chunks/s\n/part-001.txt", objectNone, ""},
	{"chunks/../part-001.txt", objectNone, ""},
	{"./chunks/s/part-001.txt", objectNone, ""},
	{"x/chunks/s/part-001.txt", objectNone, ""},
	{"checkpoints/plan.json", objectCheckpoint, "plan"},
	{".resilient_write/checkpoints/plan.v2.json", objectCheckpoint, "plan.v2"},
	{"checkpoints/.json", objectNone, ""},
	{"checkpoints/a/b.json", objectNone, ""},
	{"checkpoints/plan.yaml", objectNone, ""},
	{"scratch/ab.bin", objectNone, ""},
	{"", objectNone, ""},
}

func TestParseObject(t *testing.T) {
	for _, c := range objectCases {
		if what, name := parseObject(c.path); what != c.what || name != c.name {
			t.Errorf("%q: %d %q", c.path, what, name)
		}
	}
}

// FuzzParseObject compares the parser with expressions that say the same.
func FuzzParseObject(f *testing.F) {
	for _, c := range objectCases {
		f.Add(c.path)
	}
	forms := map[object]*regexp.Regexp{
		objectSession:    regexp.MustCompile(`\A(?:\.resilient_write/)?chunks/([A-Za-z0-9_-]{1,64})\z`),
		objectPart:       regexp.MustCompile(`\A(?:\.resilient_write/)?chunks/([A-Za-z0-9_-]{1,64})/part-(?:00[1-9]|0[1-9]\d|[1-9]\d{2,5})\.txt\z`),
		objectCheckpoint: regexp.MustCompile(`\A(?:\.resilient_write/)?checkpoints/([^/\\\x00]+)\.json\z`),
	}
	f.Fuzz(func(t *testing.T, path string) {
		want, wantName := objectNone, ""
		for what, form := range forms {
			if m := form.FindStringSubmatch(path); m != nil && len(m[1]) <= maxCheckpointName {
				want, wantName = what, m[1]
			}
		}
		if what, name := parseObject(path); what != want || name != wantName {
			t.Errorf("%q: %d %q, want %d %q", path, what, name, want, wantName)
		}
	})
}
