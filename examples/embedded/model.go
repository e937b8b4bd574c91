package main

import (
	"encoding/json"
	"strings"

	"github.com/resilientwrite/resilientwrite/toolbox"
)

// goal is a text that the model wants in a file.
type goal struct {
	title string
	tool  string // the name that the model remembers
	path  string
	text  string
}

// goals returns three goals that are not reached at the first attempt.
func goals() []goal {
	return []goal{
		{"to add a line to a file that it has not read", "rw_safe_write", "CHANGES.md", "- the parser takes comments\n"},
		{"to write a file with a credential in it", "rw_safe_write", "deploy.env", strings.Join([]string{"KEY=AKIA", "QZ7RTN4WMXJ2KVHD", "\nREPLICAS=3\n"}, "")},
		{"a tool whose name it has got wrong", "safe_wirte", "notes/today.md", "# Today\n"},
	}
}

// model replaces a language model: it has a goal, sees the answers, and has no other
// knowledge of the store.
type model struct {
	goal
	args map[string]any // of the call that reaches the goal
	last string         // the tool that was called
}

// refusal is the part of an error envelope's context that the model reads.
type refusal struct {
	Reason      string
	Effect      string
	DidYouMean  string `json:"did_you_mean"`
	NextActions []struct {
		Tool string
		Args json.RawMessage
	} `json:"next_actions"`
}

// start returns the call that reaches the goal if nothing goes wrong.
func (m *model) start() *call {
	m.args = map[string]any{"path": m.path, "content": m.text}
	return m.attempt()
}

func (m *model) attempt() *call {
	args, _ := json.Marshal(m.args) // strings
	m.last = m.tool
	return &call{m.tool, args}
}

// read reads an answer and returns the next call. It returns nil if the goal is
// reached or cannot be reached.
func (m *model) read(answer toolbox.Answer) *call {
	var a struct {
		Content string
		SHA256  string `json:"sha256"`
		Context refusal
	}
	if json.Unmarshal([]byte(answer.Text), &a) != nil {
		return nil
	}
	switch {
	case answer.OK && m.last == m.tool:
		return nil
	case answer.OK && m.last == "rw_read":
		// Now it knows the current content: it adds to that, and expects to be
		// refused if another process has written in between.
		m.args["content"] = a.Content + m.text
		m.args["mode"], m.args["expected_prev_sha256"] = "overwrite", a.SHA256
		return m.attempt()
	case answer.OK && m.last == "rw_redact":
		m.args["content"] = a.Content
		return m.attempt()
	case a.Context.DidYouMean != "":
		m.tool = a.Context.DidYouMean
		return m.attempt()
	case len(a.Context.NextActions) > 0:
		next := a.Context.NextActions[0]
		m.last = next.Tool
		return &call{next.Tool, next.Args}
	}
	return nil
}
