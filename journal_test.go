package resilientwrite_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// digest is the digest of a text that the tests have in hexadecimal digits.
func digest(text string) rw.Digest {
	d, err := rw.ParseDigest(text)
	if err != nil {
		panic(err)
	}
	return d
}

func statePath(dir string, parts ...string) string {
	return filepath.Join(append([]string{dir, rw.StateDirName}, parts...)...)
}

const firstSegment = "00000000000000000001.jsonl"

// TestDamageIsNamed plants damage of every kind and expects Check to name it.
func TestDamageIsNamed(t *testing.T) {
	lines := func(t *testing.T, dir string, change func([]string) []string) {
		t.Helper()
		path := statePath(dir, "journal", firstSegment)
		data := must(os.ReadFile(path))(t)
		list := strings.Split(strings.Trim(string(data), "\n\x00"), "\n\n")
		os.WriteFile(path, []byte("\n"+strings.Join(change(list), "\n\n")+"\n"), 0o600)
	}
	inState := func(parts ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			os.WriteFile(statePath(dir, parts...), []byte("damage"), 0o600)
		}
	}
	object := func(change func(path string)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			h := hash("version 0")
			change(statePath(dir, "history", h[:2], h))
		}
	}
	for _, row := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		code   string
	}{
		{"row changed", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { l[2] = strings.Replace(l[2], "tester", "forger", 1); return l })
		}, "chain_broken"},
		{"first row changed", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { l[0] = strings.Replace(l[0], "tester", "forger", 1); return l })
		}, "chain_broken"},
		{"hash in a row changed", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string {
				l[3] = strings.Replace(l[3], hash("version 3"), hash("forged"), 1)
				return l
			})
		}, "chain_broken"},
		{"last row changed", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string {
				l[len(l)-1] = strings.Replace(l[len(l)-1], "tester", "forger", 1)
				return l
			})
		}, "head_changed"},
		{"row removed", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return append(l[:2:2], l[3:]...) })
		}, "seq_missing"},
		{"first row removed", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return l[1:] })
		}, "seq_missing"},
		{"tail cut off", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return l[:3] })
		}, "tail_missing"},
		{"rows swapped", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { l[1], l[2] = l[2], l[1]; return l })
		}, "seq_missing"},
		{"row doubled", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return append(l[:3:3], l[2:]...) })
		}, "seq_out_of_order"},
		{"row forged at the end", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string {
				return append(l, strings.Replace(l[len(l)-1], `{"seq":6`, `{"seq":7`, 1))
			})
		}, "chain_broken"},
		{"garbage between rows", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { return append(append(l[:2:2], "garbage"), l[2:]...) })
		}, "malformed_line"},
		{"row truncated", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { l[2] = l[2][:40]; return l })
		}, "malformed_line"},
		{"rows fused", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { l[1] += l[2]; return append(l[:2:2], l[3:]...) })
		}, "malformed_line"},
		{"NULs over a row", func(t *testing.T, dir string) {
			lines(t, dir, func(l []string) []string { l[2] = l[2][:20] + strings.Repeat("\x00", len(l[2])-20); return l })
		}, "malformed_line"},
		{"segment renamed", func(t *testing.T, dir string) {
			os.Rename(statePath(dir, "journal", firstSegment), statePath(dir, "journal", "00000000000000000003.jsonl"))
		}, "segment_name"},
		{"stranger in journal/", inState("journal", "notes.txt"), "unknown_file"},
		{"stranger in history/", inState("history", "notes.txt"), "unknown_file"},
		{"object changed", object(func(p string) { os.WriteFile(p, []byte("version X"), 0o600) }), "object_damaged"},
		{"object truncated", object(func(p string) { os.Truncate(p, 3) }), "object_damaged"},
		{"meta.json garbage", inState("meta.json"), "meta_unreadable"},
		{"staging left behind", func(t *testing.T, dir string) {
			os.WriteFile(statePath(dir, "staging", "deadbeef-1-1"), []byte("x"), 0o600)
		}, "stale_staging"},
		{"file edited", func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "a.txt"), []byte("edited"), 0o644)
		}, "file_differs"},
		{"file removed", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "a.txt")) }, "file_differs"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := workspace(t)
			s := must(rw.Open(background, dir, &rw.Options{Caller: "tester"}))(t)
			for i := range 6 {
				must(s.SafeWrite(background, put("a.txt", fmt.Sprintf("version %d", i), rw.ModeOverwrite)))(t)
			}
			check(t, s, true)
			s.Close(background)
			row.damage(t, dir)
			// Opened read-only: nothing is repaired before the check.
			r := open(t, dir, &rw.Options{ReadOnly: true})
			got := must(r.Check(background, rw.CheckRequest{Deep: true}))(t)
			var codes []string
			for _, p := range got.Problems {
				codes = append(codes, p.Code)
			}
			if !strings.Contains(" "+strings.Join(codes, " ")+" ", " "+row.code+" ") {
				t.Errorf("found %v, want %s", codes, row.code)
			}
		})
	}
}

// TestBadLinesNeverHideOthers: whatever the journal contains, the store opens and
// writes, tail shows the other rows, and the bad ones are counted.
func TestBadLinesNeverHideOthers(t *testing.T) {
	for name, tail := range map[string]string{
		"torn": "\n{\"seq\":4,\"ts\":\"2026", "garbage": "\nxxxxxxxx", "fused": "\n{}{}\n", "nul": "\x00\x00\x00x", "newlines": "\n\n\n",
		"json of another kind": "\n[1,2]\n", "a row without seq": "\n{\"kind\":\"commit\"}\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := workspace(t)
			s, _ := rw.Open(background, dir, nil)
			for i := range 3 {
				write(t, s, fmt.Sprintf("%d.txt", i), "x", rw.ModeCreate)
			}
			s.Close(background)
			f, _ := os.OpenFile(statePath(dir, "journal", firstSegment), os.O_APPEND|os.O_WRONLY, 0)
			f.WriteString(tail)
			f.Close()
			os.Remove(statePath(dir, "meta.json"))
			s = open(t, dir, nil)
			write(t, s, "4.txt", "x", rw.ModeCreate)
			got, err := s.JournalTail(background, rw.JournalTailRequest{})
			if err != nil || len(got.Entries) != 4 {
				t.Fatalf("%v %+v", err, got)
			}
			check(t, s, true)
		})
	}
}

func TestCursors(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	for i := range 10 {
		caller := []string{"me", "you"}[i%2]
		must(s.SafeWrite(background, rw.SafeWriteRequest{Path: fmt.Sprintf("%d.txt", i), Content: []byte("x"), Call: rw.Call{Caller: caller}}))(t)
	}
	since := func(r rw.JournalSinceRequest) rw.JournalSinceResult {
		t.Helper()
		out := must(s.JournalSince(background, r))(t)
		return out
	}
	at := func(n uint64) *uint64 { return &n }
	if r := since(rw.JournalSinceRequest{AfterSeq: at(4), Limit: 3}); len(r.Entries) != 3 || r.NextSeq != 7 || r.Gap {
		t.Errorf("%+v", r)
	}
	if r := since(rw.JournalSinceRequest{AfterSeq: at(99)}); !r.Gap || r.Reason != "cursor_ahead" || r.NextSeq != 10 {
		t.Errorf("%+v", r)
	}
	// A reply alone moves nothing; passing after_seq acknowledges.
	for range 2 {
		if r := since(rw.JournalSinceRequest{Agent: "me"}); len(r.Entries) != 5 || r.NextSeq != 10 {
			t.Errorf("%+v", r)
		}
	}
	since(rw.JournalSinceRequest{Agent: "me", AfterSeq: at(8)})
	if r := since(rw.JournalSinceRequest{Agent: "me"}); len(r.Entries) != 1 || r.Entries[0].Seq != 10 {
		t.Errorf("%+v", r)
	}
	s.Close(background)
	s = open(t, dir, nil)
	if r := since(rw.JournalSinceRequest{Agent: "me"}); len(r.Entries) != 1 {
		t.Errorf("the cursor is lost: %+v", r)
	}
	fails(s.JournalSince(background, rw.JournalSinceRequest{}))(t, rw.ErrInvalidArgument)
	// A refusal has a row, which is returned on request.
	fails(s.SafeWrite(background, rw.SafeWriteRequest{Path: "0.txt", Content: []byte("y"), Call: rw.Call{Caller: "you"}}))(t, rw.ErrFileAlreadyExists)
	for refused, want := range map[bool]int{false: 0, true: 1} {
		r := since(rw.JournalSinceRequest{AfterSeq: at(10), IncludeRefused: refused})
		if len(r.Entries) != want || r.NextSeq != 11 || want == 1 && (r.Entries[0].Kind != "refused" || r.Entries[0].Reason != "file_already_exists") {
			t.Errorf("refused %v: %+v", refused, r)
		}
	}
	if r := since(rw.JournalSinceRequest{Agent: "you", AfterSeq: at(10), IncludeRefused: true}); len(r.Entries) != 0 {
		t.Errorf("the agent's own: %+v", r)
	}
}

// TestLegacyWorkspaceOpens: a state directory as the Python implementation
// leaves it. The fixture is made from the facts of its format.
func TestLegacyWorkspaceOpens(t *testing.T) {
	dir := workspace(t)
	os.Mkdir(statePath(dir), 0o755)
	row := func(i int, path string) string {
		return fmt.Sprintf(`{"bytes":%d,"caller":"claude","journal_id":"wj_%012x","mode":"create","path":%q,"sha256":%q,"ts":"2026-04-11T10:00:%02dZ"}`+"\n",
			i, i, path, hash(fmt.Sprint(i)), i)
	}
	legacy := row(1, "a.md") + row(2, "b.md") + `{"bytes":3,"caller":"cla` + "\n" + row(3, "a.md")
	path := statePath(dir, "journal.jsonl")
	os.WriteFile(path, []byte(legacy), 0o644)
	for round := range 2 {
		s := open(t, dir, nil)
		if r := s.Recovery(); round == 0 && (r.Imported != 3 || r.ImportSkipped != 1) || round == 1 && r.Imported != 0 {
			t.Errorf("round %d: %+v", round, r)
		}
		write(t, s, fmt.Sprintf("new%d.md", round), "x", rw.ModeCreate)
		tail, err := s.JournalTail(background, rw.JournalTailRequest{})
		if err != nil || len(tail.Entries) != 4+round || tail.Entries[0].JournalID != "wj_000000000001" || tail.Entries[2].Rev != 2 {
			t.Fatalf("%v %+v", err, tail.Entries)
		}
		check(t, s, false)
		s.Close(background)
	}
	// Rows that are added later are taken over by the next Open.
	f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString(row(4, "c.md"))
	f.Close()
	s := open(t, dir, nil)
	if r := s.Recovery(); r.Imported != 1 {
		t.Errorf("%+v", r)
	}
	if data, _ := os.ReadFile(path); string(data) != legacy+row(4, "c.md") {
		t.Error("the legacy journal was changed")
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	dir := workspace(t)
	s, _ := rw.Open(background, dir, nil)
	s.Close(background)
	os.WriteFile(statePath(dir, "meta.json"), []byte(`{"format":99}`), 0o600)
	fails(rw.Open(background, dir, nil))(t, rw.ErrNewerFormat)
	os.RemoveAll(statePath(dir))
	os.Symlink(t.TempDir(), statePath(dir))
	fails(rw.Open(background, dir, nil))(t, rw.ErrBadStateDir)
	for _, root := range []string{"/", "/etc", "/tmp", "/usr", "/var"} {
		fails(rw.Open(background, root, nil))(t, rw.ErrUnsafeRoot, root)
	}
}

// TestSnapshotsAreOnlyCaches: damaged or missing, they cost time and nothing
// else.
func TestSnapshotsAreOnlyCaches(t *testing.T) {
	dir := workspace(t)
	s, _ := rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range 700 {
		write(t, s, fmt.Sprintf("%d.txt", i%50), fmt.Sprint(i), rw.ModeOverwrite)
	}
	s.Close(background)
	snaps, _ := filepath.Glob(statePath(dir, "index", "*.snap"))
	if len(snaps) != 1 {
		t.Fatalf("snapshots: %v", snaps)
	}
	for _, damage := range []func(){
		func() {},
		func() { data, _ := os.ReadFile(snaps[0]); data[100] ^= 1; os.WriteFile(snaps[0], data, 0o600) },
		func() { os.Truncate(snaps[0], 4000) },
		func() { os.Remove(snaps[0]) },
		func() { os.Remove(statePath(dir, "meta.json")); os.Remove(statePath(dir, "locks", "journal")) },
		func() { os.WriteFile(statePath(dir, "locks", "journal"), []byte(strings.Repeat("x", 300)), 0o600) },
	} {
		damage()
		s := open(t, dir, nil)
		r := write(t, s, "7.txt", fmt.Sprint("again ", s.Recovery().Rebuilt, snaps), rw.ModeOverwrite)
		_ = r
		cachesAside(t, s)
		s.Close(background)
		os.WriteFile(filepath.Join(dir, "7.txt"), []byte("human"), 0o644)
		s = open(t, dir, nil)
		if rep := s.Recovery(); len(rep.Aborted)+len(rep.Conflicts) > 0 {
			t.Errorf("a human edit was taken for damage: %+v", rep)
		}
		fileIs(t, dir, "7.txt", "human")
		write(t, s, "7.txt", "back"+fmt.Sprint(len(snaps)), rw.ModeOverwrite)
		s.Close(background)
	}
}

// TestSnapshotsWhileOpen: a store that is never closed in good order still
// opens without reading its whole journal.
// cachesAside checks the store; a cache that is damaged is named, and harms
// nothing.
func cachesAside(t *testing.T, s *rw.Store) {
	t.Helper()
	r := must(s.Check(background, rw.CheckRequest{Deep: true}))(t)
	for _, p := range r.Problems {
		if p.Code != "snapshot_damaged" {
			t.Errorf("check: %s %s: %s", p.Code, p.Path, p.Detail)
		}
	}
}

func TestSnapshotsWhileOpen(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	noErr(t, s.FillJournal(60_000))
	write(t, s, "a.txt", "x", rw.ModeCreate)
	if snaps, _ := filepath.Glob(statePath(dir, "index", "*.snap")); len(snaps) != 1 {
		t.Errorf("snapshots: %v", snaps)
	}
	other := open(t, dir, nil) // as after a crash: nothing was closed
	if r := other.Recovery(); r.Rebuilt {
		t.Errorf("%+v", r)
	}
	if n, err := other.LastRows("p7", 3); err != nil || n != 3 {
		t.Errorf("%d %v", n, err)
	}
}
