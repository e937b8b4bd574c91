//go:build linux

package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	rw "github.com/resilientwrite/resilientwrite"
)

// smallDisk is a workspace on a file system of its own.
func smallDisk(t *testing.T, size string) string {
	dir := workspace(t)
	mount(t, "tmpfs", dir, "tmpfs", 0, "size="+size)
	return dir
}

// fillDisk leaves no free byte on the file system.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	noErr(t, err)
	defer f.Close()
	for _, piece := range []int{64 << 10, 4 << 10} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, piece))
		}
		isErr(t, err, unix.ENOSPC)
	}
	if left := freeBytes(t, dir); left > 0 {
		t.Fatalf("%d bytes are left", left)
	}
}

func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	noErr(t, unix.Statfs(dir, &st))
	return int64(st.Bavail) * st.Bsize
}

func reserveBytes(dir string) int64 {
	st, err := os.Stat(filepath.Join(dir, rw.StateDirName, "reserve"))
	if err != nil {
		return 0
	}
	return st.Size()
}

// TestFullDiskHasAWayOut: on a disk without a free byte everything can be deleted,
// deletions can be undone, and Compact works, while ordinary writes are still refused
// and do not use up the reserve. When there is space again the reserve is complete
// again.
func TestFullDiskHasAWayOut(t *testing.T) {
	dir := smallDisk(t, "1536k")
	s := open(t, dir, nil)
	const files = 60
	for i := range files {
		write(t, s, fmt.Sprintf("f%02d.txt", i), strings.Repeat("x", 1000)+fmt.Sprint(i), rw.ModeCreate)
	}
	if got := reserveBytes(dir); got != rw.ReserveSize {
		t.Fatalf("the reserve has %d bytes", got)
	}
	fillDisk(t, dir)
	refusals := func() {
		t.Helper()
		for range 3 {
			refused(t, s, dir, put("new.txt", strings.Repeat("n", 5000), rw.ModeCreate), rw.ErrDiskFull)
		}
	}
	refusals()
	if got := reserveBytes(dir); got != rw.ReserveSize {
		t.Errorf("refusals took the reserve down to %d bytes", got)
	}
	for i := range files {
		must(s.Delete(background, rw.DeleteRequest{Path: fmt.Sprintf("f%02d.txt", i)}))(t, "delete ", i)
		if i%20 == 0 {
			refusals()
		}
	}
	for turn, n := range []int{5, 1, 1, 10} { // an undo is undone by the next one
		must(s.Undo(background, rw.UndoRequest{N: n}))(t, "undo ", turn)
		for i := files - 1; i >= files-5; i-- {
			name := fmt.Sprintf("f%02d.txt", i)
			if turn == 1 {
				if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
					t.Fatalf("undo %d: %s is there", turn, name)
				}
				continue
			}
			fileIs(t, dir, name, strings.Repeat("x", 1000)+fmt.Sprint(i))
		}
	}
	if r, err := s.Admin().Compact(background, rw.CompactRequest{}); err != nil || r.Status != rw.StatusSucceeded {
		t.Fatalf("compact: %v (%v)", err, errors.Unwrap(err))
	}
	refusals()
	check(t, s, true)
	if got := reserveBytes(dir); got < rw.ReserveSize/4 || got == rw.ReserveSize {
		t.Errorf("the reserve has %d bytes while the disk is full", got)
	}
	// A little room is for those who made it, not for the reserve.
	filler := filepath.Join(dir, "filler")
	st := must(os.Stat(filler))(t)
	noErr(t, os.Truncate(filler, st.Size()-96<<10))
	for i := range 3 {
		write(t, s, fmt.Sprintf("little%d.txt", i), strings.Repeat("l", 20<<10), rw.ModeCreate)
	}
	noErr(t, os.Remove(filler))
	write(t, s, "new.txt", "there is room", rw.ModeCreate)
	if got := reserveBytes(dir); got != rw.ReserveSize {
		t.Errorf("the reserve has %d bytes when there is room again", got)
	}
	check(t, s, true)
}

// TestFullDiskOpensWithATornTail: bytes that a crash left are passed over without
// the reserve.
func TestFullDiskOpensWithATornTail(t *testing.T) {
	dir := smallDisk(t, "1536k")
	s := open(t, dir, nil)
	write(t, s, "a.txt", "a", rw.ModeCreate)
	noErr(t, s.Close(background))
	segments, _ := filepath.Glob(filepath.Join(dir, rw.StateDirName, "journal", "*.jsonl"))
	if len(segments) != 1 {
		t.Fatal(segments)
	}
	st := must(os.Stat(segments[0]))(t)
	f := must(os.OpenFile(segments[0], os.O_WRONLY|os.O_APPEND, 0))(t)
	_, err := f.WriteString(strings.Repeat("z", 4096-int(st.Size()%4096))) // nothing is left of the page
	noErr(t, err)
	noErr(t, f.Close())
	fillDisk(t, dir)
	s = open(t, dir, nil)
	if s.Recovery().TornBytes == 0 {
		t.Error("the torn bytes are not told")
	}
	if got := reserveBytes(dir); got != rw.ReserveSize {
		t.Errorf("the reserve has %d bytes", got)
	}
	must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t, "delete")
	refused(t, s, dir, put("new.txt", strings.Repeat("n", 5000), rw.ModeCreate), rw.ErrDiskFull)
}

// TestFullDiskOpens: a store whose process died opens on a disk without a free byte,
// completes the interrupted work and has its reserve.
func TestFullDiskOpens(t *testing.T) {
	dir := smallDisk(t, "1536k")
	s := open(t, dir, nil)
	write(t, s, "a.txt", strings.Repeat("a", 9000), rw.ModeCreate)
	for _, stage := range []rw.Stage{rw.StageRecord, rw.StagePublish, rw.StageSettle} {
		s.Close(background)
		cmd, _ := spawnIn(t, dir, "die", string(stage))
		cmd.Wait()
		fillDisk(t, dir)
		s = open(t, dir, nil)
		must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t, stage, ": delete")
		must(s.Undo(background, rw.UndoRequest{}))(t, stage, ": undo")
		check(t, s, true)
		os.Remove(filepath.Join(dir, "filler"))
	}
}

// TestFullDiskOpensWithoutAReserve: on a disk without a free byte and without a
// reserve, a store with a torn row at the end of its journal opens and can be
// read. The space of the torn row is enough for the way out.
func TestFullDiskOpensWithoutAReserve(t *testing.T) {
	dir := smallDisk(t, "1536k")
	s := open(t, dir, nil)
	write(t, s, "a.txt", strings.Repeat("a", 9000), rw.ModeCreate)
	write(t, s, "b.txt", "b", rw.ModeCreate)
	noErr(t, s.Close(background))
	segments, _ := filepath.Glob(filepath.Join(dir, rw.StateDirName, "journal", "*.jsonl"))
	if len(segments) != 1 {
		t.Fatal(segments)
	}
	f := must(os.OpenFile(segments[0], os.O_WRONLY|os.O_APPEND, 0))(t)
	st := must(f.Stat())(t)
	_, err := f.WriteString(strings.Repeat("z", 20480-int(st.Size()%4096))) // to the end of a page
	noErr(t, err)
	noErr(t, f.Close())
	noErr(t, os.Remove(filepath.Join(dir, rw.StateDirName, "reserve")))
	fillDisk(t, dir)
	for range 2 {
		s = open(t, dir, nil)
		if r, err := s.Read(background, rw.ReadRequest{Path: "b.txt"}); err != nil || string(r.Content) != "b" {
			t.Fatalf("read: %v", err)
		}
		must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t)
		must(s.Admin().Compact(background, rw.CompactRequest{Call: rw.Call{DryRun: true}}))(t)
		check(t, s, true)
		noErr(t, s.Close(background))
	}
	s = open(t, dir, nil)
	must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t, "delete")
	check(t, s, true)
}
