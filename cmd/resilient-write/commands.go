package main

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// files and the other tables list every subcommand that calls a tool, one line
// each. The flags come from the schema of the tool.
var files = []verb{
	{"safe_write", "write PATH", "Write one file, from standard input or --from", "files", []string{"path"}, "content", showChange},
	{"edit", "edit PATH [EDITS.json]", "Replace exact strings of one file", "files", []string{"path", "edits@?"}, "", showChange},
	{"read", "read PATH", "Print one file, or an earlier version of it", "files", []string{"path"}, "", showContent},
	{"delete", "delete PATH", "Delete one file; history keeps its content", "files", []string{"path"}, "", showChange},
	{"move", "move PATH TO", "Rename a file, or the files of a directory", "files", []string{"path", "to"}, "", showChange},
	{"tx", "tx OPS.json", "Change several files together", "files", []string{"ops@"}, "", showTx},
	{"read", "show PATH [VERSION]", "Print a file, or one of its versions", "look", []string{"path", "version?"}, "", showContent},
	{"journal_tail", "log [PATH]", "List the rows of the journal, newest last, refusals included", "look", []string{"filter_path?"}, "", showRows},
	{"history", "history PATH", "List the versions of a file", "files", []string{"path"}, "", showHistory},
	{"diff", "diff PATH", "Show the diff between two versions", "files", []string{"path"}, "", showDiff},
	{"restore", "restore PATH", "Restore an earlier version of a file", "files", []string{"path"}, "", showChange},
	{"undo", "undo", "Undo the newest commits", "files", nil, "", showChange},
	{"operation", "operation", "Report whether a call was carried out", "look", nil, "", nil},
	{"risk_score", "risk", "Score the risk of a text", "look", nil, "content", nil},
	{"redact", "redact", "Redact the secrets of a text", "look", nil, "content", showContent},
	{"validate", "validate", "Check the syntax of a text", "look", nil, "content", nil},
	{"analytics", "analytics", "Report usage from the journal", "look", nil, "", nil},
	{"describe", "describe", "Show version, limits, policy and exit codes", "look", nil, "", nil},
}

var txs = []verb{
	{"tx_begin", "begin", "Begin a transaction that is built in several calls", "", nil, "", nil},
	{"tx_stage", "stage TX OP.json", "Add an operation", "", []string{"tx_id", "op@"}, "", nil},
	{"tx_commit", "commit TX", "Apply all staged operations together", "", []string{"tx_id"}, "", showTx},
	{"tx_rollback", "rollback TX", "Roll back a transaction", "", []string{"tx_id"}, "", nil},
}

var chunks = []verb{
	{"chunk_append", "append SESSION", "Store the next chunk", "", []string{"session"}, "content", nil},
	{"chunk_write", "write SESSION INDEX", "Store one chunk under its number", "", []string{"session", "index"}, "content", nil},
	{"chunk_status", "status SESSION", "Show which chunks are stored", "", []string{"session"}, "", nil},
	{"chunk_preview", "preview SESSION", "Print the composed file without writing it", "", []string{"session"}, "", showContent},
	{"chunk_compose", "compose SESSION PATH", "Compose the chunks into one file", "", []string{"session", "output_path"}, "", showChange},
	{"chunk_reset", "reset SESSION", "Delete a session", "", []string{"session"}, "", nil},
	{"chunk_list", "list", "List the sessions", "", nil, "", nil},
}

var handoffs = []verb{
	{"handoff_write", "write ENVELOPE.json", "Leave a handoff", "", []string{"envelope@"}, "", nil},
	{"handoff_read", "read", "Read a handoff, and see what changed since", "", nil, "", nil},
}

var checkpoints = []verb{
	{"checkpoint", "save NAME DATA.json", "Save the state of a task", "", []string{"name", "data@"}, "", nil},
	{"checkpoint_read", "read NAME", "Print a checkpoint", "", []string{"name"}, "", nil},
	{"checkpoint_list", "list", "List the checkpoints", "", nil, "", nil},
	{"checkpoint_cleanup", "cleanup", "Remove old checkpoints", "", nil, "", nil},
}

var scratches = []verb{
	{"scratch_put", "put", "Store raw material, from standard input or --from", "", nil, "content", nil},
	{"scratch_get", "get SHA256", "Print raw material, by its hash, the first digits of it, or its label", "", []string{"sha256"}, "", showContent},
	{"scratch_ref", "ref", "Show the facts about raw material", "", nil, "", nil},
	{"scratch_list", "list", "List the scratchpad", "", nil, "", nil},
	{"scratch_delete", "delete", "Delete raw material", "", nil, "", nil},
}

var drafts = []verb{
	{"draft_list", "list", "List refused drafts", "", nil, "", nil},
	{"draft_get", "get REF", "Print a refused draft", "", []string{"draft_ref"}, "", showContent},
	{"draft_delete", "delete REF", "Delete a refused draft", "", []string{"draft_ref"}, "", nil},
}

// commands returns all subcommands except serve.
func (a *app) commands() []*cobra.Command {
	var list []*cobra.Command
	for _, v := range files {
		cmd := a.build(v)
		if v.tool == "tx" {
			a.group(cmd, txs)
		}
		list = append(list, cmd)
	}
	list = append(list,
		a.parent("chunk", "Write a large file in chunks", "work", chunks),
		a.parent("handoff", "Write or read the task state for the next agent", "work", handoffs),
		a.parent("checkpoint", "Save and read named states of a task", "work", checkpoints),
		a.parent("scratch", "Keep raw material outside the workspace", "work", scratches),
		a.parent("draft", "List, show and delete drafts that the gate refused", "work", drafts),
		a.status(), a.changes(), a.blame(), a.snapshot(), a.hub(), a.resume(), a.exec(), a.claim(), a.watch(), a.ls(), a.journal(), a.report(), a.check(), a.compact(), a.erase(), a.recover(), a.relocate(), a.trust(), a.init(), a.doctor(), a.hook(), a.demo(), a.version(), a.tool(),
	)
	return list
}

// parent is a subcommand that only has subcommands.
func (a *app) parent(name, text, group string, verbs []verb) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: text, GroupID: group, Args: cobra.ArbitraryArgs, RunE: unknownCommand}
	a.group(cmd, verbs)
	return cmd
}

func (a *app) group(cmd *cobra.Command, verbs []verb) {
	for _, v := range verbs {
		cmd.AddCommand(a.build(v))
	}
}

// recover opens the store, which completes what a dead process left, and
// reports it.
func (a *app) recover() *cobra.Command {
	return &cobra.Command{
		Use: "recover", Short: "Complete what a dead process left unfinished, and report it", GroupID: "upkeep", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withOldStore(cmd.Context(), false, func(_ context.Context, s *rw.Store) error { return present(a, s.Recovery(), nil) })
		},
	}
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", GroupID: "look", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return present(a, versionReply{"resilient-write", rw.Version, revision()}, showVersion)
		},
	}
}

type versionReply struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
}

func showVersion(p *printer, r versionReply) {
	line := r.Name + " " + r.Version
	if r.Commit != "" {
		line += " (" + r.Commit + ")"
	}
	p.line("%s", line)
}

// commit is the commit of the sources, set when a release is built.
var commit string

// revision returns the commit of the sources that the release or the compiler
// has recorded in the program, or "" if there is none.
func revision() string {
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return commit
}

// tool calls any tool by its name, with JSON.
func (a *app) tool() *cobra.Command {
	return &cobra.Command{
		Use: "call TOOL [ARGUMENTS]", Short: "Call any tool with JSON, as an agent does", GroupID: "work",
		Long: "Call any tool with JSON, as an agent does. ARGUMENTS is an object, '{\"path\": \"a.txt\"}', or a file that holds one; - is standard input.",
		ValidArgsFunction: func(_ *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(before) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			names := toolNames()
			for i := range names {
				names[i] = "rw_" + names[i]
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		Args: takes(1, 2, "call takes the name of a tool and its arguments", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			data := json.RawMessage("{}")
			if len(args) == 2 {
				text, err := a.jsonText(cmd.Context(), "ARGUMENTS", args[1])
				if err == nil {
					data, err = jsonOf("ARGUMENTS", "object", text)
				}
				if err != nil {
					return err
				}
				if json.Unmarshal(data, new(map[string]json.RawMessage)) != nil {
					return &misuse{"ARGUMENTS is not a JSON object", "write {\"path\": …}"}
				}
			}
			return a.call(cmd.Context(), plainTool(args[0]), false, asked{raw: data}, nil)
		},
	}
}

// toolNames returns the names of all tools.
func toolNames() (list []string) {
	for _, t := range toolbox.Table() {
		list = append(list, t.Name)
	}
	return list
}

// plainTool returns the name of a tool without its prefix.
func plainTool(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "rw_"), "rw.")
}
