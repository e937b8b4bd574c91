package toolbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// The hints of the library name methods of the Store, which is what callers in
// Go have: they are the keys that become tools here. Descriptions and
// instructions name tools as the table does. If a server lists a tool under another name, its clients get that name, and if it
// does not list a tool, what to use instead: most hosts cannot call what is not
// listed. That holds for the server's own texts; content of files and journals
// is not changed.

var (
	toolName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\brw_[a-z_]+\b`) })
	methodName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bStore\.[A-Z][A-Za-z]*`) })
	capital    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Z]`) })
)

// NameTools is a text of the library with tools in the place of methods:
// rw_history for Store.History.
func NameTools(text string) string {
	if !strings.Contains(text, "Store.") { // most texts; the expression is slow
		return text
	}
	return methodName().ReplaceAllStringFunc(text, func(method string) string {
		stem := strings.ToLower(capital().ReplaceAllString(strings.TrimPrefix(method, "Store."), "_$0"))[1:]
		if _, ok := toolOf(stem); !ok {
			return method
		}
		return wireName(stem, false)
	})
}

// Subcommands is a text of the library for people: with subcommands of
// resilient-write in the place of methods.
func Subcommands(text string) string {
	return toolName().ReplaceAllStringFunc(NameTools(text), func(name string) string {
		tool := strings.TrimPrefix(name, "rw_")
		if _, ok := toolOf(tool); !ok {
			return name
		}
		return asCommand(tool)
	})
}

// asCommand is what a text calls a tool for people.
func asCommand(tool string) string { return "`resilient-write " + subcommand(tool) + "`" }

// instead is what a text says in place of a tool that is not listed: another
// tool, and how it is called. same says that a call with the same arguments
// does the same. A tool without a line is one for the user's command.
var instead = map[string]struct {
	tool, with string
	same       bool
}{
	"delete":        {"tx", "op delete", false},
	"move":          {"tx", "op move", false},
	"tx_begin":      {"tx", "at most 256 operations", false},
	"tx_stage":      {"tx", "", false},
	"tx_commit":     {"tx", "", false},
	"tx_rollback":   {"tx", "", false},
	"restore":       {"undo", "path and version", true},
	"diff":          {"history", "diff", false},
	"operation":     {"history", "", false},
	"journal_tail":  {"history", "", false},
	"journal_since": {"history", "", false},
	"risk_score":    {"redact", "", false},
	"draft_list":    {"redact", "", false},
	"draft_get":     {"redact", "draft_ref", false},
	"draft_delete":  {"redact", "", false},
	"validate":      {"safe_write", "validate", false},
	"chunk_write":   {"chunk_append", "", false},
	"chunk_append":  {"safe_write", "mode append", false},
	"chunk_compose": {"safe_write", "mode append", false},
}

// hints take the place of the hint of a detail that names a tool which is not
// listed, where another name in the same sentence would not do.
var hints = map[rw.Detail]string{
	rw.ErrNothingToUndo:      "there is no commit left to undo; use rw_history to find a version and rw_undo with path and version to restore it",
	rw.ErrDraftNotFound:      "there is no such draft; drafts are kept for seven days: send the content itself",
	rw.ErrCheckpointNotFound: "there is no checkpoint of that name",
	rw.ErrScratchFull:        "the scratchpad is full; ask the user to remove objects, then send the call again",
	rw.ErrMissingDelimiter:   "the file is not a handoff: its first line must be ---; read it with rw_read",
	rw.ErrIndexMismatch:      "the next chunk does not have the expected number; continue with context.next_index, or use another session name",
	rw.ErrSessionNotFound:    "there is no such session; the first chunk starts one, so check the name or send the chunks again",
	rw.ErrSessionSealed:      "the session was composed and accepts no more chunks; use another session name",
	rw.ErrNoChunksFound:      "the session has no chunks; send them first",
	rw.ErrNonContiguous:      "chunks are missing; send all of them again under another session name, then compose that",
	rw.ErrChunkCountMismatch: "the number of chunks differs from total_expected; send the missing ones, or all of them under another session name",
	rw.ErrHashDriftOnRead:    "the stored content does not match its recorded hash; do not use it, and ask the user to run `resilient-write check`",
	rw.ErrJournalDamaged:     "the journal cannot be continued; ask the user to run `resilient-write check`",
}

// discard is what a hint says about undoing a change that another program made.
const discard = "call rw_restore with force for the version you want"

// Words is a text of the library or of its host with the names that the tools
// have here, and, for those that are not listed, what to use instead. A text
// names tools as rw_safe_write.
func (b *Toolbox) Words(text string) string { return b.set.words(text) }

// Mention is Words of a text that makes sense only with a tool: "" when neither
// the tool nor one to use instead is listed. %s in format is the name.
func (b *Toolbox) Mention(tool, format string) string {
	of, ok := b.set.find(wireName(tool, false))
	if other, known := instead[tool]; known && (!ok || !of.listed) {
		of, ok = b.set.find(wireName(other.tool, false))
	}
	if ok && of.listed {
		return fmt.Sprintf(format, b.set.phrase(tool))
	}
	return ""
}

// hint is what an error says to do next, in the words of this server.
func (set *toolset) hint(e *rw.Error) string {
	text := NameTools(e.Hint)
	last, _ := e.Context["last_error"].(map[string]any) // its hint is part of the text
	failed, _ := last["reason"].(rw.Detail)
	for _, d := range []rw.Detail{e.Detail, failed} {
		_, _, _, _, usual := d.Describe()
		if usual = NameTools(usual); hints[d] != "" && !set.listsAll(usual) {
			text = strings.Replace(text, usual, hints[d], 1)
		}
	}
	if !set.listsAll(discard) { // no other tool has force
		text = strings.Replace(text, discard, "read the version you want with rw_read, and write it with rw_safe_write", 1)
	}
	return set.words(text)
}

// listsAll reports whether every tool that a text names is listed.
func (set *toolset) listsAll(text string) bool {
	return !slices.ContainsFunc(toolName().FindAllString(text, -1), func(name string) bool {
		of, ok := set.find(name)
		return ok && !of.listed
	})
}

// words is a text of ours with the names that the tools have on this server,
// and without those that it does not list.
func (set *toolset) words(text string) string {
	text = NameTools(text)
	if set == nil || !set.reworded || !strings.Contains(text, "rw_") {
		return text
	}
	return toolName().ReplaceAllStringFunc(text, func(name string) string {
		bare := strings.TrimPrefix(name, "rw_")
		if _, ok := toolOf(bare); !ok {
			return name
		}
		return set.phrase(bare)
	})
}

// phrase is what a text calls a tool.
func (set *toolset) phrase(tool string) string {
	with := ""
	for range len(table) {
		of, ok := set.find(wireName(tool, false))
		if ok && of.listed && of.name == tool {
			return of.wire + with
		}
		other, ok := instead[tool]
		if !ok {
			return asCommand(tool)
		}
		if tool, with = other.tool, ""; other.with != "" {
			with = " with " + other.with
		}
	}
	return tool
}

// subcommand is how the command calls a tool.
func subcommand(tool string) string {
	switch tool {
	case "safe_write":
		return "write"
	case "checkpoint":
		return "checkpoint save"
	}
	return strings.Replace(tool, "_", " ", 1)
}

// warnings are warnings in the words of this server.
func (set *toolset) warnings(list []rw.Warning) []rw.Warning {
	out := make([]rw.Warning, len(list))
	for i, w := range list {
		out[i] = rw.Warning{Reason: w.Reason, Hint: set.words(w.Hint)}
	}
	return out
}

// worded is a value of the context of a refusal in the words of this server.
func (set *toolset) worded(v any) any {
	m, ok := v.(map[string]any)
	hint, isText := m["hint"].(string)
	if !ok || !isText {
		return v
	}
	m = maps.Clone(m)
	m["hint"] = set.words(hint)
	return m
}

// shown is what callers see of the tool.
func (of *offer) shown(p Preset) Tool {
	info := of.info(p)
	info.Name, info.Listed = of.wire, of.listed
	info.Description = of.set.words(info.Description)
	info.Input = json.RawMessage(of.set.words(string(info.Input)))
	info.Output = json.RawMessage(of.set.words(string(info.Output)))
	return info
}

// hinted is a reply whose hints name the tools as they are named here. Everything
// else in it stays as it is, to the letter.
func (set *toolset) hinted(r reply) reply {
	if !set.reworded && !bytes.Contains(r.doc, []byte("Store.")) {
		return r
	}
	if r.failed {
		r.doc = edited(r.doc, func(name string, value json.RawMessage) json.RawMessage {
			if name == "context" {
				return set.wordsOf(value)
			}
			return value
		})
	} else {
		r.doc = set.wordsOf(r.doc)
	}
	return r
}

// ourWords are the members of a reply, and of the context of a refusal, that
// hold nothing but our words, and those in which there may be such members.
var (
	ourWords = []string{"hint", "note", "warnings"}
	worded   = []string{"receipt", "recovery", "last_error", "results", "surface"}
)

// wordsOf puts the names into the members of an object that hold our words; of a list,
// into those of its objects.
func (set *toolset) wordsOf(doc json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if len(doc) > 0 && doc[0] == '[' && json.Unmarshal(doc, &list) == nil {
		for i, one := range list {
			list[i] = set.wordsOf(one)
		}
		return plain(list)
	}
	return edited(doc, func(name string, value json.RawMessage) json.RawMessage {
		switch {
		case slices.Contains(ourWords, name):
			return json.RawMessage(set.words(string(value)))
		case slices.Contains(worded, name):
			return set.wordsOf(value)
		}
		return value
	})
}

// edited is an object with the values that fn returns for its members.
func edited(doc json.RawMessage, fn func(name string, value json.RawMessage) json.RawMessage) json.RawMessage {
	members, err := jsontext.Members(doc)
	if err != nil {
		return doc
	}
	var o object
	for _, m := range members {
		o.raw(m.Name, fn(m.Name, m.Value))
	}
	return o.end()
}
