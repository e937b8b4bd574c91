package resilientwrite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func save(t *testing.T, s *rw.Store, r rw.CheckpointRequest) rw.CheckpointResult {
	t.Helper()
	return must(s.Checkpoint(background, r))(t, "checkpoint ", r.Name)
}

// jsonString is a text as a JSON string that escapes no more than it must.
func jsonString(text string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func stringIn(raw json.RawMessage) (string, bool) {
	s, ok := any(nil), false
	if json.Unmarshal(raw, &s) == nil {
		_, ok = s.(string)
	}
	text, _ := s.(string)
	return text, ok
}

func saved(t *testing.T, s *rw.Store, name, want string) rw.CheckpointReadResult {
	t.Helper()
	out := must(s.CheckpointRead(background, rw.CheckpointReadRequest{Name: name}))(t, "read ", name)
	mustEqual(t, string(out.Data), want, name, " holds")
	return out
}

// TestCheckpointComesBackToTheLetter: numbers that no float holds, the order
// of keys, escapes, every kind of character.
func TestCheckpointComesBackToTheLetter(t *testing.T) {
	s, dir := quick(t, nil)
	for i, text := range []string{
		`null`, `true`, `0`, `-0`, `-0.0`, `1e400`, `1E+2`, `123456789012345678901234567890.12345678901234567890`, `""`, `{}`, `[]`,
		`{"z":1,"a":2,"m":{"b":[],"a":{}}}`, `{"a":1, "b" : [ 1 , 2 ]}`, "{\n  \"a\": 1\n}", `"\u0041\/\n\t\u2028<>&"`, `"😀 \ud83d\ude00 你好 zażółć"`,
		`{"<&>":"</script>","é":"é","\u0065\u0301":1}`, `[1.0,1.00,1,10e-1]`, `"` + strings.Repeat("你", 100000) + `"`, `{"":""}`, "\"\u2028\u2029\"",
	} {
		name := fmt.Sprint("c", i)
		r := save(t, s, rw.CheckpointRequest{Name: name, Data: json.RawMessage(text)})
		expect(t, r.SHA256.String() == hash(text) && r.Bytes == int64(len(text)) && r.Format == "json" && r.TTL == "session" && !r.Chunked &&
			r.JournalID != "" && r.CheckpointPath == rw.StateDirName+"/checkpoints/"+name+".json", "%+v", r)
		got := saved(t, s, name, text)
		expect(t, got.SHA256 == r.SHA256 && got.CreatedAt == r.CreatedAt && got.UpdatedAt == r.UpdatedAt && got.Bytes == r.Bytes, "%+v\n%+v", r, got)
		doc, err := os.ReadFile(filepath.Join(dir, r.CheckpointPath))
		expect(t, err == nil && json.Valid(doc), "%s: %v", doc, err)
	}
	check(t, s, true)
}

// TestCheckpointOfAnyValue generates random values and texts; each is returned
// unchanged, also above a mebibyte.
func TestCheckpointOfAnyValue(t *testing.T) {
	t.Parallel()
	const seed = 20261121
	rng := rand.New(rand.NewPCG(seed, 1))
	s, dir := quick(t, nil)
	letters := []rune("ab \"\\\n\t/<>&你好😀éà\u0301\u2028\u200d\x7f日本")
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteRune(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	var value func(depth int) string
	value = func(depth int) string {
		switch k := rng.IntN(7); {
		case k == 0:
			return []string{"null", "true", "false"}[rng.IntN(3)]
		case k == 1:
			return fmt.Sprintf("%d.%de%+d", rng.Int64()-1<<62, rng.Uint64(), rng.IntN(600)-300)
		case k <= 3 || depth == 0:
			return string(jsonString(text(rng.IntN(12))))
		case k == 4:
			var list []string
			for range rng.IntN(4) {
				list = append(list, value(depth-1))
			}
			return "[" + strings.Join(list, ",") + "]"
		}
		var list []string
		for i := range rng.IntN(4) {
			list = append(list, string(jsonString(fmt.Sprint(text(3), 9-i)))+":"+value(depth-1))
		}
		return "{" + strings.Join(list, ", ") + "}"
	}
	for i := range scale(150) {
		v := value(4)
		save(t, s, rw.CheckpointRequest{Name: "v", Data: json.RawMessage(v)})
		saved(t, s, "v", v)
		plain := text(rng.IntN(300))
		save(t, s, rw.CheckpointRequest{Name: "m", Format: "markdown", Data: jsonString(plain)})
		got := saved(t, s, "m", string(jsonString(plain)))
		back, ok := stringIn(got.Data)
		require(t, ok && back == plain && got.SHA256.String() == hash(plain) && got.Bytes == int64(len(plain)), "seed %d round %d: %q, want %q", seed, i, back, plain)
	}
	for _, n := range []int{1<<20 - 1, 1<<20 + 2} {
		for shift, unit := range []string{"x", "é", "你", "😀"} {
			plain := strings.Repeat("x", shift) + strings.Repeat(unit, n/len(unit))
			r := save(t, s, rw.CheckpointRequest{Name: "big", Format: "markdown", Data: jsonString(plain)})
			expect(t, r.Chunked == (len(plain) > 1<<20), "%d bytes: chunked %v", len(plain), r.Chunked)
			got := saved(t, s, "big", string(jsonString(plain)))
			expect(t, got.Chunked == r.Chunked && got.SHA256.String() == hash(plain), "%+v", got.SHA256)
		}
	}
	v := `["` + strings.Repeat("é", 3<<19) + `", 1e400]`
	save(t, s, rw.CheckpointRequest{Name: "big", Data: json.RawMessage(v)})
	saved(t, s, "big", v)
	// Only the newest data is kept.
	length(t, must(filepath.Glob(statePath(dir, "checkpoints", "big.*")))(t), 2)
	check(t, s, true)
}

func TestCheckpointIsReplacedButItsBirthStays(t *testing.T) {
	s := must(rw.OpenSim(simfs.New(), nil, rw.Sim{}))(t)
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	a := save(t, s, rw.CheckpointRequest{Name: "c", Data: json.RawMessage("1"), Call: rw.Call{Session: "s1"}})
	s.SetNow(start.Add(time.Hour))
	b := save(t, s, rw.CheckpointRequest{Name: "c", Data: json.RawMessage("2"), TTL: "P1W", Call: rw.Call{IdempotencyKey: "k"}})
	expect(t, b.CreatedAt == a.CreatedAt && b.UpdatedAt.String() == "2026-11-21T13:00:00.000000Z" &&
		b.ExpiresAt.String() == "2026-11-28T13:00:00.000000Z" && a.ExpiresAt.String() == "", "%+v\n%+v", a, b)
	s.SetNow(start.Add(3 * time.Hour))
	r := save(t, s, rw.CheckpointRequest{Name: "c", Data: json.RawMessage("2"), TTL: "P1W", Call: rw.Call{IdempotencyKey: "k"}})
	expect(t, r.Status == rw.StatusReplayed && r.CreatedAt == b.CreatedAt && r.UpdatedAt == b.UpdatedAt && r.ExpiresAt == b.ExpiresAt &&
		r.JournalID == b.JournalID && r.SHA256 == b.SHA256, "%+v\n%+v", b, r)
	fails(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: json.RawMessage("3"), TTL: "P1W", Call: rw.Call{IdempotencyKey: "k"}}))(t, rw.ErrIdempotencyKeyReused)
	c := saved(t, s, "c", "2")
	expect(t, c.CreatedAt == a.CreatedAt && c.TTL == "P1W" && !c.Expired, "%+v", c)
	check(t, s, true)
	s.Close(background)
}

func TestCheckpointRefusalsChangeNothing(t *testing.T) {
	s, dir := gatedStore(t)
	save(t, s, rw.CheckpointRequest{Name: "there", Data: json.RawMessage(`{"a":1}`)})
	one, deep := json.RawMessage("1"), strings.Repeat("[", 20000)+strings.Repeat("]", 20000)
	refused := func(what string, want rw.Detail, r rw.CheckpointRequest) *rw.Error {
		t.Helper()
		return deny(t, s, dir, what, want, calling(s.Checkpoint, r))
	}
	for _, name := range []string{"", ".", "..", "a.", "a/b", `a\b`, "a\n", "a\x00", "ä", strings.Repeat("a", 129)} {
		refused(name, rw.ErrInvalidArgument, rw.CheckpointRequest{Name: name, Data: one})
	}
	for _, ttl := range badTTLs {
		refused(string(ttl), rw.ErrInvalidArgument, rw.CheckpointRequest{Name: "there", TTL: ttl, Data: one})
	}
	for data, want := range map[string]rw.Detail{
		"": rw.ErrMissingContent, " \n": rw.ErrMissingContent, "\"\xff\"": rw.ErrNotValidUTF8,
		"{": rw.ErrSyntaxInvalid, "1 2": rw.ErrSyntaxInvalid, "[NaN]": rw.ErrSyntaxInvalid, "-Infinity": rw.ErrSyntaxInvalid, deep: rw.ErrSyntaxInvalid,
		`{"a":{"b":1,"\u0062":2}}`: rw.ErrSyntaxInvalid, `"\ud83d"`: rw.ErrSyntaxInvalid, `1},"x":{`: rw.ErrSyntaxInvalid,
	} {
		refused(data, want, rw.CheckpointRequest{Name: "there", Data: json.RawMessage(data)})
	}
	refused("format", rw.ErrInvalidArgument, rw.CheckpointRequest{Name: "there", Format: "xml", Data: one})
	refused("markdown of a number", rw.ErrInvalidArgument, rw.CheckpointRequest{Name: "there", Format: "markdown", Data: one})
	refused("caller", rw.ErrInvalidArgument, rw.CheckpointRequest{Name: "there", Call: rw.Call{Caller: "\xff"}, Data: one})
	refused("accept_risk", rw.ErrInvalidArgument, rw.CheckpointRequest{Name: "there", Call: rw.Call{AcceptRisk: " "}, Data: one})
	e := refused("bad YAML", rw.ErrSyntaxInvalid, rw.CheckpointRequest{Name: "there", Format: "yaml", Data: jsonString("a: 1\nb: [\n")})
	testbed.Contains(t, e.Hint, "line ")
	for name, want := range map[string]rw.Detail{"none": rw.ErrCheckpointNotFound, "../journal": rw.ErrInvalidArgument, "": rw.ErrInvalidArgument} {
		deny(t, s, dir, name, want, calling(s.CheckpointRead, rw.CheckpointReadRequest{Name: name}))
	}
	before := stateSnapshot(t, dir)
	r := save(t, s, rw.CheckpointRequest{Name: "dry", Data: json.RawMessage("1"), Call: rw.Call{DryRun: true}})
	expect(t, r.SHA256.String() == hash("1") && r.JournalID == "", "%+v", r)
	if r, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{Call: rw.Call{DryRun: true}}); err != nil || len(r.Removed) != 1 || r.Kept != 0 {
		t.Errorf("%+v %v", r, err)
	}
	equal(t, stateSnapshot(t, dir), before, "a dry run changed")
	saved(t, s, "there", `{"a":1}`)
	for _, ttl := range []rw.TTL{"P1W", "PT1.5H", "permanent", "session"} {
		save(t, s, rw.CheckpointRequest{Name: "there", TTL: ttl, Data: json.RawMessage("1")})
	}
	save(t, s, rw.CheckpointRequest{Name: "y", Format: "yaml", Data: jsonString("a: &x 1\nc: *x\n---\nb: 2\n")})
	save(t, s, rw.CheckpointRequest{Name: strings.Repeat("n", 128), Data: json.RawMessage("1")})
	check(t, s, true)
}

// TestCheckpointIsGated: a secret anywhere in the data is refused, with a draft; a
// reason overrides if the policy allows it.
func TestCheckpointIsGated(t *testing.T) {
	s, dir := gatedStore(t)
	secret := ghToken(9)
	for _, data := range []json.RawMessage{
		json.RawMessage(`{"env":{"GH_TOKEN":"` + secret + `"}}`),
		json.RawMessage(`["` + strings.Repeat("x ", 600<<10) + secret + `"]`), // in a file of its own
		jsonString("# notes\n\nexport GH_TOKEN=" + secret + "\n"),
		jsonString(pemKey(4)),
	} {
		format := "json"
		if _, ok := stringIn(data); ok {
			format = "markdown"
		}
		_, err := s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: data, Format: format})
		require(t, errors.Is(err, rw.ErrRiskBlocked), "%.60s: %v", data, err)
		isGateRefusal(t, rw.AsError("", err))
		expect(t, refOf(t, rw.AsError("", err)) != "" && strings.Contains(rw.AsError("", err).Hint, "data"), "%+v", err)
		equal(t, must(s.CheckpointList(background, rw.CheckpointListRequest{}))(t).Count, 0)
	}
	length(t, leaks(t, dir, secret), 0, "the secret is in")
	s = openWith(t, ramspace(t), "version: 1\ngate: {mode: block, reject_at: high, overrides: any}\n", nil)
	r := save(t, s, rw.CheckpointRequest{Name: "c", Data: json.RawMessage(`"` + secret + `"`), Call: rw.Call{AcceptRisk: "synthetic token of a test"}})
	equal(t, reasons(r.Warnings), call.WarnRiskAccepted, r.Warnings)
	// Hashes and times of the document itself are no findings.
	for i := range 20 {
		r := save(t, s, rw.CheckpointRequest{Name: fmt.Sprint("h", i), Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
		expect(t, len(r.Warnings) == 0, "%v", r.Warnings)
	}
}

// damages are ways in which a stored checkpoint can be broken.
var damages = map[string]func(path string){
	"torn":       func(p string) { st, _ := os.Stat(p); os.Truncate(p, st.Size()/2) },
	"empty":      func(p string) { os.Truncate(p, 0) },
	"changed":    func(p string) { replaceIn(p, `"step":3`, `"step":4`) },
	"array":      func(p string) { os.WriteFile(p, []byte("[1]"), 0o600) },
	"binary":     func(p string) { os.WriteFile(p, bytes.Repeat([]byte{0xff, 0}, 100), 0o600) },
	"no hash":    func(p string) { replaceIn(p, `"sha256"`, `"sha255"`) },
	"no data":    func(p string) { replaceIn(p, `"data"`, `"date"`) },
	"bad format": func(p string) { replaceIn(p, `"format":"json"`, `"format":"jsom"`) },
	"directory":  func(p string) { os.Remove(p); os.Mkdir(p, 0o700) },
	"symlink":    func(p string) { os.Remove(p); os.Symlink("/etc/passwd", p) },
}

func replaceIn(path, old, new string) {
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte(old)) {
		panic(fmt.Sprint(old, " is not in ", path, err))
	}
	os.WriteFile(path, bytes.ReplaceAll(data, []byte(old), []byte(new)), 0o600)
}

// TestCorruptCheckpointAffectsOnlyItself: it is listed as corrupt, never
// returned, moved to quarantine by cleanup, and replaced by the next save.
func TestCorruptCheckpointAffectsOnlyItself(t *testing.T) {
	s, dir := quick(t, nil)
	save(t, s, rw.CheckpointRequest{Name: "zgood", Data: json.RawMessage("1"), TTL: "permanent"})
	for what, damage := range damages {
		for _, mend := range []string{"cleanup", "save"} {
			name := strings.ReplaceAll(what, " ", "-") + "." + mend
			r := save(t, s, rw.CheckpointRequest{Name: name, Data: json.RawMessage(`{"step":3}`), TTL: "permanent"})
			damage(filepath.Join(dir, r.CheckpointPath))
			e := deny(t, s, dir, name, rw.ErrHashDriftOnRead, calling(s.CheckpointRead, rw.CheckpointReadRequest{Name: name}))
			equal(t, e.Kind, rw.ErrWriteCorruption, e)
			saved(t, s, "zgood", "1")
			l, err := s.CheckpointList(background, rw.CheckpointListRequest{})
			expect(t, err == nil && l.Count == 2 && l.Checkpoints[0].Corrupt && l.Checkpoints[0].Name == name && !l.Checkpoints[1].Corrupt, "%+v %v",
				l, err)
			if mend == "save" {
				save(t, s, rw.CheckpointRequest{Name: name, Data: json.RawMessage("2")})
				saved(t, s, name, "2")
				os.Remove(filepath.Join(dir, r.CheckpointPath))
			} else {
				c, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{IncludeSession: new(bool)})
				expect(t, err == nil && len(c.Removed) == 1 && c.Removed[0].Name == name && c.Removed[0].Reason == "corrupt" && c.Kept == 1, "%+v %v",
					c, err)
			}
			l, _ = s.CheckpointList(background, rw.CheckpointListRequest{})
			expect(t, l.Count == 1, "%+v", l)
			length(t, must(filepath.Glob(statePath(dir, "quarantine", "checkpoints-"+name+".json*")))(t), 1, "in quarantine")
		}
	}
	check(t, s, false)
}

// TestCorruptDataOfALongCheckpoint: the file of the data is lost, changed, or
// all that is left.
func TestCorruptDataOfALongCheckpoint(t *testing.T) {
	t.Parallel()
	long := json.RawMessage(`"` + strings.Repeat("long ", 210<<10) + `"`)
	s, dir := quick(t, nil)
	for name, damage := range map[string]func(doc, data string){
		"lost":     func(_, data string) { os.Remove(data) },
		"changed":  func(_, data string) { replaceIn(data, "long long", "long lung") },
		"torn":     func(_, data string) { os.Truncate(data, 1000) },
		"document": func(doc, _ string) { os.Remove(doc) },
	} {
		t.Run(name, func(t *testing.T) {
			r := save(t, s, rw.CheckpointRequest{Name: "c", Data: long, TTL: "P1D"})
			damage(filepath.Join(dir, r.CheckpointPath), statePath(dir, "checkpoints", "c."+r.SHA256.String()+".data"))
			fails(s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "c"}))(t, rw.ErrHashDriftOnRead)
			l := must(s.CheckpointList(background, rw.CheckpointListRequest{}))(t)
			expect(t, l.Count == 1 && l.Checkpoints[0].Corrupt, "%+v", l)
			c, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{})
			expect(t, err == nil && len(c.Removed) == 1 && c.Removed[0].Reason == "corrupt", "%+v %v", c, err)
			length(t, must(os.ReadDir(statePath(dir, "checkpoints")))(t), 0, "left")
			kept := must(filepath.Glob(statePath(dir, "quarantine", "checkpoints-c.*")))(t)
			expect(t, len(kept) != 0, "nothing is in quarantine")
			save(t, s, rw.CheckpointRequest{Name: "c", Data: long})
			saved(t, s, "c", string(long))
			check(t, s, true)
			os.RemoveAll(statePath(dir, "quarantine"))
		})
	}
}

func TestCheckpointCleanup(t *testing.T) {
	s := must(rw.OpenSim(simfs.New(), nil, rw.Sim{}))(t)
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, ttl := range map[string]rw.TTL{"session": "session", "ever": "permanent", "day": "P1D", "week": "P1W", "hour": "PT1.5H"} {
		save(t, s, rw.CheckpointRequest{Name: name, TTL: ttl, Data: json.RawMessage(`"` + name + `"`)})
	}
	clean := func(r rw.CheckpointCleanupRequest) (list []string, kept int) {
		t.Helper()
		out := must(s.CheckpointCleanup(background, r))(t)
		list = []string{}
		for _, c := range out.Removed {
			list = append(list, c.Name+" "+string(c.TTL)+" "+c.Reason)
		}
		expect(t, (out.JournalID != "") == (len(list) > 0) && !out.More && out.Removed != nil, "%+v", out)
		return list, out.Kept
	}
	expect := func(r rw.CheckpointCleanupRequest, kept int, want ...string) {
		t.Helper()
		got, left := clean(r)
		diff := cmp.Diff(append([]string{}, want...), got)
		expect(t, diff == "" && left == kept, "%d kept, want %d\n%s", left, kept, diff)
	}
	expect(rw.CheckpointCleanupRequest{IncludeSession: new(bool)}, 5)
	s.SetNow(start.Add(90 * time.Minute))
	if c := saved(t, s, "hour", `"hour"`); !c.Expired { // still there
		t.Errorf("%+v", c)
	}
	expect(rw.CheckpointCleanupRequest{IncludeSession: new(bool)}, 4, "hour PT1.5H expired")
	save(t, s, rw.CheckpointRequest{Name: "day", TTL: "P1D", Data: json.RawMessage("1")}) // has a new time
	s.SetNow(start.AddDate(0, 0, 1).Add(time.Minute))
	expect(rw.CheckpointCleanupRequest{}, 3, "session session session_cleanup")
	s.SetNow(start.AddDate(0, 0, 8))
	expect(rw.CheckpointCleanupRequest{}, 1, "day P1D expired", "week P1W expired")
	expect(rw.CheckpointCleanupRequest{}, 1)
	check(t, s, true)
	for i := range 103 {
		save(t, s, rw.CheckpointRequest{Name: fmt.Sprintf("n%03d", i), Data: json.RawMessage("1")})
	}
	out, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{})
	testbed.Expect(t, err == nil && len(out.Removed) == 100 && out.More && out.Kept == 4,
		"%d removed, %d kept, %v %v", len(out.Removed), out.Kept, out.More, err)
	out, err = s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{})
	testbed.Expect(t, err == nil && len(out.Removed) == 3 && !out.More && out.Kept == 1,
		"%d removed, %d kept, %v %v", len(out.Removed), out.Kept, out.More, err)
	check(t, s, true)
	s.Close(background)
}

// TestCheckpointsOfPython: documents with fewer fields can be read, keep their creation
// time when they are saved again, and expire.
func TestCheckpointsOfPython(t *testing.T) {
	dir := ramspace(t)
	os.MkdirAll(statePath(dir, "checkpoints"), 0o755)
	for name, doc := range map[string]string{
		"state":  `{"name": "state", "data": {"z": 1, "a": [1.10, "é"]}, "format": "json", "ttl": "session", "created_at": "2025-01-02T03:04:05.678901+00:00", "updated_at": "2025-01-02T03:04:05.678901+00:00", "version": 7}`,
		"notes":  `{"name": "notes", "data": "# hi\n", "format": "markdown", "ttl": "permanent", "created_at": "2025-01-02T03:04:05Z", "updated_at": "2025-01-02T03:04:05Z", "sha256": "something else"}`,
		"old":    `{"name": "old", "data": null, "format": "json", "ttl": "P1D", "created_at": "2025-01-02T03:04:05Z", "updated_at": "2025-01-02T03:04:05Z"}`,
		"parsed": `{"name": "parsed", "data": {"a": 1}, "format": "yaml", "ttl": "permanent", "created_at": 1700000000, "updated_at": 1700000000}`,
		"broken": `{"name": "broken", "data": `,
	} {
		os.WriteFile(statePath(dir, "checkpoints", name+".json"), []byte(doc), 0o644)
	}
	s := open(t, dir, nil)
	saved(t, s, "state", `{"z": 1, "a": [1.10, "é"]}`)
	if c := saved(t, s, "notes", `"# hi\n"`); c.Format != "markdown" || c.TTL != "permanent" || c.SHA256.String() != hash("# hi\n") {
		t.Errorf("%+v", c)
	}
	if c := saved(t, s, "old", "null"); !c.Expired || c.ExpiresAt.String() == "" {
		t.Errorf("%+v", c)
	}
	if c := saved(t, s, "parsed", `{"a": 1}`); c.Format != "json" || c.CreatedAt.String() != "" {
		t.Errorf("%+v", c)
	}
	r := save(t, s, rw.CheckpointRequest{Name: "state", Data: json.RawMessage("2")})
	expect(t, r.CreatedAt.String() == "2025-01-02T03:04:05.678901+00:00", "%+v", r)
	c, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{IncludeSession: new(bool)})
	expect(t, err == nil && len(c.Removed) == 2 && c.Removed[0].Reason == "corrupt" && c.Removed[1].Reason == "expired" && c.Kept == 3, "%+v %v", c,
		err)
	check(t, s, true)
}

// TestCheckpointOfAnotherSessionIsKept: two sessions that use one name do not lose
// what the other one saved, whatever its format and size.
func TestCheckpointOfAnotherSessionIsKept(t *testing.T) {
	t.Parallel()
	s, dir := quick(t, nil)
	as := func(session, name, format string, data json.RawMessage) string {
		t.Helper()
		return reasons(save(t, s, rw.CheckpointRequest{Name: name, Format: format, Data: data, TTL: "permanent", Call: rw.Call{Session: session}}).Warnings)
	}
	long := jsonString(strings.Repeat("long ", 210<<10))
	for i, one := range []struct {
		format string
		data   json.RawMessage
	}{{"json", json.RawMessage(`{"n": 1.50}`)}, {"markdown", jsonString("# Plan\n")}, {"yaml", json.RawMessage(`{"a":1}`)}, {"markdown", long}, {"json", long}} {
		name := fmt.Sprint("c", i)
		equal(t, as("one", name, one.format, one.data), "", name, ": first")
		first := saved(t, s, name, string(one.data))
		equal(t, as("two", name, "json", json.RawMessage("2")), call.WarnReplacedSession, name, ": the other session")
		saved(t, s, name, "2")
		kept := saved(t, s, name+".replaced", string(one.data))
		expect(t, kept.Session == "one" && kept.Format == one.format && kept.TTL == "permanent" && kept.UpdatedAt == first.UpdatedAt && kept.Chunked == (len(one.data) > 1<<20),
			"%s: %.300s", name, fmt.Sprintf("%+v", kept))
		equal(t, as("two", name, "json", json.RawMessage("3")), "", name, ": its own")
		equal(t, as("one", name, "json", json.RawMessage("3")), "", name, ": equal data")
		equal(t, as("two", name, "json", json.RawMessage("4")), call.WarnReplacedSession, name, ": taken over")
		saved(t, s, name+".replaced", "3")
	}
	length(t, must(os.ReadDir(statePath(dir, "checkpoints")))(t), 10)
	as("one", "c.replaced", "json", json.RawMessage(`"named so"`))
	for _, data := range []string{"1", "2", "3"} {
		as("one", "c", "json", json.RawMessage(data))
		equal(t, as("two", "c", "json", json.RawMessage("0")), call.WarnReplacedSession)
		saved(t, s, "c.replaced", `"named so"`)
		saved(t, s, "c.replaced.replaced", data)
	}
	as("one", "c.replaced.replaced", "json", json.RawMessage("4"))
	fails(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: json.RawMessage("5"), Call: rw.Call{Session: "one"}}))(t, rw.ErrInvalidArgument)
	most := strings.Repeat("n", 119)
	for _, end := range []string{".replaced", "nnnnnnnnn", "nnnnnnnnm"} { // what is kept of one name is not that name, nor kept of another one
		as("one", most+end, "json", jsonString(end))
		as("two", most+end, "json", json.RawMessage("2"))
	}
	for _, end := range []string{".replaced", "nnnnnnnnn", "nnnnnnnnm"} {
		saved(t, s, most+end, "2")
		saved(t, s, checkpoint.KeptName(most+end), string(jsonString(end)))
	}
	check(t, s, true)
}

// TestCheckpointTwoStores: two open stores save and clean at the same time; nothing is
// mixed, and data saved after a cleanup exists.
func TestCheckpointTwoStores(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	stores := []*rw.Store{open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})}
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Add(2)
		go func() {
			defer wg.Done()
			for k := range 12 {
				size := 10
				if k%3 == 0 {
					size = 300 << 10
				}
				data := json.RawMessage(fmt.Sprintf(`{"by":%d,"k":%d,"text":"%s","again":%d}`, i, k, strings.Repeat("abcd", size), i))
				_, err := s.Checkpoint(background, rw.CheckpointRequest{Name: "shared", Data: data})
				expect(t, err == nil, "%v (%v)", err, errors.Unwrap(err))
			}
		}()
		go func() {
			defer wg.Done()
			for k := range 20 {
				got, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "shared"})
				if err == nil {
					var v struct{ By, Again int }
					expect(t, json.Unmarshal(got.Data, &v) == nil && v.By == v.Again, "mixed: %.80s", got.Data)
				} else {
					expect(t, errors.Is(err, rw.ErrCheckpointNotFound) || errors.Is(err, rw.ErrRetryExhausted), "%v (%v) %+v", err, errors.Unwrap(err), rw.AsError("", err).Context)
				}
				if k%10 == 9 && i == 0 {
					_, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{})
					expect(t, err == nil, "%v (%v)", err, errors.Unwrap(err))
				}
			}
		}()
	}
	wg.Wait()
	save(t, stores[0], rw.CheckpointRequest{Name: "shared", Data: json.RawMessage("1")})
	saved(t, stores[1], "shared", "1")
	length(t, must(os.ReadDir(statePath(dir, "checkpoints")))(t), 1)
	check(t, stores[0], true)
}

func TestCheckpointCrashSweep(t *testing.T) {
	t.Parallel()
	long := json.RawMessage(`"` + strings.Repeat("long ", 210<<10) + `"`)
	one := func(name string, data json.RawMessage) func(*rw.Store) error {
		return doing((*rw.Store).Checkpoint, rw.CheckpointRequest{Name: name, Data: data})
	}
	by := func(session, data string) func(*rw.Store) error {
		return doing((*rw.Store).Checkpoint, rw.CheckpointRequest{Name: "a", Data: json.RawMessage(data), Call: rw.Call{Session: session}})
	}
	clean := doing((*rw.Store).CheckpointCleanup, rw.CheckpointCleanupRequest{})
	then := func(t *testing.T, s *rw.Store) {
		l := must(s.CheckpointList(background, rw.CheckpointListRequest{}))(t)
		for _, i := range l.Checkpoints {
			expect(t, !i.Corrupt || i.Name == "b", "%+v", i)
		}
		save(t, s, rw.CheckpointRequest{Name: "a", Data: json.RawMessage("9")})
		saved(t, s, "a", "9")
		noErr(t, clean(s))
	}
	sweepPart(t, "checkpoints", then, []scenario{
		{name: "first", run: one("a", json.RawMessage("1"))},
		{name: "replace", before: one("a", json.RawMessage("1")), run: one("a", json.RawMessage("2"))},
		{name: "of another session", before: by("one", "1"), run: by("two", "2")},
		{name: "long", slow: true, before: one("a", json.RawMessage("1")), run: one("a", long)},
		{name: "long to short", slow: true, before: one("a", long), run: one("a", json.RawMessage("1"))},
		{name: "cleanup", before: inSequence(one("a", json.RawMessage("1")), one("b", json.RawMessage("2")), one("c", json.RawMessage("3"))),
			damage: func(f *simfs.FS) {
				f.WriteFile(rw.StateDirName+"/checkpoints/b.json", []byte("damaged"), 0o600)
			},
			run: clean, again: clean},
	})
}

// TestCheckpointNamesThatDifferInCase are two checkpoints where the file system
// distinguishes them.
func TestCheckpointNamesThatDifferInCase(t *testing.T) {
	s, dir := quick(t, nil)
	save(t, s, rw.CheckpointRequest{Name: "Abc", Data: json.RawMessage("1")})
	if _, err := os.Lstat(statePath(dir, "checkpoints", "ABC.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Skip("the file system ignores case")
	}
	save(t, s, rw.CheckpointRequest{Name: "aBC", Data: json.RawMessage("2")})
	saved(t, s, "Abc", "1")
	saved(t, s, "aBC", "2")
	// The file of another name, as a file system that ignores case finds it.
	os.Rename(statePath(dir, "checkpoints", "Abc.json"), statePath(dir, "checkpoints", "ABC.json"))
	deny(t, s, dir, "read", rw.ErrCheckpointNotFound, calling(s.CheckpointRead, rw.CheckpointReadRequest{Name: "ABC"}))
	deny(t, s, dir, "save", rw.ErrInvalidArgument, calling(s.Checkpoint, rw.CheckpointRequest{Name: "ABC", Data: json.RawMessage("3")}))
	r := save(t, s, rw.CheckpointRequest{Name: "nul", Data: json.RawMessage("1")})
	expect(t, reasons(r.Warnings) == call.WarnNameNotPortable, "%v", r.Warnings)
}

// TestYAMLCheckpointOfAnObject checks that a value of format yaml is returned
// unchanged, inline and in a separate file, also by another open store.
func TestYAMLCheckpointOfAnObject(t *testing.T) {
	s, dir := opened(t, nil)
	for name, data := range map[string]string{
		"small": `{"step": 3, "done": ["a", "b"]}`,
		"list":  `[1, null, "x"]`,
		"large": `{"text": "` + strings.Repeat("x", 1<<20) + `"}`,
		"text":  `"step: 3\n"`,
	} {
		req := rw.CheckpointRequest{Name: name, Format: "yaml", Data: json.RawMessage(data)}
		saved, err := s.Checkpoint(background, req)
		require(t, err == nil && saved.Chunked == (name == "large"), "%s: %v %+v", name, err, saved)
		s.Close(background)
		s = open(t, dir, nil)
		got, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: name})
		expect(t, err == nil && got.Format == "yaml" && string(got.Data) == data && got.SHA256 == saved.SHA256, "%s: %v %s %.60s", name, err,
			got.Format, got.Data)
		again := must(s.Checkpoint(background, req))(t)
		expect(t, again.CreatedAt == saved.CreatedAt && again.SHA256 == saved.SHA256, "%s again: %+v", name, again)
	}
	check(t, s, true)
	fails(s.Checkpoint(background, rw.CheckpointRequest{Name: "bad", Format: "markdown", Data: json.RawMessage(`{}`)}))(t, rw.ErrInvalidArgument, "an object as markdown")
	fails(s.Checkpoint(background, rw.CheckpointRequest{Name: "bad", Format: "yaml", Data: json.RawMessage(`"a: b: c"`)}))(t, rw.ErrSyntaxInvalid, "a string that is not YAML")
}
