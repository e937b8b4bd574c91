package resilientwrite_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// TestScripts runs the scenarios in testdata/script: calls of tools on the stores of a
// workspace, which is the current directory. Besides the commands of testscript they have
//
//	workspace [-KEY=VALUE...]       another, empty workspace, with options of its stores
//	store NAME                      the store of the next calls
//	reopen [-KEY=VALUE...]          closes the store and opens it again
//	TOOL [ARG...] [-KEY=VALUE...]   a call that succeeds
//	call TOOL JSON                  the same, with these arguments
//	refused REASON TOOL [ARG...] [-KEY=VALUE...]
//	spend REASON TOOL [ARG...]      the same, until no attempt is left
//	reset_task
//	reply [KEY=VALUE...]            what the last call returned; KEY~TEXT contains it, KEY!TEXT does not
//	aliases NAMES                   the names that it used in place of ours
//	keep NAME KEY                   sets a variable to a part of the last reply
//	human FILE TEXT                 another program writes a file
//	holds FILE TEXT
//	mode FILE PERMISSIONS
//	found PATTERN N                 so many files have such a name
//	tree NAME, same NAME            the files and their content, then and now; with a
//	                                directory as well, its files and their times
//	sound                           a deep check finds nothing
//
// The options of a workspace are also -replies and -tier, of the toolbox: full replies and
// the standard tier are the default here.
// scriptTools names the arguments of a tool that are given by position. A refused call
// changes nothing, and its envelope conforms. The KEY of a reply is a path, such as
// versions.0.available; len is the length of a list, and what is absent is "". \n and
// \r are the line ends in every argument. The variables RISKY, TOKEN, AWS and AWS2 are a text
// that the gate refuses and credentials, EXAMPLE and PLACEHOLDERS stand for some.
func TestScripts(t *testing.T) {
	t.Parallel()
	cmds := map[string]func(*testscript.TestScript, bool, []string){}
	for name, run := range map[string]func(*script, []string){
		"workspace": (*script).workspace, "store": func(s *script, args []string) { s.name = args[0] },
		"reopen": (*script).reopen, "refused": (*script).refused, "reply": (*script).replies,
		"keep":  func(s *script, args []string) { s.ts.Setenv(args[0], s.field(args[1])) },
		"human": func(s *script, args []string) { human(s.t, s.dir, args[0], args[1]) },
		"spend": func(s *script, args []string) {
			for _, left := range []string{"2", "1", "0"} {
				s.refused(args)
				s.is("retry_budget", s.field("retry_budget"), left)
			}
		},
		"reset_task": func(s *script, _ []string) { s.ts.Check(s.store().ResetTask(background)) },
		"mode": func(s *script, args []string) {
			s.is(args[0], fmt.Sprintf("%o", must(os.Stat(s.ts.MkAbs(args[0])))(s.t).Mode().Perm()), args[1])
		},
		"found": func(s *script, args []string) {
			s.is(args[0], strconv.Itoa(len(must(filepath.Glob(s.ts.MkAbs(args[0])))(s.t))), args[1])
		},
		"holds":   func(s *script, args []string) { s.is(args[0], readAll(s.ts, args[0]), args[1]) },
		"tree":    func(s *script, args []string) { s.trees[args[0]] = s.tree(args[1:]...) },
		"same":    func(s *script, args []string) { s.is(args[0], s.tree(args[1:]...), s.trees[args[0]]) },
		"sound":   func(s *script, _ []string) { check(s.t, s.store(), true) },
		"aliases": func(s *script, args []string) { s.is("aliases", strings.Join(s.used, " "), args[0]) },
	} {
		cmds[name] = scriptCommand(run)
	}
	for _, name := range append(slices.Collect(maps.Keys(scriptTools)), "call") {
		cmds[name] = scriptCommand(func(s *script, args []string) {
			if answer := s.call(name, args); !answer.OK {
				s.ts.Fatalf("%s", answer.Text)
			}
		})
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", Cmds: cmds, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			s := &script{t: e.T().(testing.TB), name: "one", stores: map[string]*rw.Store{}, trees: map[string]string{}}
			s.dir, s.opts.Sync, s.box.Replies = filepath.Join(e.WorkDir, "ws"), rw.SyncOff, toolbox.FullReplies
			e.Values[scriptKey{}], e.Cd = s, s.dir
			e.Defer(s.close)
			e.Setenv("RISKY", risky.high)
			e.Setenv("TOKEN", ghToken(7))
			e.Setenv("AWS", awsID(5))
			e.Setenv("AWS2", awsID(6))
			e.Setenv("EXAMPLE", "AKIA"+"IOSFODNN7"+"EXAMPLE")
			e.Setenv("PLACEHOLDERS", "id AKIA"+"IOSFODNN7"+"EXAMPLE\nkey sk-proj-"+strings.Repeat("Z", 40)+"\nmail user@example.com\n-----BEGIN RSA "+"PRIVATE KEY-----\nMIIEvQ...\n")
			return os.MkdirAll(s.dir, 0o755)
		},
	})
}

// scriptTools are the tools, with the names of their arguments by position.
var scriptTools = map[string]string{
	"create": "path content", "overwrite": "path content", "append": "path content", "edit": "path old new",
	"delete": "path", "move": "path to", "tx": "ops", "read": "path version", "history": "path", "diff": "path",
	"restore": "path version", "undo": "n", "operation": "idempotency_key", "journal_tail": "n", "describe": "",
	"tx_begin": "", "tx_stage": "tx_id op", "tx_commit": "tx_id", "tx_rollback": "tx_id",
	"chunk_append": "session content", "chunk_write": "session index content", "chunk_status": "session",
	"chunk_compose": "session output_path", "chunk_preview": "session", "chunk_reset": "session", "chunk_list": "",
	"checkpoint": "name data", "checkpoint_read": "name", "checkpoint_list": "", "checkpoint_cleanup": "",
	"scratch_put": "content label", "scratch_ref": "label", "scratch_get": "sha256", "scratch_list": "", "scratch_delete": "label",
	"draft_list": "", "draft_get": "draft_ref", "draft_delete": "draft_ref", "redact": "draft_ref",
	"risk_score": "content", "validate": "content target_path",
}

// scriptTexts are the arguments by position that are texts even if they look like JSON.
var scriptTexts = []string{"path", "to", "content", "old", "new"}

type script struct {
	t      testing.TB
	ts     *testscript.TestScript
	dir    string
	opts   rw.Options
	box    toolbox.Options
	stores map[string]*rw.Store
	name   string // of the store in use
	reply  any
	used   []string // aliases in the last call
	trees  map[string]string
}

type scriptKey struct{}

func scriptCommand(run func(*script, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, not bool, args []string) {
		if not {
			ts.Fatalf("this command cannot be negated")
		}
		s := ts.Value(scriptKey{}).(*script)
		s.ts = ts
		for i := range args {
			args[i] = strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(args[i])
		}
		if run(s, args); s.t.Failed() {
			ts.Fatalf("see above")
		}
	}
}

func readAll(ts *testscript.TestScript, name string) string {
	data, err := os.ReadFile(ts.MkAbs(name))
	ts.Check(err)
	return string(data)
}

func (s *script) is(what, got, want string) {
	if got != want {
		s.ts.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func (s *script) tree(dir ...string) string {
	if len(dir) > 0 {
		return described(s.t, s.ts.MkAbs(dir[0]))
	}
	return tree(s.t, s.dir)
}

func (s *script) close() {
	for name, store := range s.stores {
		noErr(s.t, store.Close(background), name)
	}
	clear(s.stores)
}

// store is the one in use; it is opened when it is first needed.
func (s *script) store() *rw.Store {
	if s.stores[s.name] == nil {
		store, err := rw.Open(background, s.dir, &s.opts)
		s.ts.Check(err)
		s.stores[s.name] = store
	}
	return s.stores[s.name]
}

func (s *script) workspace(args []string) {
	s.close()
	s.opts, s.box, s.name = rw.Options{Sync: rw.SyncOff}, toolbox.Options{Replies: toolbox.FullReplies}, "one"
	s.options(args)
	dir, err := os.MkdirTemp(s.ts.Getenv("WORK"), "ws-")
	s.ts.Check(err)
	s.dir = dir
	s.ts.Check(s.ts.Chdir(dir))
}

func (s *script) reopen(args []string) {
	s.ts.Check(s.store().Close(background))
	delete(s.stores, s.name)
	s.options(args)
	s.store()
}

func (s *script) options(args []string) {
	for _, arg := range args {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "-sync":
			s.opts.Sync = rw.SyncLevel(value)
		case "-gate":
			if s.opts.Gate = (rw.Gate{Mode: rw.GateMode(value)}); value == "agents" {
				s.opts.Gate = rw.GateOfAgents
			}
		case "-hard_links":
			s.opts.HardLinks = rw.HardLinkPolicy(value)
		case "-caller":
			s.opts.Caller = value
		case "-policy":
			s.opts.PolicyFile = value
		case "-replies":
			s.box.Replies = toolbox.Replies(value)
		case "-tier":
			s.box.Tier = toolbox.Preset(value)
		case "-read_only":
			s.opts.ReadOnly = value == "true"
		case "-disable_scratch_get":
			s.opts.DisableScratchGet = value == "true"
		default:
			s.ts.Fatalf("no option %s", key)
		}
	}
}

// call calls a tool and keeps its reply.
func (s *script) call(name string, args []string) toolbox.Answer {
	var doc []byte
	if name == "call" {
		name, doc = args[0], []byte(args[1])
	} else {
		name, doc = s.arguments(name, args)
	}
	answer := toolbox.New(s.store(), &s.box).Call(background, "rw_"+name, doc, nil)
	s.reply, s.used = nil, answer.Receipt.Alias
	s.ts.Check(json.Unmarshal([]byte(answer.Text), &s.reply))
	s.ts.Logf("%.500s", answer.Text)
	return answer
}

// arguments returns the tool that a command calls, and its arguments.
func (s *script) arguments(name string, args []string) (tool string, doc []byte) {
	values := map[string]any{}
	given := strings.Fields(scriptTools[name])
	for i, arg := range args {
		if key, value, named := strings.Cut(arg, "="); named && strings.HasPrefix(arg, "-") {
			values[key[1:]] = scriptValue(value)
		} else if i < len(given) {
			if values[given[i]] = any(arg); !slices.Contains(scriptTexts, given[i]) {
				values[given[i]] = scriptValue(arg)
			}
		} else {
			s.ts.Fatalf("%s takes no %q", name, arg)
		}
	}
	switch name {
	case "create", "overwrite", "append":
		name, values["mode"] = "safe_write", name
	case "edit":
		if values["edits"] != nil {
			break
		}
		values["edits"] = []any{map[string]any{"old": values["old"], "new": values["new"]}}
		delete(values, "old")
		delete(values, "new")
	}
	doc, err := json.Marshal(values)
	s.ts.Check(err)
	return name, doc
}

func scriptValue(text string) (v any) {
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}

func (s *script) refused(args []string) {
	before := snapshot(s.t, s.dir)
	answer := s.call(args[1], args[2:])
	s.is("refused", fmt.Sprint(answer.OK), "false")
	s.is("reason", s.field("context.reason"), args[0])
	version := "errors"
	if s.box.Replies == toolbox.BriefReplies {
		version = "errors.v2"
		s.is("effect", s.field("context.effect"), "")
	} else {
		s.is("effect", s.field("context.effect"), string(rw.EffectNone))
	}
	s.is("the refusal changed the workspace", snapshot(s.t, s.dir), before)
	s.ts.Check(spec.Validate(version, []byte(answer.Text)))
	nothingStaged(s.t, s.store())
	if strings.Contains(answer.Text, s.dir) {
		s.ts.Fatalf("an absolute path: %s", answer.Text)
	}
}

func (s *script) replies(args []string) {
	if unmet := testbed.Unmet(s.reply, args); unmet != "" {
		s.ts.Fatalf("%s", unmet)
	}
}

// field is a part of the last reply as text.
func (s *script) field(key string) string { return testbed.Field(s.reply, key) }
