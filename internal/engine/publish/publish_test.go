package publish_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	. "github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const before, after, foreign = "what was there\n", "what is to be there\n", "by another program\n"

// bench is a directory with a slot and the change that uses it.
type bench struct {
	t   *testing.T
	fs  *simfs.FS
	dir fsx.Dir
	ch  *Change
}

func put(t *testing.T, d fsx.Dir, name, text string) fsx.Stat {
	t.Helper()
	d.Remove(name)
	f := testbed.Must(d.Open(name, fsx.Read|fsx.Write|fsx.Create|fsx.Excl, 0o644))(t)
	defer f.Close()
	testbed.Must(f.WriteAt([]byte(text), 0))(t)
	st := testbed.Must(f.Stat())(t)
	return st
}

func (b *bench) content(name string) string {
	b.t.Helper()
	f, err := b.dir.Open(name, fsx.Read, 0)
	if err != nil {
		return "none"
	}
	defer f.Close()
	buf := make([]byte, 1000)
	n, _ := f.ReadAt(buf, 0)
	return string(buf[:n])
}

func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

func newBench(t *testing.T, how Primitive, over bool) *bench {
	t.Helper()
	fs := simfs.New()
	d := fs.Root()
	b := &bench{t: t, fs: fs, dir: d}
	name := testbed.Must(MakeSlot(d, "w-0", ""))(t)
	_, ino, ok := ParseSlot(name)
	testbed.Require(t, ok, "%s is no slot", name)
	b.ch = &Change{Primitive: how, Slot: Slot{Dir: d, Name: name, Ino: ino}, Target: Name{Dir: d, Name: "a"}, Guarded: true, Redo: true}
	old := func(name, text string) File {
		return File{Exists: true, Stat: put(t, d, name, text), SHA256: sum(text)}
	}
	switch {
	case how == Move:
		b.ch.Source, b.ch.Moved = Name{Dir: d, Name: "from"}, old("from", after)
		if over {
			b.ch.Old = old("a", before)
		}
		return b
	case how != Create:
		b.ch.Old = old("a", before)
		b.ch.Old.Bytes = strings.NewReader(before)
	}
	f := testbed.Must(d.Open(name, fsx.Read|fsx.Write, 0))(t)
	t.Cleanup(func() { f.Close() })
	if how != Delete {
		f.WriteAt([]byte(after), 0)
	}
	st, _ := f.Stat()
	b.ch.Slot.Born = st.Btime
	b.ch.New = File{Exists: true, Stat: st, SHA256: sum(after), Bytes: f}
	return b
}

// primitives are all of them, and what the target holds when one is published.
var primitives = []struct {
	name string
	how  Primitive
	over bool
	want string
}{
	{"create", Create, false, after}, {"replace", Replace, false, after}, {"delete", Delete, false, "none"}, {"move", Move, false, after},
	{"move over", Move, true, after}, {"append", Append, false, before + after}, {"in place", InPlace, false, after},
}

// TestJudge is the table of recovery: what a row that names a slot means, for
// each primitive and what a process or a person left.
func TestJudge(t *testing.T) {
	for _, p := range primitives {
		t.Run(p.name, func(t *testing.T) {
			judge := func(what string, want State, leave func(b *bench)) {
				t.Helper()
				b := newBench(t, p.how, p.over)
				leave(b)
				got, err := b.ch.Judge()
				testbed.Expect(t, err == nil && got == want, "%s: state %d, want %d (%v)", what, got, want, err)
			}
			judge("nothing done", Pending, func(*bench) {})
			judge("the target is another program's", Taken, func(b *bench) { put(t, b.dir, "a", foreign) })
			judge("the slot is gone", Published, func(b *bench) { b.ch.Slot.Remove(); put(t, b.dir, "a", foreign) })
			if p.how == Move {
				judge("the source is another program's", Taken, func(b *bench) { put(t, b.dir, "from", foreign) })
			}
			if p.how != Append && p.how != InPlace && p.how != Move {
				judge("published", Published, func(b *bench) {
					testbed.NoErr(t, b.ch.Publish())
				})
				judge("published, and reverted by a person", Published, func(b *bench) {
					b.ch.Publish()
					put(t, b.dir, "a", before)
				})
			}
			if p.how == Delete {
				judge("deleted by another program", Published, func(b *bench) { b.dir.Remove("a") })
			} else if p.how != Create && !(p.how == Move && !p.over) {
				judge("the target was deleted", Taken, func(b *bench) { b.dir.Remove("a") })
			}
		})
	}
}

// TestPublishAndUndo: a change that is published and rolled back leaves the
// names and contents as they were, and the slot as the mark of a change that is
// not published.
func TestPublishAndUndo(t *testing.T) {
	for _, p := range primitives {
		t.Run(p.name, func(t *testing.T) {
			b := newBench(t, p.how, p.over)
			b.ch.Redo = false
			a, from := b.content("a"), b.content("from")
			err := b.ch.Publish()
			testbed.Require(t, err == nil && b.ch.Done, "%v", err)
			testbed.Equal(t, b.content("a"), p.want, "published")
			testbed.NoErr(t, b.ch.Undo())
			b.ch.Close()
			if b.content("a") != a || b.content("from") != from {
				t.Errorf("rolled back: %q and %q, want %q and %q", b.content("a"), b.content("from"), a, from)
			}
			b.ch.Redo, b.ch.Done = true, false
			testbed.Equal(t, testbed.Must(b.ch.Judge())(t), Pending, "rolled back: state")
		})
	}
}

// TestForeignFilesStay: what another program saves before the change is seen,
// and has its name again when the change is rolled back.
func TestForeignFilesStay(t *testing.T) {
	for _, p := range primitives {
		t.Run(p.name, func(t *testing.T) {
			b := newBench(t, p.how, p.over)
			b.ch.Redo = false
			name := "a"
			if p.how == Move {
				name = "from"
			}
			put(t, b.dir, name, foreign)
			err := b.ch.Publish()
			testbed.Require(t, errors.Is(err, ErrForeign) || errors.Is(err, ErrExists), "published: %v", err)
			testbed.NoErr(t, b.ch.Undo())
			b.ch.Close()
			testbed.Equal(t, b.content(name), foreign, name, " holds")
		})
	}
}

// savedWhenOpened is a directory in which another program saves a file as soon as it is opened.
type savedWhenOpened struct {
	fsx.Dir
	t *testing.T
}

func (d savedWhenOpened) Open(name string, flag fsx.Flag, perm uint32) (fsx.File, error) {
	f, err := d.Dir.Open(name, flag, perm)
	put(d.t, d.Dir, name, foreign)
	return f, err
}

// TestSavedWhileItIsJudged: what another program saves while recovery compares the file is not
// taken for the file.
func TestSavedWhileItIsJudged(t *testing.T) {
	for _, p := range primitives {
		if p.how == Create || p.how == Append || p.how == InPlace {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			b := newBench(t, p.how, p.over)
			name, at, old := "a", &b.ch.Target.Dir, &b.ch.Old
			if p.how == Move {
				name, at, old = "from", &b.ch.Source.Dir, &b.ch.Moved
			}
			old.Stat.Ctime++ // so that the content is compared
			*at = savedWhenOpened{b.dir, t}
			testbed.Equal(t, testbed.Must(b.ch.Judge())(t), Pending, "state")
			*at = b.dir
			err := b.ch.Publish()
			testbed.Require(t, errors.Is(err, ErrForeign), "published: %v", err)
			testbed.NoErr(t, b.ch.Undo())
			testbed.Equal(t, b.content(name), foreign, name, " holds")
		})
	}
}

// makeAgain replaces a file by another program's, which gets the inode number of one that
// is gone.
func (b *bench) makeAgain(gone, name string) {
	st, err := b.dir.Lstat(gone)
	if err == nil {
		err = b.dir.Remove(gone)
	}
	testbed.NoErr(b.t, err)
	b.fs.UseAgain(st.Ino)
	testbed.MustEqual(b.t, put(b.t, b.dir, name, foreign).Ino, st.Ino, "another inode number")
}

// TestInodeNumbersAreUsedAgain: a file of another program is not taken for the one whose
// inode number it has.
func TestInodeNumbersAreUsedAgain(t *testing.T) {
	for _, how := range []Primitive{Create, Replace} {
		b := newBench(t, how, false)
		testbed.NoErr(t, b.ch.Publish())
		b.makeAgain("a", "a")
		if again, err := b.ch.Reopen(); err != nil || again || b.content("a") != foreign {
			t.Errorf("%s: reopened %v (%v), the target holds %q", how, again, err, b.content("a"))
		}
	}
	for _, over := range []bool{false, true} {
		b := newBench(t, Move, over)
		if over {
			b.dir.Remove("a")
		}
		b.makeAgain("from", "a")
		testbed.Equal(t, testbed.Must(b.ch.Judge())(t), Taken, "move, over ", over, ": state")
	}
}

func TestSlotNames(t *testing.T) {
	for name, want := range map[string]bool{
		"w-0-2s": true, "w1a-zz-0": true, "w-0.new": true,
		"": false, "w": false, "w-0": false, "-0-1": false, "w-0-": false, "w-0-1-2": false, "w-0-!": false, "w-0-1.tmp": false, "a-1-1.0": false,
	} {
		_, _, ok := ParseSlot(name)
		testbed.Expect(t, ok == want, "%q: %v", name, ok)
	}
}

// TestAheadReturnsAtOnce: slots are made beside the caller, and Wait, Take and Close
// return when they are made. None is left after Close.
func TestAheadReturnsAtOnce(t *testing.T) {
	for name, end := range map[string]func(*Slots){
		"wait":  (*Slots).Wait,
		"take":  func(s *Slots) { s.Take(0) },
		"close": (*Slots).Close,
	} {
		synctest.Test(t, func(t *testing.T) {
			dir := simfs.New().Root()
			flush := make(chan bool)
			s := &Slots{Dir: dir, Writer: "w", Made: new(atomic.Uint64), Sync: func(fsx.Dir) error { <-flush; return nil }}
			s.Ahead()
			ended := false
			go func() { end(s); ended = true }()
			synctest.Wait()
			testbed.Expect(t, !ended, "%s: returned while slots were made", name)
			close(flush)
			synctest.Wait()
			s.Close()
			left, err := dir.Names()
			if name == "take" && len(left) == 1 {
				left = nil // the one that was taken
			}
			testbed.Expect(t, ended && err == nil && len(left) == 0, "%s: ended %v, left %q, %v", name, ended, left, err)
		})
	}
}
