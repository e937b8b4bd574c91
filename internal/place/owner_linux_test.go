package place_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestMoveKeepsOwners: root moves the store of a user to another file system, who can use
// it there.
func TestMoveKeepsOwners(t *testing.T) {
	ram := testbed.RAM()
	testbed.SkipIf(t, os.Getuid() != 0 || ram == "", "only root can change owners, and it takes a second file system")
	far := testbed.Must(os.MkdirTemp(ram, "rw-place-"))(t)
	defer os.RemoveAll(far)
	from := filepath.Join(testbed.Must(filepath.EvalSymlinks(t.TempDir()))(t), "state")
	for _, dir := range []string{from, filepath.Join(from, "journal")} {
		testbed.NoErr(t, os.Mkdir(dir, 0o700))
	}
	testbed.NoErr(t, os.WriteFile(filepath.Join(from, "journal", "1"), nil, 0o600))
	for _, name := range []string{"", "journal", "journal/1"} {
		testbed.NoErr(t, os.Chown(filepath.Join(from, name), 4711, 4712))
	}
	to := testbed.Must(place.OpenDir(filepath.Join(far, "state")))(t)
	defer to.Parent.Close()
	testbed.NoErr(t, place.Move(from, to))
	for _, name := range []string{"", "journal", "journal/1"} {
		st := testbed.Must(os.Lstat(filepath.Join(to.Path, name)))(t).Sys().(*syscall.Stat_t)
		testbed.Expect(t, st.Uid == 4711 && st.Gid == 4712, "%q belongs to %d:%d", name, st.Uid, st.Gid)
	}
}
