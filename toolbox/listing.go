package toolbox

import (
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// listed is how core and standard list a tool, and what its brief reply holds.
type listed struct {
	core   bool   // listed by core as well
	load   bool   // a host that defers tools loads it at once
	search string // words by which such a host finds it
	text   string
	args   []schema.Arg
	reply  string // the fields of the reply, in order; see pick
}

// listing is the tools of the preset standard. The other arguments work as
// well. Every byte of it is paid for in every request of most hosts.
var listing = map[string]*listed{
	"safe_write": {core: true, load: true, search: "save create write overwrite append file",
		text:  "Creates, replaces or appends to one file atomically; the previous version is kept. Use it instead of any other way to write a file. Send very long text in parts: create, then append.",
		args:  args("path", "content", "mode: create refuses an existing file", "expected_prev_sha256: From rw_read or the last reply, when you replace a file", "encoding", "accept_risk: Why flagged content is safe; ask the user first"),
		reply: "path sha256 bytes! status warnings diff merged others_diff"},
	"edit": {core: true, load: true, search: "edit file replace string change text",
		text:  "Replaces exact strings in a file, all edits or none, and returns a diff. old must be unique unless count is given.",
		args:  args("path", "edits: Made in order", "edits.old", "edits.new", "edits.count: N occurrences, -1 all", "expected_prev_sha256", "merge: Edits of an older version; default clean", "accept_risk"),
		reply: "path sha256 bytes! status encoding warnings diff merged others_diff"},
	"read": {core: true, load: true, search: "read file content",
		text:  "Returns a file, or a page of it, with the sha256 to pass as expected_prev_sha256. Continue with offset: next_offset while truncated is true.",
		args:  args("path", "offset: Byte offset", "max_bytes", "version: An earlier version, from rw_history", "encoding: base64 for binary files; of text that is not UTF-8 only where it is not found"),
		reply: strings.Join(pageFields, " ")},
	"tx": {core: true, load: true, search: "change several files move rename delete batch atomic",
		text: "Applies several writes, edits, deletions and moves atomically: all of them or none. Use it for a change that spans several files, and to move or rename a file.",
		args: args("ops: At most 256, in order", "ops.op", "ops.path", "ops.content: write", "ops.mode: write", "ops.edits: edit", "ops.edits.old", "ops.edits.new", "ops.edits.count",
			"ops.to: move: the new path", "ops.expected_prev_sha256", "accept_risk"),
		reply: "results.op results.path results.sha256 results.bytes! status warnings diff"},
	"undo": {core: true, load: true, search: "undo revert restore version rollback",
		text:  "Undoes your newest commits; a file that someone else changed since is not touched. With path and version it restores that version of one file instead.",
		args:  args("n: Number of commits, default 1", "path: Restore this file", "version: The version to restore, from rw_history", "group: Undo this group of changes that a shell command made"),
		reply: "undone results.op results.path results.sha256 results.bytes! ignored_not_undone status warnings diff"},
	"delete": {search: "delete remove file",
		text:  "Deletes one file; its content is kept and can be restored.",
		args:  args("path", "expected_prev_sha256"),
		reply: "path status warnings diff"},
	"history": {core: true, search: "versions history diff who changed file",
		text:  "Lists the versions of a file, newest first. With diff it shows what one of them changed.",
		args:  args("path", "n: Maximum number of versions", "diff: Version whose change to show"),
		reply: "path versions.version! versions.op versions.ts versions.caller versions.from versions.sha256 versions.bytes! versions.available! versions.erased more diff"},
	"redact": {core: true, search: "redact secrets from text",
		text:  "Returns a text with its secrets replaced. After a refusal with suggested_action redact pass draft_ref, then write the result. Writes nothing.",
		args:  args("draft_ref: From the refusal", "content: Text to redact, without draft_ref", "target_path"),
		reply: "verdict spans.kind spans.line omitted encoding content!"},
	"handoff_write": {search: "hand off task to next agent",
		text: "Writes HANDOFF.md for the next agent. Use it when you stop, are blocked, or are done.",
		args: args("envelope", "envelope.task_id", "envelope.status", "envelope.agent", "envelope.summary", "envelope.next_steps", "envelope.open_questions", "envelope.blockers",
			"body", "auto_state: Record files: true, or a glob"),
		reply: "handoff_path sha256 bytes! status drift_warnings archived_path warnings diff"},
	"handoff_read": {search: "resume task read handoff of previous agent",
		text:  "Returns the handoff of the previous agent. Use it first when you take up work. Examine every file in drift_warnings before you build on it.",
		args:  args("path: Default HANDOFF.md", "acknowledge_as: Your name, to record that it was read"),
		reply: "handoff_path sha256 envelope! drift_warnings ready_steps checkpoint_refs read_by archive_count missing_fields body_encoding warnings body"},
	"chunk_append": {search: "write very large file in pieces chunks",
		text:  "Stores the next chunk of a large file; the first one creates the session. Then call rw_chunk_compose.",
		args:  args("session: 1 to 64 letters, digits, _ or -", "content", "expect_index: next_index of the last reply; a repeated call then stores nothing twice", "encoding"),
		reply: "session index next_index! bytes! status warnings"},
	"chunk_compose": {search: "compose large file from chunks",
		text:  "Makes one file of the chunks of a session, atomically.",
		args:  args("session", "output_path", "expected_prev_sha256", "cleanup: Remove the session afterwards", "accept_risk"),
		reply: "output_path sha256 bytes! chunk_count cleaned_up status warnings diff"},
}

// rare are arguments that a model hardly ever needs: a tool that the operator
// adds to the list is listed without them.
var rare = []string{
	"caller", "session", "idempotency_key", "dry_run", "classify", "classify_reject_at", "eol", "bom", "force", "allow_shrink", "content_sha256",
}

// args reads "name: text". Without a text the argument has no description.
func args(list ...string) []schema.Arg {
	out := make([]schema.Arg, len(list))
	for i, one := range list {
		name, text, ok := strings.Cut(one, ": ")
		if !ok {
			text = "-"
		}
		out[i] = schema.Arg{Name: name, Text: text}
	}
	return out
}

// BriefForm is what core and standard list of a tool, and the fields of its
// brief reply, for documents and tests.
type BriefForm struct {
	Name      string // without the prefix
	Arguments []string
	Fields    []string
}

// BriefForms lists the tools whose brief replies have a form of their own.
func BriefForms() []BriefForm {
	list := []BriefForm{{Name: "describe", Fields: storeFields}}
	for name, l := range listing {
		one := BriefForm{Name: name, Fields: strings.Fields(strings.ReplaceAll(l.reply, "!", ""))}
		for _, a := range l.args {
			one.Arguments = append(one.Arguments, a.Name)
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b BriefForm) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Instructions tell an agent when to use the tools, where all of them are
// listed. A server whose list is shorter says so with those that it lists.
const Instructions = useTools + readFirstOf + longText + lostReply + refusals + rawMaterial + handoffs

const (
	useTools    = "Durable file writes. Use rw_safe_write, rw_edit, rw_delete, rw_move and rw_tx instead of any built-in way to change files: a crash leaves the old content or the new one, versions are kept (rw_history, rw_undo), and concurrent writers cannot silently overwrite each other.\n"
	readFirstOf = "Before replacing a file call rw_read and pass its sha256 as expected_prev_sha256."
	longText    = " For long text use rw_chunk_append, then rw_chunk_compose."
	lostReply   = " After a lost reply send the same call again with the same idempotency_key, or ask rw_operation.\n"
	refusals    = "Every refusal is JSON with error, suggested_action and context.hint; follow the hint. Repeating the same call is refused after a few attempts. suggested_action redact: call rw_redact with context.draft_ref and write the result. context.effect says whether the disk was changed.\n"
	rawMaterial = "Keep raw material with rw_scratch_put and progress with rw_checkpoint."
	handoffs    = " Call rw_handoff_read first, and rw_handoff_write when you stop."
	briefly     = "fix_call: correct the call and send it. read_again: look at the file, then make the call again. ask_user: only then ask a person.\n"
)

// Instructions are [Instructions] without the tools that are not listed.
func (b *Toolbox) Instructions() string {
	text := ""
	for _, one := range []struct{ say, or string }{
		{useTools, "Durable file writes. Use rw_safe_write, rw_edit and rw_tx, which also deletes, moves and renames, instead of any built-in way to change files: a crash leaves the old content or the new one, versions are kept (rw_history, rw_undo), and concurrent writers cannot silently overwrite each other.\n"},
		{readFirstOf, readFirstOf},
		{longText, " For long text create the file with the first part and append the others."},
		{lostReply, " After a lost reply look at rw_history before you send the call again.\n"},
		{refusals, refusals},
		{rawMaterial, ""},
		{handoffs, ""},
	} {
		switch {
		case b.set.listsAll(one.say):
			text += one.say
		default:
			text += one.or
		}
		if one.say == refusals && b.brief {
			text += briefly
		}
	}
	return strings.ReplaceAll(b.set.words(text), "\n ", "\n")
}
