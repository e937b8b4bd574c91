package resilientwrite_test

import (
	"os"
	"path/filepath"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestWithinIsJudgedByPlace: a directory contains the workspace or it does not,
// independently of its name.
func TestWithinIsJudgedByPlace(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	above := filepath.Dir(dir)
	for _, name := range []string{"w", "ws-other", "ws/sub", "..ws"} {
		noErr(t, os.MkdirAll(filepath.Join(above, name), 0o755))
	}
	link := filepath.Join(t.TempDir(), "link")
	noErr(t, os.Symlink(above, link))
	for place, want := range map[string]bool{
		dir: true, dir + "/": true, above: true, "/": true, link: true, filepath.Join(link, "ws"): true,
		filepath.Join(above, "w"): false, filepath.Join(above, "ws-other"): false, filepath.Join(dir, "sub"): false,
		filepath.Join(above, "..ws"): false, filepath.Join(above, "absent"): false,
		"": false, ".": false, "ws": false, "a\x00b": false, dir + "\x00": false,
	} {
		if got := s.Within(place); got != want {
			t.Errorf("Within(%q) = %v", place, got)
		}
	}
}
