package hub

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/hub/object"
	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
)

// TestBadNetwork: machines hand a task on through a bucket, over a
// network that drops, delays, doubles, cuts and shuffles one of eight requests.
// Whatever calls fail and are repeated, each log has every row once, and the task
// has what its holders wrote, in order.
func TestBadNetwork(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "hub-test-id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", strings.Join([]string{"not", "a", "live", "key"}, "+/"))
	t.Setenv("AWS_REGION", "eu-test-1")
	p := &s3test.Proxy{Next: &s3test.Server{PageSize: 3}}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	open := func() *Hub {
		s, err := object.Open(t.Context(), "s3://bucket/prefix?endpoint="+url.QueryEscape(web.URL))
		if err != nil {
			t.Fatal(err)
		}
		return &Hub{store: s}
	}
	var ms [5]*machine
	for i := range ms {
		ms[i] = openMachine(t, open(), filepath.Join(t.TempDir(), fmt.Sprint("m", i)))
	}
	bad := s3test.Random(1, 8)
	p.Choose = func(r *http.Request) s3test.Fault { return bad(r) }
	again := func(call func() error) {
		t.Helper()
		for range 100 {
			err := call()
			if err == nil {
				return
			}
			if !IsCode(err, Unreachable) && !IsCode(err, Damaged) { // an answer that was cut
				t.Fatal(err)
			}
		}
		t.Fatal("it never succeeds")
	}
	var want []string
	for round, m := range ms {
		if round > 0 {
			again(func() error { _, err := m.Resume(t.Context(), ResumeRequest{Task: "t", Force: true}); return err })
		}
		for i := range 3 {
			content := fmt.Sprint("round ", round, " file ", i)
			m.write("a.txt", content)
			want = append(want, "a.txt "+hashOf([]byte(content)))
			again(func() error { _, err := m.Publish(t.Context(), PublishRequest{Task: "t", Root: m.root}); return err })
		}
	}
	p.Choose = nil
	p.Flush()
	for _, m := range ms {
		out, err := m.Ship(t.Context())
		if err != nil && !IsCode(err, Fenced) {
			t.Fatal(err)
		}
		m.sound(out.Store)
	}
	if got := acknowledged(t, ms[0].Hub, "t"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, not %q", got, want)
	}
}
