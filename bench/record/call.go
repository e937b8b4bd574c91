//go:build linux

package main

import (
	"context"
	"strings"
)

// verb is what an agent can ask of a tool. Every arm has write, append and
// read; the others depend on the arm.
type verb string

const (
	write    verb = "write"    // a file that is new to the agent, or, with Prev, one that it read
	appendTo verb = "append"   // to the end of a file
	read     verb = "read"     // a file
	piece    verb = "piece"    // one numbered piece of a large file
	join     verb = "join"     // the pieces, into one file
	progress verb = "progress" // which pieces exist
	begin    verb = "begin"    // a change of several files
	stage    verb = "stage"    // one file of it
	staged   verb = "staged"   // did the stage of that key happen?
	pending  verb = "pending"  // which changes wait for their commit
	commit   verb = "commit"   // all files at once
	rollback verb = "rollback" // drop it
	redact   verb = "redact"   // a text, or a refused draft
	drafts   verb = "drafts"   // refused drafts that are kept
	handoff  verb = "handoff"  // write a note for the next agent
	takeover verb = "takeover" // read the note of the previous agent
)

// call is one call of a tool, with the intentions of the agent. An arm converts
// it to arguments as its tool documents them.
type call struct {
	Verb    verb
	Path    string
	Text    string
	Prev    string // hash that the agent read and replaces
	Replace bool
	Session string // of pieces, or the transaction
	Index   int
	Total   int
	Ref     string // of a kept draft
	Key     string // identifies the intended operation, the same in every repetition
	// Files and Body are the content of a handoff.
	Files []file
	Task  string
	// Raw, when set, is sent as the arguments of a write, whatever they are.
	Raw string
}

// file is a file as a handoff knows it.
type file struct {
	Path string
	Hash string
	Size int
}

// reply is the reply to a call. Text is what a model would see, byte for byte.
// The other fields are what any agent takes from a success of that tool.
type reply struct {
	OK    bool
	Text  string
	Body  string // content of a read, a redacted text
	Hash  string // of the file, if the tool reports it
	Ref   string // the new transaction
	List  []int  // missing pieces
	Known bool
	Drift []file // files that differ from the handoff
	Files []file // files that the handoff names
	Gone  bool   // no reply: the tool died
}

// tool is a tool in the hands of an agent.
type tool interface {
	Call(ctx context.Context, c call) reply
	// Has reports whether the tool offers the verb at all.
	Has(v verb) bool
}

// failed returns a refusal as a plain tool words it.
func failed(err error) reply { return reply{Text: "Error: " + err.Error()} }

// same reports whether two calls send the same bytes for the same thing.
func (c call) same(d call) bool {
	return c.Verb == d.Verb && c.Path == d.Path && c.Text == d.Text && c.Prev == d.Prev && c.Replace == d.Replace &&
		c.Session == d.Session && c.Index == d.Index && c.Ref == d.Ref && c.Raw == d.Raw && c.Task == d.Task
}

// lost is the reply of a tool whose process has died.
var lost = reply{Gone: true, Text: "Error: connection closed before a reply came"}

// has reports whether any of the words is in a text.
func has(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
