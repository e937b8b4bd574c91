package gitdir

import (
	"strings"
	"testing"
)

// TestPart: every spelling that a file system which folds names takes for an
// entry is that entry; elsewhere only its own name is.
func TestPart(t *testing.T) {
	for _, part := range Parts() {
		if Part(part, false) != part || Part(part, true) != part {
			t.Errorf("%s is not itself", part)
		}
		for _, name := range []string{strings.ToUpper(part), strings.ToLower(part), strings.ToUpper(part[:1]) + part[1:]} {
			if got := Part(name, true); got != part {
				t.Errorf("%s, folded: %q", name, got)
			}
			if got := Part(name, false); name != part && got != "" {
				t.Errorf("%s, not folded: %q", name, got)
			}
		}
		for _, name := range []string{part + "x", "x" + part, part[1:], ""} {
			if got := Part(name, true); got != "" {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}

// TestShape: what git takes for a repository, and what it does not.
func TestShape(t *testing.T) {
	for _, row := range []struct {
		parts string
		want  bool
	}{
		{"HEAD objects refs", true}, {"HEAD commondir", true}, {"objects refs config", true}, {"HEAD objects", false}, {"HEAD refs config", false},
		{"objects refs", false}, {"commondir objects refs", false}, {"HEAD", false}, {"", false}, {"config commondir", false},
	} {
		s := Shape{}
		for _, part := range strings.Fields(row.parts) {
			s[part] = true
		}
		if got := s.Repository(); got != row.want {
			t.Errorf("%s: %v", row.parts, got)
		}
	}
	id := strings.Repeat("0aF", 14)
	for data, want := range map[string]bool{
		"ref: refs/heads/main\n": true, "ref:x": true, id[:40]: true, id[:40] + "\n": true, id[:39]: false, "": false, "re: refs/heads/main": false, "g" + id[:39]: false, " ref: x": false,
	} {
		if got := ValidHead([]byte(data)); got != want {
			t.Errorf("%q: %v", data, got)
		}
	}
}
