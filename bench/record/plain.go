//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/resilientwrite/resilientwrite/bench/internal/minimal"
)

// plain is the tool that most agents have: it writes, appends and reads, and
// replies with a line of text. The two arms differ in how they write a file.
type plain struct {
	dir     string
	replace func(path string, data []byte) error
	extend  func(path string, data []byte) error
	inside  bool // refuses paths outside the workspace
}

// naiveTool opens, writes and closes, and if that fails tries once more before
// it replies.
func naiveTool(dir string) *plain {
	twice := func(op func() error) error {
		if op() == nil {
			return nil
		}
		return op()
	}
	return &plain{
		dir: dir,
		replace: func(path string, data []byte) error {
			return twice(func() error { return os.WriteFile(path, data, 0o644) })
		},
		extend: func(path string, data []byte) error { return twice(func() error { return extendFile(path, data) }) },
	}
}

func extendFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// defensiveTool writes a temporary file in the same directory, flushes it,
// renames it and flushes the directory; it appends by writing the whole file
// again. It is what a careful engineer writes without a journal, with the
// omission that is common in such code: the parents of a directory that it
// creates are not flushed.
func defensiveTool(dir string) *plain {
	return &plain{
		dir: dir, inside: true, replace: renameOver,
		extend: func(path string, data []byte) error {
			old, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return renameOver(path, append(old, data...))
		},
	}
}

func renameOver(path string, data []byte) error { return minimal.ReplaceWithMode(path, data, 0o644) }

func (p *plain) Has(v verb) bool { return v == write || v == appendTo || v == read }

func (p *plain) Call(_ context.Context, c call) reply {
	path, text := c.Path, c.Text
	if c.Raw != "" {
		var err error
		if path, text, err = plainArguments(c.Raw); err != nil {
			return failed(err)
		}
	}
	if p.inside && !filepath.IsLocal(path) {
		return failed(fmt.Errorf("path %q is outside of the workspace", path))
	}
	full := path
	if !filepath.IsAbs(path) {
		full = filepath.Join(p.dir, path)
	}
	switch c.Verb {
	case write, appendTo:
		put := p.replace
		if c.Verb == appendTo {
			put = p.extend
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return failed(err)
		}
		if err := put(full, []byte(text)); err != nil {
			return failed(err)
		}
		return reply{OK: true, Text: fmt.Sprintf("Successfully wrote %d bytes to %s", len(text), path)}
	case read:
		data, err := os.ReadFile(full)
		if err != nil {
			return failed(err)
		}
		return reply{OK: true, Text: string(data), Body: string(data)}
	}
	return failed(fmt.Errorf("unknown tool: %s", c.Verb))
}

// plainArguments reads the arguments of a write like a tool that declares two
// required strings and lets its framework check them.
func plainArguments(raw string) (path, text string, err error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &args); err != nil {
		return "", "", fmt.Errorf("invalid arguments: %w", err)
	}
	for name, into := range map[string]*string{"path": &path, "content": &text} {
		value, there := args[name]
		if !there {
			return "", "", fmt.Errorf("invalid arguments: %s: field required", name)
		}
		if err := json.Unmarshal(value, into); err != nil {
			return "", "", fmt.Errorf("invalid arguments: %s: expected string", name)
		}
	}
	return path, text, nil
}
