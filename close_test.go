package resilientwrite_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestCloseThatTimedOut: Close does not wait for a call longer than its context
// lasts; when the call ends, the locks of the store are released.
func TestCloseThatTimedOut(t *testing.T) {
	fs := simfs.New()
	s := must(attack{}.open(fs, rw.SyncFull, "0001"))(t)
	held, release := make(chan struct{}), make(chan struct{})
	fs.Before(func(op simfs.Op) {
		if op.Kind == "datasync" {
			fs.Before(nil)
			close(held)
			<-release
		}
	})
	late := make(chan error, 1)
	go func() { late <- do(put("a.txt", longText, rw.ModeCreate))(s) }()
	<-held
	over, cancel := context.WithCancel(background)
	cancel()
	isErr(t, s.Close(over), rw.ErrCanceled)
	close(release)
	noErr(t, <-late, "the call that was under way")
	alive := func() bool {
		for p := range fs.Tree() {
			if strings.Contains(p, "/locks/w-") {
				return true
			}
		}
		return false
	}
	for alive() { // until the test itself times out
		runtime.Gosched()
	}
}
