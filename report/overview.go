package report

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Overview is what a person asks first: what did my agents change, what was
// refused and why, what waits for me, and how do I undo it. Its texts were
// cleaned of secrets; they may still hold any character.
type Overview struct {
	Rows    uint64    `json:"rows"`    // number of the newest row
	From    uint64    `json:"from"`    // rows from here on were read
	Running []Call    `json:"running"` // long calls in progress, or calls that hold locks, oldest first
	Changes []Change  `json:"changes"` // the newest commits, newest first
	Refused []Refusal `json:"refused"` // the newest refusals and conflicts, newest first
	Waiting []Waiting `json:"waiting"` // what needs action by a person to continue
	Stopped []string  `json:"stopped"` // why nothing can be written, in sentences
}

// Call is a call in progress in any process.
type Call struct {
	Op     string   `json:"op"`
	Paths  []string `json:"paths"` // those that are known
	Caller string   `json:"caller,omitempty"`
	PID    int      `json:"pid"`
	Since  string   `json:"since"` // RFC 3339
}

// Change is one commit.
type Change struct {
	Row     uint64        `json:"row"`
	TS      string        `json:"ts"`
	Op      string        `json:"op"`
	Caller  string        `json:"caller"`
	Session string        `json:"session,omitempty"`
	Files   []ChangedFile `json:"files"` // the first of them
	More    int           `json:"more,omitempty"`
	Undone  bool          `json:"undone,omitempty"` // an undo of it is among the rows that were read
}

// ChangedFile is one file of a commit, as the commit left it.
type ChangedFile struct {
	Path  string `json:"path"`
	Op    string `json:"op"`
	Bytes int64  `json:"bytes"`
	Gone  bool   `json:"gone,omitempty"`
}

// Refusal is a call that changed nothing, and why.
type Refusal struct {
	Row    uint64 `json:"row"`
	TS     string `json:"ts"`
	Op     string `json:"op"`
	Path   string `json:"path"`
	Caller string `json:"caller"`
	Reason string `json:"reason"` // stable name
	Why    string `json:"why"`    // in words
}

// Waiting is something that was begun and not ended.
type Waiting struct {
	Kind    string `json:"kind"` // draft, session, transaction or handoff
	Name    string `json:"name"`
	Text    string `json:"text"`
	TS      string `json:"ts,omitempty"`
	Command string `json:"command"` // what looks at it
}

// Undo is the command that takes a commit back.
func (c Change) Undo() string { return fmt.Sprint("resilient-write undo --row ", c.Row) }

// Size is the size of the file as people read it, or that there is no file.
func (f ChangedFile) Size() string {
	if f.Gone {
		return "gone"
	}
	return size(f.Bytes)
}

// Summary names the files of a commit in one line.
func (c Change) Summary() string {
	var names []string
	for _, f := range c.Files[:min(len(c.Files), 3)] {
		names = append(names, f.Path)
	}
	text := strings.Join(names, ", ")
	if n := len(c.Files) + c.More - len(names); n > 0 {
		text += fmt.Sprintf(" and %s more", count(n))
	}
	return text
}

// DiffLine is a line of a diff as it is shown: Op is "+", "-", " ", "@" for the
// place of what follows, and "\\" for the remark that a last line has no end.
type DiffLine struct {
	Op   string `json:"op"`
	Text string `json:"text"` // characters that do not print are named
}

// Lines are the lines of the diff that are shown.
func (d Diff) Lines() []DiffLine {
	list := []DiffLine{}
	for _, l := range d.lines {
		text := flat(l.Text)
		if l.Op == "@" {
			text = " " + text
		}
		list = append(list, DiffLine{l.Op, text})
	}
	return list
}

// MarshalJSON writes what is shown.
func (d Diff) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Why     string     `json:"why,omitempty"`
		Added   int        `json:"added"`
		Removed int        `json:"removed"`
		Cut     bool       `json:"cut,omitempty"`
		Lines   []DiffLine `json:"lines"`
	}{d.Why, d.Added, d.Removed, d.Cut, d.Lines()})
}

// Plain is a text as it may be shown on any face: what does not print is named.
func Plain(s string) string { return flat(signs(s, false)) }
