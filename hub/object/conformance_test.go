package object

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var ctx = context.Background()

func mustOpen(t testing.TB, address string) Store {
	t.Helper()
	s, err := Open(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// forced writes an object without a condition.
func forced(s Store, key string, data []byte) (string, error) {
	s.Delete(ctx, key)
	return s.PutIfAbsent(ctx, key, data)
}

// callAll makes every call for a key, and returns their errors.
func callAll(s Store, key, tag string) []error {
	_, _, gerr := s.Get(ctx, key)
	_, perr := s.PutIfAbsent(ctx, key, nil)
	_, serr := s.CompareAndSwap(ctx, key, tag, nil)
	return []error{gerr, perr, serr, s.Delete(ctx, key)}
}

// conform checks the promises of every backend, on an empty store.
func conform(t *testing.T, s Store) {
	put := func(key, data string, want error) (etag string) {
		t.Helper()
		etag, err := s.PutIfAbsent(ctx, key, []byte(data))
		if !errors.Is(err, want) || (err == nil) != (etag != "") {
			t.Fatalf("put %s: %q, %v, want %v", key, etag, err, want)
		}
		return etag
	}
	swap := func(key, etag, data string, want error) string {
		t.Helper()
		next, err := s.CompareAndSwap(ctx, key, etag, []byte(data))
		if !errors.Is(err, want) || (err == nil) != (next != "") {
			t.Fatalf("swap %s: %q, %v, want %v", key, next, err, want)
		}
		return next
	}
	get := func(key, want, etag string) {
		t.Helper()
		data, tag, err := s.Get(ctx, key)
		if err != nil || string(data) != want || tag != etag {
			t.Fatalf("get %s: %q %q %v, want %q %q", key, data, tag, err, want, etag)
		}
	}
	gone := func(key string) {
		t.Helper()
		if data, tag, err := s.Get(ctx, key); !errors.Is(err, ErrNotFound) || data != nil || tag != "" {
			t.Fatalf("get %s: %q %q %v", key, data, tag, err)
		}
	}
	remove := func(key string) {
		t.Helper()
		if err := s.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}

	// One key through its life.
	gone("a/b/c")
	remove("a/b/c")
	swap("a/b/c", "0123", "x", ErrChanged)
	one := put("a/b/c", "one", nil)
	get("a/b/c", "one", one)
	put("a/b/c", "two", ErrExists)
	put("a/b/c", "one", ErrExists) // equal content is no exception
	swap("a/b/c", "", "two", ErrChanged)
	swap("a/b/c", "0123", "two", ErrChanged)
	get("a/b/c", "one", one)
	two := swap("a/b/c", one, "two", nil)
	swap("a/b/c", one, "three", ErrChanged)
	get("a/b/c", "two", two)
	gone("a/b")
	gone("a/b/c/d")
	remove("a/b/c")
	gone("a/b/c")
	swap("a/b/c", two, "three", ErrChanged)
	get("a/b/c", "three", swap("a/b/c", "", "three", nil))
	remove("a/b/c")
	put("a/b/c", "again", nil)
	remove("a/b/c")

	// Content of every kind.
	for key, data := range map[string][]byte{"empty": {}, "zero": make([]byte, 3<<20), "bytes": []byte("\x00\xff\r\n<&>")} {
		tag := put(key, string(data), nil)
		get(key, string(data), tag)
		remove(key)
	}

	// Invalid names, in every call.
	for _, key := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "A", "a b", "a\x00b", "a\nb", "ü", "a\\b", "a:b", "a*", "+locks", "+writing/a", "a?x=1", "a%2fb", "#",
		"a.", "a./b", strings.Repeat("a", 256), strings.Repeat("a/", 256) + "a", "c:/a", "~"} {
		_, aerr := s.CompareAndSwap(ctx, key, "", nil)
		for _, err := range append(callAll(s, key, "0123"), aerr) {
			if !errors.Is(err, ErrKey) || !errors.Is(CheckKey(key), ErrKey) {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
	long := strings.Repeat(strings.Repeat("a", 127)+"/", 3) + strings.Repeat("b", 128)
	get(long, "x", put(long, "x", nil))
	remove(long)

	// A context that has ended.
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.PutIfAbsent(over, "late", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	gone("late")
	if _, _, err := s.List(over, "", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}

	conformList(t, s)
}

// conformList compares every list with the sorted keys. Some names sort around a slash, where key
// order differs from the order of a walk.
func conformList(t *testing.T, s Store) {
	keys := []string{"l/a", "l/a-b/c", "l/a.b", "l/a0", "l/b-/x", "l/b/y/z", "l/b/y0", "l/b0", "m", "l-", "l0/x", "l/.hidden", "l/_"}
	for i := range 1500 {
		keys = append(keys, fmt.Sprintf("many/%04d", i))
	}
	for _, key := range keys {
		if _, err := s.PutIfAbsent(ctx, key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(keys)
	if list := all(t, s, ""); !slices.Equal(list, keys) {
		t.Fatalf("%d keys of %d: %q", len(list), len(keys), list)
	}
	for _, prefix := range []string{"", "l", "l/", "l/a", "l/b", "l/b/", "l/b/y", "m", "m/", "many", "many/0", "x", "l/a-b/c", "l/a-b/cd"} {
		for _, after := range []string{"", "a", "l", "l/", "l/a", "l/a-", "l/a-b/", "l/a-b/c", "l/b", "l/b-/x", "l/b/y/", "l/b/y/z", "l0", "m", "many/0999", "many/1499", "z"} {
			var want []string
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) && key > after {
					want = append(want, key)
				}
			}
			list, more, err := s.List(ctx, prefix, after)
			if err != nil || !more && len(want) > MaxList || more && len(want) < MaxList { // a full list may say that more follow
				t.Fatalf("%q after %q: more %v, %v", prefix, after, more, err)
			}
			want = want[:min(len(want), MaxList)]
			if len(list) != len(want) {
				t.Fatalf("%q after %q: %d keys, want %d", prefix, after, len(list), len(want))
			}
			for i, info := range list {
				if info.Key != want[i] || info.Size != int64(len(info.Key)) {
					t.Fatalf("%q after %q: %v at %d, want %q", prefix, after, info, i, want[i])
				}
			}
		}
	}
	for _, key := range keys {
		if err := s.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if list := all(t, s, ""); len(list) != 0 {
		t.Errorf("left: %q", list)
	}
}

// all lists every key with a prefix.
func all(t testing.TB, s Store, prefix string) (keys []string) {
	t.Helper()
	for after, more := "", true; more; {
		var list []Info
		var err error
		if list, more, err = s.List(ctx, prefix, after); err != nil {
			t.Fatal(err)
		}
		for _, info := range list {
			keys, after = append(keys, info.Key), info.Key
		}
	}
	return keys
}

// faulty is a store with faults that a test selects.
type faulty struct {
	Store
	put  func(key string, data []byte) (string, error)
	swap func(key, etag string, data []byte) (string, error)
	get  func(key string) ([]byte, string, error)
	list func() ([]Info, bool, error)
}

func (f faulty) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	if f.put != nil {
		return f.put(key, data)
	}
	return f.Store.PutIfAbsent(ctx, key, data)
}

func (f faulty) CompareAndSwap(ctx context.Context, key, etag string, data []byte) (string, error) {
	if f.swap != nil {
		return f.swap(key, etag, data)
	}
	return f.Store.CompareAndSwap(ctx, key, etag, data)
}

func (f faulty) Get(ctx context.Context, key string) ([]byte, string, error) {
	if f.get != nil {
		return f.get(key)
	}
	return f.Store.Get(ctx, key)
}

func (f faulty) List(ctx context.Context, prefix, after string) ([]Info, bool, error) {
	if f.list != nil {
		return f.list()
	}
	return f.Store.List(ctx, prefix, after)
}

// TestProbeRefuses a store for each thing that it does not do, says which, and leaves nothing in it.
func TestProbeRefuses(t *testing.T) {
	inner := mustOpen(t, t.TempDir())
	force := func(key string, data []byte) (string, error) { return forced(inner, key, data) }
	for _, row := range []struct {
		want string
		s    faulty
	}{
		{"", faulty{}},
		{"If-None-Match", faulty{put: force}},
		{"If-None-Match", faulty{swap: func(key, etag string, data []byte) (string, error) {
			if etag == "" {
				return force(key, data)
			}
			return inner.CompareAndSwap(ctx, key, etag, data)
		}}},
		{"although If-Match", faulty{swap: func(key, etag string, data []byte) (string, error) {
			if etag != "" {
				return force(key, data)
			}
			return inner.CompareAndSwap(ctx, key, etag, data)
		}}},
		{"earlier one", faulty{swap: func(key, etag string, data []byte) (string, error) {
			if tag, err := inner.PutIfAbsent(ctx, key, data); err == nil {
				return tag, err
			}
			return inner.CompareAndSwap(ctx, key, etag, data)
		}}},
		{"does not replace", faulty{swap: func(key, etag string, data []byte) (string, error) { return "", ErrChanged }}},
		{"does not return", faulty{get: func(string) ([]byte, string, error) { return []byte("1"), "x", nil }}},
		{"does not list", faulty{list: func() ([]Info, bool, error) { return nil, false, nil }}},
	} {
		row.s.Store = inner
		err := probe(ctx, row.s)
		if row.want == "" && err != nil || row.want != "" && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%q: %v", row.want, err)
		}
		if left := all(t, inner, ""); len(left) != 0 {
			t.Errorf("%q: left %q", row.want, left)
		}
	}
}

func TestSizeIsLimited(t *testing.T) {
	if err := checkWrite("a", MaxSize+1); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := checkWrite("a", MaxSize); err != nil {
		t.Error(err)
	}
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", "x")
		w.Header().Set("Content-Length", strconv.Itoa(MaxSize+1))
	}))
	if _, _, err := s.Get(ctx, "a"); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	root := t.TempDir()
	d := mustOpen(t, root)
	f, err := os.Create(filepath.Join(root, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(MaxSize + 1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Get(ctx, "a"); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
}
