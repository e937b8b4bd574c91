// Package aitrace writes who wrote the lines of files in two public formats.
//
// Agent Trace, a record in JSON, version 0.1.0, published as a request for
// comments in January 2026: https://agent-trace.dev,
// https://github.com/cursor/agent-trace. Where its text and its JSON Schema
// (schemas/trace-record.json) differ, a record follows the schema: the version is
// "0.1", and a tool has a name and a version.
//
// The authorship log of Git AI, a note of a commit in refs/notes/ai, standard
// 3.0.0: specs/git_ai_standard_v3.0.0.md of
// https://github.com/git-ai-project/git-ai.
package aitrace

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// Author is what wrote a line. Two that are equal are one.
type Author struct {
	AI      bool   // an agent, for certain
	Tool    string // the host or the client of the agent
	Session string // its conversation, as the host names it
	Model   string // the language model, "" where it is not known
	Call    string // the change, in words that no other change has
}

// File is the lines that are attributed, ascending by their numbers.
type File struct {
	Path  string // relative to the top of the repository
	Lines []Line
}

// Line is a line, numbered from 1.
type Line struct {
	Number int
	By     Author
}

// lineRange is lines that follow each other.
type lineRange struct {
	Start int `json:"start_line"`
	End   int `json:"end_line"`
}

// of lists the authors of a file in the order of their first lines, with the
// lines of each.
func of(f File, kind func(Author) Author) (authors []Author, ranges map[Author][]lineRange) {
	ranges = map[Author][]lineRange{}
	for _, l := range f.Lines {
		by := kind(l.By)
		list, known := ranges[by]
		if !known {
			authors = append(authors, by)
		}
		if n := len(list); n > 0 && list[n-1].End == l.Number-1 {
			list[n-1].End = l.Number
		} else {
			list = append(list, lineRange{l.Number, l.Number})
		}
		ranges[by] = list
	}
	return authors, ranges
}

// The record of Agent Trace.
type (
	record struct {
		Version   string         `json:"version"`
		ID        string         `json:"id"`
		Timestamp string         `json:"timestamp"`
		VCS       *vcs           `json:"vcs,omitempty"`
		Tool      tool           `json:"tool"`
		Files     []tracedFile   `json:"files"`
		Metadata  map[string]any `json:"metadata"`
	}
	vcs struct {
		Type     string `json:"type"`
		Revision string `json:"revision"`
	}
	tool struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	tracedFile struct {
		Path          string         `json:"path"`
		Conversations []conversation `json:"conversations"`
	}
	conversation struct {
		Contributor contributor `json:"contributor"`
		Ranges      []lineRange `json:"ranges"`
	}
	contributor struct {
		Type  string `json:"type"`
		Model string `json:"model_id,omitempty"`
	}
	// session contains data without a field in the format: hosts give conversations no
	// address.
	session struct {
		Path         string `json:"path"`
		Conversation int    `json:"conversation"` // its index in the file
		Tool         string `json:"tool,omitempty"`
		Session      string `json:"session,omitempty"`
	}
)

// Extra is the key of our own part of the metadata of a record.
const Extra = "io.github.resilientwrite"

// maxModel is how long the name of a model may be in a record.
const maxModel = 250

// AgentTrace is a record for files at a commit, "" for files as they are. Lines without
// certain origin have the contributor unknown. The identifier depends on the content of
// the record except the time.
func AgentTrace(files []File, commit, version string, now time.Time) ([]byte, error) {
	r := record{Version: "0.1", Tool: tool{"resilient-write", version}, Files: []tracedFile{}, Metadata: map[string]any{}}
	if commit != "" {
		r.VCS = &vcs{"git", commit}
	}
	sessions := []session{}
	for _, f := range files {
		one := tracedFile{f.Path, []conversation{}}
		authors, ranges := of(f, func(a Author) Author {
			a.Call = ""
			if !a.AI {
				a = Author{}
			}
			return a
		})
		for i, a := range authors {
			by := contributor{Type: "unknown"}
			if a.AI {
				by = contributor{"ai", strings.ToValidUTF8(a.Model[:min(len(a.Model), maxModel)], "")}
				sessions = append(sessions, session{f.Path, i, a.Tool, a.Session})
			}
			one.Conversations = append(one.Conversations, conversation{by, ranges[a]})
		}
		r.Files = append(r.Files, one)
	}
	r.Metadata[Extra] = map[string]any{"sessions": sessions}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	r.ID, r.Timestamp = identifier(data), now.UTC().Format(time.RFC3339)
	return jsontext.Encode(r, "  ")
}

// identifier is a UUID of version 8 that follows from a text.
func identifier(text []byte) string {
	sum := sha256.Sum256(text)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// The metadata of an authorship log.
type (
	metadata struct {
		Schema   string           `json:"schema_version"`
		Commit   string           `json:"base_commit_sha"`
		Prompts  struct{}         `json:"prompts"`
		Sessions map[string]agent `json:"sessions"`
	}
	agent struct {
		ID agentID `json:"agent_id"`
	}
	agentID struct {
		Tool  string `json:"tool"`
		ID    string `json:"id"`
		Model string `json:"model"`
	}
)

// GitAI is the authorship log of a commit. It contains only lines that were certainly
// written by agents; the format treats the others as untracked. Files whose paths it
// cannot represent are left out and returned.
func GitAI(files []File, commit string) (note []byte, left []string, err error) {
	var b bytes.Buffer
	m := metadata{Schema: "authorship/3.0.0", Commit: commit, Sessions: map[string]agent{}}
	for _, f := range slices.SortedFunc(slices.Values(files), func(x, y File) int { return strings.Compare(x.Path, y.Path) }) {
		authors, ranges := of(f, func(a Author) Author { return a })
		authors = slices.DeleteFunc(authors, func(a Author) bool { return !a.AI })
		switch {
		case len(authors) == 0:
			continue
		case strings.ContainsAny(f.Path, "\"\n\r") || f.Path == "---":
			left = append(left, f.Path)
			continue
		case strings.ContainsAny(f.Path, " \t"):
			fmt.Fprintf(&b, "\"%s\"\n", f.Path)
		default:
			fmt.Fprintln(&b, f.Path)
		}
		for _, a := range authors {
			id := "s_" + short(a.Tool+":"+a.Session)
			m.Sessions[id] = agent{agentID{a.Tool, a.Session, cmp.Or(a.Model, "unknown")}}
			fmt.Fprintf(&b, "  %s::t_%s %s\n", id, short(a.Call), spelled(ranges[a]))
		}
	}
	b.WriteString("---\n")
	data, err := jsontext.Encode(m, "  ")
	b.Write(data)
	return b.Bytes(), left, err
}

// short is the form of the keys.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:7])
}

func spelled(list []lineRange) string {
	var out []string
	for _, r := range list {
		if r.Start == r.End {
			out = append(out, fmt.Sprint(r.Start))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", r.Start, r.End))
		}
	}
	return strings.Join(out, ",")
}
