package resilientwrite_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// refuse makes a call that the gate refuses and returns its draft.
func refuse(t *testing.T, s *rw.Store, path, content string) string {
	t.Helper()
	_, err := s.SafeWrite(agents(), put(path, content, rw.ModeCreate))
	isErr(t, err, rw.ErrRiskBlocked, path)
	return refOf(t, rw.AsError("", err))
}

func drafts(t *testing.T, s *rw.Store) []rw.Draft {
	t.Helper()
	r := must(s.DraftList(background, rw.DraftListRequest{}))(t)
	equal(t, r.Count, len(r.Drafts), "count")
	return r.Drafts
}

// draftFails expects one detail of DraftGet and of Redact by reference.
func draftFails(t *testing.T, s *rw.Store, ref string, want rw.Detail) {
	t.Helper()
	_, err := s.DraftGet(background, rw.DraftGetRequest{DraftRef: ref})
	isErr(t, err, want, "get ", ref)
	if err != nil {
		conformsEnvelope(t, rw.AsError("", err))
	}
	fails(s.Redact(background, rw.RedactRequest{DraftRef: ref}))(t, want, "redact ", ref)
}

// rewriteFacts changes the facts of a draft on disk.
func rewriteFacts(t *testing.T, dir, ref string, change func(*rw.Draft)) {
	t.Helper()
	name := statePath(dir, "quarantine", ref+".json")
	data := must(os.ReadFile(name))(t)
	d := testbed.Decoded[rw.Draft](t, data)
	change(&d)
	data, _ = json.Marshal(d)
	noErr(t, os.WriteFile(name, data, 0o600))
}

func draftIs(t *testing.T, s *rw.Store, ref, want string) {
	t.Helper()
	equal(t, string(must(s.DraftGet(background, rw.DraftGetRequest{DraftRef: ref}))(t).Content), want)
}

// TestDraftComesBackAsItWasSent, as text and as base64, with its facts, and
// goes when it is deleted.
func TestDraftComesBackAsItWasSent(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openGated(t, dir, &rw.Options{Caller: "tester"})
	began := time.Now().UTC()
	text := "\ufeffid " + awsID(101) + "\r\nünïcode 漢字 🎉\x00 and mail jo@acme-mail.org"
	ref := refuse(t, s, "a/b.txt", text)
	got, err := s.DraftGet(background, rw.DraftGetRequest{DraftRef: ref})
	require(t, err == nil && string(got.Content) == text, "%v %+v", err, got)
	d := got.Draft
	expect(t, d.DraftRef == ref && d.Path == "a/b.txt" && d.Op == "safe_write" && d.Mode == "create" && d.SHA256.String() == hash(text) &&
		d.Bytes == int64(len(text)) && strings.Join(d.Patterns, " ") == "api_key pii" && d.Caller == "tester", "%+v", d)
	expect(t, !d.CreatedAt.Before(began.Add(-time.Second)) && d.ExpiresAt.Sub(d.CreatedAt) == 7*24*time.Hour,
		"created %s, expires %s", d.CreatedAt, d.ExpiresAt)
	draftIs(t, s, ref, text)
	list := drafts(t, s)
	expect(t, len(list) == 1 && list[0].DraftRef == ref, "%+v", list)
	for i := range 2 {
		r, err := s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref})
		expect(t, err == nil && r.Removed == (i == 0) && r.DraftRef == ref, "%v %+v", err, r)
	}
	draftFails(t, s, ref, rw.ErrDraftNotFound)
	files := draftFiles(dir)
	expect(t, len(files) == 0 && len(drafts(t, s)) == 0, "left: %v", files)
	check(t, s, true)
}

// TestBinaryDraft is returned unchanged.
func TestBinaryDraft(t *testing.T) {
	t.Parallel()
	s, _ := gatedStore(t)
	raw := "\xff\xfe latin \xe9\n" + awsID(102) + "\n"
	_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.bin", Content: []byte(raw)})
	ref := refOf(t, rw.AsError("", err))
	got, err := s.DraftGet(background, rw.DraftGetRequest{DraftRef: ref})
	expect(t, err == nil && string(got.Content) == raw, "%v %q", err, got.Content)
	clean, err := s.Redact(background, rw.RedactRequest{DraftRef: ref})
	back := string(clean.Content)
	expect(t, err == nil && strings.HasPrefix(back, "\xff\xfe latin \xe9\n{") && hash(back) == clean.SHA256.String(), "%v %q", err, back)
	passes(t, s, rw.SafeWriteRequest{Path: "a.bin", Content: clean.Content})
}

// TestStrangeDraftRefs find nothing, and nothing outside quarantine.
func TestStrangeDraftRefs(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	refuse(t, s, "a.txt", awsID(106))
	before := draftFiles(dir)
	for _, ref := range []string{
		"", "x", "draft_", "draft_" + strings.Repeat("0", 32), "draft_" + strings.Repeat("0", 31), "../meta", "draft_../../meta.json", "draft_" + strings.Repeat("A", 32),
		"/etc/passwd", "draft_" + strings.Repeat("0", 31) + "\x00", strings.Repeat("z", 10_000),
	} {
		fails(s.DraftGet(background, rw.DraftGetRequest{DraftRef: ref}))(t, rw.ErrDraftNotFound, "get ", ref)
		r := must(s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref}))(t)
		expect(t, !r.Removed, "delete %.40q: %v", ref, r.Removed)
	}
	after := draftFiles(dir)
	expect(t, slices.Equal(before, after), "%v became %v", before, after)
}

// TestTamperedDraftIsNotGiven: changed bytes, changed facts.
func TestTamperedDraftIsNotGiven(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	a, b, c, d := refuse(t, s, "a.txt", awsID(108)), refuse(t, s, "b.txt", awsID(109)), refuse(t, s, "c.txt", awsID(110)), refuse(t, s, "d.txt", awsID(111))
	os.WriteFile(statePath(dir, "quarantine", a+".bin"), []byte("something else"), 0o600)
	rewriteFacts(t, dir, b, func(d *rw.Draft) { d.SHA256 = digest(hash("other")) })
	os.WriteFile(statePath(dir, "quarantine", c+".json"), []byte("{torn"), 0o600)
	rewriteFacts(t, dir, d, func(d *rw.Draft) { d.DraftRef = a })
	for _, ref := range []string{a, b, c, d} {
		draftFails(t, s, ref, rw.ErrHashDriftOnRead)
	}
	// One damaged draft does not hide another one.
	e := refuse(t, s, "e.txt", awsID(112))
	draftIs(t, s, e, awsID(112))
	for _, ref := range []string{a, b, c, d} {
		r := must(s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref}))(t)
		expect(t, r.Removed, "%+v", r)
	}
	length(t, draftFiles(dir), 2, "left")
}

// TestRefusingAgainHealsADamagedDraft: a caller that sends the text again gets a draft
// that can be read, also after a crash that left temporary files longer than the draft.
func TestRefusingAgainHealsADamagedDraft(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	text := awsID(113) + "\n"
	ref := refuse(t, s, "a.txt", text)
	for _, suffixes := range [][]string{{".bin"}, {".bin.tmp", ".json.tmp"}} {
		if len(suffixes) > 1 {
			must(s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref}))(t)
		}
		for _, suffix := range suffixes {
			os.WriteFile(statePath(dir, "quarantine", ref+suffix), []byte(strings.Repeat("left by a crash ", 100)), 0o600)
		}
		mustEqual(t, refuse(t, s, "a.txt", text), ref)
		draftIs(t, s, ref, text)
	}
}

// TestSameDraftTwiceIsOneDraft; the same text for another path is another one.
func TestSameDraftTwiceIsOneDraft(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	text := awsID(115) + "\n"
	a := refuse(t, s, "a.txt", text)
	first := drafts(t, s)[0]
	equal(t, refuse(t, s, "./a.txt", text), a)
	b := refuse(t, s, "b.txt", text)
	expect(t, b != a, "two paths share a draft")
	c := refuse(t, s, "a.txt", text+"more")
	expect(t, c != a, "two texts share a draft")
	list := drafts(t, s)
	expect(t, len(list) == 3 && len(draftFiles(dir)) == 6, "%+v %v", list, draftFiles(dir))
	for _, d := range list {
		expect(t, d.DraftRef != a || d.CreatedAt.After(first.CreatedAt), "a repeated refusal does not restart the seven days")
	}
	expect(t, slices.IsSortedFunc(list, func(x, y rw.Draft) int { return y.CreatedAt.Compare(x.CreatedAt) }), "not newest first: %+v", list)
}

// TestDraftsExpire after seven days: they are not listed, and the next refusal
// or Open removes them.
func TestDraftsExpire(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	old := time.Now().UTC().Add(-7*24*time.Hour - time.Second)
	age := func(ref string) {
		rewriteFacts(t, dir, ref, func(d *rw.Draft) {
			d.CreatedAt, d.ExpiresAt = old, old.Add(7*24*time.Hour)
		})
	}
	a, b := refuse(t, s, "a.txt", awsID(116)), refuse(t, s, "b.txt", awsID(117))
	age(a)
	draftFails(t, s, a, rw.ErrDraftNotFound) // although it is not removed yet
	list := drafts(t, s)
	expect(t, len(list) == 1 && list[0].DraftRef == b, "%+v", list)
	c := refuse(t, s, "c.txt", awsID(118))
	files := draftFiles(dir)
	expect(t, len(files) == 4 && !strings.Contains(strings.Join(files, " "), a), "the next refusal leaves %v", files)
	draftFails(t, s, a, rw.ErrDraftNotFound)
	age(b)
	s.Close(background)
	openGated(t, dir, nil)
	files = draftFiles(dir)
	expect(t, len(files) == 2 && strings.Contains(files[0], c), "the next Open leaves %v", files)
}

// TestDamagedDraftsAreSweptInTheEnd: what cannot be read must not stay for ever, for it
// holds a secret.
func TestDamagedDraftsAreSweptInTheEnd(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	ref := refuse(t, s, "a.txt", awsID(120))
	s.Close(background)
	long := time.Now().Add(-8 * 24 * time.Hour)
	for _, suffix := range []string{".json", ".bin"} {
		name := statePath(dir, "quarantine", ref+suffix)
		if suffix == ".json" {
			os.WriteFile(name, []byte("{torn"), 0o600)
		}
		os.Chtimes(name, long, long)
	}
	openGated(t, dir, nil)
	length(t, draftFiles(dir), 0, "eight days old, cannot be read, cannot be listed, and still there")
}

// fakeDrafts puts n drafts into quarantine, the first the oldest.
func fakeDrafts(t *testing.T, dir string, n int, bytes int64) []string {
	t.Helper()
	os.MkdirAll(statePath(dir, "quarantine"), 0o700)
	var refs []string
	now := time.Now().UTC()
	for i := range n {
		text := fmt.Sprintf("draft %d", i)
		size := bytes
		size = cmp.Or(size, int64(len(text)))
		ref := "draft_" + hash(text)[:32]
		at := now.Add(time.Duration(i-n) * time.Second)
		data, _ := json.Marshal(rw.Draft{
			DraftRef: ref, Path: fmt.Sprintf("f%d", i), Op: "safe_write", Mode: "create", SHA256: digest(hash(text)), Bytes: size,
			CreatedAt: at, ExpiresAt: at.Add(7 * 24 * time.Hour),
		})
		os.WriteFile(statePath(dir, "quarantine", ref+".bin"), []byte(text), 0o600)
		os.WriteFile(statePath(dir, "quarantine", ref+".json"), data, 0o600)
		refs = append(refs, ref)
	}
	return refs
}

// TestAtMostAHundredDrafts: the oldest goes for the newest.
func TestAtMostAHundredDrafts(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	refs := fakeDrafts(t, dir, 99, 0)
	a := refuse(t, s, "a.txt", awsID(121))
	if list := drafts(t, s); len(list) != 100 || list[0].DraftRef != a || list[99].DraftRef != refs[0] {
		t.Fatalf("%d drafts", len(list))
	}
	b := refuse(t, s, "b.txt", awsID(122))
	list := drafts(t, s)
	expect(t, len(list) == 100 && list[0].DraftRef == b && list[99].DraftRef == refs[1] && len(draftFiles(dir)) == 200,
		"%d drafts, oldest %+v", len(list), list[len(list)-1])
	draftFails(t, s, refs[0], rw.ErrDraftNotFound)
}

// TestDraftsAreBoundedInBytes as well.
func TestDraftsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	refs := fakeDrafts(t, dir, 5, 64<<20) // according to their facts
	a := refuse(t, s, "a.txt", awsID(123))
	list := drafts(t, s)
	expect(t, len(list) == 4 && list[0].DraftRef == a && list[3].DraftRef == refs[2], "%d drafts", len(list))
}

// TestOpenKeepsAFullQuarantine: opening again is no reason to lose a draft.
func TestOpenKeepsAFullQuarantine(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	fakeDrafts(t, dir, 100, 0)
	for range 3 {
		s := openGated(t, dir, nil)
		equal(t, len(drafts(t, s)), 100, "drafts after an Open")
		s.Close(background)
	}
}

// TestRepeatedRefusalEvictsNothing: a draft that is there already needs no room.
func TestRepeatedRefusalEvictsNothing(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	a := refuse(t, s, "a.txt", awsID(124))
	fakeDrafts(t, dir, 99, 0)
	for range 2 {
		mustEqual(t, refuse(t, s, "a.txt", awsID(124)), a, "another draft")
		equal(t, len(drafts(t, s)), 100, "drafts, were 100")
	}
}

// TestCrashLeftoversAreSwept at Open: bytes without facts, temporary files;
// and nothing else.
func TestCrashLeftoversAreSwept(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	ref := refuse(t, s, "a.txt", awsID(125))
	s.Close(background)
	q := func(name string) string { return statePath(dir, "quarantine", name) }
	lost := "draft_" + strings.Repeat("0", 32)
	for _, name := range []string{lost + ".bin", lost + ".bin.tmp", ref + ".json.tmp", ref + ".bin.tmp"} {
		os.WriteFile(q(name), []byte(awsID(125)), 0o600)
	}
	for _, name := range []string{"corrupt_checkpoint.json", "notes.tmp"} {
		os.WriteFile(q(name), []byte("kept"), 0o600)
	}
	s = openGated(t, dir, nil)
	equal(t, reasons(s.Recovery().Warnings), "", "warnings")
	var names []string
	entries, _ := os.ReadDir(q(""))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"corrupt_checkpoint.json", ref + ".bin", ref + ".json", "notes.tmp"}
	expect(t, slices.Equal(names, want), "%v, want %v", names, want)
	must(s.DraftGet(background, rw.DraftGetRequest{DraftRef: ref}))(t)
}

// TestRefusalsOfTwoStores on one workspace at the same time: every draft can
// be read by both.
func TestRefusalsOfTwoStores(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	stores := []*rw.Store{openGated(t, dir, nil), openGated(t, dir, nil)}
	const each = 12
	var wg sync.WaitGroup
	refs := make([][]string, 2)
	for i, s := range stores {
		wg.Go(func() {
			for n := range each {
				path, text := fmt.Sprintf("shared%d.txt", n), awsID(uint64(200+n))
				if n%3 == 0 {
					path = fmt.Sprintf("own%d-%d.txt", i, n)
				}
				_, err := s.SafeWrite(background, put(path, text, rw.ModeCreate))
				if !errors.Is(err, rw.ErrRiskBlocked) {
					t.Error(err)
					return
				}
				ref, _ := rw.AsError("", err).Context["draft_ref"].(string)
				refs[i] = append(refs[i], ref)
			}
		})
	}
	wg.Wait()
	for i := range stores {
		for n, ref := range refs[i] {
			for _, s := range stores {
				draftIs(t, s, ref, awsID(uint64(200+n)))
			}
		}
	}
	equal(t, len(drafts(t, stores[0])), each+each/3, "drafts")
	equal(t, refusalsIn(t, dir), 2*each, "refusals in the journal")
	check(t, stores[0], true)
}

// TestRefusalWhenTheDraftCannotBeKept: the write is still refused, and the reply says
// that there is no draft.
func TestRefusalWhenTheDraftCannotBeKept(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	os.WriteFile(statePath(dir, "quarantine"), []byte("in the way"), 0o600)
	e := gated(t, s, dir, put("a.txt", awsID(126), rw.ModeCreate))
	expect(t, e.Context["draft_kept"] == false && e.Context["draft_ref"] == nil && !strings.Contains(e.Hint, "draft_ref"), "%v %s", e.Context, e.Hint)
	length(t, leaks(t, dir, awsID(126)), 0)
}

// TestQuarantineThatIsALink: a quarantine that was replaced by a link is not followed.
func TestQuarantineThatIsALink(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	outside := filepath.Join(filepath.Dir(dir), "outside")
	os.Mkdir(outside, 0o755)
	s := openGated(t, dir, nil)
	os.Symlink(outside, statePath(dir, "quarantine"))
	e := gated(t, s, dir, put("a.txt", awsID(127), rw.ModeCreate))
	left, _ := os.ReadDir(outside)
	expect(t, len(left) == 0 && e.Context["draft_kept"] == false, "%v %v", left, e.Context)
	for _, err := range []error{
		errorOf(s.DraftList(background, rw.DraftListRequest{})),
		errorOf(s.DraftGet(background, rw.DraftGetRequest{DraftRef: "draft_" + strings.Repeat("0", 32)})),
	} {
		doc := conformsEnvelope(t, rw.AsError("", err))
		expect(t, err != nil && !strings.Contains(string(doc), outside), "%s", doc)
	}
}

// TestQuarantineThatGoesSweep: another program removes the quarantine before any operation of
// a refusal, which stays one.
func TestQuarantineThatGoesSweep(t *testing.T) {
	for n, reached := 0, true; reached; n++ {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, &rw.Options{Gate: rw.GateOfAgents}, rw.Sim{}))(t)
		refuse(t, s, "a.txt", awsID(130))
		count := 0
		reached = false
		fs.Before(func(simfs.Op) {
			if count++; count == n+1 {
				reached = true
				fs.Remove(rw.StateDirName + "/quarantine")
			}
		})
		fails(s.SafeWrite(background, put("b.txt", awsID(131), rw.ModeCreate)))(t, rw.ErrRiskBlocked, "removed before operation ", n)
		fs.Before(nil)
		noErr(t, s.Close(background))
	}
}

// TestClosedStoreGivesNoDrafts.
func TestClosedStoreGivesNoDrafts(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	ref := refuse(t, s, "a.txt", awsID(129))
	s.Close(background)
	draftFails(t, s, ref, rw.ErrStoreClosed)
	fails(s.DraftList(background, rw.DraftListRequest{}))(t, rw.ErrStoreClosed)
	fails(s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref}))(t, rw.ErrStoreClosed)
	equal(t, len(draftFiles(dir)), 2, "it was removed")
}
