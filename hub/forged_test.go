package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// scene is a hub with the logs and tasks of two machines. before are its objects before
// the last shipment of the first one.
type scene struct {
	*frail
	t      *testing.T
	a, b   *machine
	before map[string][]byte
	tree   map[string]string // published for task t
}

func newScene(t *testing.T) *scene {
	f := newFrail()
	f.keys = nil
	x := &scene{frail: f, t: t}
	for _, m := range []**machine{&x.a, &x.b} {
		*m = openMachine(t, f.hub(), filepath.Join(t.TempDir(), "w"))
		(*m).write("a.txt", "one")
		(*m).ship()
	}
	x.a.handoff("t")
	x.a.publish(PublishRequest{Task: "t"})
	x.b.write("b.txt", "of the other one")
	x.b.publish(PublishRequest{Task: "u-2"})
	x.before = maps.Clone(f.data)
	x.a.write("dir/b.txt", "two")
	x.a.publish(PublishRequest{Task: "t"})
	x.tree = tree(t, x.a.root)
	return x
}

func (x *scene) key(m *machine) string { return headKey(m.state().Store) }

// edit changes a JSON object.
func (x *scene) edit(key string, members map[string]any) {
	var v map[string]any
	if err := json.Unmarshal(x.data[key], &v); err != nil {
		x.t.Fatal(err)
	}
	maps.Copy(v, members)
	x.data[key], _ = json.Marshal(v)
}

// slice replaces the last slice of the first machine by one with another first line.
func (x *scene) slice(change func(*sliceHead)) (key string) {
	head, rows, err := parseSlice("", x.data[x.a.state().Slice])
	if err != nil {
		x.t.Fatal(err)
	}
	change(&head)
	line, _ := json.Marshal(head)
	key = sliceKey(head.Store, head.Incarnation, head.First, head.Last)
	x.data[key] = pack(append(append(line, '\n'), rows...))
	return key
}

// loop makes the first machine's head lead to a slice that names itself as the one before.
func (x *scene) loop(first, last uint64) {
	key := x.slice(func(h *sliceHead) {
		h.First, h.Last = first, last
		h.Prev = sliceKey(h.Store, h.Incarnation, first, last)
	})
	x.edit(x.key(x.a), map[string]any{"slice": key})
}

// more ships a slice of three rows of the first machine.
func (x *scene) more() {
	for _, text := range []string{"three", "four", "five"} {
		x.a.write("dir/b.txt", text)
	}
	x.a.ship()
}

// skip leaves the second row out of the last slice of the first machine.
func (x *scene) skip() {
	key := x.a.state().Slice
	plain, _ := unpack(key, x.data[key])
	lines := bytes.SplitAfter(plain, []byte{'\n'}) // the head of the slice, the header, the rows, the footer
	lines = slices.Delete(lines, 3, 4)
	var foot journal.ExportFooter
	json.Unmarshal(lines[4], &foot)
	foot.Rows, foot.SHA256 = foot.Rows-1, hashOf(slices.Concat(lines[1:4]...))
	lines[4], _ = json.Marshal(foot)
	x.data[key] = pack(append(slices.Concat(lines[:5]...), '\n'))
}

// files makes a manifest for task t whose files are named so.
func (x *scene) files(mode uint32, paths ...string) {
	m := Manifest{Format: manifestFormat, Version: version, Task: "t", Withheld: []Withheld{}}
	data := []byte(strings.Repeat("x", packedBytes+1))
	if mode&uint32(os.ModeSymlink) != 0 {
		data = []byte("..")
	}
	sha := hashOf(data)
	x.data[x.a.Hub.objectKey(sha)] = pack(data)
	digest, _ := call.ParseDigest(sha)
	for _, path := range paths {
		m.Files = append(m.Files, ManifestFile{TreeFile: admin.TreeFile{Path: path, SHA256: digest, Bytes: int64(len(data)), Mode: mode}, Object: true})
	}
	x.manifest(m)
}

// pack makes a manifest for task t with a file of the content "one", in a pack that holds
// "other" under a name.
func (x *scene) pack(name string) {
	digest, _ := call.ParseDigest(hashOf([]byte("one")))
	line, _ := json.Marshal(packHead{packFormat, version, []packItem{{name, 5}}})
	data := append(line, "\nother"...)
	x.data[x.a.Hub.objectKey(hashOf(data))] = pack(data)
	x.manifest(Manifest{Format: manifestFormat, Version: version, Task: "t", Withheld: []Withheld{}, Files: []ManifestFile{
		{TreeFile: admin.TreeFile{Path: "a.txt", SHA256: digest, Bytes: 3, Mode: 0o644}, Pack: hashOf(data)},
	}})
}

// manifest makes m the manifest of task t.
func (x *scene) manifest(m Manifest) {
	text, _ := json.Marshal(m)
	x.data[x.a.Hub.objectKey(hashOf(text))] = pack(text)
	x.edit(x.a.Hub.taskKey("t"), map[string]any{"manifest": hashOf(text)})
}

const (
	task  = "tasks/t/head.json"
	other = "tasks/u-2/head.json"
)

// forgeries are what someone with write access to the bucket, or a restored backup, may
// do to it. Those that are hidden leave a hub that is consistent in itself.
var forgeries = []struct {
	name   string
	forge  func(*scene)
	hidden bool
}{
	{"an old head", func(x *scene) { x.data[x.key(x.a)] = x.before[x.key(x.a)] }, true},
	{"no head", func(x *scene) { delete(x.data, x.key(x.a)) }, true},
	{"the head of another store", func(x *scene) { x.data[x.key(x.a)] = x.data[x.key(x.b)] }, false},
	{"the log of another store", func(x *scene) {
		x.data[x.key(x.a)] = x.data[x.key(x.b)]
		x.edit(x.key(x.a), map[string]any{"store": x.a.state().Store})
	}, false},
	{"a head of another version", func(x *scene) { x.edit(x.key(x.a), map[string]any{"version": 2}) }, false},
	{"a head beyond the journal, without a hash", func(x *scene) { x.edit(x.key(x.a), map[string]any{"seq": uint64(1 << 40), "chain": ""}) }, false},
	{"a head beyond the journal", func(x *scene) { x.edit(x.key(x.a), map[string]any{"seq": uint64(1 << 40)}) }, false},
	{"a head that leads to no slice", func(x *scene) { x.edit(x.key(x.a), map[string]any{"slice": sliceKey("x", "y", 1, 2)}) }, false},
	{"a head that leads out of the hub", func(x *scene) { x.edit(x.key(x.a), map[string]any{"slice": "../../x"}) }, false},
	{"a head without members", func(x *scene) { x.data[x.key(x.a)] = []byte("{}") }, false},
	{"a head that is null", func(x *scene) { x.data[x.key(x.a)] = []byte("null") }, false},
	{"a slice that is missing", func(x *scene) { delete(x.data, x.a.state().Slice) }, false},
	{"a slice that is cut off", func(x *scene) {
		key := x.a.state().Slice
		x.data[key] = x.data[key][:len(x.data[key])-9]
	}, false},
	{"a slice of another store", func(x *scene) { x.data[x.a.state().Slice] = x.data[x.b.state().Slice] }, false},
	{"two slices swapped", func(x *scene) {
		head, _, _ := parseSlice("", x.data[x.a.state().Slice])
		x.data[x.a.state().Slice], x.data[head.Prev] = x.data[head.Prev], x.data[x.a.state().Slice]
	}, false},
	{"a slice that continues another log", func(x *scene) { x.slice(func(h *sliceHead) { h.Prev = x.b.state().Slice }) }, false},
	{"a slice that leads to itself", func(x *scene) { x.loop(9, 8) }, false},
	{"a slice from row 0 that leads to itself", func(x *scene) { x.loop(0, 8) }, false},
	{"a slice that lacks a row", func(x *scene) {
		x.more()
		x.skip()
	}, false},
	{"a slice with a row more than its name says", func(x *scene) {
		x.more()
		x.edit(x.key(x.a), map[string]any{"slice": x.slice(func(h *sliceHead) { h.Last-- })})
	}, false},
	{"objects swapped", func(x *scene) {
		var last string
		for key := range x.data {
			if strings.HasPrefix(key, "objects/") {
				if last != "" {
					x.data[key], x.data[last] = x.data[last], x.data[key]
				}
				last = key
			}
		}
	}, false},
	{"everything marked as garbage", func(x *scene) {
		var m marked
		for key := range x.data {
			m.Keys, m.Deleting = append(m.Keys, key), append(m.Deleting, key)
		}
		m.At = stamp(time.Now().Add(-100 * time.Hour))
		x.data[markKey], _ = json.Marshal(m)
	}, true},
	{"an old head of the task", func(x *scene) { x.data[task] = x.before[task] }, true},
	{"no head of the task", func(x *scene) { delete(x.data, task) }, true},
	{"the head of another task", func(x *scene) { x.data[task] = x.data[other] }, false},
	{"a task without epochs", func(x *scene) { x.edit(task, map[string]any{"epochs": nil}) }, false},
	{"a task with epochs of others", func(x *scene) {
		x.edit(task, map[string]any{"epochs": []Epoch{{1, "../x", 0, 9}}})
	}, false},
	{"a task that is null", func(x *scene) { x.data[task] = []byte("null") }, false},
	{"the manifest of another task", func(x *scene) {
		var head TaskHead
		json.Unmarshal(x.data[other], &head)
		x.edit(task, map[string]any{"manifest": head.Manifest})
	}, false},
	{"a file beside a task", func(x *scene) { x.data["tasks/u"] = nil }, true},
	{"a manifest that is missing", func(x *scene) { x.edit(task, map[string]any{"manifest": hashOf(nil)}) }, false},
	{"a pack of other bytes", func(x *scene) { x.pack(hashOf([]byte("one"))) }, false},
	{"a pack without a file", func(x *scene) { x.pack(hashOf([]byte("other"))) }, false},
	{"files outside of the workspace", func(x *scene) { x.files(0o644, "../evil") }, true},
	{"files at absolute paths", func(x *scene) { x.files(0o644, "/tmp/rw-forged-evil") }, true},
	{"files of git", func(x *scene) { x.files(0o755, ".git/hooks/pre-commit") }, true},
	{"files of the state", func(x *scene) { x.files(0o644, ".resilient_write/policy.yaml") }, true},
	{"files twice", func(x *scene) { x.files(0o644, "a", "a") }, true},
	{"files below files", func(x *scene) { x.files(0o644, "a", "a/b") }, true},
	{"files below links", func(x *scene) { x.files(uint32(os.ModeSymlink)|0o777, "a", "a/evil") }, true},
	{"files with setuid bits", func(x *scene) { x.files(0o4755|uint32(os.ModeSetuid), "a") }, true},
}

// TestForgedSweep: every forgery is refused with an error that says what to do, or does no
// harm. No file of the machines changes, no row is lost or taken for shipped that the hub
// lacks, and a resume writes what was published or nothing.
func TestForgedSweep(t *testing.T) {
	for _, row := range forgeries {
		t.Run(row.name, func(t *testing.T) {
			for _, backwards := range []bool{false, true} {
				x := newScene(t)
				row.forge(x)
				v, err := x.a.Hub.Verify(t.Context(), nil)
				if err != nil || !row.hidden && len(v.Problems) == 0 {
					t.Errorf("verify: %v %+v", err, v.Problems)
				}
				st, err := x.a.Hub.Status(t.Context())
				if err != nil || !slices.ContainsFunc(st.Tasks, func(h TaskHead) bool { return h.Task == "u-2" }) || len(st.Problems) > len(v.Problems) {
					t.Errorf("status: %v %+v", err, st)
				}
				steps := []func(){x.resume, x.collect, x.work, x.read}
				if backwards {
					slices.Reverse(steps)
				}
				for _, step := range steps {
					step()
				}
				if now := tree(t, x.a.root); now["c.txt"] == "" || len(now) != len(x.tree)+1 || strings.Count(x.a.journalOf(), `"c.txt"`) == 0 {
					t.Errorf("the workspace has %q", now)
				}
				if store := x.b.ship().Store; inHub(t, x.b.Hub, store) != x.b.journalOf() {
					t.Error("the log of the other machine is another one")
				}
			}
		})
	}
}

// typed checks that an error says what to do.
func (x *scene) typed(what string, err error) {
	x.t.Helper()
	var own *Error
	var e *rw.Error
	if err != nil && (!errors.As(err, &own) || own.Hint == "") && (!errors.As(err, &e) || e.Hint == "") {
		x.t.Errorf("%s: %v", what, err)
	}
}

// collect deletes what nothing leads to.
func (x *scene) collect() {
	v, err := x.a.Hub.Verify(x.t.Context(), nil)
	x.typed("verify", err)
	for _, after := range []time.Duration{0, 2 * time.Hour} {
		_, err = x.a.Hub.GC(x.t.Context(), time.Now().Add(after), time.Hour)
		x.typed("gc", err)
	}
	now, err := x.a.Hub.Verify(x.t.Context(), nil)
	if err != nil || len(now.Problems) > len(v.Problems) {
		x.t.Errorf("after gc: %v %+v", err, now.Problems)
	}
}

// work writes on the first machine, and ships.
func (x *scene) work() {
	x.a.write("c.txt", "three")
	_, err := x.a.Ship(x.t.Context())
	x.typed("ship", err)
	if st := x.a.state(); st.Seq > x.head() {
		x.t.Errorf("%d rows count as shipped", st.Seq)
	}
	_, err = x.a.Publish(x.t.Context(), PublishRequest{Task: "t", Root: x.a.root})
	x.typed("publish", err)
}

func (x *scene) read() {
	_, err := x.a.Hub.FoldTask(x.t.Context(), "t", func(uint64, Row) error { return nil })
	x.typed("fold", err)
	_, err = x.a.Erase(x.t.Context(), []byte("a-word-that-nobody-wrote-4711"))
	x.typed("erase", err)
}

// head is the newest row of the first machine.
func (x *scene) head() uint64 {
	r, err := x.a.Store.Admin().Export(x.t.Context(), admin.ExportRequest{W: io.Discard, Same: true})
	if err != nil {
		x.t.Fatal(err)
	}
	return r.Last
}

// resume takes the task on a third machine.
func (x *scene) resume() {
	x.t.Helper()
	dir := x.t.TempDir()
	c := openMachine(x.t, x.hub(), filepath.Join(dir, "w"))
	st, err := c.Hub.Status(x.t.Context())
	x.typed("status", err)
	_, err = c.Resume(x.t.Context(), ResumeRequest{Task: "t", Force: true})
	x.typed("resume", err)
	if slices.ContainsFunc(st.Problems, func(p Problem) bool { return p.Key == task }) && !IsCode(err, Damaged) {
		x.t.Errorf("resume: %v", err)
	}
	now := tree(x.t, c.root)
	for name := range now {
		if strings.HasPrefix(name, ".git") || strings.HasPrefix(name, ".resilient") {
			x.t.Errorf("%s was written", name)
		}
	}
	if err != nil && len(now) > 0 {
		x.t.Errorf("%v, and the workspace has %q", err, now)
	}
	for _, name := range []string{filepath.Join(dir, "evil"), "/tmp/rw-forged-evil"} {
		if _, err := os.Lstat(name); err == nil {
			x.t.Errorf("%s was written", name)
		}
	}
	if info, err := os.Lstat(filepath.Join(c.root, "a")); err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		x.t.Error("a setuid file was written")
	}
}
