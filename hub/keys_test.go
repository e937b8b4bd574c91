package hub

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/hub/object"
)

func identity(t testing.TB) string {
	t.Helper()
	text, _, err := NewIdentity(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func keysOf(t testing.TB, text string, recipients ...string) *Keys {
	t.Helper()
	k, err := ParseKeys(strings.NewReader(text), recipients...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestEncrypted checks the promises of a hub on an encrypted one.
func TestEncrypted(t *testing.T) {
	all := ways
	testKeys, ways = keysOf(t, identity(t)), []string{"after"}
	defer func() { testKeys, ways = nil, all }()
	t.Run("ship", TestShipSweep)
	t.Run("fork", TestForked)
	t.Run("resume", TestResumeSweep)
	t.Run("base", TestResumeOnBase)
	t.Run("publish", TestPublishUploadsWhatIsNew)
	t.Run("erase", TestEraseSweep)
	t.Run("erase a secret", TestEraseSecret)
	t.Run("erase and collect", TestEraseInterruptedForLong)
	t.Run("collect", TestGC)
}

// found returns the texts that occur in names and bytes below a directory, also in
// compressed ones.
func found(t *testing.T, dir string, texts map[string]string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		data := []byte{}
		if d.Type().IsRegular() {
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
			if plain, err := unpack("", data); err == nil {
				data = plain
			}
		}
		for what, text := range texts {
			if strings.Contains(strings.TrimPrefix(path, dir), text) || strings.Contains(string(data), text) {
				out[what] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestStoreLearnsNothing: in an encrypted hub neither names nor bytes contain a
// content, its digest, a path, a task, a label or a caller. In one that is not
// encrypted all of them are found.
func TestStoreLearnsNothing(t *testing.T) {
	small, big := "a sentence of the workspace", strings.Repeat("a large content ", 1<<15)
	raw, err := hex.DecodeString(hashOf([]byte(small)))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"content": small, "large content": "a large content", "digest": hashOf([]byte(small)), "digest of an object": hashOf([]byte(big)), "path": "plans/merger",
		"task": "task-of-the-board", "label": "laptop-of-anna", "handoff": "half of it", "format": "resilientwrite.hub",
	}
	for name, keys := range map[string]*Keys{"plain": nil, "encrypted": keysOf(t, identity(t))} {
		dir := filepath.Join(t.TempDir(), "hub")
		h := openHub(t, dir, keys)
		a := openMachine(t, h, filepath.Join(t.TempDir(), "laptop-of-anna"))
		a.write("plans/merger.txt", small)
		a.write("big.txt", big)
		a.handoff("task-of-the-board")
		a.publish(PublishRequest{Task: "task-of-the-board"})
		a.write("plans/merger.txt", "another one")
		a.publish(PublishRequest{Task: "task-of-the-board"})
		if _, err := h.GC(t.Context(), time.Now(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if x, y := tree(t, a.root), tree(t, resumed(t, h, "task-of-the-board").root); !maps.Equal(x, y) {
			t.Fatalf("%v, and resumed %v", x, y)
		}
		whole(t, h)
		got := found(t, dir, texts)
		if keys == nil && len(got) != len(texts) || keys != nil && len(got) > 0 {
			t.Errorf("%s: %v of %v", name, got, texts)
		}
		if keys != nil && len(found(t, dir, map[string]string{"raw": string(raw)})) > 0 {
			t.Error("a binary digest is there")
		}
	}
}

// TestWrongKeys: a hub with other keys, with none, or without keys although some are
// given, is refused with an error that says which, and nothing is written.
func TestWrongKeys(t *testing.T) {
	one, two := identity(t), identity(t)
	open := func(dir string, keys *Keys) error {
		h, err := Open(t.Context(), dir, keys)
		if err == nil {
			err = h.Close()
		}
		return err
	}
	dir := filepath.Join(t.TempDir(), "hub")
	if err := open(dir, keysOf(t, one)); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	m := openMachine(t, openHub(t, plain, nil), filepath.Join(t.TempDir(), "a"))
	m.write("a.txt", "one")
	m.ship()
	m.Hub.Close()
	for _, c := range []struct {
		dir  string
		keys *Keys
		want string
	}{
		{dir, nil, "no identity was given"},
		{dir, keysOf(t, two), "none of the identities"},
		{dir, keysOf(t, one+two), "names"},
		{dir, keysOf(t, two+one), ""},
		{dir, keysOf(t, one), ""},
		{plain, keysOf(t, one), "is not encrypted"},
		{plain, nil, ""},
	} {
		err := open(c.dir, c.keys)
		var e *Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &e) || e.Code != Locked || e.Hint == "" || !strings.Contains(e.Error(), c.want)) {
			t.Errorf("%q: %v", c.want, err)
		}
	}
	if got := found(t, plain, map[string]string{"age": string(sealed)}); len(got) > 0 {
		t.Error("something encrypted is in a hub that is not")
	}
	for _, text := range []string{"", "AGE-SECRET-KEY-1QQQ", strings.Replace(one, "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-2", 1), "a password\n"} {
		if _, err := ParseKeys(strings.NewReader(text)); !errors.Is(err, ErrKeys) || len(text) > 20 && strings.Contains(err.Error(), text[len(text)-20:len(text)-1]) {
			t.Errorf("%v", err)
		}
	}
	if _, err := ParseKeys(strings.NewReader(one), "age1nonsense"); !errors.Is(err, ErrKeys) || strings.Contains(err.Error(), "nonsense") {
		t.Errorf("%v", err)
	}
}

// TestRotation: with a new identity at the top, existing objects stay readable, and
// names stay the same. A machine with the old file cannot read new objects, reports
// it, and loses nothing. An additional recipient can decrypt.
func TestRotation(t *testing.T) {
	f := newFrail()
	old, new := identity(t), identity(t)
	text, recipient, err := NewIdentity(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	hub := func(keys *Keys) *Hub {
		f.keys = keys
		h, err := New(t.Context(), f, keys)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a := openMachine(t, hub(keysOf(t, old)), filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	a.publish(PublishRequest{Task: "t"})
	later := hub(keysOf(t, new+old, recipient))
	resumed(t, later, "t")
	if later.objectKey("x") != a.Hub.objectKey("x") || later.taskKey("t") != a.Hub.taskKey("t") {
		t.Error("names have changed")
	}
	a.write("a.txt", "two")
	if _, err := a.Ship(t.Context()); !IsCode(err, Locked) {
		t.Fatalf("%v", err)
	}
	a.Shipper = &Shipper{Hub: later, Store: a.Store, Label: a.Label}
	if _, err := a.Ship(t.Context()); !IsCode(err, Fenced) {
		t.Fatalf("%v", err)
	}
	a.sound(a.state().Store)
	data, _, err := f.Get(t.Context(), later.taskKey("t"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := keysOf(t, text).open("", data); err != nil || !strings.Contains(string(plain), `"task":"t"`) {
		t.Errorf("%v %s", err, plain)
	}
}

// TestForeignObjects: an encrypted hub ignores objects that are not encrypted, and
// reports changed ones as damaged.
func TestForeignObjects(t *testing.T) {
	f := newFrail()
	f.keys = keysOf(t, identity(t))
	m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	m.write("a.txt", "one")
	m.publish(PublishRequest{Task: "t"})
	for key, data := range maps.Clone(f.data) {
		for _, now := range [][]byte{[]byte("{}"), append(append([]byte{}, data[:len(data)-1]...), data[len(data)-1]^1)} {
			f.data[key] = now
			if _, _, err := m.Hub.get(context.Background(), key); !IsCode(err, Damaged) {
				t.Errorf("%s: %v", key, err)
			}
		}
		f.data[key] = data
	}
	delete(f.data, m.Hub.taskKey("t"))
	if _, _, err := m.Hub.get(t.Context(), m.Hub.taskKey("t")); !errors.Is(err, object.ErrNotFound) {
		t.Error(err)
	}
}
