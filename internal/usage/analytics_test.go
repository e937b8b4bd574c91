package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// sameTimes compares times.
var sameTimes = cmp.Comparer(func(a, b call.Timestamp) bool { return a == b })

func stamped(n int) call.Timestamp { return timestamp(second(n)) }

// second is a time of the test day, so many seconds after midnight.
func second(seconds int) string {
	return stamp.Text(time.Date(2026, 1, 31, 0, 0, seconds, 0, time.UTC))
}

// commit is the row of one commit.
func commit(seq uint64, seconds int, caller string, muts ...journal.Mutation) *journal.Record {
	return &journal.Record{
		Seq: seq, TS: second(seconds), Kind: journal.KindCommit, Writer: "w1", Commit: fmt.Sprint("c", seq),
		Caller: caller, Muts: muts,
	}
}

func file(op, path string, bytes int64) journal.Mutation {
	return journal.Mutation{Op: op, Path: path, SHA256: "aa", Bytes: bytes}
}

func state(op, object string) journal.Mutation {
	return journal.Mutation{Op: op, Path: statePrefix + object, Object: object, Class: "state", SHA256: "aa", Bytes: 1000}
}

func legacy(op, path string, bytes int64) journal.Mutation {
	return journal.Mutation{Op: op, Path: path, SHA256: "aa", Bytes: bytes, ImportID: "0-100"}
}

func aborted(seq, ref uint64) *journal.Record {
	return &journal.Record{Seq: seq, TS: second(1), Kind: journal.KindAbort, Writer: "w2", Ref: ref}
}

func refused(seq uint64, seconds int, caller, reason string, ops ...string) *journal.Record {
	r := &journal.Record{Seq: seq, TS: second(seconds), Kind: journal.KindRefused, Caller: caller, Reason: reason}
	for _, op := range ops {
		r.Muts = append(r.Muts, journal.Mutation{Op: op, Path: "x"})
	}
	return r
}

func at(r *journal.Record, ts string) *journal.Record {
	r.TS = ts
	return r
}

// foldRows is the result of some rows.
func foldRows(opt analytics.Request, rows ...*journal.Record) analytics.Result {
	out, err := Read(context.Background(), opt, func(fn func(*journal.Record) error) error {
		for _, r := range rows {
			if err := fn(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return out
}

// empty is the result of no rows.
func empty() analytics.Result { return foldRows(analytics.Request{}) }

func TestEverything(t *testing.T) {
	composed := file("compose", "book.md", 300)
	composed.Object, composed.PrevBytes = "chunks/book", 250
	appended := journal.Mutation{Op: "append", Path: "log", SHA256: "aa", Bytes: 110, PrevBytes: 100, PaySHA256: "bb", PayBytes: 10}
	again := state("checkpoint", "checkpoints/plan.json")
	again.PrevSHA256 = "aa"
	got := foldRows(analytics.Request{},
		commit(1, 0, "ann", file("create", "log", 100)),
		commit(2, 10, "bob", appended),
		commit(3, 60, "", state("chunk", "chunks/book/part-001.txt"), state("chunk", "chunks/book/part-1000.txt")),
		commit(4, 70, "ann", composed),
		commit(5, 80, "ann", state("checkpoint", "checkpoints/plan.json")),
		commit(6, 81, "ann", again, state("scratch_put", "scratch/ab.bin"), state("handoff", "handoffs/1.md")),
		commit(7, 90, "", file("edit", "a", 7), file("delete", "b", 0)),
		refused(8, 120, "bob", "hash_mismatch", "overwrite", "overwrite", "delete"),
		refused(9, 150, "", "", ""),
		&journal.Record{Seq: 10, TS: second(900), Kind: journal.KindNote},
		&journal.Record{Seq: 11, TS: second(900), Kind: journal.KindConflict, Ref: 1, Muts: []journal.Mutation{file("create", "log", 1)}},
	)
	want := analytics.Result{
		TotalWrites: 5, UniquePaths: 4, TotalBytesWritten: 417,
		ByMode:   map[string]int{"create": 1, "append": 1, "compose": 1, "edit": 1, "delete": 1},
		ByCaller: map[string]int{"ann": 2, "bob": 1, "unknown": 2},
		Timeline: []analytics.Write{
			{TS: stamped(0), Path: "log", Mode: "create", Bytes: 100, Caller: "ann", Seq: 1},
			{TS: stamped(10), Path: "log", Mode: "append", Bytes: 10, Caller: "bob", Seq: 2},
			{TS: stamped(70), Path: "book.md", Mode: "compose", Bytes: 300, Caller: "ann", Seq: 4},
			{TS: stamped(90), Path: "a", Mode: "edit", Bytes: 7, Caller: "unknown", Seq: 7},
			{TS: stamped(90), Path: "b", Mode: "delete", Bytes: 0, Caller: "unknown", Seq: 7},
		},
		HotPaths: []analytics.Path{
			{Path: "log", WriteCount: 2, TotalBytes: 110, LastWrite: stamped(10)},
			{Path: "book.md", WriteCount: 1, TotalBytes: 300, LastWrite: stamped(70)},
			{Path: "a", WriteCount: 1, TotalBytes: 7, LastWrite: stamped(90)},
			{Path: "b", WriteCount: 1, TotalBytes: 0, LastWrite: stamped(90)},
		},
		Sessions:    map[string]analytics.Session{"book": {ChunkWrites: 2, Composes: 1, FirstWrite: stamped(60), LastWrite: stamped(70), DurationSeconds: 10}},
		Checkpoints: analytics.Checkpoints{TotalSaves: 2, Overwrites: 1, ByName: map[string]analytics.Saves{"plan": {Saves: 2, TotalBytes: 2000}}},
		WriteVelocity: analytics.Velocity{
			WritesPerMinute: 2, AvgBytesPerWrite: 83.4, PeakMinute: analytics.Minute{Minute: "2026-01-31T00:01Z", Writes: 3},
		},
		Period: analytics.Period{FirstEntry: stamped(0), LastEntry: stamped(150), DurationSeconds: 150},
		Refusals: analytics.Refusals{
			Total: 2, ByReason: map[string]int{"hash_mismatch": 1, "unknown": 1},
			ByOp: map[string]int{"overwrite": 1, "delete": 1, "unknown": 1}, ByCaller: map[string]int{"bob": 1, "unknown": 1},
		},
	}
	testbed.Equal(t, cmp.Diff(want, got, sameTimes), "")
}

func TestEmpty(t *testing.T) {
	got := empty()
	data, err := json.Marshal(got)
	testbed.Expect(t, err == nil && !strings.Contains(string(data), "null"), "%s %v", data, err)
	testbed.Expect(t, got.WriteVelocity == (analytics.Velocity{}) && got.Period == (analytics.Period{}), "%+v", got)
	one := foldRows(analytics.Request{}, commit(1, 5, "ann", file("create", "a", 3)))
	v := one.WriteVelocity
	testbed.Expect(t, v.WritesPerMinute == 0 && v.AvgBytesPerWrite == 3, "%+v", v)
}

// TestOptions narrows the rows by time and the sessions by name.
func TestOptions(t *testing.T) {
	rows := []*journal.Record{
		commit(1, 0, "ann", file("create", "old", 1)),
		commit(2, 59, "ann", state("chunk", "chunks/one/part-001.txt")),
		refused(3, 59, "ann", "not_found", "edit"),
		commit(4, 60, "ann", state("chunk", "chunks/one/part-002.txt"), state("chunk", "chunks/two/part-001.txt")),
		at(commit(5, 0, "ann", file("create", "new", 2)), "yesterday"),
		aborted(6, 1),
	}
	since := analytics.Request{Since: time.Date(2026, 1, 31, 0, 1, 0, 0, time.UTC)}
	got := foldRows(since, rows...)
	want := empty()
	want.TotalWrites, want.UniquePaths, want.TotalBytesWritten = 1, 1, 2
	want.ByMode, want.ByCaller = map[string]int{"create": 1}, map[string]int{"ann": 1}
	want.Timeline = []analytics.Write{{TS: timestamp("yesterday"), Path: "new", Mode: "create", Bytes: 2, Caller: "ann", Seq: 5}}
	want.HotPaths = []analytics.Path{{Path: "new", WriteCount: 1, TotalBytes: 2, LastWrite: call.Timestamp{}}}
	want.Sessions = map[string]analytics.Session{
		"one": {ChunkWrites: 1, Composes: 0, FirstWrite: stamped(60), LastWrite: stamped(60), DurationSeconds: 0},
		"two": {ChunkWrites: 1, Composes: 0, FirstWrite: stamped(60), LastWrite: stamped(60), DurationSeconds: 0},
	}
	want.WriteVelocity.AvgBytesPerWrite = 2
	want.Period = analytics.Period{FirstEntry: stamped(60), LastEntry: stamped(60), DurationSeconds: 0}
	testbed.Equal(t, cmp.Diff(want, got, sameTimes), "")

	since.SessionFilter = "two"
	delete(want.Sessions, "one")
	testbed.Equal(t, cmp.Diff(want, foldRows(since, rows...), sameTimes), "")
	since.SessionFilter = "three"
	delete(want.Sessions, "two")
	testbed.Equal(t, cmp.Diff(want, foldRows(since, rows...), sameTimes), "")
}

// TestLegacy reads rows of the Python implementation.
func TestLegacy(t *testing.T) {
	got := foldRows(analytics.Request{},
		at(commit(1, 0, "", legacy("create", "a", 10)), "2025-12-31T23:59:30Z"),
		at(commit(2, 0, "", legacy("append", "a", 15)), "2025-12-31T23:59:31Z"),
		at(commit(3, 0, "", legacy("overwrite", ".resilient_write/chunks/s-1/part-001.txt", 9)), "2025-12-31T23:59:32+00:00"),
		at(commit(4, 0, "", legacy("create", ".resilient_write/checkpoints/p.json", 9)), "2025-12-31T23:59:33.5Z"),
		at(commit(5, 0, "", legacy("overwrite", ".resilient_write/checkpoints/p.json", 9)), "2026-01-01T01:00:00+01:00"),
		at(commit(6, 0, "", legacy("create", ".resilient_write/scratch/x.bin", 9)), "2025-12-31T23:59:30Z"),
		at(commit(7, 0, "", legacy("create", "huge", 1<<62)), ""),
		at(commit(8, 0, "", legacy("create", "huge", 1<<62)), ""),
		at(commit(9, 0, "", legacy("create", "less", -5)), ""),
	)
	testbed.Expect(t, got.TotalWrites == 5 && got.UniquePaths == 3 && got.TotalBytesWritten == 1<<63-1,
		"%d %d %d", got.TotalWrites, got.UniquePaths, got.TotalBytesWritten)
	at := timestamp("2025-12-31T23:59:32.000000Z")
	testbed.Equal(t, cmp.Diff(map[string]analytics.Session{"s-1": {ChunkWrites: 1, FirstWrite: at, LastWrite: at}}, got.Sessions, sameTimes), "")
	diff := cmp.Diff(analytics.Checkpoints{TotalSaves: 2, Overwrites: 1, ByName: map[string]analytics.Saves{"p": {Saves: 2, TotalBytes: 18}}}, got.Checkpoints)
	testbed.Expect(t, diff == "", "%v", diff)
	period := analytics.Period{FirstEntry: timestamp("2025-12-31T23:59:30Z"), LastEntry: timestamp("2026-01-01T01:00:00+01:00"), DurationSeconds: 30}
	testbed.Equal(t, cmp.Diff(period, got.Period, sameTimes), "")
	testbed.Equal(t, cmp.Diff(analytics.Minute{Minute: "2025-12-31T23:59Z", Writes: 2}, got.WriteVelocity.PeakMinute), "")
}

// TestMutations judges mutations that are easy to mistake.
func TestMutations(t *testing.T) {
	part := state("chunk", "chunks/s/part-001.txt")
	byPath := part
	byPath.Object = ""
	symlink := file("edit", "link", 5)
	symlink.Real = "target"
	strange := file("compose", "out", 5)
	strange.Object = "chunks/"
	internalName := file("create", ".resilient_write/chunks/s/part-001.txt", 5)
	copied := journal.Mutation{Op: "append", Path: "log", Bytes: 110, PrevBytes: 100}
	nothing := journal.Mutation{Op: "append", Path: "log", Bytes: 110, PaySHA256: "bb"}
	negative := file("create", "out", -5)
	for what, c := range map[string]struct {
		m           journal.Mutation
		path        string // of a write
		bytes       int64
		chunks, all int
	}{
		"chunk by object":                         {part, "", 0, 1, 0},
		"chunk by path":                           {byPath, "", 0, 1, 0},
		"chunk that was removed":                  {state("delete", "chunks/s/part-001.txt"), "", 0, 0, 0},
		"manifest":                                {state("chunk", "chunks/s/manifest.json"), "", 0, 0, 0},
		"checkpoint that was removed":             {state("delete", "checkpoints/a.json"), "", 0, 0, 0},
		"symlink":                                 {symlink, "target", 5, 0, 1},
		"compose of no session":                   {strange, "out", 5, 0, 1},
		"workspace file with a internalName name": {internalName, ".resilient_write/chunks/s/part-001.txt", 5, 0, 1},
		"append by copy":                          {copied, "log", 10, 0, 1},
		"append of nothing":                       {nothing, "log", 0, 0, 1},
		"negative size":                           {negative, "out", 0, 0, 1},
	} {
		got := foldRows(analytics.Request{}, commit(1, 1, "", c.m))
		path := ""
		if len(got.HotPaths) > 0 {
			path = got.HotPaths[0].Path
		}
		testbed.Expect(t, path == c.path && got.TotalBytesWritten == c.bytes && got.Sessions["s"].ChunkWrites == c.chunks && got.TotalWrites == c.all && got.Checkpoints.TotalSaves == 0, "%s: %+v", what, got)
	}
	saved := state("checkpoint", "checkpoints/plan.json")
	saved.Bytes, saved.PrevSHA256, saved.Op, saved.ImportID = -5, "bb", "append", "0-100"
	got := foldRows(analytics.Request{}, commit(1, 1, "", saved)).Checkpoints
	testbed.Expect(t, got.ByName["plan"] == analytics.Saves{Saves: 1} && got.Overwrites == 0, "an imported checkpoint of a negative size: %+v", got)
}

// TestAborts: commits that were rolled back, wherever that is recorded, count nothing.
func TestAborts(t *testing.T) {
	one, two := commit(1, 1, "", file("create", "a", 1)), commit(3, 2, "", file("edit", "a", 2), state("chunk", "chunks/s/part-001.txt"))
	want := foldRows(analytics.Request{}, one)
	for name, rows := range map[string][]*journal.Record{
		"later":        {one, two, aborted(4, 3)},
		"twice":        {one, aborted(2, 0), two, aborted(4, 2), aborted(5, 4), aborted(6, 6), aborted(7, 3), aborted(8, 3)},
		"out of order": {one, aborted(4, 3), two},
	} {
		testbed.Equal(t, cmp.Diff(want, foldRows(analytics.Request{}, rows...), sameTimes), "", name)
	}
}

// TestGrowingJournal: rows that come while the journal is read are left out, as
// their aborts may still be to come.
func TestGrowingJournal(t *testing.T) {
	rows := []*journal.Record{commit(1, 1, "", file("create", "a", 1)), commit(2, 1, "", file("create", "b", 1))}
	seen := 0
	got, err := Read(context.Background(), analytics.Request{}, func(fn func(*journal.Record) error) error {
		for _, r := range rows[:seen+1] {
			fn(r)
		}
		seen++
		return nil
	})
	testbed.Expect(t, err == nil && got.TotalWrites == 1 && seen == 2, "%+v, %v", got, err)
}

// TestTimeline shows the newest writes, in the order of the journal.
func TestTimeline(t *testing.T) {
	var rows []*journal.Record
	for i := range 1000 {
		rows = append(rows, commit(uint64(i+1), i, "", file("edit", "a", 1)))
	}
	got := foldRows(analytics.Request{}, rows...).Timeline
	testbed.Expect(t, len(got) == timelineLen && got[0].Seq == 951 && got[49].Seq == 1000, "%+v", got)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Read(ctx, analytics.Request{}, func(fn func(*journal.Record) error) error { return fn(rows[0]) })
	testbed.Expect(t, err != nil, "not canceled")
}

// TestClockSkew feeds times that go back.
func TestClockSkew(t *testing.T) {
	got := foldRows(analytics.Request{},
		commit(1, 100, "", file("create", "a", 1)),
		commit(2, 40, "", file("edit", "a", 1)),
		commit(3, 70, "", file("edit", "a", 1)),
	)
	period := analytics.Period{FirstEntry: stamped(40), LastEntry: stamped(100), DurationSeconds: 60}
	var minutes []*journal.Record
	for i := range 20 {
		minutes = append(minutes, commit(uint64(i+1), 60*(20-i), "", file("create", "a", 1)))
	}
	testbed.Equal(t, foldRows(analytics.Request{}, minutes...).WriteVelocity.PeakMinute, analytics.Minute{Minute: "2026-01-31T00:01Z", Writes: 1}, "the first of equal minutes")
	testbed.Expect(t, got.HotPaths[0].LastWrite == stamped(100) && got.Period == period && got.WriteVelocity.WritesPerMinute == 3, "%+v", got)
	testbed.Expect(t, got.Timeline[0].Seq == 1 && got.Timeline[2].Seq == 3, "%+v", got.Timeline)
}

func TestHotPathOrder(t *testing.T) {
	var rows []*journal.Record
	add := func(path string, times int, bytes int64) {
		for range times {
			rows = append(rows, commit(uint64(len(rows)+1), len(rows), "", file("edit", path, bytes)))
		}
	}
	for _, path := range []string{"g", "f", "e"} {
		add(path, 1, 10)
	}
	add("d", 2, 1)
	add("c", 2, 5)
	add("z", 2, 5)
	add("b", 3, 0)
	var got []string
	for _, p := range foldRows(analytics.Request{}, rows...).HotPaths {
		got = append(got, p.Path)
	}
	testbed.Equal(t, cmp.Diff([]string{"b", "c", "z", "d", "e"}, got), "")
}

// FuzzLinear: reading the names of objects takes work in proportion to their
// length.
func FuzzLinear(f *testing.F) {
	testbed.FuzzLinear(f, 16<<10, time.Microsecond, []string{"chunks/", "9", ".json"}, func(text []byte) int {
		parseObject(string(text))
		parseObject("checkpoints/" + string(text) + ".json")
		return 0
	})
}

var objectCases = []struct {
	path string
	what object
	name string
}{
	{"chunks/s/part-001.txt", objectPart, "s"},
	{".resilient_write/chunks/s/part-001.txt", objectPart, "s"},
	{"chunks/A_b-9/part-999999.txt", objectPart, "A_b-9"},
	{"chunks/s", objectSession, "s"},
	{".resilient_write/chunks/s", objectSession, "s"},
	{"chunks/part-001.txt", objectNone, ""},
	{"chunks/" + strings.Repeat("x", 64), objectSession, strings.Repeat("x", 64)},
	{"chunks/" + strings.Repeat("x", 65), objectNone, ""},
	{"chunks/s/", objectNone, ""},
	{"chunks//part-001.txt", objectNone, ""},
	{"chunks/s/part-000.txt", objectNone, ""},
	{"chunks/s/part-01.txt", objectNone, ""},
	{"chunks/s/part-0001.txt", objectNone, ""},
	{"chunks/s/part-1000000.txt", objectNone, ""},
	{"chunks/s/part-0x1.txt", objectNone, ""},
	{"chunks/s/part-001.txt.tmp", objectNone, ""},
	{"chunks/s/t/part-001.txt", objectNone, ""},
	{"chunks/s\n/part-001.txt", objectNone, ""},
	{"chunks/../part-001.txt", objectNone, ""},
	{"./chunks/s/part-001.txt", objectNone, ""},
	{"x/chunks/s/part-001.txt", objectNone, ""},
	{"checkpoints/plan.json", objectCheckpoint, "plan"},
	{".resilient_write/checkpoints/plan.v2.json", objectCheckpoint, "plan.v2"},
	{"checkpoints/.json", objectNone, ""},
	{"checkpoints/a/b.json", objectNone, ""},
	{"checkpoints/plan.yaml", objectNone, ""},
	{"scratch/ab.bin", objectNone, ""},
	{"", objectNone, ""},
}

// FuzzParseObject compares the parser with expressions that say the same, and with the
// cases.
func FuzzParseObject(f *testing.F) {
	for _, c := range objectCases {
		f.Add(c.path)
		what, name := parseObject(c.path)
		testbed.Expect(f, what == c.what && name == c.name, "%q: %d %q", c.path, what, name)
	}
	forms := map[object]*regexp.Regexp{
		objectSession:    regexp.MustCompile(`\A(?:\.resilient_write/)?chunks/([A-Za-z0-9_-]{1,64})\z`),
		objectPart:       regexp.MustCompile(`\A(?:\.resilient_write/)?chunks/([A-Za-z0-9_-]{1,64})/part-(?:00[1-9]|0[1-9]\d|[1-9]\d{2,5})\.txt\z`),
		objectCheckpoint: regexp.MustCompile(`\A(?:\.resilient_write/)?checkpoints/([^/\\\x00]+)\.json\z`),
	}
	f.Fuzz(func(t *testing.T, path string) {
		want, wantName := objectNone, ""
		for what, form := range forms {
			if m := form.FindStringSubmatch(path); m != nil {
				want, wantName = what, m[1]
			}
		}
		what, name := parseObject(path)
		testbed.Expect(t, what == want && name == wantName, "%q: %d %q, want %d %q", path, what, name, want, wantName)
	})
}

// synthetic is a journal of n rows: 5 000 paths, 20 callers, 40 writers, 300
// sessions, some refusals and aborts. The rows repeat after a million or fewer.
func synthetic(n int) []journal.Record {
	rows := make([]journal.Record, n)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	paths := make([]string, 5000)
	for i := range paths {
		paths[i] = fmt.Sprintf("src/dir%02d/file%04d.go", i%50, i)
	}
	for i := range rows {
		r := &rows[i]
		*r = journal.Record{
			Seq: uint64(i + 1), TS: stamp.Text(start.Add(time.Duration(i) * 100 * time.Millisecond)),
			Kind: journal.KindCommit, Writer: fmt.Sprint("writer", i%40), Settled: uint64(max(0, i-20)),
			Caller: fmt.Sprint("agent", i%20),
			Muts:   []journal.Mutation{{Op: "overwrite", Path: paths[i*7919%5000], SHA256: "aa", Bytes: int64(i % 9000)}},
		}
		switch {
		case i%50 == 0:
			r.Kind, r.Reason = journal.KindRefused, "hash_mismatch"
		case i%50 == 1 && i > 10:
			r.Kind, r.Ref = journal.KindAbort, uint64(i-5)
		case i%10 == 2:
			r.Muts[0] = state("chunk", fmt.Sprintf("chunks/s%d/part-%03d.txt", i/10%300, 1+i/3000%999))
		case i%10 == 3:
			r.Muts[0].Op, r.Muts[0].PaySHA256, r.Muts[0].PayBytes = "append", "bb", 40
		}
	}
	return rows
}

func BenchmarkRead(b *testing.B) {
	rows := synthetic(1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		testbed.Require(b, read(rows).TotalWrites != 0, "nothing counted")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
}

func read(rows []journal.Record) analytics.Result {
	out, err := Read(context.Background(), analytics.Request{}, func(fn func(*journal.Record) error) error {
		for i := range rows {
			fn(&rows[i])
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return out
}

// TestAllocations makes sure that a row costs no memory once its path, caller,
// session and minute are known.
func TestAllocations(t *testing.T) {
	rows := synthetic(100_000)
	once := testing.AllocsPerRun(1, func() { read(rows) })
	again := slices.Clone(rows)
	for i := range again {
		again[i].Seq += uint64(len(rows))
		again[i].Ref = 0
	}
	twice := testing.AllocsPerRun(1, func() { read(append(rows, again...)) })
	if perRow := (twice - once) / float64(len(rows)); perRow > 0.01 {
		t.Errorf("%.4f allocations per row", perRow)
	}
}
