package hub

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hub/object"
)

// besides calls functions once: before it deletes an object, before it lists objects,
// before it changes the record of a collection, after it found a key taken, and after it got a
// head. It refuses slices while it is off.
type besides struct {
	object.Store
	off     bool
	do      func()
	listed  func()
	swapped func()
	taken   func(key string)
	got     func()
}

func (b *besides) Get(ctx context.Context, key string) ([]byte, string, error) {
	data, etag, err := b.Store.Get(ctx, key)
	if do := b.got; do != nil && strings.HasSuffix(key, "/head.json") {
		b.got = nil
		do()
	}
	return data, etag, err
}

func (b *besides) CompareAndSwap(ctx context.Context, key, etag string, data []byte) (string, error) {
	if do := b.swapped; do != nil && key == markKey {
		b.swapped = nil
		do()
	}
	return b.Store.CompareAndSwap(ctx, key, etag, data)
}

func (b *besides) List(ctx context.Context, prefix, after string) ([]object.Info, bool, error) {
	if do := b.listed; do != nil && prefix == "objects/" {
		b.listed = nil
		do()
	}
	return b.Store.List(ctx, prefix, after)
}

func (b *besides) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	if b.off && strings.Contains(key, "/log/") {
		return "", errors.New("no route")
	}
	tag, err := b.Store.PutIfAbsent(ctx, key, data)
	if do := b.taken; do != nil && errors.Is(err, object.ErrExists) {
		b.taken = nil
		do(key)
	}
	return tag, err
}

func (b *besides) Delete(ctx context.Context, key string) error {
	if do := b.do; do != nil && strings.HasPrefix(key, "objects/") {
		b.do = nil
		do()
	}
	return b.Store.Delete(ctx, key)
}

// givenUp returns a machine whose pack is in the hub but whose slice is not.
func givenUp(t *testing.T) (*besides, *Hub, *machine) {
	t.Helper()
	d, err := object.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &besides{Store: d, off: true}
	h := &Hub{store: b}
	m := openMachine(t, h, t.TempDir()+"/w")
	m.write("a.txt", "the content")
	if _, err := m.Ship(t.Context()); err == nil {
		t.Fatal("shipped")
	}
	b.off = false
	return b, h, m
}

func whole(t *testing.T, h *Hub) {
	t.Helper()
	if v, err := h.Verify(t.Context(), nil); err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v %v", v.Problems, err)
	}
}

// TestSliceAfterAFailure: contents of a slice that was not written are in the next
// one.
func TestSliceAfterAFailure(t *testing.T) {
	_, h, m := givenUp(t)
	out := m.ship()
	if len(contentsOf(t, h, out.Store)) == 0 {
		t.Error("the content is not in the log")
	}
	whole(t, h)
}

// TestCollectionOfAClockThatWasAhead: what a machine whose clock was a year ahead found
// unreferenced is deleted once the grace has passed for the others.
func TestCollectionOfAClockThatWasAhead(t *testing.T) {
	_, h, _ := givenUp(t)
	now, deleted := time.Now(), []int64{}
	for _, at := range []time.Time{now.AddDate(1, 0, 0), now, now.Add(30 * time.Minute), now.Add(61 * time.Minute)} {
		out, err := h.GC(t.Context(), at, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		deleted = append(deleted, out.Deleted)
	}
	if deleted[0]+deleted[1]+deleted[2] > 0 || deleted[3] == 0 {
		t.Errorf("%d objects were deleted", deleted)
	}
}

// TestGraceOfEachObject: what was found after others is not deleted with them.
func TestGraceOfEachObject(t *testing.T) {
	_, h, _ := givenUp(t)
	now := time.Now()
	for i, c := range []struct {
		after        time.Duration
		deleted, all int64
	}{{0, 0, 1}, {30 * time.Minute, 0, 2}, {61 * time.Minute, 1, 2}, {119 * time.Minute, 0, 1}, {122 * time.Minute, 1, 1}} {
		if i == 1 {
			if _, err := h.putObject(t.Context(), []byte("found later")); err != nil {
				t.Fatal(err)
			}
		}
		if g, err := h.GC(t.Context(), now.Add(c.after), time.Hour); err != nil || g.Deleted != c.deleted || g.Unreferenced != c.all {
			t.Errorf("%v: %+v %v", c.after, g, err)
		}
	}
}

// TestShipBesideCollection: a shipment does not rely on objects that a collection is
// about to delete or is deleting.
func TestShipBesideCollection(t *testing.T) {
	now := time.Now()
	t.Run("marked", func(t *testing.T) {
		_, h, m := givenUp(t)
		h.GC(t.Context(), now, time.Hour)
		m.ship()
		if g, err := h.GC(t.Context(), now.Add(2*time.Hour), time.Hour); err != nil || g.Deleted != 0 {
			t.Errorf("%+v %v", g, err)
		}
		whole(t, h)
	})
	t.Run("marked, and others too", func(t *testing.T) {
		b, h, m := givenUp(t)
		if _, err := h.putObject(t.Context(), []byte("of another one")); err != nil {
			t.Fatal(err)
		}
		h.GC(t.Context(), now, time.Hour)
		b.swapped = func() {
			if err := h.reuse(t.Context(), h.objectKey(hashOf([]byte("of another one")))); err != nil {
				t.Error(err)
			}
		}
		m.ship()
		var left marked
		if _, err := h.getJSON(t.Context(), markKey, &left); err != nil || len(left.Keys) > 0 {
			t.Errorf("%q %v", left.Keys, err)
		}
	})
	t.Run("being deleted", func(t *testing.T) {
		b, h, m := givenUp(t)
		h.GC(t.Context(), now, time.Hour)
		b.do = func() {
			m.Shipper = &Shipper{Hub: h, Store: m.Store} // as a new process
			if _, err := m.Ship(t.Context()); !IsCode(err, Unreachable) {
				t.Errorf("shipped beside: %v", err)
			}
		}
		if g, err := h.GC(t.Context(), now.Add(2*time.Hour), time.Hour); err != nil || g.Deleted != 1 {
			t.Errorf("%+v %v", g, err)
		}
		m.ship()
		whole(t, h)
	})
	t.Run("after one that was killed", func(t *testing.T) {
		b, h, m := givenUp(t)
		h.GC(t.Context(), now, time.Hour)
		stop := errors.New("killed")
		b.do = func() { panic(stop) }
		func() {
			defer func() { recover() }()
			h.GC(t.Context(), now.Add(2*time.Hour), time.Hour)
		}()
		if _, err := m.Ship(t.Context()); !IsCode(err, Unreachable) {
			t.Errorf("shipped beside: %v", err)
		}
		if g, err := h.GC(t.Context(), now.Add(2*time.Hour), time.Hour); err != nil || g.Deleted != 1 {
			t.Errorf("%+v %v", g, err)
		}
		m.ship()
		whole(t, h)
	})
	t.Run("that ends before it looks", func(t *testing.T) {
		b, h, m := givenUp(t)
		h.GC(t.Context(), now, time.Hour)
		b.taken = func(key string) {
			if g, err := h.GC(t.Context(), now.Add(2*time.Hour), time.Hour); err != nil || g.Deleted != 1 {
				t.Errorf("%s: %+v %v", key, g, err)
			}
		}
		if _, err := m.Ship(t.Context()); !IsCode(err, Unreachable) || b.taken != nil {
			t.Errorf("shipped beside: %v", err)
		}
		m.ship()
		whole(t, h)
	})
	t.Run("of a slice without contents", func(t *testing.T) {
		f := newFrail()
		m := openMachine(t, f.hub(), t.TempDir()+"/w")
		m.write("a.txt", "the content")
		m.ship()
		if _, err := m.Store.Delete(t.Context(), rw.DeleteRequest{Path: "a.txt"}); err != nil {
			t.Fatal(err)
		}
		f.dying(m, 3, "before") // bounds, slice, head
		m.Ship(t.Context())
		f.revive(m)
		b := &besides{Store: f}
		h := &Hub{store: b}
		if g, err := h.GC(t.Context(), now, time.Hour); err != nil || g.Unreferenced != 1 {
			t.Fatalf("%+v %v", g, err)
		}
		b.listed = func() { m.ship() } // what heads lead to is known by then
		if g, err := h.GC(t.Context(), now.Add(2*time.Hour), time.Hour); err == nil || g.Deleted != 0 {
			t.Errorf("%+v %v", g, err)
		}
		whole(t, h)
	})
}

// TestEraseInterruptedForLong: collections between an erasure that died, at any step,
// and the next shipment delete slices that no head names; no row or content is lost, also
// not until that shipment.
func TestEraseInterruptedForLong(t *testing.T) {
	restarted := 0
	for n, ended := 1, false; !ended; n++ {
		f := newFrail()
		m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
		for i := range 3 {
			m.write("a.txt", fmt.Sprint("version ", i))
			m.ship()
		}
		m.write("b.txt", word)
		m.ship()
		shipped := m.state()
		m.eraseWord()
		f.dying(m, n, ways[0])
		m.most = 2
		_, err := m.Ship(t.Context())
		ended = err == nil && f.count < n
		f.revive(m)
		if head, _, err := m.Hub.head(t.Context(), shipped.Store); err != nil || head.Seq < shipped.Seq {
			t.Fatalf("step %d: the log ends at row %d: %v", n, head.Seq, err)
		}
		m.most = 2
		now := time.Now()
		m.Hub.GC(t.Context(), now, time.Hour)
		g, err := m.Hub.GC(t.Context(), now.Add(2*time.Hour), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if g.Deleted > 0 {
			restarted++
		}
		out := m.ship()
		m.sound(out.Store)
		whole(t, m.Hub)
		if have := contentsOf(t, m.Hub, out.Store); have[hashOf([]byte("version 0"))] == "" || have[hashOf([]byte("version 2"))] == "" {
			t.Fatalf("step %d: versions are gone", n)
		}
	}
	if restarted == 0 {
		t.Error("no collection found anything")
	}
}
