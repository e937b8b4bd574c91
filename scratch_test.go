package resilientwrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func keep(t *testing.T, s *rw.Store, r rw.ScratchPutRequest) rw.ScratchPutResult {
	t.Helper()
	out, err := s.ScratchPut(background, r)
	noErr(t, err, "put ", r.Label, " ", errors.Unwrap(err))
	return out
}

func listed(t *testing.T, s *rw.Store) rw.ScratchListResult {
	t.Helper()
	return must(s.ScratchList(background, rw.ScratchListRequest{Limit: 1000}))(t, "list")
}

func gotBack(t *testing.T, s *rw.Store, sha, want string) {
	t.Helper()
	out := must(s.ScratchGet(background, rw.ScratchGetRequest{SHA256: digest(sha)}))(t, "get")
	require(t, string(out.Content) == want && out.Bytes == int64(len(want)) && out.SHA256.String() == hash(want), "%d bytes %.20q, want %d bytes",
		out.Bytes, out.Content, len(want))
}

// badTTLs are no times to live.
var badTTLs = []rw.TTL{"P", "PT", "PT0S", "P1D\n", "3600", "Session"}

func TestScratchKeepsBytesOnceUnderManyLabels(t *testing.T) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
		t.Run(string(level), func(t *testing.T) {
			s, dir := opened(t, &rw.Options{Sync: level})
			const text = "raw log\nzażółć 你好 👩‍👩‍👧\x00\n"
			a := keep(t, s, rw.ScratchPutRequest{Content: []byte(text), Label: "first", ContentType: "text/plain", Notes: "n", Call: rw.Call{Caller: "me"}})
			expect(t, a.SHA256.String() == hash(text) && !a.Deduped && a.Bytes == int64(len(text)) && a.JournalID != "" &&
				a.Status == rw.StatusSucceeded, "%+v", a)
			equal(t, a.ScratchPath, rw.StateDirName+"/scratch/"+a.SHA256.String()+".bin", "path")
			fileIs(t, dir, a.ScratchPath, text)
			if st, err := os.Stat(filepath.Join(dir, a.ScratchPath)); err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("%v %v", st.Mode(), err)
			}
			b := keep(t, s, rw.ScratchPutRequest{Content: []byte(text), Label: "second"})
			expect(t, b.Deduped && !b.Repaired && b.SHA256 == a.SHA256 && b.JournalID != "" && b.Receipt.SHA256 == a.SHA256 &&
				b.Receipt.Bytes == a.Bytes, "%+v", b)
			other := keep(t, s, rw.ScratchPutRequest{Content: []byte("\xff\xfe"[:0] + "other"), Label: "first"})

			for _, c := range []struct {
				req   rw.ScratchRefRequest
				sha   string
				label string
				alias int
			}{
				{rw.ScratchRefRequest{Label: "second"}, a.SHA256.String(), "second", 1},
				{rw.ScratchRefRequest{Label: "first"}, other.SHA256.String(), "first", 2}, // the newest wins
				{rw.ScratchRefRequest{SHA256: digest(strings.ToUpper(a.SHA256.String()))}, a.SHA256.String(), "second", 2},
				{rw.ScratchRefRequest{SHA256: a.SHA256, Label: "first"}, a.SHA256.String(), "first", 1},
			} {
				got, err := s.ScratchRef(background, c.req)
				expect(t, err == nil && got.Entry.SHA256.String() == c.sha && got.Entry.Label == c.label && got.AliasCount == c.alias &&
					got.BinExists, "%+v: %+v %v", c.req, got, err)
			}
			noErr(t, s.Sync(background)) // background settling changes files, too
			deny(t, s, dir, "both must hold", rw.ErrNotFound, calling(s.ScratchRef, rw.ScratchRefRequest{SHA256: other.SHA256, Label: "second"}))
			gotBack(t, s, strings.ToUpper(a.SHA256.String()), text)
			l := listed(t, s)
			expect(t, l.Count == 3 && l.Objects == 2 && l.TotalBytes == a.Bytes+other.Bytes && l.Malformed+l.Rebuilt == 0 &&
				l.Entries[0].Label == "first" && l.Entries[2].Notes == "n" && l.Entries[2].Caller == "me", "%+v", l)
			one, err := s.ScratchList(background, rw.ScratchListRequest{Label: "first", Limit: 1, Offset: 1})
			expect(t, err == nil && one.Count == 2 && len(one.Entries) == 1 && one.Entries[0].SHA256 == a.SHA256, "%+v %v", one, err)
			check(t, s, true)

			gone, err := s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "second"})
			expect(t, err == nil && gone.Removed && gone.SHA256 == a.SHA256 && gone.RowsRemoved == 2 && gone.BytesFreed == a.Bytes &&
				gone.JournalID != "", "%+v %v", gone, err)
			l = listed(t, s)
			expect(t, l.Count == 1 && l.Objects == 1, "%+v", l)
			fails(os.Stat(filepath.Join(dir, a.ScratchPath)))(t, fs.ErrNotExist, "the object is still there")
			gone, err = s.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: a.SHA256})
			expect(t, err == nil && !gone.Removed && gone.Status == rw.StatusUnchanged && gone.JournalID == "", "%+v %v", gone, err)
			check(t, s, true)
		})
	}
}

func TestScratchRefusalsChangeNothing(t *testing.T) {
	t.Parallel()
	s, dir := quick(t, nil)
	keep(t, s, rw.ScratchPutRequest{Content: []byte("\xff"), Label: "bin"})
	put := func(r rw.ScratchPutRequest) func() error {
		return calling(s.ScratchPut, r)
	}
	for _, c := range []struct {
		what string
		want rw.Detail
		call func() error
	}{
		{"label", rw.ErrInvalidArgument, put(rw.ScratchPutRequest{Label: strings.Repeat("ü", 201)})},
		{"label not UTF-8", rw.ErrNotValidUTF8, put(rw.ScratchPutRequest{Label: "\xff"})},
		{"notes", rw.ErrInvalidArgument, put(rw.ScratchPutRequest{Notes: strings.Repeat("n", 2001)})},
		{"content type", rw.ErrInvalidArgument, put(rw.ScratchPutRequest{ContentType: strings.Repeat("n", 201)})},
		{"key", rw.ErrInvalidArgument, put(rw.ScratchPutRequest{Call: rw.Call{IdempotencyKey: strings.Repeat("k", 201)}})},
		{"one byte too much", rw.ErrTooLarge, put(rw.ScratchPutRequest{Content: []byte(strings.Repeat("x", rw.MaxScratch+1))})},
		{"ref to nothing", rw.ErrMustProvideRef, calling(s.ScratchRef, rw.ScratchRefRequest{})},
		{"ref unknown", rw.ErrNotFound, calling(s.ScratchRef, rw.ScratchRefRequest{Label: "no"})},
		{"get empty", rw.ErrBadSHA256, calling(s.ScratchGet, rw.ScratchGetRequest{})},
		{"get unknown", rw.ErrNotFound, calling(s.ScratchGet, rw.ScratchGetRequest{SHA256: digest(hash("?"))})},
		{"delete nothing", rw.ErrMustProvideRef, calling(s.ScratchDelete, rw.ScratchDeleteRequest{})},
		{"list limit", rw.ErrInvalidArgument, calling(s.ScratchList, rw.ScratchListRequest{Limit: 1001})},
	} {
		deny(t, s, dir, c.what, c.want, c.call)
	}
	for _, ttl := range badTTLs {
		deny(t, s, dir, string(ttl), rw.ErrInvalidArgument, put(rw.ScratchPutRequest{TTL: ttl}))
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	deny(t, s, dir, "canceled", rw.ErrCanceled, func() error { return errorOf(s.ScratchPut(ctx, rw.ScratchPutRequest{Content: []byte("x")})) })
	before := stateSnapshot(t, dir)
	dry := keep(t, s, rw.ScratchPutRequest{Content: []byte("dry"), Call: rw.Call{DryRun: true}})
	expect(t, dry.SHA256.String() == hash("dry") && dry.JournalID == "" && !dry.Deduped && dry.Receipt.DryRun, "%+v", dry)
	d := must(s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "bin", Call: rw.Call{DryRun: true}}))(t)
	expect(t, d.Removed, "%+v", d)
	equal(t, stateSnapshot(t, dir), before, "a dry run changed")
	check(t, s, true)
}

// TestScratchIndexIsACache: whatever happens to the index, the objects exist, the next
// put works, and losses are reported.
func TestScratchIndexIsACache(t *testing.T) {
	s, dir := quick(t, nil)
	for name, damage := range map[string]struct {
		do                 func(index string)
		malformed, rebuilt int
		kept               int // entries with labels
	}{
		"torn":     {func(p string) { st, _ := os.Stat(p); os.Truncate(p, st.Size()-10) }, 1, 0, 2},
		"unended":  {func(p string) { st, _ := os.Stat(p); os.Truncate(p, st.Size()-1) }, 0, 0, 2},
		"garbage":  {func(p string) { appendTo(p, "\x00\x01{\n[1,2]\n\n{\"sha256\":\"zz\"}\n{\"sha256\":7}\nnull\n") }, 5, 0, 2},
		"longline": {func(p string) { appendTo(p, strings.Repeat("x", 300<<10)+"\n") }, 1, 0, 2},
		"lost":     {func(p string) { os.Remove(p) }, 0, 0, 2},
		"empty":    {func(p string) { os.Truncate(p, 0) }, 0, 0, 2},
		"binary":   {func(p string) { os.WriteFile(p, bytes.Repeat([]byte{0xff, 0, '\n'}, 7), 0o600) }, 7, 0, 2},
		"old torn": {func(p string) { forgetFacts(p); st, _ := os.Stat(p); os.Truncate(p, st.Size()-10) }, 1, 1, 1},
		"all lost": {func(p string) { forgetFacts(p); os.Remove(p) }, 0, 2, 0},
		"crlf": {func(p string) {
			data, _ := os.ReadFile(p)
			os.WriteFile(p, bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")), 0o600)
		}, 0, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, s, rw.ScratchPutRequest{Content: []byte("one"), Label: "one"})
			keep(t, s, rw.ScratchPutRequest{Content: []byte("two"), Label: "two"})
			damage.do(statePath(dir, "scratch", "index.jsonl"))
			l := listed(t, s)
			labels := 0
			for _, e := range l.Entries {
				if e.Label != "" {
					labels++
				}
				expect(t, e.Rebuilt == (e.Label == "") && e.BinExists && e.Bytes == 3 && e.TS.String() != "", "%+v", e)
			}
			expect(t, l.Malformed == damage.malformed && l.Rebuilt == damage.rebuilt && labels == damage.kept && l.Count == 2 && l.TotalBytes == 6,
				"%+v", l)
			gotBack(t, s, hash("one"), "one")
			gotBack(t, s, hash("two"), "two")
			// The next put is not lost among the existing entries, and lists all.
			keep(t, s, rw.ScratchPutRequest{Content: []byte("three"), Label: "three"})
			keep(t, s, rw.ScratchPutRequest{Content: []byte("one"), Label: "again"})
			l = listed(t, s)
			expect(t, l.Count == 4 && l.Objects == 3 && l.Entries[0].Label == "again" && l.Entries[1].Label == "three" && l.Rebuilt == 0, "%+v", l)
			must(s.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: digest(hash("one"))}))(t)
			l = listed(t, s)
			expect(t, l.Count == 2 && l.Malformed == 0, "%+v", l)
			kept, _ := filepath.Glob(statePath(dir, "quarantine", "scratch-index.jsonl.*"))
			equal(t, (len(kept) > 0), (damage.malformed > 0), "in quarantine: ", kept)
			check(t, s, false)
			os.RemoveAll(statePath(dir, "scratch")) // the next case starts from scratch
			os.RemoveAll(statePath(dir, "quarantine"))
		})
	}
}

// forgetFacts makes a scratchpad as it was before facts files existed.
func forgetFacts(index string) {
	beside, _ := filepath.Glob(filepath.Join(filepath.Dir(index), strings.Repeat("[0-9a-f]", 64)+".jsonl"))
	for _, p := range beside {
		os.Remove(p)
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// TestScratchDamageIsRepairedByPut: content that was changed on disk is never returned,
// harms no other object, and is replaced by the next put of the right bytes.
func TestScratchDamageIsRepairedByPut(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<17) // over the size from which hashes are remembered
	s, dir := quick(t, nil)
	for i, text := range []string{"short", long} {
		a := keep(t, s, rw.ScratchPutRequest{Content: []byte(text), Label: "l"})
		keep(t, s, rw.ScratchPutRequest{Content: []byte("neighbour")})
		path := filepath.Join(dir, a.ScratchPath)
		st, _ := os.Stat(path)
		bad := "X" + text[1:]
		os.WriteFile(path, []byte(bad), 0o600)
		os.Chtimes(path, st.ModTime(), st.ModTime())
		deny(t, s, dir, "get", rw.ErrHashDriftOnRead, calling(s.ScratchGet, rw.ScratchGetRequest{SHA256: a.SHA256}))
		gotBack(t, s, hash("neighbour"), "neighbour")
		before := stateSnapshot(t, dir)
		if r := keep(t, s, rw.ScratchPutRequest{Content: []byte(text), Call: rw.Call{DryRun: true}}); !r.Repaired || stateSnapshot(t, dir) != before {
			t.Errorf("%+v", r)
		}
		r := keep(t, s, rw.ScratchPutRequest{Content: []byte(text), Call: rw.Call{IdempotencyKey: fmt.Sprint("k", i)}})
		expect(t, !r.Deduped && r.Repaired, "%+v", r)
		gotBack(t, s, a.SHA256.String(), text)
		kept, _ := filepath.Glob(statePath(dir, "quarantine", "scratch-"+a.SHA256.String()+"*"))
		mustEqual(t, len(kept), 1, "in quarantine")
		testbed.Holds(t, kept[0], bad, "the damaged bytes are lost")
		again := keep(t, s, rw.ScratchPutRequest{Content: []byte(text), Call: rw.Call{IdempotencyKey: fmt.Sprint("k", i)}})
		expect(t, again.Status == rw.StatusReplayed && again.Repaired && again.SHA256 == a.SHA256, "%+v", again)
		check(t, s, true)
	}
}

func TestScratchTTL(t *testing.T) {
	fsys := simfs.New()
	s := must(rw.OpenSim(fsys, nil, rw.Sim{}))(t)
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	a := keep(t, s, rw.ScratchPutRequest{Content: []byte("day"), Label: "day", TTL: "P1D"})
	equal(t, a.ExpiresAt.String(), "2026-11-22T12:00:00.000000Z")
	keep(t, s, rw.ScratchPutRequest{Content: []byte("day"), Label: "hour", TTL: "PT1.5H"})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("hour"), Label: "short", TTL: "PT1H"})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("week"), Label: "week", TTL: "P1W"})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("ever"), Label: "ever"})

	s.SetNow(start.Add(2 * time.Hour)) // "short" and the second label of "day" have expired
	fails(s.ScratchRef(background, rw.ScratchRefRequest{Label: "hour"}))(t, rw.ErrNotFound)
	fails(s.ScratchGet(background, rw.ScratchGetRequest{SHA256: digest(hash("hour"))}))(t, rw.ErrNotFound)
	l := listed(t, s)
	expect(t, l.ExpiredRemoved == 1 && l.Count == 3 && l.Objects == 3, "%+v", l)
	gotBack(t, s, hash("day"), "day")
	l = listed(t, s)
	expect(t, l.ExpiredRemoved == 0 && l.Count == 3, "%+v", l)
	s.SetNow(start.AddDate(0, 0, 2)) // a put removes as well
	equal(t, keep(t, s, rw.ScratchPutRequest{Content: []byte("new"), Label: "new", Call: rw.Call{IdempotencyKey: "k"}}).ExpiredRemoved, 1)
	p := keep(t, s, rw.ScratchPutRequest{Content: []byte("new"), Label: "new", Call: rw.Call{IdempotencyKey: "k"}})
	expect(t, p.ExpiredRemoved == 1 && p.Status == rw.StatusReplayed, "%+v", p)
	_, there := fsys.ReadFile(rw.StateDirName + "/scratch/" + hash("day") + ".bin")
	expect(t, !there, "the bytes are still there")
	s.SetNow(start.AddDate(0, 0, 8)) // and so does a delete
	d := must(s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "new"}))(t)
	expect(t, d.ExpiredRemoved == 1 && d.Removed, "%+v", d)
	l = listed(t, s)
	expect(t, l.Count == 1 && l.Entries[0].Label == "ever" && l.Objects == 1, "%+v", l)
	// A new put of an expired object gives it a new expiry time.
	keep(t, s, rw.ScratchPutRequest{Content: []byte("back"), TTL: "PT1H"})
	s.SetNow(start.AddDate(0, 0, 9))
	p = keep(t, s, rw.ScratchPutRequest{Content: []byte("back")})
	expect(t, p.Deduped && p.ExpiredRemoved == 0, "%+v", p)
	gotBack(t, s, hash("back"), "back")
	check(t, s, true)
	s.Close(background)
}

// TestScratchObjectThatIsNoFile: an entry with the name of an object that is not a file
// blocks no call, and is replaced by the right one.
func TestScratchObjectThatIsNoFile(t *testing.T) {
	s, dir := quick(t, nil)
	a := keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "a", TTL: "PT1H"})
	b := keep(t, s, rw.ScratchPutRequest{Content: []byte("b"), Label: "b"})
	os.Remove(filepath.Join(dir, a.ScratchPath))
	os.Mkdir(filepath.Join(dir, a.ScratchPath), 0o700)
	os.Remove(filepath.Join(dir, b.ScratchPath))
	os.Symlink("/etc/passwd", filepath.Join(dir, b.ScratchPath))
	s.SetNow(time.Now().Add(2 * time.Hour)) // a has expired, and cannot be removed
	for sha, want := range map[rw.Digest]rw.Detail{a.SHA256: rw.ErrNotFound, b.SHA256: rw.ErrHashDriftOnRead} {
		_, err := s.ScratchGet(background, rw.ScratchGetRequest{SHA256: sha})
		isErr(t, err, want)
		conformsEnvelope(t, rw.AsError("", err))
	}
	_, err := s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "b"})
	isErr(t, err, rw.ErrBadStateDir)
	expect(t, strings.Contains(rw.AsError("", err).Hint, "--repair"), "%+v", err)
	listed(t, s)
	keep(t, s, rw.ScratchPutRequest{Content: []byte("c"), Label: "c"})
	gotBack(t, s, hash("c"), "c")
	r := keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "a"})
	expect(t, r.Repaired, "%+v", r)
	gotBack(t, s, a.SHA256.String(), "a")
	keep(t, s, rw.ScratchPutRequest{Content: []byte("b")})
	gotBack(t, s, b.SHA256.String(), "b")
	length(t, must(filepath.Glob(statePath(dir, "quarantine", "scratch-*.odd.*")))(t), 2, "in quarantine")
	check(t, s, true)
}

func TestScratchHasCaps(t *testing.T) {
	t.Parallel()
	s, dir := quick(t, nil)
	keep(t, s, rw.ScratchPutRequest{Content: []byte("small"), Label: "small"})
	// A sparse file takes the place of hundreds of megabytes.
	big := hash("big")
	bin := statePath(dir, "scratch", big+".bin")
	os.WriteFile(bin, nil, 0o600)
	if err := os.Truncate(bin, rw.MaxScratchTotal-20); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	appendTo(statePath(dir, "scratch", "index.jsonl"), fmt.Sprintf(`{"sha256":"%s","bytes":1}`+"\n", big)) // which is not so
	l := listed(t, s)
	expect(t, l.TotalBytes <= 100, "%+v", l)
	os.Remove(statePath(dir, "scratch", "index.jsonl")) // now only the files describe the objects
	keep(t, s, rw.ScratchPutRequest{Content: []byte("small"), Label: "small"})
	entries := func() (list []string) {
		filepath.WalkDir(statePath(dir, "scratch"), func(p string, d fs.DirEntry, _ error) error {
			st, err := d.Info()
			list = append(list, fmt.Sprint(p, st.Size(), st.ModTime(), err))
			return nil
		})
		return list
	}
	before := entries()
	_, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(strings.Repeat("x", 16))})
	diff := cmp.Diff(before, entries())
	require(t, diff == "" && errors.Is(err, rw.ErrScratchFull), "%v, and it changed %s", err, diff)
	e := rw.AsError("", err)
	conformsEnvelope(t, e)
	expect(t, e.Effect == rw.EffectNone && e.Kind == rw.ErrQuotaExceeded && e.Reason == rw.ReasonSizeLimit &&
		strings.Contains(e.Hint, "Store.ScratchDelete"), "%+v", e)
	keep(t, s, rw.ScratchPutRequest{Content: []byte(strings.Repeat("x", 15))})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("small"), Label: "dedup needs no room"})
	equal(t, must(s.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: digest(big)}))(t).BytesFreed, rw.MaxScratchTotal-20)
	keep(t, s, rw.ScratchPutRequest{Content: []byte(strings.Repeat("x", 16))})
}

// TestScratchIndexIsCompacted: dead lines do not pile up, living ones keep
// every letter.
func TestScratchIndexIsCompacted(t *testing.T) {
	s := must(rw.OpenSim(simfs.New(), &rw.Options{Sync: rw.SyncOff}, rw.Sim{}))(t)
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i := range 120 {
		r := rw.ScratchPutRequest{Content: []byte("same"), Label: fmt.Sprint("l", i)}
		if i%6 != 0 {
			r.TTL = "PT1H"
		}
		keep(t, s, r)
	}
	r := must(s.ScratchRef(background, rw.ScratchRefRequest{SHA256: digest(hash("same"))}))(t)
	require(t, r.AliasCount == 120, "%+v", r)
	s.SetNow(start.Add(2 * time.Hour))
	keep(t, s, rw.ScratchPutRequest{Content: []byte("same"), Label: "last"})
	l := listed(t, s)
	expect(t, l.Count == 21 && l.Entries[20].Label == "l0" && l.Entries[0].Label == "last", "%+v", l)
	row := rawJournal(t, s, "scratch_index")
	expect(t, row.Bytes <= 30*250, "the index has %d bytes", row.Bytes)
	check(t, s, true)
	s.Close(background)
}

func rawJournal(t *testing.T, s *rw.Store, op string) rw.JournalEntry {
	t.Helper()
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 20}))(t)
	for i := len(tail.Entries) - 1; i >= 0; i-- {
		if tail.Entries[i].Op == op {
			return tail.Entries[i]
		}
	}
	t.Fatalf("no row of %s in %+v", op, tail.Entries)
	return rw.JournalEntry{}
}

// TestScratchTwoStores: two openings put at once, also the same bytes; every
// put has its entry.
func TestScratchTwoStores(t *testing.T) {
	dir := ramspace(t)
	stores := []*rw.Store{open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})}
	const each = 12
	var wg sync.WaitGroup
	for i, s := range stores {
		for j := range 2 {
			wg.Go(func() {
				for k := range each {
					for _, text := range []string{fmt.Sprint("own ", i, j, k), fmt.Sprint("shared ", k)} {
						_, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(text), Label: fmt.Sprint(i, j, " ", text)})
						expect(t, err == nil, "%v (%v)", err, errors.Unwrap(err))
					}
					if k%4 == 3 {
						_, err := s.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: digest(hash(fmt.Sprint("own ", i, j, k)))})
						expect(t, err == nil, "%v (%v)", err, errors.Unwrap(err))
					}
				}
			})
		}
	}
	wg.Wait()
	for _, s := range stores {
		l := listed(t, s)
		if want := 4 * (2*each - each/4); l.Count != want || l.Objects != each+4*(each-each/4) || l.Malformed+l.Rebuilt != 0 {
			t.Errorf("%d entries of %d, %d objects, %d malformed, %d rebuilt", l.Count, want, l.Objects, l.Malformed, l.Rebuilt)
		}
		check(t, s, true)
	}
}

func TestScratchIsNotGated(t *testing.T) {
	s, dir := gatedStore(t)
	secret := ghToken(7)
	a := keep(t, s, rw.ScratchPutRequest{Content: []byte("token " + secret), Label: "raw"})
	length(t, a.Warnings, 0)
	found := leaks(t, dir, secret)
	expect(t, len(found) == 1 && strings.Contains(found[0], "scratch/"), "the secret is in %v", found)
	want := []string{"scratch", "scratch_index", "scratch_index"} // the object, its facts file and the index
	tail, _ := s.JournalTail(background, rw.JournalTailRequest{})
	var ops []string
	for _, e := range tail.Entries {
		ops = append(ops, e.Op)
	}
	equal(t, cmp.Diff(want, ops), "")
	data, err := json.Marshal(a)
	expect(t, err == nil && !bytes.Contains(data, []byte(secret)), "%s %v", data, err)
}

// tellsOf reports whether a check names a problem at a path.
func tellsOf(r admin.CheckResult, code, path string) bool {
	return slices.ContainsFunc(r.Problems, func(p admin.CheckProblem) bool { return p.Code == code && p.Path == path })
}

func besideObject(dir, content string) string {
	return statePath(dir, "scratch", hash(content)+".jsonl")
}

// TestNothingIsLostWithTheScratchIndex: after any deletion or damage of the index,
// every entry is restored with its label, notes, type, caller, times and order; expiry
// times still apply; and the next put writes a complete index.
func TestNothingIsLostWithTheScratchIndex(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(string){
		"lost":      func(p string) { os.Remove(p) },
		"empty":     func(p string) { os.Truncate(p, 0) },
		"one line":  func(p string) { os.WriteFile(p, []byte("{\n"), 0o600) },
		"cut":       func(p string) { st, _ := os.Stat(p); os.Truncate(p, st.Size()/2) },
		"directory": func(p string) { os.Remove(p); os.Mkdir(p, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := ramspace(t)
			s := open(t, dir, &rw.Options{Sync: rw.SyncOff, Caller: "keeper"})
			now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
			at := func(seconds int) { s.SetNow(now.Add(time.Duration(seconds) * time.Second)) }
			for i, r := range []rw.ScratchPutRequest{
				{Content: []byte("b"), Label: "dump", Notes: "of the <first> \"run\"\n\u2028", ContentType: "text/plain", TTL: "PT1H"},
				{Content: []byte("a"), Label: "log", Call: rw.Call{Caller: "another"}},
				{Content: []byte("b"), Label: "again"}, {Content: []byte("b"), Label: "dump", TTL: "PT2H"},
				{Content: []byte("c"), TTL: "PT1H", Notes: strings.Repeat("ä", 2000)}, {Content: []byte("a")},
			} {
				at(i)
				keep(t, s, r)
			}
			before := listed(t, s)
			check(t, s, true)
			damage(statePath(dir, "scratch", "index.jsonl"))
			after := listed(t, s)
			diff := cmp.Diff(before.Entries, after.Entries, timestamps)
			require(t, diff == "" && after.Rebuilt == 0 && after.Count == 6, "%+v\n%s", after, diff)
			found, err := s.Check(background, admin.CheckRequest{})
			expect(t, err == nil && tellsOf(found, "scratch_index_damaged", "scratch/index.jsonl") && len(found.Problems) == 1, "%v %+v", err,
				found.Problems)
			at(5000) // c has expired
			keep(t, s, rw.ScratchPutRequest{Content: []byte("d"), Label: "new"})
			l := listed(t, s)
			expect(t, l.Objects == 3 && l.Entries[0].Label == "new" && l.Malformed == 0 && l.Entries[len(l.Entries)-1].Label == "log", "%+v", l)
			_, err = os.Stat(besideObject(dir, "c"))
			expect(t, os.IsNotExist(err), "the entry outlives its object: %v", err)
			check(t, s, true)
		})
	}
}

// TestRepairMakesTheScratchIndexAgain from the facts files of the objects, and reports
// the entries of an older scratchpad that cannot be restored.
func TestRepairMakesTheScratchIndexAgain(t *testing.T) {
	t.Parallel()
	s, dir := quick(t, nil)
	for i := range 3 {
		keep(t, s, rw.ScratchPutRequest{Content: []byte(fmt.Sprint(i)), Label: fmt.Sprint("label ", i), TTL: "PT1H"})
	}
	index := statePath(dir, "scratch", "index.jsonl")
	os.Remove(index)
	r := repairIt(t, s, admin.RepairRequest{})
	require(t, r.Clean && len(r.Actions) == 1 && r.Actions[0].Did == admin.RepairRebuilt, "%+v", r)
	forgetFacts(index) // the index alone has all of it now
	if l := listed(t, s); l.Count != 3 || l.Entries[0].Label != "label 2" || l.Entries[0].ExpiresAt.String() == "" {
		t.Errorf("%+v", l)
	}
	keep(t, s, rw.ScratchPutRequest{Content: []byte("1"), Label: "again"}) // also restores the lines
	os.Remove(index)
	found, _ := s.Check(background, admin.CheckRequest{})
	expect(t, len(found.Problems) != 0 && strings.Contains(found.Problems[0].Detail, "of 3 objects") &&
		strings.Contains(found.Problems[0].Detail, "of 2 of them are lost"), "%+v", found.Problems)
	l := listed(t, s)
	expect(t, l.Rebuilt == 2 && l.Entries[0].Label == "again" && l.Entries[1].Label == "label 1" && l.Entries[1].ExpiresAt.String() != "", "%+v", l)
}

// TestScratchLinesGoWithTheObject: the caller's text about an object exists nowhere
// once the object is deleted, expired or erased.
func TestScratchLinesGoWithTheObject(t *testing.T) {
	s, dir := quick(t, nil)
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	s.SetNow(now)
	deleted := keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "said-of-deleted"})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("b"), Label: "said-of-expired", TTL: "PT1H"})
	secret := "swordfish-" + strings.Repeat("7", 9)
	keep(t, s, rw.ScratchPutRequest{Content: []byte("c"), Label: "kept"})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("e"), Label: "said-too", Notes: "it is " + secret})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("d " + secret), Label: "said-of-erased"})
	must(s.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: deleted.SHA256}))(t)
	s.SetNow(now.Add(2 * time.Hour))
	listed(t, s)
	erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	for _, said := range []string{"said-of-deleted", "said-of-expired", "said-of-erased", "said-too", secret} {
		nowhere(t, realTree(t, dir), said)
	}
	os.Remove(statePath(dir, "scratch", "index.jsonl"))
	l := listed(t, s)
	expect(t, l.Count == 1 && l.Entries[0].Label == "kept", "%+v", l)
}

// TestForeignScratchLines: a foreign facts file, whatever it contains, describes no
// other object, prevents no put, and no byte of it is lost without a copy.
func TestForeignScratchLines(t *testing.T) {
	row := func(content, label string) string {
		line, _ := json.Marshal(map[string]any{"sha256": hash(content), "label": label, "bytes": 1, "ts": "2026-11-21T10:00:00Z"})
		return string(line)
	}
	for name, c := range map[string]struct {
		plant func(t *testing.T, path string)
		label string // of a once the index is lost
	}{
		"of another object": {func(t *testing.T, p string) { os.WriteFile(p, []byte(row("b", "stolen")+"\n"), 0o600) }, ""},
		"garbage":           {func(t *testing.T, p string) { os.WriteFile(p, []byte("\xff{\n\x00\n[]\n{\"sha256\":7}\n"), 0o600) }, ""},
		"torn": {func(t *testing.T, p string) {
			os.WriteFile(p, []byte(row("a", "whole")+"\n"+row("a", "torn")[:20]), 0o600)
		}, "whole"},
		"a long line": {func(t *testing.T, p string) {
			os.WriteFile(p, []byte(strings.Repeat("x", 200<<10)+"\n"+row("a", "after it")), 0o600)
		}, "after it"},
		"a directory": {func(t *testing.T, p string) { os.Mkdir(p, 0o700) }, ""},
		"a symlink":   {func(t *testing.T, p string) { os.Symlink("index.jsonl", p) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := quick(t, nil)
			keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "true"})
			keep(t, s, rw.ScratchPutRequest{Content: []byte("b"), Label: "other"})
			os.Remove(besideObject(dir, "a"))
			c.plant(t, besideObject(dir, "a"))
			l := listed(t, s)
			expect(t, l.Count == 2 && l.Entries[1].Label == "true", "a whole index was not believed: %+v", l)
			os.Rename(statePath(dir, "scratch", "index.jsonl"), filepath.Join(dir, "index"))
			r := must(s.ScratchRef(background, rw.ScratchRefRequest{SHA256: digest(hash("a"))}))(t)
			expect(t, r.Entry.Label == c.label, "%+v", r)
			r, err := s.ScratchRef(background, rw.ScratchRefRequest{SHA256: digest(hash("b"))})
			expect(t, err == nil && r.Entry.Label == "other", "%+v %v", r, err)
			keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "again"})
			os.Remove(statePath(dir, "scratch", "index.jsonl"))
			l = listed(t, s)
			expect(t, l.Entries[0].Label == "again" && l.Objects == 2, "%+v", l)
		})
	}
}

// TestScratchLinesDoNotGrow without limit when the same bytes are put repeatedly for a
// short time.
func TestScratchLinesDoNotGrow(t *testing.T) {
	s, dir := quick(t, nil)
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for i := range 40 {
		s.SetNow(now.Add(time.Duration(i) * time.Hour))
		keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Notes: strings.Repeat("€", 2000), TTL: "PT30M"})
	}
	st := must(os.Stat(besideObject(dir, "a")))(t)
	expect(t, st.Size() <= 80<<10, "%d bytes", st.Size())
	keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "last"})
	os.Remove(statePath(dir, "scratch", "index.jsonl"))
	l := listed(t, s)
	expect(t, l.Entries[0].Label == "last", "%+v", l)
}

// TestScratchSizesAreThoseOfTheFiles before a put is refused for them: an index with
// sizes that are too large, or whose sum overflows, blocks nothing and hides nothing.
func TestScratchSizesAreThoseOfTheFiles(t *testing.T) {
	for _, size := range []int64{1 << 26, 1 << 40, 1<<63 - 1} {
		s, dir := quick(t, nil)
		for i := range 10 {
			keep(t, s, rw.ScratchPutRequest{Content: []byte(fmt.Sprint(i))})
		}
		index := statePath(dir, "scratch", "index.jsonl")
		data, _ := os.ReadFile(index)
		forged := strings.ReplaceAll(string(data), `"bytes":1,`, fmt.Sprintf(`"bytes":%d,`, size))
		require(t, forged != string(data), "nothing was forged")
		os.WriteFile(index, []byte(forged), 0o600)
		keep(t, s, rw.ScratchPutRequest{Content: []byte("more")})
		l := listed(t, s)
		expect(t, l.TotalBytes >= 14, "%d: %d bytes in all", size, l.TotalBytes)
	}
}

// TestScratchPutDoesNotGrow counts what puts allocate, new ones and repeated
// ones, among few and among many objects: reading the index or the names of the
// objects would show.
func TestScratchPutDoesNotGrow(t *testing.T) {
	cost := func(n int) (each uint64) {
		dir := t.TempDir()
		fillScratch(t, dir, n)
		s := quickAt(t, dir, nil)
		for i := range 3 {
			keep(t, s, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("warm ", i))})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range 40 {
			keep(t, s, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("new ", i/2)), Label: "l", TTL: "P1W"})
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 40
	}
	few, many := cost(10), cost(2000)
	t.Logf("bytes for each put: %d among 10, %d among 2000", few, many)
	expect(t, many <= 2*few, "a put among 2000 objects allocates %d bytes, among 10 %d", many, few)
}

// TestScratchPutSeesOthers: the memo of one store does not hide changes by another one,
// nor changes of its files.
func TestScratchPutSeesOthers(t *testing.T) {
	dir := t.TempDir()
	pad := filepath.Join(dir, ".resilient_write", "scratch")
	a, b := quickAt(t, dir, nil), quickAt(t, dir, nil)
	for i := range 3 {
		keep(t, a, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("a", i))})
	}
	one := keep(t, b, rw.ScratchPutRequest{Content: []byte("of b"), Label: "x"})
	got := keep(t, a, rw.ScratchPutRequest{Content: []byte("of b"), Label: "y"})
	expect(t, got.Deduped && got.SHA256 == one.SHA256, "what the other store put is stored again: %+v", got)
	must(b.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: one.SHA256}))(t)
	expect(t, !keep(t, a, rw.ScratchPutRequest{Content: []byte("of b")}).Deduped, "what the other store removed counts as stored")
	// A put that fails after it has found an empty index.
	for _, e := range listed(t, a).Entries {
		must(b.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: e.SHA256}))(t)
	}
	keep(t, a, rw.ScratchPutRequest{Content: []byte("x"), Call: rw.Call{DryRun: true}})
	keep(t, a, rw.ScratchPutRequest{Content: []byte("of b")})
	// A file that is gone, and one that is damaged.
	noErr(t, os.Remove(filepath.Join(pad, one.SHA256.String()+".bin")))
	expect(t, !keep(t, a, rw.ScratchPutRequest{Content: []byte("of b")}).Deduped, "what is gone counts as stored")
	noErr(t, os.WriteFile(filepath.Join(pad, one.SHA256.String()+".bin"), []byte("damaged"), 0o600))
	expect(t, keep(t, a, rw.ScratchPutRequest{Content: []byte("of b")}).Repaired, "damage goes unnoticed")
	// An index that another program wrote to, cut off, put in the place of another.
	index := filepath.Join(pad, "index.jsonl")
	for i, change := range []func(old []byte) error{
		func([]byte) error { return appendTo(index, "no row\n") },
		func([]byte) error { return appendTo(index, `{"sha256":"cut o`) },
		func(old []byte) error { return os.Truncate(index, int64(len(old)/2)) },
		func(old []byte) error { return os.WriteFile(index, []byte(strings.Repeat(" ", len(old))), 0o600) },
		func([]byte) error { return os.Remove(index) },
	} {
		keep(t, a, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("before ", i)), Label: fmt.Sprint("before ", i)})
		old := must(os.ReadFile(index))(t)
		noErr(t, change(old))
		keep(t, a, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("then ", i)), Label: fmt.Sprint("then ", i)})
		labels := map[string]bool{}
		for _, e := range listed(t, a).Entries {
			labels[e.Label] = true
		}
		for _, label := range []string{fmt.Sprint("before ", i), fmt.Sprint("then ", i)} {
			expect(t, labels[label], "change %d: %s is lost", i, label)
		}
	}
}

func scratchAll(reqs ...rw.ScratchPutRequest) func(*rw.Store) error {
	return doing((*rw.Store).ScratchPut, reqs...)
}

func TestScratchCrashSweep(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("raw material that fills several sectors\n", 50)
	bin := rw.StateDirName + "/scratch/" + hash(long) + ".bin"
	then := func(t *testing.T, s *rw.Store) {
		keep(t, s, rw.ScratchPutRequest{Content: []byte(long), Label: "after"})
		gotBack(t, s, hash(long), long)
		l := listed(t, s)
		expect(t, l.Malformed+l.Rebuilt == 0 && l.Entries[0].Label == "after", "%+v", l)
	}
	sweepPart(t, "scratch", then, []scenario{
		{name: "first", run: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "a"})},
		{name: "second", before: scratchAll(rw.ScratchPutRequest{Content: []byte("b"), Label: "b"}), run: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "a"})},
		{name: "dedup", before: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "a"}), run: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "b"})},
		{name: "repair", before: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "a"}),
			damage: func(f *simfs.FS) { f.WriteFile(bin, []byte("damaged"), 0o600) },
			run:    scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "b"})},
		{name: "delete", before: scratchAll(rw.ScratchPutRequest{Content: []byte("b"), Label: "b"}, rw.ScratchPutRequest{Content: []byte(long), Label: "a"}),
			run: doing((*rw.Store).ScratchDelete, rw.ScratchDeleteRequest{Label: "a"})},
		{name: "expire", before: scratchAll(rw.ScratchPutRequest{Content: []byte("b"), TTL: "PT1H"}, rw.ScratchPutRequest{Content: []byte("c"), TTL: "PT2H"}, rw.ScratchPutRequest{Content: []byte("d")}),
			run: func(s *rw.Store) error {
				s.SetNow(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
				return scratchAll(rw.ScratchPutRequest{Content: []byte(long)})(s)
			},
			again: doing((*rw.Store).ScratchDelete, rw.ScratchDeleteRequest{Label: "none"})},
	})
}

// TestScratchSurvivesKill: after a process is killed while it puts, every acknowledged
// put exists.
func TestScratchSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	for round := range 2 {
		p := spawn(t, "scratch", dir, "", rw.SyncFull)
		p.printed(t, 1)
		time.Sleep(time.Duration(20+60*round) * time.Millisecond)
		p.kill()
		s := open(t, dir, nil)
		for i := range p.lines() {
			r, err := s.ScratchRef(background, rw.ScratchRefRequest{Label: fmt.Sprint(i)})
			require(t, err == nil && r.BinExists && r.Entry.SHA256.String() == hash(version(i)), "put %d is lost: %+v %v", i, r, err)
		}
		c, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "at"})
		expect(t, err == nil, "%+v %v", c, err)
		l := listed(t, s)
		expect(t, l.Malformed+l.Rebuilt == 0, "%d malformed, %d rebuilt", l.Malformed, l.Rebuilt)
		check(t, s, true)
		s.Close(background)
	}
}
