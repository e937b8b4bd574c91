package clients

import (
	_ "embed" // the text below
	"strings"
)

// Instructions are the lines that make an agent use the tools. They name
// tools of the default tier only.
//
//go:embed instructions.md
var Instructions string

// cursorRule begins a rule of Cursor that always applies.
const cursorRule = "---\nalwaysApply: true\n---\n\n"

// SetInstructions puts the instructions into the text of a file.
func SetInstructions(name, text string) (string, error) {
	if text == "" && strings.HasSuffix(name, ".mdc") {
		text = cursorRule
	}
	return SetLines(text, Instructions)
}

// UnsetInstructions removes them.
func UnsetInstructions(text string) (string, error) {
	text, err := UnsetLines(text)
	if strings.TrimSpace(text) == strings.TrimSpace(cursorRule) {
		text = ""
	}
	return text, err
}
