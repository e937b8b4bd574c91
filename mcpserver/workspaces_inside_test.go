package mcpserver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestDeclaredRootsCountInside: what a client declares is a root only inside a
// directory that the operator allowed, only for that client, and only as long as
// it is connected.
func TestDeclaredRootsCountInside(t *testing.T) {
	top := must(filepath.EvalSymlinks(t.TempDir()))(t)
	in := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	for _, dir := range []string{in("root"), in("allowed", "one"), in("allowed-not"), in("other")} {
		noErr(t, os.MkdirAll(dir, 0o755))
	}
	os.Symlink(in("other"), in("allowed", "link"))
	w := &Workspaces{Root: in("root"), Allow: []string{in("allowed")}}
	w.declare("a", []string{in("allowed", "one"), in("allowed", "link"), in("allowed-not"), in("other"), in("allowed", "..", "other"), top, "/", in("allowed", "none")})
	base := []string{in("root"), in("allowed")}
	if got := w.roots("a"); !slices.Equal(got, append(slices.Clone(base), in("allowed", "one"))) {
		t.Errorf("%v", got)
	}
	if got := w.roots("b"); !slices.Equal(got, base) {
		t.Errorf("of another client: %v", got)
	}
	w.declare("a", nil)
	if got := w.roots("a"); !slices.Equal(got, base) {
		t.Errorf("after its end: %v", got)
	}
	if got := innermost(append(base, in("allowed", "one")), in("allowed", "one", "x", "y")); got != in("allowed", "one") {
		t.Error(got)
	}
	if got := names([]string{"/a/x", "/b/x", "/c/y"}); !slices.Equal(got, []string{"a/x", "b/x", "y"}) {
		t.Errorf("%v", got)
	}
}
