//go:build linux

package resilientwrite_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	statedirs "github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// needsRoot skips a test that only root can run. Where CI promises root, a
// skip is a failure.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	require(t, os.Getenv("RW_CI") != "1", "CI must run as root")
	t.Skip("only root can mount and change owners")
}

func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	needsRoot(t)
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		testbed.SkipIf(t, errors.Is(err, unix.EPERM) && os.Getenv("RW_CI") != "1", "mounting is not allowed here")
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
}

func warned(r rw.SafeWriteResult, reason string) bool {
	return slices.ContainsFunc(r.Warnings, func(w rw.Warning) bool { return w.Reason == reason })
}

// TestMetadataSurvives: mode bits, owner, group, extended attributes and ACLs
// are those of the file that was replaced.
func TestMetadataSurvives(t *testing.T) {
	needsRoot(t)
	s, dir := opened(t, nil)
	acl := posixACL([]aclEntry{{1, 7, 0}, {2, 6, 1234}, {4, 5, 0}, {16, 7, 0}, {32, 0, 0}})
	for _, mode := range []uint32{0o600, 0o640, 0o755, 0o4755, 0o2755, 0o1644, 0o666} {
		for _, op := range []rw.WriteMode{rw.ModeOverwrite, rw.ModeAppend} {
			name := fmt.Sprintf("%o-%s", mode, op)
			path := filepath.Join(dir, name)
			os.WriteFile(path, []byte("old\n"), 0o600)
			os.Chown(path, 1234, 2345)
			noErr(t, unix.Setxattr(path, "user.note", []byte("keep\x00me"), 0))
			if mode == 0o755 {
				noErr(t, unix.Setxattr(path, "system.posix_acl_access", acl, 0))
			}
			noErr(t, unix.Chmod(path, mode))
			r := write(t, s, name, "new\n", op)
			length(t, r.Warnings, 0, name)
			var st unix.Stat_t
			unix.Stat(path, &st)
			expect(t, st.Mode&0o7777 == mode && st.Uid == 1234 && st.Gid == 2345, "%s: mode %o, owner %d:%d", name, st.Mode&0o7777, st.Uid, st.Gid)
			equal(t, xattr(path, "user.note"), "keep\x00me", name, ": xattr")
			if mode == 0o755 {
				got := xattr(path, "system.posix_acl_access")
				expect(t, strings.Contains(got, string(acl[12:20])), "%s: the ACL is lost", name)
			}
		}
	}
	// New files: 0666 less the umask; a set-group-id directory and a default ACL have
	// the same effect as on any new file there.
	for _, mask := range []int{0o022, 0o077, 0o002} {
		old := unix.Umask(mask)
		s := open(t, dir, nil) // staging files are made with the umask of their time
		write(t, s, fmt.Sprintf("new-%o/file", mask), "x", rw.ModeCreate)
		unix.Umask(old)
		var st unix.Stat_t
		unix.Stat(filepath.Join(dir, fmt.Sprintf("new-%o/file", mask)), &st)
		expect(t, st.Mode&0o777 == 0o666&^uint32(mask), "umask %o: file %o", mask, st.Mode&0o777)
		unix.Stat(filepath.Join(dir, fmt.Sprintf("new-%o", mask)), &st)
		expect(t, st.Mode&0o777 == 0o777&^uint32(mask), "umask %o: directory %o", mask, st.Mode&0o777)
	}
	shared := func(path string) {
		os.Chown(path, 0, 777)
		unix.Chmod(path, 0o2775)
		noErr(t, unix.Setxattr(path, "system.posix_acl_default", acl, 0))
	}
	same := func(s *rw.Store, in, name string) {
		t.Helper()
		write(t, s, name+"/ours", "x", rw.ModeCreate)
		os.WriteFile(filepath.Join(in, name, "theirs"), []byte("x"), 0o666)
		os.WriteFile(filepath.Join(in, name, "replaced"), []byte("x"), 0o666)
		write(t, s, name+"/replaced", "y", rw.ModeOverwrite)
		var ours, theirs unix.Stat_t
		unix.Stat(filepath.Join(in, name, "theirs"), &theirs)
		for _, file := range []string{"ours", "replaced"} {
			unix.Stat(filepath.Join(in, name, file), &ours)
			expect(t, ours.Mode == theirs.Mode && ours.Gid == theirs.Gid, "%s/%s: %o %d, theirs %o %d", name, file, ours.Mode, ours.Gid, theirs.Mode, theirs.Gid)
			if a, b := xattr(filepath.Join(in, name, file), "system.posix_acl_access"), xattr(filepath.Join(in, name, "theirs"), "system.posix_acl_access"); a != b {
				t.Errorf("%s/%s: ACL %x, theirs %x", name, file, a, b)
			}
		}
		check(t, s, true)
	}
	os.Mkdir(filepath.Join(dir, "group"), 0o755)
	shared(filepath.Join(dir, "group"))
	same(s, dir, "group")
	// What the directories of slots inherit is not that of the files.
	for _, state := range []string{"", mountElsewhere(t)} {
		dir := workspace(t)
		os.Mkdir(filepath.Join(dir, "plain"), 0o755)
		shared(dir)
		os.Mkdir(filepath.Join(dir, "group"), 0o755)
		s := open(t, dir, &rw.Options{StateDir: state})
		same(s, dir, "plain")
		same(s, dir, "group")
	}
}

// TestMetadataComesBack: a file that is brought back has the owner, group, extended
// attributes and ACL that it had, or the reply says that it has not.
func TestMetadataComesBack(t *testing.T) {
	needsRoot(t)
	acl := posixACL([]aclEntry{{1, 6, 0}, {2, 6, 1234}, {4, 4, 0}, {16, 6, 0}, {32, 0, 0}})
	undo := func(n int) func(*rw.Store) ([]rw.Warning, error) {
		return func(s *rw.Store) ([]rw.Warning, error) {
			r, err := s.Undo(background, rw.UndoRequest{N: n})
			return r.Warnings, err
		}
	}
	restore := func(s *rw.Store) ([]rw.Warning, error) {
		r, err := s.Restore(background, rw.RestoreRequest{Path: "file", SHA256: call.DigestOf([]byte("old\n"))})
		return r.Warnings, err
	}
	del := func(s *rw.Store) { must(s.Delete(background, rw.DeleteRequest{Path: "file"}))(t) }
	mv := func(from, to string) func(*rw.Store) {
		return func(s *rw.Store) {
			must(s.Move(background, rw.MoveRequest{Path: from, To: to, Overwrite: true}))(t)
		}
	}
	both := func(s *rw.Store) {
		del(s)
		must(s.Delete(background, rw.DeleteRequest{Path: "same"}))(t)
	}
	for _, row := range []struct {
		name  string
		away  []func(*rw.Store)
		back  func(*rw.Store) ([]rw.Warning, error)
		state string
		lost  bool
	}{
		{"delete", []func(*rw.Store){del}, undo(1), "", false},
		{"delete, restored", []func(*rw.Store){del}, restore, "", false},
		{"edited, deleted", []func(*rw.Store){func(s *rw.Store) { write(t, s, "file", "new\n", rw.ModeOverwrite) }, del}, undo(2), "", false},
		{"deleted, created", []func(*rw.Store){del, func(s *rw.Store) { write(t, s, "file", "new\n", rw.ModeCreate) }}, undo(2), "", false},
		{"moved", []func(*rw.Store){mv("file", "to/there")}, undo(1), "", false},
		{"moved, edited", []func(*rw.Store){mv("file", "to/there"), func(s *rw.Store) { write(t, s, "to/there", "new\n", rw.ModeOverwrite) }}, undo(2), "", false},
		{"replaced by a move", []func(*rw.Store){mv("plain", "file")}, undo(1), "", true},
		{"a version of two files", []func(*rw.Store){both}, undo(2), "", true},
		{"history elsewhere", []func(*rw.Store){del}, undo(1), mountElsewhere(t), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, dir := opened(t, &rw.Options{StateDir: row.state})
			path := filepath.Join(dir, "file")
			for _, name := range []string{"plain", "same", "file"} {
				os.WriteFile(filepath.Join(dir, name), []byte("old\n"), 0o644)
			}
			os.WriteFile(filepath.Join(dir, "plain"), []byte("plain\n"), 0o644)
			noErr(t, os.Chown(path, 1234, 2345))
			noErr(t, unix.Setxattr(path, "user.note", []byte("keep"), 0))
			noErr(t, unix.Setxattr(path, "system.posix_acl_access", acl, 0))
			for _, do := range row.away {
				do(s)
			}
			got, err := row.back(s)
			noErr(t, err)
			if lost := slices.ContainsFunc(got, func(w rw.Warning) bool { return w.Reason == call.WarnMetadataNotKept }); lost != row.lost {
				t.Errorf("warnings %v", got)
			}
			var st unix.Stat_t
			unix.Stat(path, &st)
			equal(t, st.Mode&0o7777, 0o660)
			testbed.Holds(t, path, "old\n")
			if !row.lost {
				equal(t, [2]uint32{st.Uid, st.Gid}, [2]uint32{1234, 2345})
				equal(t, xattr(path, "user.note"), "keep")
				equal(t, xattr(path, "system.posix_acl_access"), string(acl))
			}
			check(t, s, true)
		})
	}
}

// mountElsewhere returns a place for the state directory on another file system.
func mountElsewhere(t *testing.T) string {
	at := t.TempDir()
	mount(t, "tmpfs", at, "tmpfs", 0, "mode=700")
	return filepath.Join(at, "state")
}

func xattr(path, name string) string {
	buf := make([]byte, 1024)
	n, err := unix.Getxattr(path, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

type aclEntry struct {
	tag, perm uint16
	id        uint32
}

func posixACL(list []aclEntry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range list {
		if e.tag != 2 {
			e.id = 0xffffffff
		}
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// TestHardLinks follows the policy that was chosen.
func TestHardLinks(t *testing.T) {
	for policy, want := range map[rw.HardLinkPolicy]string{rw.HardLinksBreak: "old", rw.HardLinksInPlace: "new content"} {
		for _, op := range []rw.WriteMode{rw.ModeOverwrite, rw.ModeAppend} {
			dir := workspace(t)
			os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o644)
			os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
			s := open(t, dir, &rw.Options{HardLinks: policy})
			r := write(t, s, "a", "new content", op)
			whole := map[rw.WriteMode]string{rw.ModeOverwrite: "new content", rw.ModeAppend: "oldnew content"}[op]
			fileIs(t, dir, "a", whole)
			if policy == rw.HardLinksBreak {
				fileIs(t, dir, "b", want)
				expect(t, warned(r, call.WarnHardLinkBroken), "%s %s: no warning", policy, op)
			} else {
				fileIs(t, dir, "b", whole)
			}
			check(t, s, true)
		}
	}
	dir := workspace(t)
	os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o644)
	os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	s := open(t, dir, &rw.Options{HardLinks: rw.HardLinksRefuse})
	refused(t, s, dir, put("a", "new", rw.ModeOverwrite), rw.ErrHardLinkRefused)
}

// TestHistoryIsReadOnlyForAll: a file that another program still has open for writing
// is copied into history, so that the kept version cannot change.
func TestHistoryIsReadOnlyForAll(t *testing.T) {
	s, dir := opened(t, nil)
	write(t, s, "a", "version one", rw.ModeCreate)
	f := must(os.OpenFile(filepath.Join(dir, "a"), os.O_WRONLY, 0))(t)
	defer f.Close()
	write(t, s, "a", "version two", rw.ModeOverwrite)
	f.WriteString("scribble")
	check(t, s, true)
}

// TestSpecialFilesDoNotHang: FIFO, socket and device as a target or a parent.
func TestSpecialFilesDoNotHang(t *testing.T) {
	dir := workspace(t)
	noErr(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	fd := must(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))(t)
	defer unix.Close(fd)
	noErr(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "socket")}))
	s := open(t, dir, nil)
	for _, path := range []string{"fifo", "socket"} {
		for _, mode := range []rw.WriteMode{rw.ModeOverwrite, rw.ModeAppend, rw.ModeCreate} {
			refused(t, s, dir, put(path, "x", mode), rw.ErrNotARegularFile)
		}
		fails(s.Read(background, rw.ReadRequest{Path: path}))(t, rw.ErrNotARegularFile, "read ", path)
	}
	refused(t, s, dir, put("fifo/x", "x", rw.ModeCreate), rw.ErrNotADirectory)
}

// TestFullDisk: on a file system of 1 MiB a store opens and works; when it is
// full a write fails with nothing changed, and works again once there is room.
func TestFullDisk(t *testing.T) {
	dir := workspace(t)
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=1m")
	s := open(t, dir, nil)
	write(t, s, "a.txt", strings.Repeat("a", 10<<10), rw.ModeCreate)
	filler := filepath.Join(dir, "filler")
	os.WriteFile(filler, make([]byte, 2<<20), 0o644)
	for _, r := range []rw.SafeWriteRequest{
		put("a.txt", strings.Repeat("b", 300<<10), rw.ModeOverwrite), put("new/b.txt", strings.Repeat("b", 300<<10), rw.ModeCreate),
		put("a.txt", strings.Repeat("b", 300<<10), rw.ModeAppend),
	} {
		e := refused(t, s, dir, r, rw.ErrDiskFull)
		expect(t, e.Kind == rw.ErrQuotaExceeded && e.Action == rw.ActionRetryLater, "%+v", e)
	}
	os.Remove(filler)
	write(t, s, "a.txt", strings.Repeat("c", 20<<10), rw.ModeOverwrite)
	check(t, s, true)
}

// TestFileSizeLimit: a write over RLIMIT_FSIZE is a typed error, and an append that is
// cut off by it leaves the file unchanged.
func TestFileSizeLimit(t *testing.T) {
	if !alone(t, "RW_FSIZE") {
		return
	}
	s, dir := opened(t, nil)
	write(t, s, "a.log", strings.Repeat("a", 900<<10), rw.ModeCreate)
	var old unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_FSIZE, &old)
	ignoreSizeSignal()
	noErr(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: old.Max}))
	refused(t, s, dir, put("b.txt", strings.Repeat("b", 2<<20), rw.ModeCreate), rw.ErrFileTooBig)
	_, err := s.SafeWrite(background, put("a.log", strings.Repeat("b", 300<<10), rw.ModeAppend))
	expect(t, errors.Is(err, rw.ErrFileTooBig) && rw.AsError("", err).Effect == rw.EffectNone, "%v", err)
	fileIs(t, dir, "a.log", strings.Repeat("a", 900<<10))
	unix.Setrlimit(unix.RLIMIT_FSIZE, &old)
	check(t, s, true)
}

// TestBusyFile: a bind-mounted file cannot be replaced by rename. It is
// refused after a short wait, or written in place where that is allowed.
func TestBusyFile(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o644)
	os.WriteFile(filepath.Join(dir, "source"), []byte("old"), 0o644)
	mount(t, filepath.Join(dir, "source"), filepath.Join(dir, "a"), "", unix.MS_BIND, "")
	s := open(t, dir, nil)
	e := refused(t, s, dir, put("a", "new", rw.ModeOverwrite), rw.ErrIOBusy)
	expect(t, strings.Contains(e.Hint, "--in-place-on-busy"), "%s", e.Hint)
	_, err := s.Delete(background, rw.DeleteRequest{Path: "a"})
	_, from := s.Move(background, rw.MoveRequest{Path: "a", To: "b"})
	_, over := s.Move(background, rw.MoveRequest{Path: "source", To: "a", Overwrite: true})
	for _, err := range []error{err, from, over} {
		e := rw.AsError("", err)
		expect(t, e.Detail == rw.ErrIOBusy && e.Effect == rw.EffectNone && strings.Contains(e.Hint, "unmount"), "%+v", e)
	}
	fileIs(t, dir, "a", "old")
	s.Close(background)
	s = open(t, dir, &rw.Options{InPlaceOnBusy: true})
	r := write(t, s, "a", "new, in place", rw.ModeOverwrite)
	expect(t, warned(r, call.WarnRewrittenInPlace) && warned(r, call.WarnForeignWriteRace), "%v", r.Warnings)
	fileIs(t, dir, "source", "new, in place")
	check(t, s, true)
}

// TestRootInStoreOfAnother: what root creates in a store of another user, and new files,
// belong to that user, who would be locked out otherwise. In a store of its own they are
// root's.
func TestRootInStoreOfAnother(t *testing.T) {
	needsRoot(t)
	const user, group = 65534, 65533
	for _, own := range []bool{false, true} {
		dir := workspace(t)
		noErr(t, os.Chown(dir, user, group))
		opts := &rw.Options{StateDir: ".resilient_write", Gate: rw.GateOfAgents}
		if own {
			opts.StateDir = filepath.Join(t.TempDir(), "state")
		}
		s := open(t, dir, opts)
		write(t, s, "new/er/a", "one", rw.ModeCreate)
		write(t, s, "new/er/a", "two", rw.ModeOverwrite)
		write(t, s, "b", "three", rw.ModeCreate)
		_, err := s.SafeWrite(background, put("leak.env", "key AKIA"+strings.ToUpper("qwertyuiopas2345"), rw.ModeCreate))
		isErr(t, err, rw.ErrRiskBlocked, "a secret")
		must(s.Delete(background, rw.DeleteRequest{Path: "b"}))(t)
		must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("raw")}))(t)
		must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "pieces", Content: []byte("d")}))(t)
		must(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: []byte(`"x"`)}))(t)
		must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
		must(s.Claim(rw.WithCaller(background, "", "s"), []string{"claimed"}, time.Minute))(t)
		must(s.Undo(background, rw.UndoRequest{}))(t)
		s.Close(background)
		s = open(t, dir, opts)
		must(s.Admin().Compact(background, admin.CompactRequest{}))(t)
		count := 0
		for _, top := range []string{dir, filepath.Join(dir, opts.StateDir), opts.StateDir} {
			filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
				if err != nil || path == dir {
					return nil
				}
				st := must(e.Info())(t).Sys().(*syscall.Stat_t)
				expect(t, own == (st.Uid == 0) && own == (st.Gid != group), "own %v: %s belongs to %d:%d", own, path, st.Uid, st.Gid)
				count++
				return nil
			})
		}
		expect(t, count > 30, "%d files", count)
		check(t, s, true)
	}
}

// TestOtherFileSystem: a target on another file system than the state
// directory is staged at the top of its own.
func TestOtherFileSystem(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	os.Mkdir(filepath.Join(dir, "mnt"), 0o755)
	mount(t, "tmpfs", filepath.Join(dir, "mnt"), "tmpfs", 0, "size=4m")
	s := open(t, dir, nil)
	write(t, s, "mnt/sub/a.txt", "one", rw.ModeCreate)
	write(t, s, "mnt/sub/a.txt", "two", rw.ModeOverwrite)
	write(t, s, "mnt/sub/a.txt", "+", rw.ModeAppend)
	fileIs(t, dir, "mnt/sub/a.txt", "two+")
	must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "mnt/big", Mode: rw.ModeOverwrite}, &endless{left: 3 << 20}))(t)
	names, _ := os.ReadDir(filepath.Join(dir, "mnt", "sub"))
	equal(t, len(names), 1, "left beside the target")
	check(t, s, true)
	for _, stage := range []rw.Stage{rw.StageRecord, rw.StagePublish, rw.StageSettle} {
		spawn(t, "die-mnt", dir, string(stage), rw.SyncFull).died(t)
		want := "two+"
		if stage != rw.StageRecord {
			want = "from the dead"
		}
		s.Close(background)
		s = open(t, dir, nil)
		fileIs(t, dir, "mnt/sub/a.txt", want)
		length(t, must(os.ReadDir(filepath.Join(dir, "mnt", "sub")))(t), 1, stage, ": left beside the target")
		check(t, s, true)
		write(t, s, "mnt/sub/a.txt", "two+", rw.ModeOverwrite)
	}
}

// TestBindMount: a directory in another mount is another file system, although its
// device is the same. Removing the store removes its slots there.
func TestBindMount(t *testing.T) {
	dir := workspace(t)
	state := filepath.Join(t.TempDir(), "state")
	for _, sub := range []string{"mnt", "data"} {
		os.Mkdir(filepath.Join(dir, sub), 0o755)
	}
	mount(t, filepath.Join(dir, "data"), filepath.Join(dir, "mnt"), "", unix.MS_BIND, "")
	s := open(t, dir, &rw.Options{StateDir: state})
	write(t, s, "mnt/a.txt", "one", rw.ModeCreate)
	write(t, s, "mnt/a.txt", "two", rw.ModeOverwrite)
	write(t, s, "data/b.txt", "b", rw.ModeCreate)
	write(t, s, "mnt/b.txt", "b2", rw.ModeOverwrite)
	noErr(t, move("mnt/a.txt", "mnt/c.txt", false)(s))
	must(s.Delete(background, rw.DeleteRequest{Path: "mnt/c.txt"}))(t)
	isErr(t, move("mnt/b.txt", "b.txt", false)(s), rw.ErrCrossDevice, "a move to another mount")
	must(s.Restore(background, rw.RestoreRequest{Path: "mnt/a.txt", SHA256: digest(hash("one"))}))(t)
	fileIs(t, dir, "data/a.txt", "one")
	fileIs(t, dir, "data/b.txt", "b2")
	slots, _ := filepath.Glob(filepath.Join(dir, "data", ".rw-slots-*"))
	mustEqual(t, len(slots), 1, "directories of slots")
	check(t, s, false)
	noErr(t, s.Close(background))
	noErr(t, statedirs.Remove(state))
	length(t, must(filepath.Glob(filepath.Join(dir, "data", ".rw-slots-*")))(t), 0, "the store is removed, its slots are left")
}

// TestSymlinkSwapRace swaps a directory for a link to the outside, at full
// speed, while files are written below it.
func TestSymlinkSwapRace(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	os.Mkdir(outside, 0o755)
	os.Mkdir(filepath.Join(dir, "d"), 0o755)
	os.Symlink(outside, filepath.Join(dir, "link"))
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	var stop atomic.Bool
	swapped := make(chan int)
	go func() {
		n := 0
		for !stop.Load() {
			unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "d"), unix.AT_FDCWD, filepath.Join(dir, "link"), unix.RENAME_EXCHANGE)
			n++
		}
		swapped <- n
	}()
	done, fenced := 0, 0
	rounds := scale(20_000)
	if short() {
		rounds = 200
	}
	// On one slow core the two may run one after the other, so the rounds continue
	// until both outcomes were seen.
	limit := time.Now().Add(2 * time.Minute)
	for i := 0; i < rounds || (done == 0 || fenced == 0) && time.Now().Before(limit); i++ {
		_, err := s.SafeWrite(background, put(fmt.Sprintf("d/f%d", i%50), fmt.Sprint(i), rw.ModeOverwrite))
		switch {
		case err == nil:
			done++
		case errors.Is(err, rw.ErrEscapesWorkspace), errors.Is(err, rw.ErrLockTimeout), errors.Is(err, rw.ErrNotADirectory), errors.Is(err, rw.ErrNotFound):
			fenced++
		default:
			t.Fatalf("%v (%v)", err, errors.Unwrap(err))
		}
	}
	stop.Store(true)
	t.Logf("%d swaps, %d writes, %d refused", <-swapped, done, fenced)
	length(t, must(os.ReadDir(outside))(t), 0, "written outside")
	expect(t, done != 0 && fenced != 0, "the race did not happen")
}

// TestErrnosHaveMeanings: every error number a file system gives has a
// deliberate kind, reason, action and code.
func TestErrnosHaveMeanings(t *testing.T) {
	s := open(t, workspace(t), nil)
	for errno, want := range map[syscall.Errno]string{
		unix.ENOSPC: "quota_exceeded size_limit retry_later 7", unix.EDQUOT: "quota_exceeded size_limit retry_later 7",
		unix.EFBIG: "quota_exceeded size_limit split 7", unix.EMFILE: "quota_exceeded unknown retry_later 7",
		unix.EIO: "write_corruption unknown abort 7", unix.ENXIO: "write_corruption unknown abort 7", unix.EBADMSG: "write_corruption unknown abort 7", unix.EUCLEAN: "write_corruption unknown abort 7",
		unix.EROFS:  "policy_violation permission ask_user 3",
		unix.EACCES: "policy_violation permission ask_user 3", unix.EPERM: "policy_violation permission ask_user 3",
		unix.ELOOP: "policy_violation unknown abort 5", unix.ENAMETOOLONG: "policy_violation size_limit fix_call 5",
		unix.ENOTDIR: "policy_violation unknown fix_call 5", unix.EISDIR: "policy_violation unknown fix_call 5",
		unix.EXDEV: "policy_violation unknown fix_call 5", unix.EBUSY: "stale_precondition unknown retry_later 6",
		unix.ENOENT: "stale_precondition unknown fix_call 4", unix.ENFILE: "quota_exceeded unknown retry_later 7",
		unix.ESTALE: "write_corruption unknown abort 7", unix.ENOLCK: "write_corruption unknown abort 7", unix.EINVAL: "write_corruption unknown abort 7",
		unix.EBADF: "write_corruption unknown abort 1", unix.ENOMEM: "stale_precondition unknown retry_later 6",
	} {
		e := s.DetailOf(&fs.PathError{Op: "write", Path: "x", Err: errno})
		equal(t, fmt.Sprintf("%s %s %s %d", string(e.Kind), e.Reason, e.Action, e.Code()), want, errno)
		word := map[syscall.Errno]string{unix.EPERM: "immutable", unix.EXDEV: "quotas", unix.ENOMEM: "memory"}[errno]
		expect(t, strings.Contains(e.Hint, word), "%v: %s", errno, e.Hint)
	}
	e := s.DetailOf(&fs.PathError{Op: "link", Path: "x", Err: errors.Join(fsx.ErrUnsupported, unix.EPERM)})
	expect(t, e.Detail == rw.ErrPermission && strings.Contains(e.Hint, "another file system"), "%v: %s", e, e.Hint)
}

// TestPoisonIsLeftByTheNextOpen: the mark of a failed flush is seen, reported and
// removed.
func TestPoisonIsLeftByTheNextOpen(t *testing.T) {
	// A flush cannot be made to fail here; TestFaultSweep does it. This test checks the
	// mark and the recovery.
	s, dir := opened(t, nil)
	write(t, s, "a", "one", rw.ModeCreate)
	s.Close(background)
	os.WriteFile(statePath(dir, "poisoned"), []byte("x"), 0o600)
	s = open(t, dir, nil)
	expect(t, s.Recovery().Poisoned, "the mark was not seen")
	gone(t, statePath(dir), "poisoned")
	write(t, s, "a", "two", rw.ModeOverwrite)
	check(t, s, true)
}

func ignoreSizeSignal() { signal.Ignore(unix.SIGXFSZ) }

// TestDescriptorsOfATransaction: a transaction of 256 files holds two
// descriptors for each of them and one for each new directory, and one that
// needs more than the process may have is refused without effect.
func TestDescriptorsOfATransaction(t *testing.T) {
	t.Parallel()
	if !limited(t, 2*manyOps+100) {
		return
	}
	s, dir := quick(t, nil)
	files := func(format string) (ops []rw.TxOp) {
		for i := range manyOps {
			ops = append(ops, txWrite(fmt.Sprintf(format, i), "text", rw.ModeCreate))
		}
		return ops
	}
	noErr(t, transact(s, files("a%d/f")...))
	noErr(t, transact(s, files("b/c/d/e/f%d")...))
	limited(t, 3*manyOps+100)
	noErr(t, transact(s, files("g%d/h/f")...))
	limited(t, 200)
	deny(t, s, dir, "too few descriptors", rw.ErrTooManyFiles, func() error { return transact(s, files("i%d/f")...) })
	write(t, s, "after", "x", rw.ModeCreate)
	limited(t, 4096)
	deny(t, s, dir, "too many directories", rw.ErrTooLarge, func() error { return transact(s, files("j%d/k/l/m/n/f")...) })
	write(t, s, strings.Repeat("o/", 100)+"f", "x", rw.ModeCreate)
	check(t, s, true)
}

// TestSystemCallsOfTheRealProcess compares the system calls of a real process with the
// order that the trace goldens pin on the simulator: nothing is published before the
// slot and the journal are flushed, and nothing is acknowledged before the directory
// is.
func TestSystemCallsOfTheRealProcess(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	testbed.SkipIf(t, err != nil, "strace is not installed")
	dir := workspace(t)
	s := open(t, dir, nil) // so that the child makes nothing but its writes
	write(t, s, "seed.txt", "x", rw.ModeCreate)
	s.Close(background)
	log := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-y", "-s", "64", "-o", log, "-e", "trace=fsync,fdatasync,renameat2,linkat,write", os.Args[0])
	cmd.Env = append(os.Environ(), "RW_CHILD=trace", "RW_DIR="+dir, "RW_LEVEL=full")
	if out, err := cmd.CombinedOutput(); err != nil {
		testbed.SkipIf(t, strings.Contains(string(out), "ptrace"), "tracing is not allowed here")
		t.Fatalf("%v: %s", err, out)
	}
	data := must(os.ReadFile(log))(t)
	calls := finished(string(data))
	for _, row := range []struct{ from, to, publish, after string }{
		{"begin", "created", "renameat2", "dir"}, {"created", "replaced", "renameat2", "dir"}, {"replaced", "appended", "renameat2", "dir"},
	} {
		part := between(calls, row.from, row.to)
		at := first(part, row.publish)
		for _, flush := range []string{"sync staged", "sync journal"} {
			i := first(part, flush)
			expect(t, i >= 0 && at >= 0 && i <= at, "%s: %q at %d, published at %d: %v", row.to, flush, i, at, part)
		}
		i := first(part[max(at, 0):], "sync "+row.after)
		expect(t, i >= 0, "%s: acknowledged before %s was flushed: %v", row.to, row.after, part)
	}
}

var (
	begun   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished`)
	resumed = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed`)
	whole   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += `)
)

// finished lists the calls in the order in which they ended.
func finished(log string) []string {
	open := map[string]string{}
	var list []string
	for _, line := range strings.Split(log, "\n") {
		if m := begun.FindStringSubmatch(line); m != nil {
			open[m[1]+m[2]] = m[3]
		} else if m := resumed.FindStringSubmatch(line); m != nil {
			list = append(list, named(m[2], open[m[1]+m[2]]))
		} else if m := whole.FindStringSubmatch(line); m != nil {
			list = append(list, named(m[2], m[3]))
		}
	}
	return list
}

// named returns the purpose of a call.
func named(call, args string) string {
	switch {
	case call == "write" && strings.Contains(args, "MARK "):
		return strings.TrimSpace(strings.SplitN(strings.SplitN(args, "MARK ", 2)[1], `\n`, 2)[0])
	case call == "fdatasync" && strings.Contains(args, "/journal/"):
		return "sync journal"
	case (call == "fsync" || call == "fdatasync") && strings.Contains(args, "/staging/"):
		return "sync staged"
	case call == "fsync" && strings.HasSuffix(args, "/staging>"):
		return "sync staging"
	case call == "fsync" && strings.HasSuffix(args, "/sub>"):
		return "sync dir"
	case call == "renameat2" && strings.Contains(args, "/sub>"):
		return call
	}
	return ""
}

func first(list []string, what string) int {
	for i, s := range list {
		if s == what {
			return i
		}
	}
	return -1
}

func between(list []string, from, to string) []string {
	i, j := first(list, from), first(list, to)
	if i < 0 || j < i {
		return nil
	}
	return list[i:j]
}

// smallDisk is a workspace on a file system of its own.
func smallDisk(t *testing.T) string {
	dir := workspace(t)
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=1536k")
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
	mustEqual(t, freeBytes(t, dir), 0, "bytes are left")
}

func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	noErr(t, unix.Statfs(dir, &st))
	return int64(st.Bavail) * int64(st.Bsize)
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
	t.Parallel()
	dir := smallDisk(t)
	s := open(t, dir, nil)
	const files = 60
	for i := range files {
		write(t, s, fmt.Sprintf("f%02d.txt", i), strings.Repeat("x", 1000)+fmt.Sprint(i), rw.ModeCreate)
	}
	mustEqual(t, reserveBytes(dir), rw.ReserveSize, "the reserve has bytes")
	fillDisk(t, dir)
	refusals := func() {
		t.Helper()
		for range 3 {
			refused(t, s, dir, put("new.txt", strings.Repeat("n", 5000), rw.ModeCreate), rw.ErrDiskFull)
		}
	}
	refusals()
	equal(t, reserveBytes(dir), rw.ReserveSize, "refusals took the reserve down to bytes")
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
				gone(t, dir, name)
				continue
			}
			fileIs(t, dir, name, strings.Repeat("x", 1000)+fmt.Sprint(i))
		}
	}
	mustEqual(t, must(s.Admin().Compact(background, admin.CompactRequest{}))(t).Status, rw.StatusSucceeded, "compact")
	refusals()
	check(t, s, true)
	got := reserveBytes(dir)
	expect(t, got >= rw.ReserveSize/4 && got != rw.ReserveSize, "the reserve has %d bytes while the disk is full", got)
	// A little room is for those who made it, not for the reserve.
	filler := filepath.Join(dir, "filler")
	st := must(os.Stat(filler))(t)
	noErr(t, os.Truncate(filler, st.Size()-96<<10))
	for i := range 3 {
		write(t, s, fmt.Sprintf("little%d.txt", i), strings.Repeat("l", 20<<10), rw.ModeCreate)
	}
	noErr(t, os.Remove(filler))
	write(t, s, "new.txt", "there is room", rw.ModeCreate)
	equal(t, reserveBytes(dir), rw.ReserveSize, "the reserve has bytes when there is room again")
	check(t, s, true)
}

// tornTail appends bytes that are no row to the journal, to the end of a page.
func tornTail(t *testing.T, dir string, pages int) {
	t.Helper()
	segments, _ := filepath.Glob(filepath.Join(dir, rw.StateDirName, "journal", "*.jsonl"))
	mustEqual(t, len(segments), 1)
	st := must(os.Stat(segments[0]))(t)
	f := must(os.OpenFile(segments[0], os.O_WRONLY|os.O_APPEND, 0))(t)
	_, err := f.WriteString(strings.Repeat("z", 4096*pages-int(st.Size()%4096)))
	noErr(t, errors.Join(err, f.Close()))
}

// TestFullDiskOpensWithATornTail: bytes that a crash left are passed over without
// the reserve.
func TestFullDiskOpensWithATornTail(t *testing.T) {
	dir := smallDisk(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "a", rw.ModeCreate)
	noErr(t, s.Close(background))
	tornTail(t, dir, 1)
	fillDisk(t, dir)
	s = open(t, dir, nil)
	expect(t, s.Recovery().TornBytes != 0, "the torn bytes are not reported")
	equal(t, reserveBytes(dir), rw.ReserveSize, "the reserve has bytes")
	must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t, "delete")
	refused(t, s, dir, put("new.txt", strings.Repeat("n", 5000), rw.ModeCreate), rw.ErrDiskFull)
}

// TestFullDiskOpens: a store whose process died opens on a disk without a free byte,
// completes the interrupted work and has its reserve.
func TestFullDiskOpens(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", strings.Repeat("a", 9000), rw.ModeCreate)
	for _, stage := range []rw.Stage{rw.StageRecord, rw.StagePublish, rw.StageSettle} {
		s.Close(background)
		spawn(t, "die", dir, string(stage), rw.SyncFull).died(t)
		fillDisk(t, dir)
		s = open(t, dir, nil)
		must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t, stage, ": delete")
		must(s.Undo(background, rw.UndoRequest{}))(t, stage, ": undo")
		check(t, s, true)
		os.Remove(filepath.Join(dir, "filler"))
		write(t, s, "deep/er/file.txt", "old", rw.ModeOverwrite)
	}
}

// TestFullDiskOpensWithoutAReserve: on a disk without a free byte and without a
// reserve, a store with a torn row at the end of its journal opens and can be
// read. The space of the torn row is enough for the way out.
func TestFullDiskOpensWithoutAReserve(t *testing.T) {
	dir := smallDisk(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", strings.Repeat("a", 9000), rw.ModeCreate)
	write(t, s, "b.txt", "b", rw.ModeCreate)
	noErr(t, s.Close(background))
	tornTail(t, dir, 5)
	noErr(t, os.Remove(filepath.Join(dir, rw.StateDirName, "reserve")))
	fillDisk(t, dir)
	for range 2 {
		s = open(t, dir, nil)
		mustEqual(t, string(must(s.Read(background, rw.ReadRequest{Path: "b.txt"}))(t).Content), "b", "read")
		must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t)
		must(s.Admin().Compact(background, admin.CompactRequest{Call: rw.Call{DryRun: true}}))(t)
		check(t, s, true)
		noErr(t, s.Close(background))
	}
	s = open(t, dir, nil)
	must(s.Delete(background, rw.DeleteRequest{Path: "a.txt"}))(t, "delete")
	check(t, s, true)
}
