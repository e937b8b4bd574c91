package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/hub/object"
)

// machine is one store with its shipper.
type machine struct {
	*Shipper
	t    *testing.T
	root string
}

func openMachine(t *testing.T, h *Hub, root string) *machine {
	t.Helper()
	return &machine{&Shipper{Hub: h, Store: openStore(t, root, rw.SyncOff), Label: filepath.Base(root)}, t, root}
}

func openStore(t testing.TB, root string, sync rw.SyncLevel) *rw.Store {
	t.Helper()
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := rw.Open(t.Context(), root, &rw.Options{StateDir: root + ".state", Sync: sync})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
	return s
}

// resumed returns another machine that took the task.
func resumed(t *testing.T, h *Hub, task string) *machine {
	t.Helper()
	m := openMachine(t, h, filepath.Join(t.TempDir(), "b"))
	if _, err := m.Resume(t.Context(), ResumeRequest{Task: task, Force: true}); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) state() *state {
	m.t.Helper()
	st, err := loadState(m.Store)
	if err != nil {
		m.t.Fatal(err)
	}
	return st
}

func (m *machine) write(path, text string) rw.SafeWriteResult {
	m.t.Helper()
	r, err := m.Store.SafeWrite(m.t.Context(), rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: rw.ModeOverwrite})
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

func (m *machine) ship() Shipped {
	m.t.Helper()
	out, err := m.Ship(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// tree returns everything below a directory: kinds, modes, bytes, and targets of
// links.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		text := ""
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			text, err = os.Readlink(path)
			out[rel] = "link " + text
			return err
		case !d.IsDir():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data)
		}
		out[rel] = fmt.Sprintf("%v %s", info.Mode(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// journalOf returns the rows of a store, as its own export has them.
func (m *machine) journalOf() string {
	m.t.Helper()
	var b bytes.Buffer
	if _, err := m.Store.Admin().Export(m.t.Context(), admin.ExportRequest{W: &b, Same: true}); err != nil {
		m.t.Fatal(err)
	}
	_, rows, _ := strings.Cut(b.String(), "\n")
	return rows[:strings.LastIndex(strings.TrimSpace(rows), "\n")+1]
}

// inHub returns the rows of a store as the hub has them, byte for byte,
// verified.
func inHub(t *testing.T, h *Hub, store string) string {
	t.Helper()
	if _, err := h.Fold(t.Context(), store, nil); err != nil {
		t.Fatal(err)
	}
	l, err := h.log(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for i, raw := range l.slices {
		_, rows, err := parseSlice(l.keys[i], raw)
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(rows), "\n")
		all += text[:strings.LastIndex(strings.TrimSpace(text), "\n")+1]
	}
	return all
}

// sound checks that the log of a machine in the hub equals its journal, each row
// once, and that the hub has no fault.
func (m *machine) sound(store string) {
	m.t.Helper()
	if got, want := inHub(m.t, m.Hub, store), m.journalOf(); got != want {
		m.t.Fatalf("the hub has\n%s\nthe store\n%s", got, want)
	}
	v, err := m.Hub.Verify(m.t.Context(), nil)
	if err != nil || len(v.Problems) > 0 {
		m.t.Fatalf("%v %+v", err, v.Problems)
	}
}

// contentsOf returns the contents of a log in the hub, by their hashes.
func contentsOf(t *testing.T, h *Hub, store string) map[string]string {
	t.Helper()
	out := map[string]string{}
	l, err := h.log(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range l.heads {
		for _, sha := range head.Packs {
			items, err := h.readPack(t.Context(), sha)
			if err != nil {
				t.Fatal(err)
			}
			for name, data := range items {
				out[name] = string(data)
			}
		}
		for _, sha := range head.Objects {
			data, err := h.getObject(t.Context(), sha)
			if err != nil {
				t.Fatal(err)
			}
			out[sha] = string(data)
		}
	}
	return out
}

func openHub(t testing.TB, address string, keys *Keys) *Hub {
	t.Helper()
	h, err := Open(t.Context(), address, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// errDied is the error of every request of a machine that has died.
var errDied = errors.New("the machine has died")

// frail is an in-memory object store that fails at one step, and a machine that
// dies there: before the step is done, after it, or while its outcome is unknown.
type frail struct {
	mu    sync.Mutex
	keys  *Keys
	data  map[string][]byte
	count int
	die   int    // step; 0: none
	how   string // one of ways
	dead  bool
	late  map[string]func() error // by key: applied before the next step with that key
}

func newFrail() *frail {
	return &frail{keys: testKeys, data: map[string][]byte{}, late: map[string]func() error{}}
}

// testKeys are the keys of hubs in memory.
var testKeys *Keys

func (f *frail) hub() *Hub { return &Hub{store: f, keys: f.keys} }

// step counts a step, and decides whether it is done and what the caller gets. The key of
// a step on the machine itself is "".
func (f *frail) step(key string, do func() error) error {
	f.count++
	if f.dead {
		return errDied
	}
	if late := f.late[key]; late != nil && key != "" {
		delete(f.late, key)
		late()
	}
	if f.count != f.die {
		return do()
	}
	switch f.how {
	case "before":
		f.dead = true
		return errDied
	case "late": // the request is on its way when the machine dies
		f.dead, f.late[key] = true, do
		return errDied
	case "after":
		f.dead = true
		do()
		return errDied
	case "uncertain": // applied, and the answer is lost
		do()
		return object.ErrUncertain
	case "dropped": // not applied, and the caller cannot know
		return object.ErrUncertain
	case "refused": // for no reason
		return object.ErrChanged
	case "twice": // sent twice: the second one is answered
		do()
		return do()
	}
	return do()
}

func (f *frail) Get(_ context.Context, key string) (data []byte, etag string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return nil, "", errDied
	}
	data, ok := f.data[key]
	if !ok {
		return nil, "", object.ErrNotFound
	}
	return bytes.Clone(data), hashOf(data), nil
}

func (f *frail) PutIfAbsent(_ context.Context, key string, data []byte) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.step(key, func() error {
		if _, ok := f.data[key]; ok {
			return object.ErrExists
		}
		f.data[key] = bytes.Clone(data)
		return nil
	})
	if errors.Is(err, object.ErrChanged) { // refused
		err = object.ErrExists
	}
	return hashOf(data), err
}

func (f *frail) CompareAndSwap(_ context.Context, key, etag string, data []byte) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return hashOf(data), f.step(key, func() error {
		now, ok := f.data[key]
		if ok != (etag != "") || ok && hashOf(now) != etag {
			return object.ErrChanged
		}
		f.data[key] = bytes.Clone(data)
		return nil
	})
}

func (f *frail) List(_ context.Context, prefix, after string) (list []object.Info, more bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(f.data)) {
		if strings.HasPrefix(key, prefix) && key > after {
			if len(list) == 3 { // so that everything is paged
				return list, true, nil
			}
			list = append(list, object.Info{Key: key, Size: int64(len(f.data[key]))})
		}
	}
	return list, false, nil
}

func (f *frail) Delete(_ context.Context, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.step(key, func() error { delete(f.data, key); return nil })
}
