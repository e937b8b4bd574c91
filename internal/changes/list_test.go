package changes

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/hunks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestLimits: a list has the newest groups and commands, and the first files, and the
// lines of no more text than fits.
func TestLimits(t *testing.T) {
	out, files := &List{}, map[string]*File{}
	row := func(kind string, seq int) {
		muts := []journal.Mutation{{Path: fmt.Sprintf("%06d", seq), SHA256: "aa"}}
		out.take(&journal.Record{Kind: kind, Seq: uint64(seq), Group: &journal.Group{}, Muts: muts}, files)
	}
	for seq := range MaxFiles {
		kind := journal.KindCommit
		if seq < maxRows {
			kind = journal.KindObserved
		}
		row(kind, seq)
	}
	out.finish(files)
	testbed.Expect(t, len(out.Groups) == maxRows && len(out.Executed) == maxRows && out.Executed[0].Seq == MaxFiles-maxRows && len(out.Files) == MaxFiles && !out.Truncated,
		"%d groups, %d commands, %d files, truncated %v", len(out.Groups), len(out.Executed), len(out.Files), out.Truncated)
	*out = List{}
	for seq := range maxRows + 1 {
		row(journal.KindObserved, seq)
	}
	testbed.Expect(t, len(out.Groups) == maxRows && out.Groups[0].Seq == 1 && out.Observed == maxRows+1 && out.Truncated, "%d groups, truncated %v", len(out.Groups), out.Truncated)
	*out = List{}
	files["one more"] = &File{}
	out.finish(files)
	testbed.Expect(t, len(out.Files) == MaxFiles && out.Truncated, "%d files, truncated %v", len(out.Files), out.Truncated)
	for left, bytes := range map[int64]int64{9: 10, hunks.Limit + 2: hunks.Limit + 1} {
		_, err := (&netting{left: left}).version(&journal.Record{}, &journal.Mutation{SHA256: "aa", Bytes: bytes}, false)
		testbed.Expect(t, errors.Is(err, hunks.ErrTooLarge), "%v", err)
	}
}

// TestWhose: which commits a bare undo takes, one of a session, and one of a caller.
func TestWhose(t *testing.T) {
	via := func(client, thread, connection string) *journal.Via {
		return &journal.Via{Client: client, Thread: thread, Connection: connection}
	}
	for _, c := range []struct {
		call            *journal.Via
		caller, session string // that the call names
		commit          *journal.Via
		by, in          string
		mine, handed    bool
	}{
		{via("c", "t", "1"), "", "", via("c", "t", "2"), "x", "s", true, true},
		{via("c", "t", "1"), "", "", via("d", "t", "1"), "me", "s", false, false},
		{via("c", "t", "1"), "", "", via("c", "u", "1"), "me", "s", false, false},
		{via("c", "t", "1"), "", "", via("c", "t", "1"), "me", "r", false, false},
		{via("c", "t", "1"), "", "", nil, "me", "s", false, false},
		{via("c", "", "1"), "", "", via("c", "", "1"), "x", "s", true, true},
		{via("c", "", "1"), "", "", via("c", "", "2"), "me", "s", false, false},
		{via("c", "", ""), "", "", via("c", "", ""), "me", "s", false, true},
		{via("c", "t", "1"), "", "r", via("c", "u", "2"), "x", "r", true, true},
		{via("c", "t", "1"), "", "r", via("d", "t", "1"), "me", "r", false, true},
		{via("c", "t", "1"), "", "r", via("c", "t", "1"), "me", "s", false, false},
		{via("c", "t", "1"), "", "r", nil, "me", "r", true, true},
		{via("c", "t", "1"), "", "r", nil, "x", "r", false, true},
		{via("c", "t", "1"), "x", "", via("d", "t", "1"), "x", "r", true, false},
		{via("c", "t", "1"), "x", "", via("c", "t", "1"), "me", "s", false, true},
		{nil, "", "", via("d", "t", "1"), "me", "s", true, true},
		{nil, "", "", nil, "x", "s", false, true},
		{nil, "", "r", nil, "me", "r", true, true},
		{nil, "", "r", nil, "x", "r", false, true},
		{nil, "", "r", nil, "me", "s", false, false},
	} {
		commit := &engine.Commit{Via: c.call, Req: engine.Request{Caller: cmp.Or(c.caller, "me"), Session: cmp.Or(c.session, "s")}}
		rec := &journal.Record{Via: c.commit, Caller: c.by, Session: c.in}
		got, handed := WhoseOf(commit, c.caller, c.session).Made(rec), HandedOver(commit, c.session).Made(rec)
		testbed.Expect(t, got == c.mine && handed == c.handed, "%+v, by %+v: %v, handed over %v", c, c.commit, got, handed)
	}
}
