package hub

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
)

// word passes the gate, as an erased secret must have.
const word = "the name of the " + "customer"

// eraseWord deletes b.txt, which has the word, and erases the word in the store.
func (m *machine) eraseWord() {
	m.t.Helper()
	if _, err := m.Store.Delete(m.t.Context(), rw.DeleteRequest{Path: "b.txt"}); err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.Store.Admin().Erase(m.t.Context(), admin.EraseRequest{Secret: []byte(word)}); err != nil {
		m.t.Fatal(err)
	}
}

// TestEraseSweep: an erasure in the store reaches the hub with the next shipment,
// which dies at every step. Afterwards neither rows nor contents hold the secret,
// everything else is kept, and the log is sound. A version that only the hub had is
// kept.
func TestEraseSweep(t *testing.T) {
	for _, how := range ways {
		for n, ended := 1, false; !ended; n++ {
			f := newFrail()
			m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
			m.write("a.txt", "one")
			m.write("a.txt", "two")
			m.write("b.txt", word+"\n")
			m.write("c.txt", "kept beside it")
			m.publish(PublishRequest{Task: "u"})
			if _, err := m.Store.Delete(t.Context(), rw.DeleteRequest{Path: "b.txt", Call: rw.Call{Session: word}}); err != nil {
				t.Fatal(err)
			}
			m.publish(PublishRequest{Task: "t"})
			if !f.holds(word) {
				t.Fatal("there is nothing to erase")
			}
			if _, err := m.Store.Admin().Erase(t.Context(), admin.EraseRequest{Secret: []byte(word)}); err != nil {
				t.Fatal(err)
			}
			if err := emptyDir(m.root + ".state/history"); err != nil { // only the hub has the versions
				t.Fatal(err)
			}
			m.write("a.txt", "three")
			f.dying(m, n, how)
			_, err := m.Ship(t.Context())
			ended = err == nil && f.count < n
			f.revive(m)
			out := m.ship()
			m.sound(out.Store)
			have := contentsOf(t, m.Hub, out.Store)
			for _, text := range []string{"one", "two", "three"} {
				if have[hashOf([]byte(text))] != text {
					t.Fatalf("step %d, %s: the hub lacks %q", n, how, text)
				}
			}
			if f.holds(word) {
				t.Fatalf("step %d, %s: the hub holds what was erased", n, how)
			}
		}
	}
}

// TestEraseFromADamagedHub: objects that the hub has lost, or that are damaged, do not keep
// an erasure from it.
func TestEraseFromADamagedHub(t *testing.T) {
	for _, damage := range []func(data map[string][]byte, key string){
		func(data map[string][]byte, key string) { delete(data, key) },
		func(data map[string][]byte, key string) { data[key] = data[key][:9] },
	} {
		f := newFrail()
		m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
		m.write("a.txt", "one")
		m.write("large.txt", strings.Repeat("large ", 1<<16))
		m.ship()
		var objects []string
		for key := range f.data {
			if strings.HasPrefix(key, "objects/") {
				objects = append(objects, key)
			}
		}
		m.write("large.txt", strings.Repeat("other ", 1<<16))
		m.write("b.txt", word)
		m.ship()
		m.eraseWord()
		if err := emptyDir(m.root + ".state/history"); err != nil { // only the hub had the versions
			t.Fatal(err)
		}
		for _, key := range objects {
			damage(f.data, key)
		}
		if out, err := m.Ship(t.Context()); err != nil || f.holds(word) || len(objects) != 2 {
			t.Errorf("%v %+v, %d objects", err, out, len(objects))
		}
	}
}

// TestEraseFromADamagedHubSweep: whatever single thing the hub has lost, or has damaged, an
// erasure removes the rest, and writes the log of its store again. Only its own heads must be
// right.
func TestEraseFromADamagedHubSweep(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	a.ship()
	a.write("large.txt", strings.Repeat("large ", 1<<16))
	a.handoff("t")
	a.publish(PublishRequest{Task: "t"})
	b := resumed(t, f.hub(), "t")
	b.write("a.txt", "two")
	b.publish(PublishRequest{Task: "t"})
	a.write("b.txt", word)
	a.publish(PublishRequest{Task: "u"})
	own := a.state()
	a.eraseWord()
	data := f.data
	for key := range data {
		for _, now := range [][]byte{nil, data[key][:len(data[key])/2]} {
			if f.data = maps.Clone(data); now == nil {
				delete(f.data, key)
			} else {
				f.data[key] = now
			}
			a.Shipper = &Shipper{Hub: f.hub(), Store: a.Store}
			if err := own.save(a.Store); err != nil {
				t.Fatal(err)
			}
			_, err := a.Erase(t.Context(), []byte(word))
			if key == headKey(own.Store) || key == a.Hub.taskKey("u") && now != nil {
				if !IsCode(err, Forked) && !IsCode(err, Damaged) {
					t.Errorf("%s: %v", key, err)
				}
				continue
			}
			if err != nil || f.holds(word) {
				t.Errorf("%s, now %d bytes: %v; erased: %v", key, len(now), err, !f.holds(word))
			} else if got := inHub(t, a.Hub, own.Store); got != a.journalOf() {
				t.Errorf("%s: the log is\n%s", key, got)
			}
		}
	}
}

// TestEraseMendsTheHub: a log that has lost slices or objects is written again, also if
// nothing was erased, and a task that has lost objects can be published again.
func TestEraseMendsTheHub(t *testing.T) {
	for n, ended := 0, false; !ended; n++ {
		for _, secret := range []string{"", word} {
			f := newFrail()
			m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
			for range 2 {
				m.write(word+".txt", "text "+newID()) // rows keep the name
				m.ship()
			}
			os.WriteFile(filepath.Join(m.root, "a.txt"), []byte("no row has it"), 0o644)
			m.publish(PublishRequest{Task: "t"})
			keys := slices.DeleteFunc(slices.Sorted(maps.Keys(f.data)), func(key string) bool { return strings.HasSuffix(key, ".json") })
			if ended = n == len(keys); ended {
				break
			}
			delete(f.data, keys[n])
			if v, err := m.Hub.Verify(t.Context(), nil); err != nil || len(v.Problems) == 0 {
				t.Fatalf("%v %+v", err, v)
			}
			if _, err := m.Erase(t.Context(), []byte(secret)); err != nil {
				t.Fatalf("without %s: %v", keys[n], err)
			}
			m.publish(PublishRequest{Task: "t"})
			m.sound(m.state().Store)
			if b := resumed(t, f.hub(), "t"); !maps.Equal(tree(t, b.root), tree(t, m.root)) {
				t.Errorf("without %s: %v", keys[n], tree(t, b.root))
			}
		}
	}
}

// TestEraseAfterInterruptedShipments: a shipper whose first shipment and whose rewriting of
// the log were interrupted leaves nothing that was erased after each.
func TestEraseAfterInterruptedShipments(t *testing.T) {
	const other = "the name of the " + "supplier"
	for n, ended, how := 1, false, "after"; !ended || how == "after"; n++ {
		if ended {
			n, how = 1, "late"
		}
		f := newFrail()
		m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
		m.write("a.txt", "one")
		m.write("b.txt", word)
		m.write("c.txt", other)
		if _, err := m.Store.Delete(t.Context(), rw.DeleteRequest{Path: "c.txt", Call: rw.Call{Session: word}}); err != nil {
			t.Fatal(err)
		}
		f.dying(m, n, how)
		m.Ship(t.Context())
		ended, f.dead = f.count < n, false
		m.eraseWord()
		f.count = 0
		_, err := m.Ship(t.Context())
		ended, f.dead, f.die = ended && err == nil && f.count < n, false, 0
		if _, err := m.Store.Admin().Erase(t.Context(), admin.EraseRequest{Secret: []byte(other)}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Ship(t.Context()); err != nil && !IsCode(err, Unreachable) {
			t.Fatalf("step %d, %s: %v", n, how, err)
		}
		m.sound(m.ship().Store)
		if f.holds(word) || f.holds(other) {
			t.Fatalf("step %d, %s: the hub holds what was erased", n, how)
		}
	}
}

// TestEraseBesidePublish: another machine erases while one publishes, which holds the task
// afterwards too.
func TestEraseBesidePublish(t *testing.T) {
	lost := 0
	for n, ended := 1, false; !ended; n++ {
		f := newFrail()
		m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
		m.write("b.txt", word)
		m.publish(PublishRequest{Task: "t"})
		m.write("a.txt", "one")
		calls := 0
		m.now = func() time.Time {
			if calls++; calls == n {
				done, err := f.hub().scrubTask(t.Context(), "t", func(_ string, data []byte) bool { return string(data) == word })
				if err != nil || !done {
					t.Errorf("clock %d: %v %v", n, done, err)
				}
			}
			return time.Now()
		}
		_, err := m.Publish(t.Context(), PublishRequest{Task: "t", Root: m.root})
		if err != nil {
			lost++
		}
		if err != nil && !IsCode(err, Unreachable) || m.state().Task != "t" {
			t.Errorf("clock %d: %v %+v", n, err, m.state())
		}
		ended = calls < n
	}
	if lost == 0 {
		t.Error("no erasure came between")
	}
}

// TestReadBesideErase: a log that an erasure replaces while it is read is not taken for lost.
func TestReadBesideErase(t *testing.T) {
	b := &besides{Store: newFrail()}
	m := openMachine(t, &Hub{store: b}, filepath.Join(t.TempDir(), "a"))
	other := &Shipper{Hub: &Hub{store: b.Store}, Store: m.Store}
	for _, read := range []func() error{
		func() error { whole(t, m.Hub); return nil },
		func() error { _, err := m.Hub.Fold(t.Context(), m.state().Store, nil); return err },
	} {
		m.write("a.txt", "one")
		m.write("b.txt", word)
		m.ship()
		m.eraseWord()
		b.got = func() {
			if _, err := other.Ship(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := read(); err != nil || b.got != nil {
			t.Error(err)
		}
	}
}

// TestEraseSecret: with the secret, contents that only the hub has are found too,
// in the manifests of all tasks; the log of another store is reported.
func TestEraseSecret(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	a.write("b.txt", word)
	a.write("large.txt", strings.Repeat(word+" ", 1<<14))
	a.write("large too.txt", strings.Repeat("large ", 1<<16))
	a.write(word+"/c.txt", "two")
	a.handoff("t, for " + word)
	a.publish(PublishRequest{Task: "t"})
	b := resumed(t, f.hub(), "t")
	b.publish(PublishRequest{Task: "t"})
	a.write(word+".env", secret())
	if out := a.publish(PublishRequest{Task: "u"}); len(out.Withheld) != 1 {
		t.Fatalf("%+v", out)
	}
	a.eraseWord()
	out, err := a.Erase(t.Context(), []byte(word))
	if err != nil || !slices.Equal(slices.Sorted(slices.Values(out.Tasks)), []string{"t", "u"}) || len(out.Left) == 0 {
		t.Fatalf("%v %+v", err, out)
	}
	head, _, err := a.task(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.Hub.manifest(t.Context(), head)
	if err != nil || len(m.Files) != 2 || len(m.Withheld) != 3 || m.Withheld[0].Reason != "erased" || !head.Handoff.Withheld {
		t.Fatalf("%v %+v %+v", err, m, head.Handoff)
	}
	b.eraseWord()
	if out, err = b.Erase(t.Context(), []byte(word)); err != nil || len(out.Left) > 0 || f.holds(word) {
		t.Fatalf("%v %+v", err, out)
	}
	if _, err := b.Erase(t.Context(), []byte("short")); err != ErrSecret {
		t.Fatal(err)
	}
}

// TestGC: objects that uploads left are deleted by the second call, and
// only those.
func TestGC(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	os.WriteFile(filepath.Join(a.root, "large.txt"), []byte(strings.Repeat("large ", 1<<16)), 0o644)
	a.publish(PublishRequest{Task: "t"})
	f.data[a.Hub.objectKey(hashOf([]byte("left")))] = pack([]byte("left"))
	f.data[sliceKey("gone", "gone", 1, 2)] = []byte("left")
	now := time.Now()
	for _, c := range []struct {
		after   time.Duration
		deleted int64
	}{{0, 0}, {time.Hour, 0}, {25 * time.Hour, 2}, {50 * time.Hour, 0}} {
		out, err := a.Hub.GC(t.Context(), now.Add(c.after), 24*time.Hour)
		if err != nil || out.Deleted != c.deleted {
			t.Fatalf("after %v: %v %+v", c.after, err, out)
		}
		a.sound(a.ship().Store)
	}
	a.write("a.txt", "two")
	a.publish(PublishRequest{Task: "t"})
	a.Hub.GC(t.Context(), now.Add(90*time.Hour), 24*time.Hour)
	if out, err := a.Hub.GC(t.Context(), now.Add(120*time.Hour), 24*time.Hour); err != nil || out.Deleted != 1 { // the manifest
		t.Fatalf("%v %+v", err, out)
	}
	a.sound(a.ship().Store)
}

// TestVerifyNamesDamage: every changed or lost object is reported.
func TestVerifyNamesDamage(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	a.write("b.txt", strings.Repeat("large ", 1<<16))
	a.ship()
	a.write("a.txt", "two")
	a.handoff("t")
	a.publish(PublishRequest{Task: "t"})
	if v, err := a.Hub.Verify(t.Context(), nil); err != nil || len(v.Problems) > 0 || v.Rows == 0 || v.Objects < 5 {
		t.Fatalf("%v %+v", err, v)
	}
	for key, data := range f.data {
		for _, now := range [][]byte{nil, append([]byte("x"), data...), pack([]byte("other"))} {
			if f.data[key] = now; now == nil {
				delete(f.data, key)
			}
			v, err := a.Hub.Verify(t.Context(), nil)
			if gone := now == nil && strings.HasSuffix(key, "head.json"); err != nil || !gone && len(v.Problems) == 0 {
				t.Errorf("%s: %v %+v", key, err, v.Problems)
			}
			f.data[key] = data
		}
	}
	for key, data := range f.data { // the head of another log
		if strings.HasPrefix(key, "stores/") && strings.HasSuffix(key, "head.json") {
			f.data[key] = []byte(strings.Replace(string(data), `"chain":"`, `"chain":"0`, 1))
		}
	}
	if v, err := a.Hub.Verify(t.Context(), nil); err != nil || len(v.Problems) == 0 {
		t.Errorf("%v %+v", err, v)
	}
}

// emptyDir removes what is in a directory.
func emptyDir(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
