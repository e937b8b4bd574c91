package journal_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// wanted is what Skim promises of a record.
func wanted(r *journal.Record) journal.Record {
	w := journal.Record{
		Seq: r.Seq, TS: r.TS, Kind: r.Kind, Writer: r.Writer, Settled: r.Settled, Ref: r.Ref, Caller: r.Caller,
		Key: r.Key, Reason: r.Reason, Level: r.Level, Note: r.Note,
	}
	presence := func(s string) string { return s[:min(len(s), 0)] + map[bool]string{true: "present"}[s != ""] }
	for _, m := range r.Muts {
		w.Muts = append(w.Muts, journal.Mutation{
			Op: m.Op, Path: m.Path, Real: m.Real, Bytes: m.Bytes, PrevSHA256: presence(m.PrevSHA256), PrevBytes: m.PrevBytes,
			Rev: m.Rev, PrevSeq: m.PrevSeq, PaySHA256: presence(m.PaySHA256), PayBytes: m.PayBytes, Slot: presence(m.Slot),
			Class: m.Class, Object: m.Object, ImportID: m.ImportID,
		})
	}
	return w
}

// sameAsDecoded compares the two ways to read a line.
func sameAsDecoded(t *testing.T, line []byte) (usual bool) {
	t.Helper()
	want, wantOK := journal.DecodeRow(line)
	got, ok, usual := journal.SkimRow(line)
	testbed.Require(t, ok == wantOK, "%q: a record: %v, decoded: %v", line, ok, wantOK)
	if ok && !reflect.DeepEqual(wanted(got), wanted(want)) {
		t.Fatalf("%q:\n got %+v\nwant %+v", line, wanted(got), wanted(want))
	}
	for i, m := range previousOf(line) {
		w := want.Muts[i]
		testbed.Require(t, m == w.SHA256+" "+w.PrevSHA256, "%q: hashes %q, decoded %q and %q", line, m, w.SHA256, w.PrevSHA256)
	}
	return usual
}

func previousOf(line []byte) (list []string) {
	rec, ok := journal.SkimPreviousRow(line)
	for i := 0; ok && i < len(rec.Muts); i++ {
		list = append(list, rec.Muts[i].SHA256+" "+rec.Muts[i].PrevSHA256)
	}
	return list
}

// usualRow has every field that a row of a commit can have.
const usualRow = `{"seq":7,"ts":"2026-11-21T10:00:00.000001Z","kind":"commit","writer":"1-a","chain":"00","settled":6,"commit":"c","ref":2,` +
	`"caller":"agent ä","session":"s","invocation":"i","key":"k","key_hash":"h","tx":"t","reason":"r","policy":"p","accept_risk":"why","level":"off",` +
	`"reply":{"a":[1,true,null,{"b":"c"}],"d":{}},"manifest":"m","muts":[{"op":"append","path":"a/b","real":"c","from":"f","sha256":"aa",` +
	`"bytes":12,"prev_sha256":"bb","prev_bytes":3,"mode":420,"prev_mode":384,"rev":2,"prev_seq":1,"how":"append","pay_sha256":"cc","pay_bytes":-9,"slot":"1-a-2","slot_born":1795664184395888174,"prev_id":"1.2.3.4.1795664184395888174","prev_extra":true,` +
	`"slot_dir":"m/s","dirs":["x","y"],"class":"state","object":"o","import_id":"1-2","journal_id":"j","prev_git":"g","base":"b"},{"op":"","path":"","sha256":"","bytes":0,"prev_sha256":""}]}`

// TestSkimReadsWhatDecodeReads: of every line Skim makes what decode makes,
// among them the ones that are nearly of the usual form.
func TestSkimReadsWhatDecodeReads(t *testing.T) {
	testbed.Expect(t, sameAsDecoded(t, []byte(usualRow)), "the usual row is not read the fast way")
	for _, change := range [][2]string{
		{`"seq":7`, `"seq":0`}, {`"seq":7`, `"seq":07`}, {`"seq":7`, `"seq":7.0`}, {`"seq":7`, `"seq":-7`}, {`"seq":7`, `"seq":"7"`},
		{`"seq":7`, `"seq":9007199254740993`}, {`"seq":7`, `"seq":7e0`}, {`"seq":7`, `"SEQ":7`}, {`"seq":7`, `"seq": 7`}, {`"seq":7,`, ``},
		{`"seq":7`, `"seq":18446744073709551617`}, {`"seq":7`, `"seq":null`}, {`"seq":7`, `"seq":7,"seq":8`}, {`"seq":7`, `"s\u0065q":7`},
		{`"kind":"commit"`, `"kind":""`}, {`"kind":"commit"`, `"kind":null`}, {`"kind":"commit"`, `"kind":"com\u006dit"`}, {`"kind":"commit",`, ``},
		{`"ts":"2026`, "\"ts\":\"\x1f2026"}, {`"agent ä"`, "\"agent \xff\""}, {`"agent ä"`, `"agent \ud800"`}, {`"agent ä"`, "\"agent \x7f\""},
		{`"chain":"00"`, "\"chain\":\"\xff\""}, {`"chain":"00"`, "\"chain\":\"\x01\""}, {`"chain":"00"`, `"chain":00`}, {`"chain":"00"`, `"chain":"0\"0"`},
		{`"settled":6`, `"settled":1234567890123456789012`}, {`"ref":2`, `"unknown":[1,{"x":null}],"ref":2`},
		{`"mode":420`, `"mode":4294967296`}, {`"mode":420`, `"mode":4294967295`}, {`"pay_bytes":-9`, `"pay_bytes":-0`}, {`"pay_bytes":-9`, `"pay_bytes":--9`},
		{`"dirs":["x","y"]`, `"dirs":[]`}, {`"dirs":["x","y"]`, `"dirs":["x",1]`},
		{`"dirs":["x","y"]`, `"dirs":["x",]`}, {`[1,true,null`, `[1,true,nul`}, {`[1,true,null`, `[1.5e3,-2,"\n"`}, {`"d":{}`, `"d":{"e"}`}, {`"d":{}`, `"d":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]`},
		{`"reply":{`, `"reply":{{`}, {`"muts":[`, `"muts":[[`}, {`"muts":[`, `"muts":[],"muts":[`}, {`"muts":[`, `"muts":[null,`}, {`}]}`, `}],"note":{"what":"x"}}`},
		{`}]}`, `}],"note":5}`}, {`}]}`, `}],"settled":9}`}, {`}]}`, `}]}}`}, {`}]}`, `}]`}, {`}]}`, `},]}`}, {`"op":"append",`, ``}, {`"op":"append","path":"a/b"`, `"path":"a/b","op":"append"`},
	} {
		line := strings.Replace(usualRow, change[0], change[1], 1)
		testbed.Require(t, line != usualRow, "%q changes nothing", change)
		sameAsDecoded(t, []byte(line))
	}
	for i := range usualRow {
		sameAsDecoded(t, []byte(usualRow[:i]+"}"))
		sameAsDecoded(t, []byte(usualRow[:i]+usualRow[i+1:]))
	}
}

// TestSkimReadsAnyRecord that encode writes, and what becomes of it when bytes
// are changed.
func TestSkimReadsAnyRecord(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	usual, n := 0, 3000
	for range n {
		rec := anyRecord(rng)
		line := testbed.Must(journal.EncodeRow(&rec))(t)
		if sameAsDecoded(t, line) {
			usual++
		}
		for range 3 {
			i := rng.IntN(len(line))
			line[i] = `"\{}[],:019-x`[rng.IntN(13)]
			sameAsDecoded(t, line)
		}
	}
	testbed.Expect(t, usual >= n/3 && usual != n, "%d of %d are read the fast way", usual, n)
}

// anyRecord fills about half of the fields with words that occur, and now and
// then with odd ones.
func anyRecord(rng *rand.Rand) journal.Record {
	var rec journal.Record
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if rng.IntN(2) == 0 {
					fill(v.Field(i))
				}
			}
		case reflect.String:
			words := []string{"commit", "a/b.go", "2026-11-21T10:00:00Z", "ab12", "é", strings.Repeat("q", rng.IntN(20))}
			if rng.IntN(60) == 0 {
				words = []string{"a\\b", `"`, "<&>", "\x00", "\u2028", "\xff\xfe", "line\nline"}
			}
			v.SetString(words[rng.IntN(len(words))])
		case reflect.Int64:
			v.SetInt(rng.Int64() >> rng.IntN(64))
		case reflect.Uint64, reflect.Uint32:
			v.SetUint(rng.Uint64() >> (32 + rng.IntN(32)))
		case reflect.Bool:
			v.SetBool(rng.IntN(2) == 0)
		case reflect.Slice:
			if v.Type() == reflect.TypeFor[json.RawMessage]() {
				v.SetBytes([]byte(`{"replacements":2,"undone":[1,2]}`))
				return
			}
			v.Set(reflect.MakeSlice(v.Type(), 1+rng.IntN(2), 2))
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Pointer:
			if rng.IntN(20) == 0 {
				v.Set(reflect.New(v.Type().Elem()))
				fill(v.Elem())
			}
		}
	}
	fill(reflect.ValueOf(&rec).Elem())
	rec.Seq, rec.Kind = 1+rng.Uint64N(1e6), "commit"
	return rec
}

// TestSkimPassesWhatRangePasses: the same rows, in the same order, each once,
// past what is no row.
func TestSkimPassesWhatRangePasses(t *testing.T) {
	fs := simfs.New()
	l := open(t, fs, journal.Options{SegmentBytes: 4 << 10})
	for _, name := range strings.Fields("one two <three> four five six seven eight nine ten eleven twelve") {
		for range 5 {
			testbed.NoErr(t, write(l, name, true))
		}
	}
	name := "journal/00000000000000000001.jsonl"
	data, _ := fs.ReadFile(name)
	half := strings.Index(string(data[len(data)/2:]), "\n\n") + len(data)/2 + 1
	garbage := string(data[:half]) + "garbage\n{\"seq\":3,\"kind\":\"commit\"}\n{\"seq\":5}\n" + string(data[half:])
	fs.WriteFile(name, []byte(garbage), 0o600)
	var want, got []journal.Record
	testbed.NoErr(t, l.Range(1, func(r *journal.Record, _ journal.Pos) error { want = append(want, wanted(r)); return nil }))
	testbed.NoErr(t, l.Skim(func(r *journal.Record) error { got = append(got, wanted(r)); return nil }))
	testbed.Expect(t, len(want) == 60 && reflect.DeepEqual(got, want), "%d rows, want %d", len(got), len(want))
	l.Close()
}

// FuzzSkim: of any line Skim makes what decode makes.
func FuzzSkim(f *testing.F) {
	f.Add([]byte(usualRow))
	f.Add([]byte(`{"seq":1,"kind":"note","note":{"what":"torn"}}`))
	f.Fuzz(func(t *testing.T, line []byte) { sameAsDecoded(t, line) })
}
