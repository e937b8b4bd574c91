package hub

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
)

func s3Environment(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "hub-test-id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", strings.Join([]string{"not", "a", "live", "key"}, "+/"))
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("AWS_REGION", "eu-test-1")
}

// bucket serves a handler, and returns the address of a hub in it.
func bucket(t *testing.T, h http.Handler) string {
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return addressIn(web.URL)
}

func addressIn(server string) string {
	return "s3://bucket/prefix?endpoint=" + url.QueryEscape(server)
}

// TestBadNetwork: machines hand a task on through a bucket, over a network that
// drops, delays, duplicates, cuts and reorders one of eight requests. Whatever
// calls fail and are repeated, each log has every row once, and the task has what
// its holders wrote, in order.
func TestBadNetwork(t *testing.T) {
	s3Environment(t)
	p := &s3test.Proxy{Next: &s3test.Server{PageSize: 3}}
	address := bucket(t, p)
	var ms [5]*machine
	for i := range ms {
		ms[i] = openMachine(t, openHub(t, address, nil), filepath.Join(t.TempDir(), fmt.Sprint("m", i)))
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

// TestListsOutOfOrder: lists whose entries come in another order, and twice, do not
// change what the hub finds, verifies, collects and erases.
func TestListsOutOfOrder(t *testing.T) {
	s3Environment(t)
	shuffled := 0
	p := &s3test.Proxy{Next: &s3test.Server{}, Choose: func(r *http.Request) s3test.Fault {
		if r.URL.Query().Get("list-type") == "" {
			return s3test.Pass
		}
		shuffled++
		return s3test.Shuffle
	}}
	h := openHub(t, bucket(t, p), nil)
	var ms []*machine
	for i := range 4 {
		m := openMachine(t, h, filepath.Join(t.TempDir(), fmt.Sprint("m", i)))
		m.write("a.txt", fmt.Sprint("one ", i))
		m.write("b.txt", word)
		m.publish(PublishRequest{Task: fmt.Sprint("t", i)})
		m.write("a.txt", fmt.Sprint("two ", i))
		m.publish(PublishRequest{Task: fmt.Sprint("t", i)})
		ms = append(ms, m)
	}
	st, err := h.Status(t.Context())
	if err != nil || len(st.Stores) != 4 || len(st.Tasks) != 4 {
		t.Fatalf("%v %+v", err, st)
	}
	now := time.Now()
	if g, err := h.GC(t.Context(), now, time.Hour); err != nil || g.Unreferenced == 0 || g.Deleted > 0 {
		t.Fatalf("%v %+v", err, g)
	}
	if g, err := h.GC(t.Context(), now.Add(2*time.Hour), time.Hour); err != nil || g.Deleted != g.Unreferenced || g.Deleted == 0 {
		t.Fatalf("%v %+v", err, g)
	}
	ms[2].eraseWord()
	if e, err := ms[2].Erase(t.Context(), []byte(word)); err != nil || len(e.Tasks) != 4 || len(e.Left) == 0 {
		t.Fatalf("%v %+v", err, e)
	}
	for _, m := range ms {
		m.sound(m.ship().Store)
	}
	if shuffled == 0 {
		t.Error("no list was shuffled")
	}
}
