package mcpserver

import (
	"encoding/json"
	"sort"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// table is every tool: one line each. Registration, schemas, annotations,
// documents and tests come from it.
var table = []tool{
	bind("safe_write", facade, destructive, "Write one file", (*rw.Store).SafeWrite,
		"Writes one file so that a crash leaves the old bytes or the new ones, and keeps the previous version. Use it instead of any other way to create, replace or extend a file; pass expected_prev_sha256 whenever you replace what you read. Do not use it to send a very long text at once: create the file with the first piece and append the others. A refusal says in context.hint what to do next."),
	bind("edit", facade, destructive, "Edit one file", (*rw.Store).Edit,
		"Replaces exact strings of a file, all edits or none, and returns a diff. Use it to change a part of a file you have read; it needs less than sending the whole file. old must be unique unless count says otherwise. Do not use it to create a file. On a refusal context tells the closest line or the lines of the matches."),
	bind("delete", standard, destructive, "Delete one file", (*rw.Store).Delete,
		"Removes one file; history keeps what it held. Use it instead of any other way to remove a file. Directories are not removed."),
	bind("move", standard, destructive, "Move or rename", (*rw.Store).Move,
		"Gives a file, or the files of a directory (at most 256), another path without copying; history goes along. Use it to rename or reorganize. A file at the new path is refused unless overwrite is set."),
	bind("read", facade, readOnly, "Read one file", (*rw.Store).Read,
		"Returns a file with its SHA-256, line endings and mode. Use it before you replace a file: its sha256 is the expected_prev_sha256 of the write. Large files come in parts, with offset and max_bytes. Nothing is changed."),
	bind("risk_score", standard, readOnly, "Score the risk of a text", (*rw.Store).RiskScore,
		"Tells what secrets, personal data and oversize a text holds, with line, column and a masked snippet, and what to do about it. Use it before you send a text anywhere, or after a warning of risk. The text is kept nowhere. rw_safe_write looks by itself; this tool is not needed before it."),
	bind("redact", standard, readOnly, "Take secrets out of a text", (*rw.Store).Redact,
		"Returns a text with {KIND-REDACTED} in place of each secret, lines unchanged. Use it after a refusal with suggested_action redact: pass the draft_ref of the refusal instead of the text, then write the result. Nothing is written."),
	bind("validate", standard, readOnly, "Check the syntax of a text", (*rw.Store).Validate,
		"Checks whether a text is well formed before it is written: JSON, YAML, TOML, XML, Go, Python, LaTeX, Markdown front matter. Use it before a write that must not break something, or pass validate to rw_safe_write. A text of unknown format is valid. Nothing is written."),
	bind("analytics", standard, readOnly, "Usage figures", (*rw.Store).Analytics,
		"Tells what was written, from the journal: totals, by mode and caller, busiest paths, chunk sessions, checkpoints, refusals. Use it for a report over a session or a period. Nothing is changed."),
	bind("draft_list", standard, readOnly, "List refused drafts", (*rw.Store).DraftList,
		"Lists the drafts that the content gate refused and that are still kept, without their content. Use it when a draft_ref was lost. Nothing is changed."),
	bind("draft_get", standard, readOnly, "Read a refused draft", (*rw.Store).DraftGet,
		"Returns a refused draft as it was sent, secrets included. Use it to go on with the draft when redaction is not what you want; prefer rw_redact. Nothing is changed. It can be switched off by the operator."),
	bind("draft_delete", standard, destructive, "Remove a refused draft", (*rw.Store).DraftDelete,
		"Removes a refused draft for good. Use it when its content has been written in a redacted form. A draft that is not there is no error."),
	bind("journal_tail", standard, readOnly, "Newest journal rows", (*rw.Store).JournalTail,
		"Returns the newest rows of the journal, oldest first: which file was written when, by whom, with which hash. Use it to see what happened lately, or to find out whether a write of yours took place. Filter by path, operation or caller. Nothing is changed."),
	bind("journal_since", standard, cursor, "Journal rows since a cursor", (*rw.Store).JournalSince,
		"Returns the journal rows behind a sequence number, or behind the stored cursor of a named agent, whose own rows are left out. Use it to follow what other agents write. Passing after_seq together with agent acknowledges everything up to it; a reply alone moves nothing. gap says that rows cannot be given."),
	bind("check", standard, readOnly, "Check the store", (*rw.Store).Check,
		"Compares the journal, the kept versions and the traces of commits with each other, like fsck. Use it after an error whose effect is unknown, or when something looks wrong. With deep it also hashes every kept version and every file; that takes time on a large store. It repairs nothing."),
	bind("describe", standard, readOnly, "Describe the store", (*rw.Store).Describe,
		"Returns version, limits, durability level, what opening the store recovered, and the numeric codes of outcomes. Use it once at the start, or to look up a limit. Nothing is changed."),
}

// Tier says to whom a tool is listed.
type Tier string

const (
	facade   Tier = "facade"
	standard Tier = "standard"
)

// nature is what a tool does to its environment.
type nature struct{ readOnly, destructive, idempotent bool }

var (
	readOnly    = nature{readOnly: true, idempotent: true}
	cursor      = nature{idempotent: true}
	destructive = nature{destructive: true}
)

// ToolInfo describes one tool for documents and tests.
type ToolInfo struct {
	Name        string // without the prefix
	Title       string
	Tier        Tier
	Description string
	Input       json.RawMessage
	Output      json.RawMessage
	ReadOnly    bool
	Destructive bool
	Idempotent  bool
}

// Table lists the tools, by name.
func Table() []ToolInfo {
	var list []ToolInfo
	for _, t := range table {
		list = append(list, ToolInfo{
			Name: t.name, Title: t.title, Tier: t.tier, Description: t.description,
			Input: schema.Input(t.in), Output: schema.Output(t.out),
			ReadOnly: t.nature.readOnly, Destructive: t.nature.destructive, Idempotent: t.nature.idempotent,
		})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Names on the wire: rw_safe_write, which every client accepts, and
// rw.safe_write, which always works on call.
func wireName(name string, dotted bool) string {
	if dotted {
		return "rw." + name
	}
	return "rw_" + name
}

// find returns the tool that a name on the wire means.
func find(wire string) (tool, bool) {
	name, ok := strings.CutPrefix(wire, "rw_")
	if !ok {
		name, ok = strings.CutPrefix(wire, "rw.")
	}
	if !ok {
		return tool{}, false
	}
	for _, t := range table {
		if t.name == name {
			return t, true
		}
	}
	return tool{}, false
}
