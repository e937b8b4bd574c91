package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// args are the arguments of one call.
type args = map[string]any

// surfaceCase is one call of a tool that succeeds and one that is refused. They
// run in list order, so a case may use the replies of those before it, with
// [servedTools.got].
type surfaceCase struct {
	tool   string
	good   func(s *servedTools) args
	want   args // fields of the reply
	bad    args
	reason string
}

func given(a args) func(*servedTools) args { return func(*servedTools) args { return a } }

var surplus = args{"zzz": 1}

var surfaceCases = []surfaceCase{
	{"safe_write", given(args{"path": "docs/a.md", "content": "# A\n"}), args{"path": "docs/a.md", "sha256": shaOf("# A\n"), "bytes": 4.0, "mode_applied": "create", "status": "succeeded"},
		args{"path": "docs/a.md", "content": "# B\n"}, "file_already_exists"},
	{"read", given(args{"path": "docs/a.md"}), args{"content": "# A\n", "sha256": shaOf("# A\n"), "eol": "lf"},
		args{"path": "docs/none.md"}, "not_found"},
	{"edit", func(s *servedTools) args {
		return args{"path": "docs/a.md", "edits": []any{args{"old": "# A", "new": "# B"}}, "expected_prev_sha256": s.got("read", "sha256")}
	}, args{"sha256": shaOf("# B\n"), "replacements": 1.0, "mode_applied": "edit"},
		args{"path": "docs/a.md", "edits": []any{args{"old": "not there", "new": "x"}}}, "old_string_not_found"},
	{"history", given(args{"path": "docs/a.md"}), args{"path": "docs/a.md", "more": false},
		args{"path": "docs/a.md", "n": 0}, "invalid_argument"},
	{"diff", given(args{"path": "docs/a.md"}), args{"path": "docs/a.md", "identical": false},
		args{"path": "docs/a.md", "from": 424242}, "version_not_found"},
	{"restore", given(args{"path": "docs/a.md", "sha256": shaOf("# A\n")}), args{"sha256": shaOf("# A\n"), "status": "succeeded"},
		args{"path": "docs/a.md", "version": 424242}, "version_not_found"},
	{"undo", given(args{"n": 1}), args{"status": "succeeded"},
		args{"caller": "somebody who wrote nothing"}, "nothing_to_undo"},
	{"operation", func(s *servedTools) args {
		return args{"invocation_id": s.got("edit", "receipt").(args)["invocation_id"]}
	}, args{"happened": true, "refused": false},
		args{}, "invalid_argument"},
	{"move", given(args{"path": "docs/a.md", "to": "docs/b.md"}), args{"path": "docs/a.md", "to": "docs/b.md", "sha256": shaOf("# B\n"), "files": 1.0},
		args{"path": "docs/none.md", "to": "docs/c.md"}, "not_found"},
	{"delete", given(args{"path": "docs/b.md"}), args{"path": "docs/b.md", "status": "succeeded"},
		args{"path": "docs/b.md"}, "not_found"},

	{"tx", given(args{"ops": []any{args{"op": "write", "path": "t/1.txt", "content": "1"}, args{"op": "write", "path": "t/2.txt", "content": "2"}}}), args{"status": "succeeded"},
		args{"ops": []any{args{"op": "write", "path": "t/3.txt", "content": "3"}, args{"op": "delete", "path": "t/none.txt"}}}, "not_found"},
	{"tx_begin", given(args{}), nil, surplus, "unknown_argument"},
	{"tx_stage", func(s *servedTools) args {
		return args{"tx_id": s.got("tx_begin", "tx_id"), "op": args{"op": "write", "path": "t/3.txt", "content": "3"}}
	}, args{"index": 1.0},
		args{"tx_id": "tx-none", "op": args{"op": "write", "path": "t/4.txt", "content": "4"}}, "tx_not_found"},
	{"tx_commit", func(s *servedTools) args { return args{"tx_id": s.got("tx_begin", "tx_id")} }, args{"status": "succeeded"},
		args{"tx_id": "tx-none"}, "tx_not_found"},
	{"tx_rollback", given(args{"tx_id": "tx-none"}), args{"existed": false, "dropped": 0.0},
		args{}, "invalid_argument"},

	{"risk_score", given(args{"content": "key = " + reportKey + "\n"}), args{"verdict": "high", "line_count": 1.0},
		args{}, "missing_content"},
	{"draft_list", given(args{}), args{"count": 1.0}, surplus, "unknown_argument"},
	{"draft_get", func(s *servedTools) args { return args{"draft_ref": s.draft} }, args{"content": "key = " + reportKey + "\n", "encoding": "utf-8"},
		args{"draft_ref": "draft-none"}, "draft_not_found"},
	{"redact", func(s *servedTools) args { return args{"draft_ref": s.draft} }, args{"verdict": "safe"},
		args{"content": "%%%", "encoding": "base64"}, "bad_base64"},
	{"draft_delete", func(s *servedTools) args { return args{"draft_ref": s.draft} }, args{"removed": true},
		args{}, "invalid_argument"},
	{"validate", given(args{"content": "{\"a\": }", "format_hint": "json"}), args{"valid": false, "format": "json"},
		args{"target_path": "x.json"}, "missing_content"},

	{"chunk_append", given(args{"session": "s", "content": "one "}), args{"session": "s", "index": 1.0, "next_index": 2.0, "sha256": shaOf("one ")},
		args{"session": "no such name", "content": "x"}, "session_must_match_[A-Za-z0-9_-]{1,64}"},
	{"chunk_write", given(args{"session": "s", "index": 2, "content": "two", "total_expected": 2}), args{"index": 2.0, "next_index": 3.0, "total_expected": 2.0},
		args{"session": "s", "index": 0, "content": "x"}, "index_must_be_int_in_1..999999"},
	{"chunk_status", given(args{"session": "s"}), args{"exists": true, "sealed": false, "bytes": 7.0},
		args{"session": "../s"}, "session_must_match_[A-Za-z0-9_-]{1,64}"},
	{"chunk_list", given(args{}), args{"count": 1.0}, surplus, "unknown_argument"},
	{"chunk_preview", given(args{"session": "s"}), args{"preview": true, "content": "one two", "sha256": shaOf("one two"), "chunk_count": 2.0},
		args{"session": "none"}, "session_not_found"},
	{"chunk_compose", func(s *servedTools) args {
		return args{"session": "s", "output_path": "out/s.txt", "expected_sha256": s.got("chunk_preview", "sha256")}
	}, args{"output_path": "out/s.txt", "sha256": shaOf("one two"), "chunk_count": 2.0, "cleaned_up": false},
		args{"session": "none", "output_path": "out/none.txt"}, "session_not_found"},
	{"chunk_reset", given(args{"session": "s"}), args{"existed": true, "removed": 2.0},
		args{}, "invalid_argument"},

	{"scratch_put", given(args{"content": "raw", "label": "log", "content_type": "text/plain"}), args{"sha256": shaOf("raw"), "bytes": 3.0, "deduped": false},
		args{"content": "raw", "ttl": "for ever"}, "invalid_argument"},
	{"scratch_ref", given(args{"label": "log"}), args{"bin_exists": true, "alias_count": 1.0},
		args{}, "must_provide_sha256_or_label"},
	{"scratch_get", given(args{"sha256": strings.ToUpper(shaOf("raw"))}), args{"content": "raw", "label": "log", "content_type": "text/plain"},
		args{"sha256": "raw"}, "not_a_lowercase_sha256_hex"},
	{"scratch_list", given(args{}), args{"count": 1.0, "objects": 1.0, "malformed": 0.0},
		args{"limit": -1}, "invalid_argument"},
	{"scratch_delete", given(args{"label": "log"}), args{"status": "succeeded"},
		args{}, "must_provide_sha256_or_label"},

	{"checkpoint", given(args{"name": "step.1", "data": args{"done": []any{"a", nil, 1.5}}}), args{"name": "step.1", "format": "json", "ttl": "session", "chunked": false},
		args{"name": "step.1", "data": "a: [", "format": "yaml"}, "syntax_invalid"},
	{"checkpoint_read", given(args{"name": "step.1"}), args{"data": args{"done": []any{"a", nil, 1.5}}, "expired": false},
		args{"name": "none"}, "checkpoint_not_found"},
	{"checkpoint_list", given(args{}), args{"count": 1.0}, surplus, "unknown_argument"},
	{"handoff_write", given(args{"body": "# Notes\n", "envelope": args{
		"task_id": "t-1", "status": "partial", "agent": "tester", "summary": "half done", "next_steps": []any{"the other half"},
		"last_good_state": []any{args{"path": "out/s.txt", "sha256": shaOf("one two")}}, "ours": args{"kept": true},
	}}), args{"handoff_path": "HANDOFF.md", "status": "succeeded", "drift_warnings": []any{}, "checkpoint_refs": []any{args{"name": "step.1"}}},
		args{"envelope": args{"task_id": "t-1"}}, "missing_fields"},
	{"handoff_read", given(args{"acknowledge_as": "the next"}), args{"body": "# Notes\n", "drift_warnings": []any{}, "missing_fields": []any{}},
		args{"path": "out/s.txt"}, "missing_front_matter_delimiter"},
	{"checkpoint_cleanup", given(args{}), args{"kept": 0.0, "more": false},
		args{"include_session": "yes"}, "invalid_argument"},

	{"journal_tail", given(args{"n": 3, "include_refused": true}), args{"malformed": 0.0},
		args{"n": 100000}, "invalid_argument"},
	{"journal_since", given(args{"after_seq": 1}), args{"gap": false},
		args{}, "invalid_argument"},
	{"analytics", given(args{"session_filter": "s"}), nil,
		args{"since": "yesterday"}, "invalid_argument"},
	{"check", given(args{"deep": true}), args{"clean": true, "problems": []any{}},
		args{"deep": "yes"}, "invalid_argument"},
	{"describe", given(args{}), nil, surplus, "unknown_argument"},
}

func shaOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// servedTools is the binary on a fresh workspace, with what it has replied.
type servedTools struct {
	t       *testing.T
	dir     string
	c       *client.Client
	tools   map[string]mcpserver.ToolInfo
	replies map[string]args
	draft   string // draft_ref of a write the gate refused
}

// got returns a field of the reply to the successful call of a tool.
func (s *servedTools) got(tool, field string) any {
	v, ok := s.replies[tool][field]
	require(s.t, ok, "the reply of %s has no %s: %v", tool, field, s.replies[tool])
	return v
}

func openSurface(t *testing.T) *servedTools {
	t.Helper()
	s := &servedTools{t: t, dir: t.TempDir(), tools: map[string]mcpserver.ToolInfo{}, replies: map[string]args{}}
	s.c = connect(t, s.dir)
	for _, tool := range toolbox.Table() {
		if tool.Name != "exec" && tool.Name != "claim" { // cannot be called unless listed; they have separate tests
			s.tools[tool.Name] = tool
		}
	}
	refused := callTool(t, s.c, "rw_safe_write", args{"path": "key.txt", "content": "key = " + reportKey + "\n"})
	require(t, refused["error"] == "blocked" && refused["suggested_action"] == "redact", "the gate let a credential pass: %v", refused)
	s.draft, _ = refused["context"].(args)["draft_ref"].(string)
	return s
}

// untouched runs do and checks that it changes no file of the workspace.
func (s *servedTools) untouched(what string, do func()) {
	s.t.Helper()
	before := everyFile(s.t, s.dir, ".resilient_write")
	do()
	equal(s.t, cmp.Diff(before, everyFile(s.t, s.dir, ".resilient_write")), "", what, " changed the workspace")
}

// refused calls a tool and checks that it returns the envelope with that
// reason. [call] has compared it with both schemas.
func (s *servedTools) refused(wire string, a args, want string) args {
	s.t.Helper()
	var out args
	s.untouched(wire, func() { out = callTool(s.t, s.c, wire, a) })
	expect(s.t, out["ok"] == false && reason(out) == want, "%s %v: want %s, got %v", wire, a, want, out)
	c, _ := out["context"].(args)
	for _, field := range []string{"hint", "effect", "code", "tool"} {
		expect(s.t, c[field] != nil, "%s: context has no %s: %v", wire, field, c)
	}
	if want := wire; c["tool"] != want { // the name that was called
		s.t.Errorf("%s: context.tool is %v, want %s", wire, c["tool"], want)
	}
	text := fmt.Sprint(out)
	expect(s.t, !strings.Contains(text, s.dir) && !strings.Contains(text, reportKey), "%s: the envelope holds an absolute path or a secret", wire)
	return out
}

// accepted calls a tool and checks that it succeeds with those fields.
func (s *servedTools) accepted(tool string, a, want args) args {
	s.t.Helper()
	doc := must(json.Marshal(a))(s.t)
	err := spec.ValidateWith(s.tools[tool].Input, doc)
	expect(s.t, err == nil, "%s: the input schema does not admit what succeeds: %v", tool, err)
	var out args
	do := func() { out = callTool(s.t, s.c, "rw_"+tool, a) }
	if s.tools[tool].ReadOnly {
		s.untouched("rw_"+tool, do)
	} else {
		do()
	}
	require(s.t, out["ok"] == true, "%s %v: %v", tool, a, out)
	for field, want := range want {
		equal(s.t, cmp.Diff(want, out[field]), "", tool, " ", field)
	}
	return out
}

// TestEverySurfaceCase drives each tool of the binary over standard input and
// output: one call that succeeds, one that is refused. A tool without a case
// fails the test.
func TestEverySurfaceCase(t *testing.T) {
	t.Parallel()
	s := openSurface(t)
	listed := must(s.c.ListTools(context.Background(), mcp.ListToolsRequest{}))(t)
	cases := map[string]int{}
	for _, c := range surfaceCases {
		cases[c.tool]++
		require(t, s.tools[c.tool].Name != "", "there is a case for %s, which is no tool", c.tool)
	}
	for _, tool := range listed.Tools {
		expect(t, cases[strings.TrimPrefix(tool.Name, "rw_")] == 1,
			"%s has %d cases, want 1: add one to surfaceCases", tool.Name, cases[strings.TrimPrefix(tool.Name, "rw_")])
	}
	mustEqual(t, cmp.Diff(slices.Sorted(maps.Keys(s.tools)), slices.Sorted(maps.Keys(cases))), "", "the cases are not the tools (-tool +case)")
	for _, c := range surfaceCases {
		// Refusals use the dotted name, which works on call for every tool.
		out := s.accepted(c.tool, c.good(s), c.want)
		s.replies[c.tool] = out
		s.refused("rw."+c.tool, c.bad, c.reason)
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "out", "s.txt"))
	expect(t, string(text) == "one two", "out/s.txt holds %q (%v)", text, err)
	r := callTool(t, s.c, "rw.check", args{"deep": true})
	expect(t, r["clean"] == true, "%v", r)
}

// TestDescriptionIsIgnored: many clients add a description to every call. It
// changes nothing, whatever its type, under both names of a tool.
func TestDescriptionIsIgnored(t *testing.T) {
	t.Parallel()
	s := openSurface(t)
	for i, c := range surfaceCases {
		a := maps.Clone(c.good(s))
		a["description"] = []any{"what I am doing", 7, nil, true, args{"why": []any{}}, []any{"x"}}[i%6]
		out := callTool(t, s.c, []string{"rw_", "rw."}[i%2]+c.tool, a)
		mustEqual(t, out["ok"], true, c.tool, ": ", out)
		for field, want := range c.want {
			equal(t, cmp.Diff(want, out[field]), "", c.tool, ": ", field)
		}
		s.replies[c.tool] = out
	}
}

// TestMisspeltArgument: a misspelled argument name is refused by every tool,
// and the envelope suggests the right one.
func TestMisspeltArgument(t *testing.T) {
	t.Parallel()
	s := openSurface(t)
	tried := 0
	for _, tool := range s.tools {
		var in struct {
			Properties           map[string]json.RawMessage
			AdditionalProperties *bool
		}
		noErr(t, json.Unmarshal(tool.Input, &in))
		expect(t, in.AdditionalProperties != nil && !*in.AdditionalProperties, "%s: the arguments are open", tool.Name)
		name := "" // the longest: it is least similar to others
		for _, p := range slices.Sorted(maps.Keys(in.Properties)) {
			if len(p) > len(name) {
				name = p
			}
		}
		if name == "" { // no argument to suggest
			c, _ := s.refused("rw_"+tool.Name, surplus, "unknown_argument")["context"].(args)
			expect(t, c["did_you_mean"] == nil, "%s: %v", tool.Name, c)
			continue
		}
		tried++
		slip := name[:1] + name[2:] // without its second letter
		c, _ := s.refused("rw_"+tool.Name, args{slip: "x"}, "unknown_argument")["context"].(args)
		expect(t, c["did_you_mean"] == name && c["argument"] == slip, "%s: %s for %s: %v", tool.Name, slip, name, c)
	}
	expect(t, tried >= len(s.tools)/2, "only %d tools have arguments", tried)
}
