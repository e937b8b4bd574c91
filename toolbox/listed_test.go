package toolbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// toolTexts is a set of texts in which no tool may stand that is not listed.
type toolTexts struct {
	t     *testing.T
	set   *toolset
	tier  string
	texts int
}

func (n *toolTexts) check(where, text string) {
	n.t.Helper()
	n.texts++
	testbed.Equal(n.t, NameTools(text), text, n.tier, " ", where, ": names a method")
	for _, name := range regexp.MustCompile(`\brw[_.][a-z_]{2,}`).FindAllString(text, -1) {
		of, ok := n.set.find(name)
		testbed.Expect(n.t, !ok || of.listed, "%s, %s: %s is not listed: %.300s", n.tier, where, name, text)
	}
}

// ownTexts are the texts of the library that may reach a client: the strings
// in its source in which a tool is named.
func ownTexts(t *testing.T) []string {
	t.Helper()
	var files, list []string
	for _, dir := range []string{"../*.go", "../internal/fault/*.go", "../internal/engine/*.go", "../internal/layer/*/*.go"} {
		more, err := filepath.Glob(dir)
		testbed.Require(t, err == nil && len(more) != 0, "%v %v", dir, err)
		files = append(files, more...)
	}
	text := regexp.MustCompile(`"([^"\n]*\b(?:rw_[a-z_]+|Store\.[A-Z][A-Za-z]+)[^"\n]*)"`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data := testbed.Must(os.ReadFile(name))(t)
		for _, m := range text.FindAllStringSubmatch(string(data), -1) {
			list = append(list, m[1])
		}
	}
	data := testbed.Must(os.ReadFile("../internal/schema/descriptions.txt"))(t)
	for line := range strings.Lines(string(data)) {
		if _, described, _ := strings.Cut(line, "\t"); strings.Contains(NameTools(described), "rw_") {
			list = append(list, described)
		}
	}
	testbed.Require(t, len(list) >= 50, "only %d texts name a tool", len(list))
	return list
}

// TestNoTextNamesAToolThatIsNotListed: every reason in every tier, in brief and
// full refusals, with its next steps; every text of the library that names a
// tool; warnings, instructions, descriptions, replies.
func TestNoTextNamesAToolThatIsNotListed(t *testing.T) {
	texts := ownTexts(t)
	for _, o := range []Options{
		{Tier: Core}, {}, {Replies: FullReplies}, {Tools: []string{"checkpoint", "restore"}}, {Tier: Full}, {Tier: Full, Replies: BriefReplies},
		{Filter: func(i Tool) bool { return i.Name == "safe_write" || i.Name == "chunk_status" }},
	} {
		o := (&o).orDefaults()
		store := testbed.Must(rw.Open(t.Context(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
		defer store.Close(t.Context())
		b := New(store, &o)
		n := &toolTexts{t, b.set, fmt.Sprintf("%s %s %v", o.Tier, o.Replies, o.Tools), 0}
		for _, d := range rw.Details() {
			for _, about := range []map[string]any{
				nil,
				{"session": "s", "draft_ref": "d", "actual_prev_sha256": "x", "existing_sha256": "y"},
				{"last_error": map[string]any{"hint": "see rw_restore, or rw_check"}},
				{"last_error": map[string]any{"reason": rw.ErrSessionNotFound}},
			} {
				e := rw.NewError("safe_write", d, "", about)
				e.Path = "a/b.txt"
				n.check(string(d), string(b.failure("safe_write", e).doc))
			}
		}
		for _, text := range texts {
			n.check("a text", b.set.words(text))
			n.check("a hint", string(b.failure("read", rw.NewError("read", rw.ErrInvalidArgument, text, nil)).doc))
		}
		for _, w := range b.set.warnings(call.Warnings()) {
			n.check("a warning", w.Hint)
		}
		n.check("the instructions", b.Instructions())
		testbed.Expect(t, len(b.Instructions()) <= 2048, "%s: the instructions are %d bytes long", n.tier, len(b.Instructions()))
		for _, of := range b.set.offers {
			if info := of.shown(o.Tier); of.listed {
				n.check("the list", fmt.Sprintf("%s %s %s %s", info.Title, info.Description, info.Input, info.Output))
			}
			for size := range 4 {
				v := reflect.New(of.out).Elem()
				fill(v, size, size == 1, 0)
				if r := b.success(of.name, v.Interface(), &onCall{box: b}); !r.failed { // what is made up may be no JSON
					n.check("a reply of "+of.name, string(r.doc))
				}
			}
		}
		testbed.Expect(t, n.texts >= 400, "%s: only %d texts", n.tier, n.texts)
	}
}

// TestExhaustedHints: the refusal of a call that failed too often repeats what the
// failures said to do.
func TestExhaustedHints(t *testing.T) {
	set := newToolset(table, (*Options)(nil).orDefaults())
	for detail := range hints {
		_, _, _, _, usual := detail.Describe()
		e := rw.NewError("safe_write", rw.ErrRetryExhausted, "this call failed 3 times; "+usual+". Change it", map[string]any{
			"last_error": map[string]any{"reason": detail},
		})
		testbed.Equal(t, set.hint(e), "this call failed 3 times; "+set.hint(rw.NewError("safe_write", detail, "", nil))+". Change it")
	}
}

// TestSnippetsNameListedTools: what is put into the files that agents read
// names tools of the default list.
func TestSnippetsNameListedTools(t *testing.T) {
	n := &toolTexts{t, newToolset(table, (*Options)(nil).orDefaults()), "standard", 0}
	files := testbed.Must(filepath.Glob("../docs/snippets/*"))(t)
	files = append(files, "../internal/clients/instructions.md")
	for _, name := range files {
		data, err := os.ReadFile(name)
		testbed.Require(t, err == nil && strings.Contains(string(data), "rw_safe_write"), "%s: %v", name, err)
		n.check(name, string(data))
	}
}

// TestBriefRefusalsFit: every reason, with what an error may know and much more
// than a client wants of it, conforms to the schema and stays within its
// budget: 500 bytes, 1,500 more for excerpts. A sentence is never cut, so that
// a hint of the library may not be longer than that leaves room for.
func TestBriefRefusalsFit(t *testing.T) {
	store := testbed.Must(rw.Open(t.Context(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	defer store.Close(t.Context())
	doc := testbed.Must(BriefEnvelopeSchema())(t)
	envelope := testbed.Must(spec.Compile(doc))(t)
	sha := strings.Repeat("0123456789abcdef", 4)
	long := strings.Repeat("a line with \"quotes\" and <b>\n", 400)
	var many []int
	for i := range 1000 {
		many = append(many, i)
	}
	for _, o := range []Options{{}, {Tier: Core}, {Tier: Full, Replies: BriefReplies}} {
		b := New(store, &o)
		for _, d := range rw.Details() {
			for _, c := range []struct {
				about map[string]any
				limit int
			}{
				{nil, maxBriefRefusal},
				{map[string]any{"draft_ref": "draft_4394563a437e229b9ab9b8e2d970336a", "actual_prev_sha256": sha, "existing_sha256": sha, "session": "s"}, maxBriefRefusal},
				{map[string]any{"receipt": rw.Receipt{}, "invocation_id": "inv", "have": many, "choices": long, "field": long}, maxBriefRefusal},
				{map[string]any{"actual_prev_sha256": sha, "closest": map[string]any{"line": 3, "why": long}, "diff": long, "missing": many, "errors": []any{long, long}}, maxBriefRefusal + maxExcerpts},
				{map[string]any{"output": long, "last_error": map[string]any{"reason": d, "hint": long}, "drift_warnings": []any{}, "questions": []string{long}}, maxBriefRefusal + maxExcerpts},
			} {
				e := rw.NewError("safe_write", d, "", c.about)
				e.Effect, e.Path, e.Patterns = rw.EffectNone, strings.Repeat("p", 200), []string{"api_key"}
				doc := b.failure("safe_write", e).doc
				testbed.Expect(t, len(doc) <= c.limit, "%s, %s: %d bytes of %d: %s", o.Tier, d, len(doc), c.limit, doc)
				err := envelope.Validate(doc)
				testbed.Expect(t, err == nil, "%s: %v: %s", d, err, doc)
			}
		}
	}
}

// TestHintsAreKeys: neither hints nor the descriptions of fields name a tool,
// because the library knows none: a caller in Go reads the name of a method,
// which becomes a tool here.
func TestHintsAreKeys(t *testing.T) {
	keys := 0
	check := func(where, hint string) {
		testbed.Expect(t, !strings.Contains(hint, "rw_"), "%s names a tool: %s", where, hint)
		if named := NameTools(hint); strings.Contains(named, "Store.") {
			t.Errorf("%s: no tool for a method: %s", where, named)
		} else if named != hint {
			keys++
		}
	}
	for _, d := range rw.Details() {
		_, _, _, _, hint := d.Describe()
		check(string(d), hint)
	}
	for _, w := range call.Warnings() {
		check(string(w.Reason), w.Hint)
	}
	data := testbed.Must(os.ReadFile("../internal/schema/descriptions.txt"))(t)
	for line := range strings.Lines(string(data)) {
		if field, text, _ := strings.Cut(line, "\t"); !strings.Contains(field, "/") && !strings.HasPrefix(field, "toolbox.") {
			check(field, text)
		}
	}
	testbed.Expect(t, keys >= 40, "only %d texts name a method", keys)
	testbed.Equal(t, NameTools("Store.TxBegin, then Store.Close or a Store.Check."), "rw_tx_begin, then Store.Close or a rw_check.")
}

// callable judges next steps as a client would that makes the call: the
// arguments must be all that the tool needs.
func callable(t *testing.T, where string, steps []NextAction, inputs map[string]*spec.Compiled) {
	t.Helper()
	testbed.Expect(t, len(steps) <= maxNext, "%s: %d steps", where, len(steps))
	for _, s := range steps {
		args, err := json.Marshal(s.Args)
		testbed.Require(t, err == nil && inputs[s.Tool] != nil && s.When != "", "%s: %+v %v", where, s, err)
		err = inputs[s.Tool].Validate(args)
		testbed.Expect(t, err == nil, "%s: %s %s: %v", where, s.Tool, args, err)
	}
}

func compiledInputs(t *testing.T, set *toolset) map[string]*spec.Compiled {
	inputs := map[string]*spec.Compiled{}
	for _, of := range set.offers {
		c := testbed.Must(spec.Compile(of.info(Full).Input))(t)
		inputs[of.wire] = c
	}
	return inputs
}

// TestEveryNextStepOfARefusalCanBeCalled: every detail, for every tool, with
// and without what an error may know, and nothing that leads a file tool into
// the state directory or to a file that is gone.
func TestEveryNextStepOfARefusalCanBeCalled(t *testing.T) {
	store := testbed.Must(rw.Open(t.Context(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	defer store.Close(t.Context())
	b := New(store, &Options{Tier: Full})
	inputs := compiledInputs(t, b.set)
	offered := 0
	for _, detail := range rw.Details() {
		for _, of := range b.set.offers {
			tool := of.name
			for _, path := range []string{"", "a/b.txt", ".resilient_write/tx/tx_1/begin.json"} {
				for _, about := range []map[string]any{
					nil, {"session": "s", "draft_ref": "draft_1", "actual_prev_sha256": "ab"},
					{"session": 7, "draft_ref": true, "actual_prev_sha256": ""}, {"actual_prev_sha256": nil},
				} {
					if remedy[detail] == nil && (path != "" || about != nil) {
						continue // what has no remedy looks at none of them
					}
					e := rw.NewError(tool, detail, "", about)
					e.Path = path
					var env struct {
						Context struct {
							Next []NextAction `json:"next_actions"`
						}
					}
					r := b.failure(tool, e)
					err := json.Unmarshal(r.doc, &env)
					testbed.Require(t, err == nil && r.failed, "%v", err)
					steps := env.Context.Next
					callable(t, tool+" "+string(detail), steps, inputs)
					offered += len(steps)
					for _, s := range steps {
						testbed.Expect(t, (s.Args["path"] == nil || path == "a/b.txt") && (s.Tool != "rw_read" || about["actual_prev_sha256"] != ""),
							"%s %s of %q: %+v", tool, detail, path, s)
					}
				}
			}
		}
	}
	testbed.Expect(t, offered >= 1000, "only %d steps were judged", offered)
}

// TestEveryNextStepOfASuccessCanBeCalled: replies that say nothing, and
// replies in which everything is filled in.
func TestEveryNextStepOfASuccessCanBeCalled(t *testing.T) {
	set := newToolset(table, Options{Tier: Full})
	inputs := compiledInputs(t, set)
	offered := map[string]bool{}
	for _, of := range set.offers {
		f := next[of.name]
		if f == nil {
			continue
		}
		for flags := range 3 {
			for size := range 4 {
				v := reflect.New(of.out).Elem()
				fill(v, size, flags == 1, 0)
				steps := set.named(f(v.Interface()))
				callable(t, of.name, steps, inputs)
				for range steps {
					offered[of.name] = true
				}
			}
		}
	}
	for name := range next {
		testbed.Expect(t, offered[name], "%s never offers a step", name)
	}
}

// fill gives every field of a reply a value: lists get size members.
func fill(v reflect.Value, size int, flag bool, depth int) {
	switch {
	case depth > 6:
	case v.Kind() == reflect.String:
		v.SetString("hash_mismatch")
	case v.Kind() == reflect.Bool:
		v.SetBool(flag)
	case v.CanInt():
		v.SetInt(int64(size))
	case v.CanUint():
		v.SetUint(uint64(size))
	case v.CanFloat():
		v.SetFloat(1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), size, flag, depth+1)
			}
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), size, size))
		for i := range size {
			fill(v.Index(i), size, flag, depth+1)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), size, flag, depth+1)
	}
}
