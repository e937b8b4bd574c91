//go:build unix

package resilientwrite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestInPlaceWritersThroughTwoHardLinks: two stores write one file in place, each by a
// name of its own. It is never torn, and every acknowledged content is that of the file
// or a version.
func TestInPlaceWritersThroughTwoHardLinks(t *testing.T) {
	dir := workspace(t)
	content := func(w, i int) string { return strings.Repeat(fmt.Sprintf("%c%03d ", 'a'+w, i), 4000) }
	noErr(t, os.WriteFile(filepath.Join(dir, "0"), []byte(content(0, 0)), 0o644))
	noErr(t, os.Link(filepath.Join(dir, "0"), filepath.Join(dir, "1")))
	const each = 40
	var acked [2][each + 1]bool
	var wg sync.WaitGroup
	for w := range 2 {
		s := open(t, dir, &rw.Options{HardLinks: rw.HardLinksInPlace, Sync: rw.SyncOff})
		wg.Go(func() {
			for i := 1; i <= each; i++ {
				if _, err := s.SafeWrite(context.Background(), put(fmt.Sprint(w), content(w, i), rw.ModeOverwrite)); err != nil {
					t.Errorf("%v (%v)", err, errors.Unwrap(err))
				} else {
					acked[w][i] = true
				}
			}
		})
	}
	wg.Wait()
	got := string(must(os.ReadFile(filepath.Join(dir, "0")))(t))
	fileIs(t, dir, "1", got)
	expect(t, got == content(0, each) || got == content(1, each), "the file holds %.20q, which was not written last", got)
	for w := range 2 {
		for i := 1; i <= each; i++ {
			want := content(w, i)
			_, err := os.Stat(filepath.Join(dir, rw.StateDirName, "history", hash(want)[:2], hash(want)))
			expect(t, err == nil || want == got || !acked[w][i], "content %d of writer %d is lost: %v", i, w, err)
		}
	}
}

// TestStreamingOfTwoGiB: what is done to a file beyond 2 GiB does not wrap an offset.
func TestStreamingOfTwoGiB(t *testing.T) {
	testbed.SkipIf(t, short(), "it reads 2 GiB several times; RW_LONG is not set")
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	const size = 1<<31 + 5
	name := filepath.Join(dir, "large.bin")
	noErr(t, os.WriteFile(name, []byte("begin"), 0o644))
	if err := os.Truncate(name, size); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	r := write(t, s, "large.bin", "end", rw.ModeAppend)
	mustEqual(t, r.Bytes, int64(size+3))
	part := must(s.Read(background, rw.ReadRequest{Path: "large.bin", Offset: size - 2}))(t)
	mustEqual(t, string(part.Content), "\x00\x00end")
	mustEqual(t, part.Bytes, int64(size+3))
	must(s.Move(background, rw.MoveRequest{Path: "large.bin", To: "moved.bin"}))(t)
	must(s.Delete(background, rw.DeleteRequest{Path: "moved.bin", Expect: rw.Exactly(r.SHA256)}))(t)
	must(s.Undo(background, rw.UndoRequest{N: 2}))(t)
	part = must(s.Read(background, rw.ReadRequest{Path: "large.bin", Offset: size}))(t)
	mustEqual(t, string(part.Content), "end")
	mustEqual(t, part.SHA256, r.SHA256)
	check(t, s, false)
}

// TestDirectoryOf100000Files: a write to a large directory does not list it, in Open,
// recovery and undo included.
func TestDirectoryOf100000Files(t *testing.T) {
	t.Parallel()
	fs := simfs.New()
	for i := range 100_000 {
		fs.WriteFile(fmt.Sprintf("large/%06d.txt", i), nil, 0o644)
	}
	s := must(rw.OpenSim(fs, nil, rw.Sim{Unrecovered: true}))(t)
	fs.ResetTrace()
	write(t, s, "large/050000.txt", "replaced", rw.ModeOverwrite)
	write(t, s, "large/new.txt", "new", rw.ModeCreate)
	must(s.Move(background, rw.MoveRequest{Path: "large/new.txt", To: "large/moved.txt"}))(t)
	must(s.Delete(background, rw.DeleteRequest{Path: "large/000000.txt"}))(t)
	must(s.Undo(background, rw.UndoRequest{N: 3}))(t)
	noErr(t, s.Close(background))
	s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
	defer s.Close(background)
	for _, op := range fs.Trace() {
		expect(t, op.Kind != "readdir" || !strings.HasPrefix(op.Path, "large"), "the directory is listed: %s", op)
	}
	mustEqual(t, files(fs)["large/050000.txt"], "replaced")
	mustEqual(t, len(files(fs)), 100_000)
}

// TestLongestPaths: a path of the workspace may be as long as the system allows a path
// to be, although the path of the file from the root is longer then.
func TestLongestPaths(t *testing.T) {
	for _, state := range []string{"", filepath.Join(t.TempDir(), "state")} {
		dir := workspace(t)
		s := open(t, dir, &rw.Options{StateDir: state})
		parts := slices.Repeat([]string{strings.Repeat("d", 255)}, 15)
		deep := path.Join(append(parts, strings.Repeat("f", 4095-15*256))...)
		mustEqual(t, len(deep), 4095)
		fails(s.SafeWrite(background, put(deep+"f", "x", rw.ModeCreate)))(t, rw.ErrPathTooLong)
		write(t, s, deep, "first\n", rw.ModeCreate)
		write(t, s, deep, "second\n", rw.ModeOverwrite)
		write(t, s, deep, "third\n", rw.ModeAppend)
		must(s.Move(background, rw.MoveRequest{Path: deep, To: "short.txt"}))(t)
		fileIs(t, dir, "short.txt", "second\nthird\n")
		must(s.Undo(background, rw.UndoRequest{N: 2}))(t)
		got := must(s.Read(background, rw.ReadRequest{Path: deep}))(t)
		mustEqual(t, string(got.Content), "second\n")
		versions := must(s.History(background, rw.HistoryRequest{Path: deep}))(t).Versions
		length(t, versions, 5, "versions")
		must(s.Delete(background, rw.DeleteRequest{Path: deep}))(t)
		check(t, s, true)
		noErr(t, removeDeep(dir, parts))
	}
}

// removeDeep removes directories whose path is too long for the system, innermost
// first.
func removeDeep(dir string, parts []string) error {
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return removeBelow(at, parts)
}

func removeBelow(at int, parts []string) error {
	if len(parts) == 0 {
		return nil
	}
	next, err := unix.Openat(at, parts[0], unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = removeBelow(next, parts[1:])
	unix.Close(next)
	if err != nil {
		return err
	}
	return unix.Unlinkat(at, parts[0], unix.AT_REMOVEDIR)
}

// TestClockThatJumps: versions, undo, keys and recovery go by the order of rows. A clock
// that jumps by years in either direction changes the times that are shown, and nothing
// else.
func TestClockThatJumps(t *testing.T) {
	jumps := []int{0, -10, 30, -5, 80, -1}
	for _, last := range []int{-20, 20} {
		fs := simfs.New()
		for i, years := range jumps {
			s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: fmt.Sprintf("%04d", i), Years: years}))(t)
			r := put("a.txt", fmt.Sprintf("content %d\n", i), rw.ModeOverwrite)
			r.IdempotencyKey = fmt.Sprint("key-", i)
			must(s.SafeWrite(background, r))(t)
			if i%2 == 0 {
				noErr(t, s.Close(background))
			} else {
				fs.Kill()
			}
		}
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "last", Years: last}))(t)
		mustEqual(t, files(fs)["a.txt"], "content 5\n")
		list := must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t).Versions
		length(t, list, len(jumps), "versions")
		for i, v := range list {
			content := fmt.Sprintf("content %d\n", len(jumps)-1-i)
			mustEqual(t, v.SHA256.String(), hash(content), "version ", v.Rev)
			expect(t, v.Available, "version %d is gone", v.Rev)
		}
		must(s.Undo(background, rw.UndoRequest{}))(t)
		mustEqual(t, files(fs)["a.txt"], "content 4\n")
		check(t, s, true)
		noErr(t, s.Close(background))
	}
}

// TestContentBelongsToTheCaller: a caller may use its buffer for other bytes as soon as a
// call has returned. The file and the version keep what was passed.
func TestContentBelongsToTheCaller(t *testing.T) {
	text := func(i int) []byte { return []byte(strings.Repeat(fmt.Sprintf("line %d\n", i), 200)) }
	for what, call := range map[string]func(s *rw.Store, content []byte) error{
		"write": func(s *rw.Store, b []byte) error {
			return errorOf(s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: b, Mode: rw.ModeOverwrite}))
		},
		"append": func(s *rw.Store, b []byte) error {
			return errorOf(s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: b, Mode: rw.ModeAppend}))
		},
		"stream": func(s *rw.Store, b []byte) error {
			return errorOf(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "a.txt", Mode: rw.ModeOverwrite}, bytes.NewReader(b)))
		},
		"tx": func(s *rw.Store, b []byte) error {
			return errorOf(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "a.txt", Content: b, Mode: rw.ModeOverwrite}}}))
		},
		"scratch": func(s *rw.Store, b []byte) error {
			return errorOf(s.ScratchPut(background, rw.ScratchPutRequest{Content: b, Label: "kept"}))
		},
		"chunk": func(s *rw.Store, b []byte) error {
			return errorOf(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "one", Content: b}))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := workspace(t)
			s := must(rw.Open(background, dir, nil))(t)
			buf := make([]byte, 0, 4<<10)
			for i := range 5 {
				buf = append(buf[:0], text(i)...)
				noErr(t, call(s, buf), what)
				for j := range buf {
					buf[j] = '#'
				}
			}
			noErr(t, s.Close(background))
			s = open(t, dir, nil)
			check(t, s, true)
			if what == "scratch" || what == "chunk" {
				return
			}
			versions := must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t).Versions
			length(t, versions, 5, "versions")
			for i, v := range versions {
				got := must(s.Read(background, rw.ReadRequest{Path: "a.txt", Version: v.Version}))(t, "version ", v.Rev)
				expect(t, bytes.HasSuffix(got.Content, text(4-i)), "version %d holds %.40q", v.Rev, got.Content)
			}
		})
	}
}
