package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
)

// TestShipOnce: every row is in the hub once and byte for byte, in whatever slice
// it came, with the contents that commits wrote and replaced.
func TestShipOnce(t *testing.T) {
	h := openHub(t, t.TempDir(), nil)
	m := openMachine(t, h, filepath.Join(t.TempDir(), "a"))
	big := strings.Repeat("large ", 1<<16)
	m.write("a.txt", "one")
	m.write("a.txt", "two")
	first := m.ship()
	m.write("b.txt", big)
	m.write("a.txt", "three")
	second := m.ship()
	if first.Rows != 2 || second.Rows != 2 || second.Slices != 1 {
		t.Fatalf("%+v %+v", first, second)
	}
	if again := m.ship(); again.Slices != 0 || again.Requests != 1 {
		t.Fatalf("nothing to ship, and %+v", again)
	}
	m.sound(first.Store)
	have := contentsOf(t, h, first.Store)
	for _, text := range []string{"one", "two", "three", big} {
		if have[hashOf([]byte(text))] != text {
			t.Errorf("the hub lacks %.20q", text)
		}
	}
	if r, err := m.Store.Check(t.Context(), admin.CheckRequest{}); err != nil || len(r.Problems) > 0 {
		t.Fatalf("%v %+v", err, r.Problems)
	}
}

// ways are how a step fails.
var ways = []string{"before", "after", "late", "uncertain", "dropped", "twice"}

// kills reports whether the machine dies.
func kills(how string) bool { return how == "before" || how == "after" || how == "late" }

// dying makes the shipper's machine die, or its requests fail, at step n of a
// run. Saving the state counts as a step too.
func (f *frail) dying(m *machine, n int, how string) {
	f.count, f.die, f.how, f.dead = 0, n, how, false
	m.Shipper = &Shipper{Hub: f.hub(), Store: m.Store, Label: m.Label}
	m.save = func(st *state) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.count+1 == f.die && !kills(f.how) {
			return st.save(m.Store) // a file exists or not
		}
		return f.step("", func() error { return st.save(m.Store) })
	}
}

// revive starts the machine again.
func (f *frail) revive(m *machine) {
	f.die, f.dead = 0, false
	m.Shipper = &Shipper{Hub: f.hub(), Store: m.Store, Label: m.Label}
}

// secret is a made-up credential.
func secret() string { return "gh" + "p_" + strings.Repeat("a1B2c3D4e5", 4)[:36] }

// TestShipSweep: the machine dies at every step of a shipment, before and after the
// request, and requests fail in every way. The next shipment completes it: each row
// is in the hub once, and all contents except those with findings.
func TestShipSweep(t *testing.T) {
	for _, how := range ways {
		for n, ended := 1, false; !ended; n++ {
			f := newFrail()
			m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "w"))
			m.write("a.txt", "one")
			f.dying(m, 0, how)
			m.ship()
			m.write("a.txt", "two")
			m.write("key.txt", "token = "+secret())
			m.write("b.txt", strings.Repeat("large ", 1<<16))
			f.dying(m, n, how)
			_, err := m.Ship(t.Context())
			ended = f.count < n
			if (err != nil) != (kills(how) && !ended) {
				t.Fatalf("step %d, %s: %v", n, how, err)
			}
			m.write("c.txt", "after it")
			f.revive(m)
			out := m.ship()
			m.sound(out.Store)
			if l, err := m.Hub.log(t.Context(), out.Store); err != nil || len(l.keys) != f.slices() {
				t.Fatalf("step %d, %s: %v, %d slices, and the log has %q", n, how, err, f.slices(), l.keys)
			}
			have := contentsOf(t, m.Hub, out.Store)
			for _, text := range []string{"one", "two", "after it", strings.Repeat("large ", 1<<16)} {
				if have[hashOf([]byte(text))] != text {
					t.Errorf("step %d, %s: the hub lacks %.20q", n, how, text)
				}
			}
			if f.holds(secret()) {
				t.Fatalf("step %d, %s: the secret has left", n, how)
			}
		}
	}
}

// slices returns the number of slices: the bounds of an interrupted one do not
// change.
func (f *frail) slices() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.data {
		if strings.Contains(key, "/log/") {
			n++
		}
	}
	return n
}

// holds reports whether some object holds a text.
func (f *frail) holds(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, data := range f.data {
		if plain, err := f.keys.open("", data); err == nil {
			data = plain
		}
		if plain, err := unpack("", data); err == nil {
			data = plain
		}
		if strings.Contains(string(data), text) {
			return true
		}
	}
	return false
}

// TestWithheldAndLost: an unreachable hub prevents no write, and contents with
// findings are not shipped and are listed, until the policy allows them.
func TestWithheldAndLost(t *testing.T) {
	f := newFrail()
	m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "w"))
	m.write("a.txt", "one")
	m.ship()
	f.dead = true
	m.write("b.txt", "two")
	if _, err := m.Ship(t.Context()); !IsCode(err, Unreachable) {
		t.Fatal(err)
	}
	m.write("key.txt", secret())
	f.revive(m)
	out := m.ship()
	if len(out.Withheld) != 1 || out.Withheld[0].Path != "key.txt" || out.Withheld[0].Reason != "findings" || out.Seq != 3 || m.state().Withheld != 1 {
		t.Fatalf("%+v", out)
	}
	if p := m.publish(PublishRequest{Task: "t"}); len(p.Withheld) != 1 || f.holds(secret()) {
		t.Fatalf("%+v", p)
	}
	m.Store.Close(t.Context())
	os.WriteFile(m.root+".policy", []byte("allow: [{path: key.txt, pattern: github_pat, reason: made up}]\n"), 0o600)
	s, err := rw.Open(t.Context(), m.root, &rw.Options{StateDir: m.root + ".state", Sync: rw.SyncOff, PolicyFile: m.root + ".policy"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	m.Store = s
	if p := m.publish(PublishRequest{Task: "t"}); len(p.Withheld) > 0 || p.Uploaded != 1 || !f.holds(secret()) {
		t.Fatalf("%+v", p)
	}
}

// TestWithheldEnd: of a file whose end is withheld, the hub has the version before it.
func TestWithheldEnd(t *testing.T) {
	m := openMachine(t, newFrail().hub(), filepath.Join(t.TempDir(), "w"))
	for _, text := range []string{"one\n", "two\n", secret() + "\n", "three\n"} {
		if _, err := m.Store.SafeWrite(t.Context(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(text), Mode: rw.ModeAppend}); err != nil {
			t.Fatal(err)
		}
	}
	out := m.ship()
	if have := contentsOf(t, m.Hub, out.Store); len(have) != 1 || have[hashOf([]byte("one\ntwo\n"))] == "" || len(out.Withheld) != 2 {
		t.Errorf("the hub has %q, withheld are %+v", have, out.Withheld)
	}
}

// TestWithheldUnlessScanned: a content leaves only if the gate has listed everything in it,
// and found nothing.
func TestWithheldUnlessScanned(t *testing.T) {
	s, err := rw.Open(t.Context(), t.TempDir(), &rw.Options{StateDir: t.TempDir(), MaxContentBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	for text, want := range map[string]string{
		"text": "[]", "key = AKIA" + "IOSFODNN7EXAMPLE": "[]", secret(): "[github_pat]", strings.Repeat("tel +49 170 1234567\n", 1<<10): "[many]", strings.Repeat("x", 1<<16+1): "[not_scanned]",
	} {
		kinds, err := (&Shipper{Store: s}).findings(t.Context(), "a.txt", []byte(text))
		if err != nil || fmt.Sprint(kinds) != want {
			t.Errorf("%.30s: %v %v", text, kinds, err)
		}
	}
}

// TestStoreClosedWhileShipping: contents that can no longer be read are not taken for lost.
func TestStoreClosedWhileShipping(t *testing.T) {
	f := newFrail()
	m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "w"))
	for i := range 65 {
		m.write(fmt.Sprint(i), fmt.Sprint("content ", i))
	}
	m.Progress = func(string, int64, int64) { m.Store.Close(t.Context()) }
	if _, err := m.Ship(t.Context()); !errors.Is(err, rw.ErrStoreClosed) || f.slices() > 0 {
		t.Fatalf("%v, %d slices", err, f.slices())
	}
}

// TestForked: a copy of a store that ships as well is detected, on whichever
// side, and both stores remain usable. Restart makes it a separate store.
func TestForked(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	store := a.ship().Store
	state, err := a.Store.Admin().ShipState()
	if err != nil {
		t.Fatal(err)
	}
	b := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "b"))
	b.write("a.txt", "one")
	b.write("a.txt", "the copy")
	if err := b.Store.Admin().SetShipState(state); err != nil {
		t.Fatal(err)
	}
	b.write("b.txt", word)
	b.eraseWord() // must not rewrite the log of the other store
	if _, err := b.Ship(t.Context()); !IsCode(err, Forked) {
		t.Fatalf("%v", err)
	}
	a.write("a.txt", "two")
	a.ship()
	a.sound(store)
	b.write("a.txt", "it goes on")
	if _, err := b.Ship(t.Context()); !IsCode(err, Forked) {
		t.Fatalf("%v", err)
	}
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if own := b.ship().Store; own == store {
		t.Fatal("the copy has the same identity")
	} else {
		b.sound(own)
	}
	a.sound(store)
	if err := (&Shipper{Hub: a.Hub, Store: a.Store}).Restart(t.Context()); err != nil { // as another process
		t.Fatal(err)
	}
	if have := contentsOf(t, a.Hub, a.ship().Store); len(have) != 2 {
		t.Errorf("the new log has the contents %q", have)
	}
}

// TestHubFromABackup: nothing is shipped to a hub that has lost slices, not even when it
// has them again, before a restart. A hub without the log may be the wrong one.
func TestHubFromABackup(t *testing.T) {
	f := newFrail()
	m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	m.write("a.txt", "one")
	m.ship()
	before := maps.Clone(f.data)
	f.data = map[string][]byte{} // another hub: the former one remains usable
	if _, err := m.Ship(t.Context()); !IsCode(err, Forked) || len(f.data) > 0 {
		t.Fatalf("%v", err)
	}
	f.data = maps.Clone(before)
	m.write("a.txt", "two")
	m.ship()
	whole := maps.Clone(f.data)
	m.write("a.txt", "three")
	for _, had := range []map[string][]byte{before, whole} {
		f.data = maps.Clone(had)
		if _, err := m.Ship(t.Context()); !IsCode(err, Forked) || !maps.EqualFunc(f.data, had, bytes.Equal) {
			t.Fatalf("%v", err)
		}
	}
}

// TestSlicesAreCompared: a slice that another shipper made from other rows, or after
// another slice, is not mistaken for ours.
func TestSlicesAreCompared(t *testing.T) {
	for old, other := range map[string]string{"b.txt": "c.txt", `"prev":"stores`: `"prev":"xtores`} {
		f := newFrail()
		m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
		m.write("a.txt", "one")
		m.ship()
		m.write("b.txt", "two")
		f.dying(m, 4, "before") // bounds, pack, slice, head
		m.Ship(t.Context())
		for key, data := range f.data {
			if strings.Contains(key, "/log/") {
				plain, _ := unpack(key, data)
				f.data[key] = pack([]byte(strings.Replace(string(plain), old, other, 1)))
			}
		}
		f.revive(m)
		if _, err := m.Ship(t.Context()); !IsCode(err, Forked) {
			t.Fatalf("%s: %v", other, err)
		}
	}
}

// TestRequests: a thousand commits take at most 20 requests.
func TestRequests(t *testing.T) {
	h := openHub(t, t.TempDir(), nil)
	m := openMachine(t, h, filepath.Join(t.TempDir(), "a"))
	before := h.requests
	for i := range 1000 {
		m.write("a.txt", strings.Repeat("x", i))
		if i%500 == 499 {
			m.ship()
		}
	}
	if n := h.requests - before; n > 20 {
		t.Fatalf("%d requests", n)
	}
}

// TestDamagedState: a store that cannot read what it has shipped ships nothing, and keeps its
// identity: its next erasure must reach the log that the hub has. Restart gives it another
// one.
func TestDamagedState(t *testing.T) {
	f := newFrail()
	m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	m.write("a.txt", "one")
	store := m.ship().Store
	file := m.root + ".state/hub/ship.json"
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m.write("b.txt", word)
	m.ship()
	m.eraseWord()
	m.ship()
	m.write("a.txt", "two")
	had := maps.Clone(f.data)
	for _, bad := range []string{"", "{}", string(good[:len(good)/2])} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Ship(t.Context()); !IsCode(err, Damaged) || !maps.EqualFunc(f.data, had, bytes.Equal) {
			t.Fatalf("%q: %v", bad, err)
		}
		if _, err := m.Publish(t.Context(), PublishRequest{Task: "t", Root: m.root}); !IsCode(err, Damaged) {
			t.Fatalf("%q: %v", bad, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = nil
	m.Follow(ctx, time.Millisecond, nil, func(_ Shipped, e error) { err = e; cancel() })
	if !IsCode(err, Damaged) {
		t.Fatalf("Follow reports %v", err)
	}
	for range 2 { // the second time a row that the hub has was erased
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if m.ship().Store != store {
			t.Fatal("another identity")
		}
		m.sound(store)
		m.write("b.txt", word)
		m.write("c.txt", "one")
		if _, err := m.Store.Delete(t.Context(), rw.DeleteRequest{Path: "c.txt", Call: rw.Call{Session: word}}); err != nil {
			t.Fatal(err)
		}
		m.ship()
		m.eraseWord()
	}
	os.WriteFile(file, nil, 0o600)
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.sound(m.ship().Store)
}
