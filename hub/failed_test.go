package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilientwrite/resilientwrite/hub/object"
)

// stalled is an object store that does not answer. The missing methods are not
// called.
type stalled struct {
	object.Store
	calls int
}

func (s *stalled) wait(ctx context.Context) error {
	s.calls++
	ctx, done := object.WithAllowance(ctx, 0)
	defer done()
	<-ctx.Done()
	return fmt.Errorf("%w: %w", object.ErrUncertain, context.Cause(ctx))
}

func (s *stalled) Get(ctx context.Context, _ string) ([]byte, string, error) {
	return nil, "", s.wait(ctx)
}

func (s *stalled) PutIfAbsent(ctx context.Context, _ string, _ []byte) (string, error) {
	return "", s.wait(ctx)
}

func (s *stalled) CompareAndSwap(ctx context.Context, _, _ string, _ []byte) (string, error) {
	return "", s.wait(ctx)
}

// TestStalledHub: the requests that the hub makes to learn the outcome of a write are
// within the one allowance of the call, and the end of a context is reported
// unchanged.
func TestStalledHub(t *testing.T) {
	for name, run := range map[string]func(context.Context, *Hub) error{
		"put":   func(ctx context.Context, h *Hub) error { _, err := h.put(ctx, "a", nil); return err },
		"swap":  func(ctx context.Context, h *Hub) error { _, err := h.swap(ctx, "a", "x", 1); return err },
		"get":   func(ctx context.Context, h *Hub) error { _, _, err := h.get(ctx, "a"); return err },
		"reuse": func(ctx context.Context, h *Hub) error { return h.reuse(ctx, "a") },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stalled{}
			began := time.Now()
			err := run(t.Context(), &Hub{store: s})
			if !IsCode(err, Unreachable) || time.Since(began) != time.Minute || s.calls > 2 {
				t.Errorf("%s: %v after %v and %d calls", name, err, time.Since(began), s.calls)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := run(ctx, &Hub{store: s}); err != context.DeadlineExceeded {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestErrorsSayWhatToDo: only errors that waiting may resolve say so.
func TestErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err        error
		code, hint string
	}{
		{errors.New("no route"), Unreachable, "try again"},
		{fmt.Errorf("%w: a", object.ErrUncertain), Unreachable, "try again"},
		{&object.StatusError{Status: 503, Code: "SlowDown"}, Unreachable, "try again"},
		{fmt.Errorf("write: %w", syscall.ENOSPC), Unreachable, "free space"},
		{fmt.Errorf("write: %w", syscall.EDQUOT), Unreachable, "free space"},
		{errLost, Unreachable, "another machine"},
		{fmt.Errorf("%w: a", object.ErrAddress), Unusable, "s3://bucket/prefix"},
		{fmt.Errorf("%w: a", object.ErrUnfit), Unusable, "conditional writes"},
		{&object.StatusError{Status: 403, Code: "AccessDenied"}, Unusable, "AWS_ACCESS_KEY_ID"},
		{&object.StatusError{Status: 404, Code: "NoSuchBucket"}, Unusable, "create the bucket"},
		{&object.StatusError{Status: 501, Code: "NotImplemented"}, Unusable, "conditional writes"},
		{fmt.Errorf("open: %w", fs.ErrPermission), Unusable, "read and write"},
		{fmt.Errorf("open: %w", syscall.EROFS), Unusable, "read and write"},
		{fmt.Errorf("%w: a", object.ErrKey), Damaged, "verify"},
		{fmt.Errorf("%w: a", object.ErrTooLarge), Damaged, "delete it"},
	} {
		var e *Error
		if err := failed(t.Context(), "k", c.err); !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Hint, c.hint) || !errors.Is(err, c.err) {
			t.Errorf("%v: %v; %+v", c.err, err, e)
		} else if c.code != Unreachable && strings.Contains(e.Hint, "again") {
			t.Errorf("%v: %s", c.err, e.Hint)
		}
	}
	for url, want := range map[string]string{"ftp://host/x": Unusable, "s3://no_bucket": Unusable, "/dev/null/x": Unreachable} {
		if _, err := Open(t.Context(), url, nil); !IsCode(err, want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
