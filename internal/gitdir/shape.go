// Package gitdir recognizes the directories that git treats as repositories, whatever
// their names, and finds the programs that the configuration of a repository makes git
// execute. It runs nothing: it only reads names and files.
package gitdir

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// The entries by which git recognizes a directory of its own.
const (
	Head    = "HEAD"
	Objects = "objects"
	Refs    = "refs"
	Common  = "commondir"
	Config  = "config"
)

// parts are all of them.
var parts = [...]string{Head, Objects, Refs, Common, Config}

// HeadBytes is how much of a HEAD git reads.
const HeadBytes = 255

// Part returns which of the entries a name is, "" for any other name. On a
// file system that folds names, every spelling of an entry is that entry.
func Part(name string, folds bool) string {
	key := name
	if folds {
		key = relpath.Fold(name)
	}
	for _, p := range parts {
		if name == p || folds && len(key) == len(p) && key == strings.ToLower(p) {
			return p
		}
	}
	return ""
}

// ValidHead reports whether git accepts a HEAD that begins with data: a
// reference, or an object id.
func ValidHead(data []byte) bool {
	if bytes.HasPrefix(data, []byte("ref:")) {
		return true
	}
	const id = 40 // hexadecimal digits of the shortest object id
	if len(data) < id {
		return false
	}
	for _, c := range data[:id] {
		if c|0x20 < 'a' || c|0x20 > 'f' {
			if c < '0' || c > '9' {
				return false
			}
		}
	}
	return true
}

// Shape records which of the entries a directory has, by name. HEAD counts if it is
// valid, objects and refs if they can be entered.
type Shape map[string]bool

// Repository reports whether git treats a directory of that shape as a repository, or
// as one together with the HEAD of a linked work tree elsewhere.
func (s Shape) Repository() bool {
	database := s[Objects] && s[Refs]
	return s[Head] && (s[Common] || database) || database && s[Config]
}

// Has reports whether the entry of that name in dir counts.
func Has(dir fsx.Dir, part string) (bool, error) {
	st, err := dir.Lstat(part)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch part {
	case Head:
		return hasHead(dir, st)
	case Objects, Refs: // git checks the right to execute, not the kind
		return st.Kind != fsx.Regular || st.Mode&0o111 != 0, nil
	}
	return st.Kind != fsx.Directory, nil
}

// hasHead is Has for HEAD. An unreadable HEAD counts.
func hasHead(dir fsx.Dir, st fsx.Stat) (bool, error) {
	switch st.Kind {
	case fsx.Symlink:
		target, err := dir.Readlink(Head)
		return err != nil || strings.HasPrefix(target, "refs/"), nil
	case fsx.Regular:
	default:
		return false, nil
	}
	f, err := dir.Open(Head, fsx.Read, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, 0, HeadBytes))
	return err != nil || ValidHead(data), nil
}

// Is reports whether git takes dir for a repository. For other directories it
// costs one lookup.
func Is(dir fsx.Dir) (bool, error) {
	shape := Shape{}
	for _, part := range []string{Head, Common, Objects, Refs} {
		var err error
		if shape[part], err = Has(dir, part); err != nil {
			return false, err
		}
		if part == Head && !shape[Head] {
			return false, nil
		}
	}
	return shape.Repository(), nil
}

// Parts lists the entries by which git recognizes a directory of its own.
func Parts() []string { return parts[:] }

// hooks are the programs that git runs, by their names.
var hooks = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg",
	"post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive",
	"post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate",
	"fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit", "post-index-change",
}

// IsHook reports whether git runs a program of that name from its directory of
// hooks.
func IsHook(name string) bool { return slices.Contains(hooks, strings.TrimSuffix(name, ".exe")) }
