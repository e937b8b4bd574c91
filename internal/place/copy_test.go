package place

import (
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestCopyIsDurable: what was copied to another file system survives a power cut, since
// the original is removed next. A copy that could not be written or flushed is an error.
func TestCopyIsDurable(t *testing.T) {
	files := map[string]string{"meta.json": "{}", "journal/1": "rows", "history/aa/x": "old"}
	from := simfs.New()
	for name, text := range files {
		from.WriteFile(name, []byte(text), 0o600)
	}
	to := simfs.New()
	testbed.NoErr(t, copyTree(from.Root(), to.Root()))
	disk := to.Crash(0, simfs.All)
	for name, want := range files {
		got, ok := disk.ReadFile(name)
		testbed.Expect(t, ok && string(got) == want, "%s after a power cut: %q", name, got)
	}
	for _, kind := range []string{"write", "sync", "syncdir"} {
		to := simfs.New()
		to.Inject(func(op simfs.Op) simfs.Fault {
			if op.Kind == kind {
				return simfs.Fault{Err: syscall.EIO}
			}
			return simfs.Fault{}
		})
		testbed.Expect(t, copyTree(from.Root(), to.Root()) != nil, "%s fails: no error", kind)
	}
}
