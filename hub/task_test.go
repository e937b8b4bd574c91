package hub

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/hub/object"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "core.autocrlf=false", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (m *machine) publish(r PublishRequest) *Published {
	m.t.Helper()
	r.Root = m.root
	out, err := m.Publish(m.t.Context(), r)
	if err != nil {
		m.t.Fatal(err)
	}
	return out.Published
}

// acknowledged returns the commits of a task in the hub: the file and hash of
// each row that was not rolled back.
func acknowledged(t *testing.T, h *Hub, task string) (rows []string) {
	t.Helper()
	seen := map[string]bool{}
	_, err := h.FoldTask(t.Context(), task, func(epoch uint64, row Row) error {
		id := row.Store + stamp(time.Unix(int64(row.Seq), 0))
		if seen[id] {
			t.Errorf("row %d of %s is there twice", row.Seq, row.Store)
		}
		seen[id] = true
		for _, f := range row.Files {
			if row.Kind == "commit" && !row.Aborted && f.Op != "restore" && f.SHA256 != "" {
				rows = append(rows, f.Path+" "+f.SHA256)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// handoff writes a handoff for a task.
func (m *machine) handoff(task string) {
	m.t.Helper()
	_, err := m.Store.HandoffWrite(m.t.Context(), handoff.WriteRequest{Envelope: handoff.Envelope{
		TaskID: task, Status: handoff.Partial, Agent: "first", Summary: "half of it", NextSteps: []string{"the other half"},
	}, AutoState: handoff.AutoStateSession})
	if err != nil {
		m.t.Fatal(err)
	}
}

// TestResumeSweep: the machine that publishes dies at every step, and then the one that
// resumes; later calls complete both. The resumed files are the same, byte for byte. What
// the first machine wrote is in the task once, and what it writes after it lost the lease
// is not.
func TestResumeSweep(t *testing.T) {
	for _, how := range ways {
		for n, ended := 1, 0; ended < 2; n++ {
			ended = 0
			f := newFrail()
			a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
			a.write("b.txt", "shipped before the task")
			a.ship()
			a.write("dir/a.txt", "one")
			a.write("b.txt", strings.Repeat("large ", 1<<16))
			os.Chmod(filepath.Join(a.root, "dir/a.txt"), 0o755)
			os.MkdirAll(filepath.Join(a.root, "empty/dir"), 0o755)
			os.Chmod(filepath.Join(a.root, "empty"), 0o750)
			os.Symlink("b.txt", filepath.Join(a.root, "link"))
			os.WriteFile(filepath.Join(a.root, "same.txt"), []byte("one"), 0o644)
			a.handoff("task")
			f.dying(a, n, how)
			if _, err := a.Publish(t.Context(), PublishRequest{Task: "task", Root: a.root}); err == nil && f.count < n {
				ended++
			}
			f.revive(a)
			if _, err := a.Publish(t.Context(), PublishRequest{Task: "task", Root: a.root}); err != nil && (how != "late" || !IsCode(err, Unreachable)) {
				t.Fatalf("step %d, %s: %v", n, how, err)
			}
			a.publish(PublishRequest{Task: "task"})

			b := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "b"))
			f.dying(b, n, how)
			if _, err := b.Resume(t.Context(), ResumeRequest{Task: "task"}); err == nil {
				t.Fatal("the lease was not respected")
			}
			late := func() time.Time { return time.Now().Add(time.Hour) }
			f.dying(b, n, how)
			b.now = late
			_, err := b.Resume(t.Context(), ResumeRequest{Task: "task"})
			if err == nil && f.count < n {
				ended++
			}
			f.revive(b)
			b.now = late
			b.Publish(t.Context(), PublishRequest{Task: "task", Root: b.root}) // must not replace the state that is not here
			r, err := b.Resume(t.Context(), ResumeRequest{Task: "task"})
			if err != nil || r.Epoch != 2 || r.Handoff == nil || r.Handoff.Summary != "half of it" || len(r.Handoff.Drift) > 0 || b.state().Task != "task" {
				t.Fatalf("step %d, %s: %v %+v", n, how, err, r)
			}
			if x, y := tree(t, a.root), tree(t, b.root); !maps.Equal(x, y) {
				t.Fatalf("step %d, %s: %v, and here %v", n, how, x, y)
			}
			before := acknowledged(t, b.Hub, "task")
			if len(before) != 3 {
				t.Fatalf("step %d, %s: the task has %q", n, how, before)
			}

			a.write("dir/a.txt", "too late")
			if _, err := a.Ship(t.Context()); !IsCode(err, Fenced) {
				t.Fatalf("step %d, %s: %v", n, how, err)
			}
			if _, err := a.Publish(t.Context(), PublishRequest{Task: "task", Root: a.root}); !IsCode(err, Leased) {
				t.Fatalf("step %d, %s: %v", n, how, err)
			}
			b.write("dir/a.txt", "two")
			b.publish(PublishRequest{Task: "task"})
			after := acknowledged(t, b.Hub, "task")
			if len(after) != len(before)+1 || after[len(before)] != "dir/a.txt "+hashOf([]byte("two")) {
				t.Fatalf("step %d, %s: %q, then %q", n, how, before, after)
			}
			for _, m := range []*machine{a, b} {
				m.sound(m.state().Store)
			}
		}
	}
}

// TestRefusedForNoReason: a store that refuses one condition although it holds loses nothing, and
// the next call completes the work.
func TestRefusedForNoReason(t *testing.T) {
	for n, ended := 1, 0; ended < 2; n++ {
		f := newFrail()
		a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
		b := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "b"))
		a.write("a.txt", "one")
		a.write("b.txt", strings.Repeat("large ", 1<<16))
		ended = 0
		try := func(what string, do func() error) {
			f.count, f.die, f.how = 0, n, "refused"
			if err := do(); err != nil && !IsCode(err, Unreachable) {
				t.Errorf("step %d of %s: %v", n, what, err)
			}
			if f.count < n {
				ended++
			}
			f.die = 0
			if err := do(); err != nil {
				t.Errorf("%s after step %d: %v", what, n, err)
			}
		}
		try("publish", func() error {
			_, err := a.Publish(t.Context(), PublishRequest{Task: "t", Root: a.root})
			return err
		})
		a.sound(a.state().Store)
		try("resume", func() error {
			_, err := b.Resume(t.Context(), ResumeRequest{Task: "t", Force: true})
			return err
		})
		if x, y := tree(t, a.root), tree(t, b.root); !maps.Equal(x, y) {
			t.Errorf("step %d: %v, and here %v", n, x, y)
		}
	}
}

// TestResumeOnBase: bytes that git has are not uploaded; a resume needs a clean
// checkout of the base commit, and names it. With WithBase it needs none.
func TestResumeOnBase(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	gitIn(t, a.root, "init", "-q", "-b", "main")
	for path, text := range map[string]string{"same.txt": "same", "sub/changed.txt": "before", "gone.txt": "gone", "held.txt": "held", ".gitignore": "*.log\n", "key.txt": secret()} {
		os.MkdirAll(filepath.Dir(filepath.Join(a.root, path)), 0o755)
		os.WriteFile(filepath.Join(a.root, path), []byte(text), 0o644)
	}
	gitIn(t, a.root, "add", ".")
	gitIn(t, a.root, "commit", "-qm", "base")
	base := gitIn(t, a.root, "rev-parse", "HEAD")
	held := tree(t, a.root)["held.txt"] // a checkout keeps it
	a.write("sub/changed.txt", "after")
	a.write("held.txt", "token: "+secret())
	a.write("new.txt", "new")
	a.write("ignored.log", "ignored")
	a.write("found.txt", "password: "+secret())
	os.Remove(filepath.Join(a.root, "gone.txt"))
	os.WriteFile(filepath.Join(a.root, "staged.txt"), []byte("only in the index"), 0o644)
	gitIn(t, a.root, "add", "staged.txt")
	p := a.publish(PublishRequest{Task: "t"})
	if p.Base != base || p.FromBase != 3 || len(p.Withheld) != 3 || f.holds(secret()) || f.holds("ignored\n") {
		t.Fatalf("%+v", p)
	}

	resume := func(prepare func(dir string), r ResumeRequest) (*machine, Resumed, error) {
		dir := filepath.Join(t.TempDir(), "b")
		prepare(dir)
		b := openMachine(t, f.hub(), dir)
		r.Task, r.Force = "t", true
		out, err := b.Resume(t.Context(), r)
		return b, out, err
	}
	clone := func(dir string) { gitIn(t, filepath.Dir(dir), "clone", "-q", a.root, dir) }
	if _, _, err := resume(func(string) {}, ResumeRequest{}); !IsCode(err, NeedsBase) || !strings.Contains(err.(*Error).Hint, base) {
		t.Fatalf("an empty directory: %v", err)
	}
	_, _, err := resume(func(dir string) { clone(dir); os.WriteFile(filepath.Join(dir, "own.txt"), []byte("own"), 0o644) }, ResumeRequest{})
	if err == nil || IsCode(err, NeedsBase) {
		t.Fatalf("files of its own: %v", err)
	}
	_, _, err = resume(func(dir string) { clone(dir); os.Remove(filepath.Join(dir, "same.txt")) }, ResumeRequest{})
	if !IsCode(err, NeedsBase) || !strings.Contains(err.Error(), "same.txt") {
		t.Fatalf("a file of the base is gone: %v", err)
	}
	_, _, err = resume(func(dir string) { clone(dir); gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "other") }, ResumeRequest{})
	if !IsCode(err, NeedsBase) {
		t.Fatalf("another commit: %v", err)
	}
	b, out, err := resume(clone, ResumeRequest{})
	if err != nil || len(out.Withheld) != 3 {
		t.Fatalf("%v %+v", err, out)
	}
	want := tree(t, a.root)
	want["held.txt"] = held
	delete(want, "ignored.log")
	delete(want, "found.txt")
	if got := tree(t, b.root); !maps.Equal(got, want) {
		t.Fatalf("%v, not %v", got, want)
	}

	b.publish(PublishRequest{Task: "t", WithBase: true})
	c, out, err := resume(func(string) {}, ResumeRequest{})
	delete(want, "key.txt") // only git has it
	if err != nil || len(out.Withheld) != 1 {
		t.Fatalf("%v %+v", err, out)
	}
	if got := tree(t, c.root); !maps.Equal(got, want) {
		t.Fatalf("%v, not %v", got, want)
	}
}

// TestPublishUploadsWhatIsNew: contents that the hub has are not uploaded again,
// and many small packs are merged into few.
func TestPublishUploadsWhatIsNew(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	const files = maxPacks + 8
	for i := range files {
		a.write(fmt.Sprint(i), strings.Repeat("x", 1000+i))
	}
	if p := a.publish(PublishRequest{Task: "t"}); p.Uploaded != files || p.Files != files {
		t.Fatalf("%+v", p)
	}
	for i := range files {
		a.write("z.txt", strings.Repeat("z", 2000+i))
		a.write(fmt.Sprint(i), strings.Repeat("n", 3000+i))
		p := a.publish(PublishRequest{Task: "t"})
		if i < maxPacks && p.Uploaded != 2 {
			t.Fatalf("%d: %+v", i, p)
		}
		m, err := a.Hub.manifest(t.Context(), TaskHead{Task: p.Task, Manifest: p.Manifest})
		if err != nil {
			t.Fatal(err)
		}
		packs := map[string]bool{}
		for _, x := range m.Files {
			packs[x.Pack] = true
		}
		if len(packs) > maxPacks+1 {
			t.Fatalf("%d packs", len(packs))
		}
	}
	a.sound(a.ship().Store)
}

// TestPacks: each content is in one place, however often it is added, before and after its
// pack is uploaded.
func TestPacks(t *testing.T) {
	h := newFrail().hub()
	p := packer{h: h}
	at, size := map[string][]string{}, int64(0)
	for round := range 2 {
		for i := range 100 { // 67 in packs, of which 64 fill the first
			data := bytes.Repeat([]byte{byte(i)}, packedBytes+i%3/2)
			sha := hashOf(data)
			if err := p.add(t.Context(), sha, data, func(pack string) { at[sha] = append(at[sha], pack) }); err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				size += int64(len(data))
			}
		}
	}
	if err := p.flush(t.Context()); err != nil || len(p.packs) != 2 || len(p.objects) != 33 || p.bytes != size {
		t.Fatalf("%v, %d packs, %d objects, %d bytes", err, len(p.packs), len(p.objects), p.bytes)
	}
	has := map[string]string{} // pack of each content
	for _, pack := range p.packs {
		items, err := h.readPack(t.Context(), pack)
		if err != nil {
			t.Fatal(err)
		}
		for sha := range items {
			has[sha] = pack
		}
	}
	for sha, packs := range at {
		if len(packs) != 2 || packs[0] != packs[1] || packs[0] != has[sha] || packs[0] == "" && !slices.Contains(p.objects, sha) {
			t.Errorf("%s is in %q", sha, packs)
		}
	}
}

// TestSizesOfObjects: an object of any size can be read again, such as a row or a manifest of very
// many files. Of one that does not state its size, or has more bytes, no more is decoded.
func TestSizesOfObjects(t *testing.T) {
	for _, size := range []int{1, unsized, unsized + 1, 1024, 1025, 65_791, 65_792, 8<<20 + 1, journal.MaxManifest + 1} {
		object := pack(make([]byte, size))
		if data, err := unpack("", object); err != nil || len(data) != size {
			t.Errorf("%d bytes: %d, %v", size, len(data), err)
		}
		var stream bytes.Buffer
		w, _ := zstd.NewWriter(&stream)
		w.Write(make([]byte, size))
		w.Flush() // from here on the size cannot be stated
		w.Close()
		if data, err := unpack("", stream.Bytes()); (size > unsized) != IsCode(err, Damaged) {
			t.Errorf("without its size, %d bytes: %d, %v", size, len(data), err)
		}
		if data, err := unpack("", append(object, object...)); (2*size > unsized) != IsCode(err, Damaged) {
			t.Errorf("twice, %d bytes: %d, %v", size, len(data), err)
		}
	}
}

// TestOneTakesTheTask: of many machines that resume a task at the same moment
// exactly one gets it, with every file; the others learn which one.
func TestOneTakesTheTask(t *testing.T) {
	h := openHub(t, t.TempDir(), nil)
	a := openMachine(t, h, filepath.Join(t.TempDir(), "a"))
	a.write("a.txt", "one")
	a.publish(PublishRequest{Task: "t"})
	if _, err := a.Resume(t.Context(), ResumeRequest{}); !IsCode(err, NotFound) {
		t.Errorf("no task: %v", err)
	}
	const n = 6
	got := make(chan error, n)
	for i := range n {
		b := openMachine(t, &Hub{store: h.store}, filepath.Join(t.TempDir(), "b"))
		b.Lease = time.Hour
		b.now = func() time.Time { return time.Now().Add(20 * time.Minute) } // the lease of the first has expired
		go func() {
			r, err := b.Resume(t.Context(), ResumeRequest{Task: "t"})
			if err == nil && (r.Epoch != 2 || r.Written != 1) {
				t.Errorf("%d: %+v", i, r)
			}
			got <- err
		}()
	}
	won := 0
	for range n {
		if err := <-got; err == nil {
			won++
		} else if !IsCode(err, Leased) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d machines have the task", won)
	}
}

// TestTasksInTurn: what a store writes for one of its tasks is no part of the other.
func TestTasksInTurn(t *testing.T) {
	m := openMachine(t, newFrail().hub(), filepath.Join(t.TempDir(), "a"))
	want := map[string][]string{}
	for i, task := range []string{"one", "two", "one", "two", "two"} {
		text := fmt.Sprint(i)
		m.write("a.txt", text)
		m.publish(PublishRequest{Task: task})
		want[task] = append(want[task], "a.txt "+hashOf([]byte(text)))
	}
	os.Remove(filepath.Join(m.root, "a.txt"))
	if _, err := m.Resume(t.Context(), ResumeRequest{Task: "one"}); err != nil {
		t.Fatal(err)
	}
	m.write("a.txt", "resumed")
	m.ship()
	want["one"] = append(want["one"], "a.txt "+hashOf([]byte("resumed")))
	for task := range want {
		if got := acknowledged(t, m.Hub, task); !slices.Equal(got, want[task]) {
			t.Errorf("task %s has %q", task, got)
		}
	}
}

// TestTaskKeys: every task has its own key, whatever its name.
func TestTaskKeys(t *testing.T) {
	keys := map[string]string{}
	for _, task := range []string{"a", "A", "a.b", "a_b", "a/b", "ä", strings.Repeat("x", 200), strings.Repeat("x", 201), ".", "..", "-"} {
		key := new(Hub).taskKey(task)
		if err := object.CheckKey(key); err != nil || keys[key] != "" {
			t.Errorf("%q has the key %q of %q: %v", task, key, keys[key], err)
		}
		keys[key] = task
	}
}

// TestResumeWarns: the hub, or the machine that published, can send files that run
// programs. Where the operator is warned of them, the resume says so.
func TestResumeWarns(t *testing.T) {
	f := newFrail()
	a := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "a"))
	a.write(".envrc", "echo\n")
	a.publish(PublishRequest{Task: "t"})
	b := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "b"))
	out, err := b.Resume(rw.WithProtectDefaults(t.Context(), rw.ProtectWarn), ResumeRequest{Task: "t", Force: true})
	if err != nil || out.Written != 1 || len(out.Warnings) != 1 || out.Warnings[0].Reason != "changes_entry" {
		t.Errorf("%v %+v", err, out)
	}
}
