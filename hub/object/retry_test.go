package object

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// transport answers requests without a network, so that a test can replace the
// clock.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stuck is an answer that does not end.
type stuck struct{ ctx context.Context }

func (s stuck) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (s stuck) Close() error { return nil }

// TestAllowance: a store that does not answer, or not completely, or always with an
// error, holds a call for one minute and few requests, including those that determine
// the outcome of a write. The end of a context ends the call at once.
func TestAllowance(t *testing.T) {
	credentials(t)
	answer := func(status int, body io.ReadCloser) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, ContentLength: -1}
	}
	for name, reply := range map[string]func(r *http.Request) (*http.Response, error){
		"no answer": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"half an answer": func(r *http.Request) (*http.Response, error) { return answer(200, stuck{r.Context()}), nil },
		"an error":       func(r *http.Request) (*http.Response, error) { return answer(503, http.NoBody), nil },
	} {
		for call, run := range map[string]func(context.Context, Store) error{
			"put":    func(ctx context.Context, s Store) error { _, err := s.PutIfAbsent(ctx, "a", nil); return err },
			"swap":   func(ctx context.Context, s Store) error { _, err := s.CompareAndSwap(ctx, "a", "x", nil); return err },
			"get":    func(ctx context.Context, s Store) error { _, _, err := s.Get(ctx, "a"); return err },
			"list":   func(ctx context.Context, s Store) error { _, _, err := s.List(ctx, "", ""); return err },
			"delete": func(ctx context.Context, s Store) error { return s.Delete(ctx, "a") },
			"probe":  func(ctx context.Context, s Store) error { return probe(ctx, s) },
		} {
			synctest.Test(t, func(t *testing.T) {
				s := client(t, "http://store.invalid")
				requests := 0
				s.client.Transport = transport(func(r *http.Request) (*http.Response, error) {
					requests++
					return reply(r)
				})
				s.pause = 200 * time.Millisecond
				began := time.Now()
				err := run(t.Context(), s)
				extra, more := 0, time.Duration(0)
				if call == "probe" { // it deletes its object
					extra, more = repeated+1, 10*time.Second
				}
				if spent := time.Since(began); err == nil || errors.Is(err, context.DeadlineExceeded) || spent > callTime+more || requests > repeated+2+extra || requests < 3 {
					t.Errorf("%s, %s: %v after %v and %d requests", name, call, err, spent, requests)
				}
				if name != "an error" && !strings.Contains(err.Error(), "in time") {
					t.Errorf("%s, %s: %v", name, call, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began = time.Now()
				if err := run(ctx, s); call != "probe" && name != "an error" && (!errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second) {
					t.Errorf("%s, %s: %v after %v", name, call, err, time.Since(began))
				}
			})
		}
	}
}

// TestAllowanceIsShared: calls in one context share one allowance, and get time for
// their bytes.
func TestAllowanceIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, done := WithAllowance(t.Context(), 1<<20)
		defer done()
		same, _ := WithAllowance(ctx, 0)
		n := 0
		for ; n < 100 && Again(same); n++ {
		}
		if same != ctx || n != repeated || Again(ctx) {
			t.Errorf("%d requests", n)
		}
		began := time.Now()
		extend(ctx, 1<<20)
		<-ctx.Done()
		if spent := time.Since(began); spent != callTime+32*time.Second || !errors.Is(context.Cause(ctx), errStalled) {
			t.Errorf("%v after %v", context.Cause(ctx), spent)
		}
	})
}
