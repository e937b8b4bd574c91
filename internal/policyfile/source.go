package policyfile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// source is the text of a file with LF at the ends of lines and without a
// byte order mark. Lines and columns are the same as in the file.
type source struct {
	text  string
	lines []string
}

// newSource checks what can be checked of the bytes alone.
func newSource(data []byte) (*source, *Problem) {
	if len(data) > MaxBytes {
		return nil, &Problem{
			Line: 1, Column: 1, Reason: TooLarge,
			Message: fmt.Sprintf("the file has %d bytes; at most %d are read", len(data), MaxBytes),
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	line, column := 1, 1
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if message, hint := badRune(r, size); message != "" {
			return nil, &Problem{Line: line, Column: column, Reason: BadYAML, Message: message, Hint: hint}
		}
		rest = rest[size:]
		if column++; r == '\n' {
			line, column = line+1, 1
		}
	}
	text := string(data)
	return &source{text: text, lines: strings.Split(text, "\n")}, nil
}

// badRune says what is wrong with a character, "" when YAML allows it. The
// size distinguishes an invalid byte from a replacement character.
func badRune(r rune, size int) (message, hint string) {
	switch {
	case r == utf8.RuneError && size == 1:
		return "the text is not valid UTF-8", "save the file as UTF-8"
	case r == '\r':
		return "a carriage return without a line feed", "end lines with LF or CRLF"
	case control(r) && r != '\t' && r != '\n', r == '\u2028', r == '\u2029', r == '\ufffe', r == '\uffff':
		return fmt.Sprintf("the character %U is not allowed", r), ""
	}
	return "", ""
}

// control reports whether r is a control character of ASCII or Latin-1.
func control(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }

// clamp returns the position inside the text that is nearest to the one
// given, so that no problem points past the end.
func (s *source) clamp(line, column int) (int, int) {
	if line > len(s.lines) {
		line = len(s.lines)
		column = utf8.RuneCountInString(s.lines[line-1]) + 1
	}
	line = max(line, 1)
	return line, max(1, min(column, utf8.RuneCountInString(s.lines[line-1])+1))
}

// clip shortens a text of the file for a message, and quotes it.
func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
