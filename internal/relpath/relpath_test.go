package relpath_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var rules = relpath.Rules{Roots: []string{"/ws", "/real/ws"}, Protected: []string{".resilient_write"}}

func TestClean(t *testing.T) {
	long := strings.Repeat("n/", relpath.MaxPath)[:relpath.MaxPath-1] + "n"
	for _, row := range []struct {
		raw, rel string
		err      error
	}{
		{long, long, nil}, {"/real/ws/" + long, long, nil}, {long + "n", "", relpath.ErrTooLong}, {"/real/ws/" + long + "n", "", relpath.ErrTooLong}, {"a/" + strings.Repeat("../a/", 4<<10) + "x", "", relpath.ErrTooLong},
		{`a\..\c`, `a\..\c`, nil}, {`a\b\..\..\c`, `a\b\..\..\c`, nil}, {"c:", "", relpath.ErrAbsolute}, {"a:/x", "", relpath.ErrAbsolute}, {`Z:\x`, "", relpath.ErrAbsolute}, {"c:x", "c:x", nil}, {"1:/x", "1:/x", nil}, {"{:/x", "{:/x", nil},
		{"git~x", "", relpath.ErrProtected}, {"git~", "", relpath.ErrProtected}, {"hg~1", "", relpath.ErrProtected}, {"hg~x", "hg~x", nil}, {"git", "git", nil},
		{"a", "a", nil}, {"a/b", "a/b", nil}, {"./a//b/../c", "a/c", nil}, {"/ws/a", "a", nil}, {"/real/ws//a", "a", nil}, {`a\b`, `a\b`, nil},
		{"...", "...", nil}, {".gitignore", ".gitignore", nil}, {".github/x", ".github/x", nil}, {"a.git/x", "a.git/x", nil},
		{"", "", relpath.ErrEmpty}, {".", "", relpath.ErrDirectory}, {"a/", "", relpath.ErrDirectory}, {"a/.", "", relpath.ErrDirectory},
		{"..", "", relpath.ErrEscapes}, {"a/../..", "", relpath.ErrEscapes}, {`a\..\..\x`, "", relpath.ErrEscapes}, {"/ws/../x", "", relpath.ErrEscapes},
		{"file:///ws/a%20b", "a b", nil}, {"FILE:///ws/a", "a", nil}, {"file:///etc", "", relpath.ErrAbsolute}, {"file://host/ws/a", "", relpath.ErrAbsolute},
		{"file:///ws/%00", "", relpath.ErrInvalid}, {"file:///ws/%ff", "", relpath.ErrInvalid}, {"file:///ws/../etc", "", relpath.ErrEscapes}, {"file:///%", "", relpath.ErrAbsolute},
		{"http://h/x", "", relpath.ErrAbsolute}, {"file:/x", "file:/x", nil}, {"://x", ":/x", nil},
		{"/ws", "", relpath.ErrDirectory}, {"/ws-sibling/x", "", relpath.ErrAbsolute}, {"/etc", "", relpath.ErrAbsolute},
		{"c:/x", "", relpath.ErrAbsolute}, {`C:\x`, "", relpath.ErrAbsolute}, {`\\h\s`, "", relpath.ErrAbsolute}, {`\x`, "", relpath.ErrAbsolute},
		{"a\x00", "", relpath.ErrInvalid}, {"\xff", "", relpath.ErrInvalid}, {strings.Repeat("a", 256), "", relpath.ErrTooLong},
		{".git", "", relpath.ErrProtected}, {"x/.GIT/y", "", relpath.ErrProtected}, {"GIT~1", "", relpath.ErrProtected}, {".git /x", "", relpath.ErrProtected},
		{".git::$INDEX_ALLOCATION/x", "", relpath.ErrProtected}, {".g\u200dit", "", relpath.ErrProtected}, {".RESILIENT_WRITE/x", "", relpath.ErrProtected},
	} {
		rel, _, err := relpath.Clean(row.raw, rules)
		testbed.Expect(t, rel == row.rel && errors.Is(err, row.err), "%q: %q %v, want %q %v", row.raw, rel, err, row.rel, row.err)
	}
	folding := rules
	folding.Folds = true
	for raw, want := range map[string]string{"/WS/a": "a", "/Real/wS/A": "A", "/WSx/a": "", "/W": ""} {
		rel, _, _ := relpath.Clean(raw, folding)
		testbed.Expect(t, rel == want, "%q: %q, want %q", raw, rel, want)
		_, _, err := relpath.Clean(raw, rules)
		testbed.Expect(t, errors.Is(err, relpath.ErrAbsolute), "%q: %v", raw, err)
	}
}

func TestPortable(t *testing.T) {
	for name, want := range map[string]bool{
		"a.txt": true, "con": false, "CON.txt": false, "com1": false, "com10": true, "lpt¹": false, "a:b": false, "a?": false, "a.": false, "a ": false,
		"nul .x": false, "console": true, "a\tb": false, `a\b`: false, "über": true,
	} {
		testbed.Expect(t, relpath.Portable(name) == want, "%q: %v", name, !want)
	}
	windows := rules
	windows.Windows = true
	_, _, err := relpath.Clean("x/aux.md", windows)
	testbed.Expect(t, errors.Is(err, relpath.ErrReserved), "%v", err)
	rel, portable, err := relpath.Clean(`x\y.md`, windows)
	testbed.Expect(t, rel == "x/y.md" && portable && err == nil, "%q %v %v", rel, portable, err)
	_, portable, _ = relpath.Clean("a?/b", rules)
	testbed.Expect(t, !portable, "a name that Windows cannot store is portable")
}

// FuzzClean: what is accepted never escapes, is clean, and holds no protected
// name.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"a/b", "../x", "/ws/a", `a\..\..\x`, ".git/x", "a/./b", "C:\\x", "a\x00", `/ws/\`, `./\x`, "./C:/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		rel, _, err := relpath.Clean(raw, rules)
		if err != nil {
			return
		}
		testbed.Require(t, rel != "" && rel[0] != '/' && path.Clean(rel) == rel && len(rel) <= relpath.MaxPath && !strings.Contains(rel, "\x00"),
			"%q became %q", raw, rel)
		for _, name := range strings.Split(rel, "/") {
			testbed.Require(t, name != ".." && !strings.EqualFold(name, ".git") && !strings.EqualFold(name, ".resilient_write") && len(name) <= relpath.MaxName,
				"%q became %q", raw, rel)
		}
		again, _, err := relpath.Clean(rel, rules)
		testbed.Require(t, err == nil && again == rel, "%q is not stable: %q %v", rel, again, err)
	})
}

// TestResolved: links of existing directories are followed, and what does not exist is
// kept.
func TestResolved(t *testing.T) {
	dir := testbed.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o755), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Skip(err)
	}
	for given, want := range map[string]string{"real": "real", "link": "real", "link/none/x": "real/none/x", "none/../link": "real", "none/x": "none/x"} {
		testbed.Equal(t, relpath.Resolved(filepath.Join(dir, given)), filepath.Join(dir, want), given)
	}
	testbed.Equal(t, relpath.Resolved("none/../nor/this"), filepath.Join("nor", "this"))
}

// FuzzLinear: cleaning a path takes work in proportion to its length, up to the
// length at which it is refused unread.
func FuzzLinear(f *testing.F) {
	testbed.FuzzLinear(f, 400, 20*time.Microsecond, []string{"a/", "../a/", "./", "a/../", "git~1", `..\`, "/ws/", "a … /.."}, func(text []byte) int {
		for range 20 { // one path is too short to count
			relpath.Clean(string(text), rules)
			relpath.Clean("/ws/"+string(text), rules)
			relpath.Clean(string(text), relpath.Rules{Windows: true})
			_ = relpath.Key(string(text))
		}
		return 0
	})
}

// TestFoldLeavesOut: exactly the characters that HFS+ leaves out, as git has them.
func TestFoldLeavesOut(t *testing.T) {
	out := "\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u206a\u206b\u206c\u206d\u206e\u206f\ufeff"
	for r := rune(0x80); r <= 0xffff; r++ {
		if got := relpath.Fold(".g" + string(r) + "it"); (got == ".git") != strings.ContainsRune(out, r) {
			t.Errorf("%U: %q", r, got)
		}
	}
}
