package spec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xeipuuv/gojsonschema"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

const goodEnvelope = `{"ok":false,"schema_version":"1","error":"blocked","reason_hint":"content_filter","detected_patterns":["jwt"],
	"suggested_action":"redact","retry_budget":2,"context":{"reason":"risk_blocked","code":8,"more":{"a":[1]}}}`

const goodHandoff = `{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":[],"last_good_state":[{"path":"a","sha256":"b"}],"ours":1}`

// problems are what an error lists.
func problems(t *testing.T, err error) []spec.Problem {
	t.Helper()
	var invalid *spec.Invalid
	testbed.Require(t, errors.As(err, &invalid) && len(invalid.Problems) != 0, "no list of problems: %v", err)
	return invalid.Problems
}

func TestEveryDocumentIsListedAndReadable(t *testing.T) {
	testbed.Require(t, slices.Equal(spec.Names(), []string{"errors", "errors.v2", "handoff", "policy", "tools"}), "%v", spec.Names())
	for _, name := range spec.Names() {
		doc, err := spec.Schema(name)
		testbed.Expect(t, err == nil && json.Valid(doc), "%s: %v", name, err)
	}
	for _, name := range []string{"", "tool", "../spec", "errors.schema.json", "nothing"} {
		_, err := spec.Schema(name)
		testbed.Expect(t, err != nil && strings.Contains(err.Error(), "handoff"), "%q: %v", name, err)
		err = spec.Validate(name, []byte(`{}`))
		testbed.Expect(t, err != nil && !errors.As(err, new(*spec.Invalid)), "%q: %v", name, err)
	}
	err := spec.Validate("tools", []byte(`{}`))
	testbed.Expect(t, err != nil && strings.Contains(err.Error(), "ValidateArguments"), "%v", err)
	tools := spec.Tools()
	testbed.Expect(t, len(tools) >= 40 && slices.IsSorted(tools) && slices.Contains(tools, "rw_safe_write"), "%v", tools)
}

func TestProblemsSayWhereAndWhat(t *testing.T) {
	for _, row := range []struct {
		name  string
		check func([]byte) error
		doc   string
		want  []string // path: text; none: it conforms
	}{
		{"an envelope", spec.ValidateEnvelope, goodEnvelope, nil},
		{"a kind of its own", spec.ValidateEnvelope, strings.Replace(goodEnvelope, `"blocked"`, `"oops"`, 1),
			[]string{`error: must be one of "blocked", "stale_precondition", "write_corruption", "quota_exceeded", "policy_violation"`}},
		{"a success", spec.ValidateEnvelope, `{"ok":true}`, []string{
			"context is missing", "detected_patterns is missing", "error is missing", "reason_hint is missing", "retry_budget is missing",
			"schema_version is missing", "suggested_action is missing", "ok: must be false"}},
		{"a negative budget and a stranger", spec.ValidateEnvelope, strings.Replace(goodEnvelope, `"retry_budget":2`, `"retry_budget":-1,"extra":1`, 1),
			[]string{"there is nothing named extra", "retry_budget: must be at least 0"}},
		{"a code too far", spec.ValidateEnvelope, strings.Replace(goodEnvelope, `"code":8`, `"code":9`, 1), []string{"context.code: must be at most 8"}},
		{"a list", spec.ValidateEnvelope, `[]`, []string{"must be of type object, is array"}},
		{"a handoff", spec.ValidateHandoff, goodHandoff, nil},
		{"a file without a hash", spec.ValidateHandoff, strings.Replace(goodHandoff, `"sha256":"b"`, `"bytes":-1`, 1),
			[]string{"last_good_state[0]: sha256 is missing", "last_good_state[0].bytes: must be at least 0"}},
		{"arguments", arguments("rw_tx"), `{"ops":[{"op":"delete","path":"a"}]}`, nil},
		{"dotted", arguments("rw.tx"), `{"ops":[]}`, nil},
		{"wrong arguments", arguments("rw_tx"), `{"ops":[{"op":"delete","path":"a"},{"op":"remove","path":1,"a b":2}],"zzz":1}`, []string{
			"there is nothing named zzz", `ops[1]: there is nothing named "a b"`, `ops[1].op: must be one of "write", "edit", "delete", "move"`,
			"ops[1].path: must be of type string, is integer"}},
		{"too long", arguments("rw_tx"), `{"ops":[],"caller":"` + strings.Repeat("é", 201) + `"}`, []string{"caller: must have at most 200 characters"}},
		{"a reply", reply("rw_validate"), `{"ok":true,"valid":true,"format":"json","errors":[],"summary":"fine"}`, nil},
		{"a refusal", reply("rw_tx_rollback"), goodEnvelope, nil},
		{"half a refusal", reply("rw_tx_rollback"), `{"ok":false,"error":"blocked"}`, []string{
			"context is missing", "detected_patterns is missing", "reason_hint is missing", "retry_budget is missing", "schema_version is missing",
			"suggested_action is missing"}},
		{"a reply without ok", reply("rw_chunk_status"), `{"exists":"yes"}`, []string{
			"ok is missing", "exists: must be of type boolean, is string"}},
	} {
		err := row.check([]byte(row.doc))
		if row.want == nil {
			testbed.Expect(t, err == nil, "%s: %v", row.name, err)
			continue
		}
		var got []string
		for _, p := range problems(t, err) {
			got = append(got, p.String())
		}
		for _, want := range row.want {
			testbed.Expect(t, slices.Contains(got, want), "%s: no %q in\n%s", row.name, want, strings.Join(got, "\n"))
		}
		testbed.Expect(t, row.name == "a reply without ok" || len(got) == len(row.want),
			"%s: %d problems, want %d:\n%s", row.name, len(got), len(row.want), strings.Join(got, "\n"))
	}
}

func arguments(tool string) func([]byte) error {
	return func(doc []byte) error { return spec.ValidateArguments(tool, doc) }
}

func reply(tool string) func([]byte) error {
	return func(doc []byte) error { return spec.ValidateReply(tool, doc) }
}

func TestUnknownToolIsNoVerdict(t *testing.T) {
	for _, tool := range []string{"", "safe_write", "rw_nothing", "rw_" + strings.Repeat("x", 1<<16)} {
		for _, err := range []error{spec.ValidateArguments(tool, []byte(`{}`)), spec.ValidateReply(tool, []byte(`{}`))} {
			testbed.Expect(t, err != nil && !errors.As(err, new(*spec.Invalid)) && len(err.Error()) <= 200, "%.20q: %.300v", tool, err)
		}
	}
}

// TestHostileDocuments: the traps that validators and decoders are known for.
func TestHostileDocuments(t *testing.T) {
	number := func(n string) string {
		return strings.Replace(goodEnvelope, `"retry_budget":2`, `"retry_budget":`+n, 1)
	}
	for name, doc := range map[string]string{
		"empty": ``, "blank": " \n", "cut off": goodEnvelope[:80], "trailing value": goodEnvelope + `{}`, "trailing garbage": goodEnvelope + `]`,
		"trailing NUL": goodEnvelope + "\x00", "a byte order mark": "\ufeff" + goodEnvelope, "a comment": "// hi\n" + goodEnvelope,
		"a huge exponent": number("1e9999999"), "a tiny exponent": number("1e-9999999"), "padded exponent": number("1e+000000000000000009999"),
		"ten thousand digits": number(strings.Repeat("9", 10000)), "NaN": number("NaN"), "Infinity": number("-Infinity"), "hex": number("0x2"),
		"a name twice":             strings.Replace(goodEnvelope, `"ok":false`, `"ok":true,"ok":false`, 1),
		"a name twice, escaped":    strings.Replace(goodEnvelope, `"ok":false`, `"o\u006b":true,"ok":false`, 1),
		"a name twice, deep":       strings.Replace(goodEnvelope, `[1]`, `[{"x":1,"x":2}]`, 1),
		"not UTF-8":                strings.Replace(goodEnvelope, `jwt`, "j\xffwt", 1),
		"half of a pair":           strings.Replace(goodEnvelope, `jwt`, `\ud800`, 1),
		"the other half":           strings.Replace(goodEnvelope, `jwt`, `\udc00\ud800`, 1),
		"two first halves":         strings.Replace(goodEnvelope, `jwt`, `\ud83d\ud83d\ude00`, 1),
		"half of a pair in a name": strings.Replace(goodEnvelope, `more`, `\uDBFFx`, 1),
		"too deep":                 strings.Replace(goodEnvelope, `[1]`, strings.Repeat("[", 20000)+strings.Repeat("]", 20000), 1),
	} {
		end := testbed.Within(t, 5*time.Second, name)
		err := spec.ValidateEnvelope([]byte(doc))
		p := problems(t, err)
		testbed.Expect(t, p[0].Rule == "json" && len(err.Error()) <= 300, "%s: %+v", name, p)
		end()
	}
	for name, doc := range map[string]string{
		"a pair": strings.Replace(goodEnvelope, `jwt`, `\uD83D\uDE00`, 1), "an escaped backslash before u": strings.Replace(goodEnvelope, `jwt`, `\\ud800`, 1),
		"9000 deep":   strings.Replace(goodEnvelope, `[1]`, strings.Repeat("[", 9000)+strings.Repeat("]", 9000), 1),
		"an exponent": number("2e0"), "a whole fraction": number("2.0"),
	} {
		err := spec.ValidateEnvelope([]byte(doc))
		testbed.Expect(t, err == nil, "%s: %.200v", name, err)
	}
}

// TestProblemsHoldNoValues: what is reported can be logged.
func TestProblemsHoldNoValues(t *testing.T) {
	secret := "sk-" + strings.Repeat("Qz7", 12)
	long := strings.Repeat("k", 5000)
	for _, tool := range spec.Tools() {
		doc := fmt.Sprintf(`{"path":[%[1]q],"content":{"a":%[1]q},"mode":%[1]q,"n":%[1]q,"session":7,"envelope":{"status":%[1]q},"ops":[{"op":%[1]q}],"%[2]s":%[1]q}`, secret, long)
		err := spec.ValidateArguments(tool, []byte(doc))
		if problems(t, err); strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), long) {
			t.Errorf("%s: %.300v", tool, err)
		}
	}
	err := spec.ValidateHandoff([]byte(strings.Replace(goodHandoff, "partial", secret, 1)))
	if problems(t, err); strings.Contains(err.Error(), secret) {
		t.Error(err)
	}
	var many strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&many, `,"m%d":1`, i)
	}
	p := problems(t, spec.ValidateEnvelope([]byte(strings.TrimSuffix(goodEnvelope, "}")+many.String()+"}")))
	testbed.Expect(t, len(p) == 50, "%d problems", len(p))
}

// TestPolicyProblemsHavePositions: the file is judged as Open judges it.
func TestPolicyProblemsHavePositions(t *testing.T) {
	for _, good := range []string{"", "version: 1\n", "version: 1\nprotect: ['infra/**']\n"} {
		err := spec.ValidatePolicy([]byte(good))
		testbed.Expect(t, err == nil, "%q: %v", good, err)
	}
	p := problems(t, spec.ValidatePolicy([]byte("version: 1\ngate:\n  mod: block\n")))
	testbed.Expect(t, len(p) == 1 && p[0].Path == "line 3, column 3" && strings.Contains(p[0].Text, "mode"), "%+v", p)
	for _, bad := range []string{"version: 2\n", "thresholds: {high: 0.1, low: 0.9}\n", "extend_patterns: {a: [{name: b, regex: '('}]}\n", ": : :\n", "a: &a [*a]\n"} {
		for _, one := range problems(t, spec.ValidatePolicy([]byte(bad))) {
			testbed.Expect(t, strings.HasPrefix(one.Path, "line ") && one.Rule != "", "%q: %+v", bad, one)
		}
	}
	err := spec.Validate("policy", []byte(`{"version":1,"gate":{"mode":"block"}}`))
	testbed.Expect(t, err == nil, "%v", err)
	testbed.Expect(t, spec.Validate("policy", []byte(`{"version":1,"gate":{"mod":"block"}}`)) != nil, "a key that is not known was accepted")
}

// TestForeignSchemasFetchNothing: a reference is refused however it is
// written, and a schema that would end the validator is an error.
func TestForeignSchemasFetchNothing(t *testing.T) {
	var asked []string
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Write([]byte(`{}`))
	}))
	defer host.Close()
	for _, schema := range []string{
		`{"$ref":"` + host.URL + `/a"}`, `{"\u0024ref":"` + host.URL + `/b"}`, `{"properties":{"x":{"anyOf":[{"$ref":"` + host.URL + `/c"}]}}}`,
		`{"$ref":"file:///etc/hostname"}`, `{"$ref":"#"}`, `{"items":{"$\u0072ef":"#/definitions/x"}}`, `{"type":"object","$ref":7}`,
		`{"maximum":1e9999999}`, `{"multipleOf":1e-9999999}`, `{"pattern":"(?=a)"}`, `{"type":"oops"}`, `{"minLength":"x"}`, `{"required":"x"}`,
		`{"type":"object","type":"string"}`, `{} {}`, ``, `null`, `7`, `{"properties":7}`, `{"enum":7}`,
	} {
		testbed.Expect(t, spec.ValidateWith([]byte(schema), []byte(`{"x":1}`)) != nil, "%s was used", schema)
	}
	// These name an address without referring to it.
	for _, schema := range []string{`{"$id":"` + host.URL + `/d","type":"object"}`, `{"$schema":"` + host.URL + `/e","type":"object"}`} {
		spec.ValidateWith([]byte(schema), []byte(`{}`)) // used or not: nothing is asked for
	}
	testbed.Require(t, len(asked) == 0, "fetched %v", asked)
	_, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(`{"$ref":"` + host.URL + `/trap"}`))
	testbed.Expect(t, err == nil && len(asked) != 0, "the trap is not set, so nothing is proved: %v", err)
	for _, doc := range []string{`"$ref"`, `{"a":"$ref"}`} { // the words alone are harmless
		err := spec.ValidateWith([]byte(`{"description":"no \"$ref\" here"}`), []byte(doc))
		testbed.Expect(t, err == nil, "%v", err)
	}
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(goodEnvelope))
	f.Add([]byte(goodHandoff))
	f.Add([]byte(`{"ok":true,"a":[1e400,{"b":"\ud83d\ude00"}]}`))
	f.Add([]byte(`{"ok":false,"context":{"code":1e9999999}}`))
	tools := spec.Tools()
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, err := range []error{
			spec.ValidateEnvelope(doc), spec.ValidateHandoff(doc), spec.Validate("policy", doc),
			spec.ValidateArguments(tools[len(doc)%len(tools)], doc), spec.ValidateReply(tools[len(doc)%len(tools)], doc),
		} {
			var invalid *spec.Invalid
			testbed.Require(t, err == nil || errors.As(err, &invalid) && len(invalid.Problems) != 0 && invalid.Error() != "", "%q: %v", doc, err)
			testbed.Require(t, err != nil || json.Valid(doc), "%q is not JSON and conforms", doc)
		}
	})
}

// FuzzLinear: validating a document against any of the schemas takes work in
// proportion to its length.
func FuzzLinear(f *testing.F) {
	tools := spec.Tools()
	seeds := []string{`{"old":"a","new":"b"},`, `{"op":"delete","path":"a"},`, `"k#":1,`, `{"path":"a#"},`, `"a",`, `1,`, `a: b\n`, "- ", "a#: #\n"}
	testbed.FuzzLinear(f, 4<<10, 40*time.Microsecond, seeds, func(text []byte) int {
		object, list := []byte(`{`+string(text)+`"z":1}`), `[`+string(text)+`null]`
		for _, doc := range [][]byte{text, object, []byte(list), []byte(`{"edits":` + list + `,"ops":` + list + `,"envelope":` + string(object) + `}`)} {
			spec.ValidateEnvelope(doc)
			spec.ValidateHandoff(doc)
			spec.ValidatePolicy(doc)
			for _, tool := range []string{"rw_tx", "rw_edit", tools[0]} {
				spec.ValidateArguments(tool, doc)
			}
			spec.ValidateReply("rw_tx", doc)
		}
		return 0
	})
}
