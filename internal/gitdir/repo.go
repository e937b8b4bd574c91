// Package gitdir recognizes the directories that git treats as repositories, whatever
// their names, and finds the programs that the configuration of a repository makes git
// execute. It runs nothing: it only reads names and files.
package gitdir

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Limits of what is read from one repository.
const (
	MaxPointer = 64 << 10 // bytes of a .git file
	maxConfig  = 4 << 20  // bytes of a configuration file
	maxFiles   = 64       // configuration files, included ones too
	maxDepth   = 10       // of inclusion
)

// Repository is what git reads of and runs in for a work tree. It is a
// picture of one moment; Fresh reports whether it still holds.
type Repository struct {
	Dirs  []string // the git directory and the one it shares with other work trees, absolute
	Hooks []string // the directories that core.hooksPath names, absolute
	// Excludes is the file with patterns that core.excludesFile names, absolute;
	// "" where none does.
	Excludes string
	Configs  []string // the configuration files that another one or the environment names, absolute

	// Err is why something of it could not be read, although it may be there. What a file
	// is whose reader has no permission, git does not know either.
	Err error

	read map[string]stamp // the files this rests on
}

// stamp is a file as it was when it was read; nil when there was none.
type stamp os.FileInfo

// User is where the configuration of a user is.
type User struct {
	Home  string   // "" for none
	Named []string // the files that the environment names
}

// ThisUser returns the user of the process. Git commands may run in another
// environment, so the files that git reads with the environment variables of the
// process and those that it reads without them are both read.
func ThisUser() User {
	var u User
	if home, err := os.UserHomeDir(); err == nil {
		u.Home = home
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) && dir != filepath.Join(u.Home, ".config") {
		u.Named = append(u.Named, filepath.Join(dir, "git", "config"))
	}
	for _, variable := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		if file := os.Getenv(variable); filepath.IsAbs(file) && file != os.DevNull {
			u.Named = append(u.Named, filepath.Clean(file))
		}
	}
	return u
}

// Find reads the repository whose work tree is top, an absolute path. It returns nil if
// there is no .git. It is not complete if it has an Err.
func Find(top string, user User) *Repository {
	r := &Repository{read: map[string]stamp{}}
	dot := filepath.Join(top, ".git")
	st := r.look(dot)
	switch {
	case st == nil && r.Err == nil:
		return nil
	case st == nil:
		return r
	case st.IsDir():
		r.Dirs = []string{dot}
	default:
		if to := Pointed(r.text(dot, MaxPointer), top); to != "" {
			r.Dirs = []string{to}
		}
	}
	c := config{repo: r, top: top, home: user.Home}
	for _, system := range []string{"/etc", "/usr/local/etc", "/opt/homebrew/etc"} {
		c.file(filepath.Join(system, "gitconfig"), 0)
	}
	if c.home != "" {
		c.file(filepath.Join(c.home, ".config", "git", "config"), 0)
		c.file(filepath.Join(c.home, ".gitconfig"), 0)
	}
	for _, name := range user.Named {
		c.named(name, 0)
	}
	if len(r.Dirs) == 0 {
		return r
	}
	own := r.Dirs[0]
	if to := strings.TrimRight(r.text(filepath.Join(own, Common), MaxPointer), "\r\n"); to != "" {
		r.Dirs = append(r.Dirs, within(own, to))
	}
	for _, dir := range r.Dirs {
		c.file(filepath.Join(dir, Config), 0)
		c.file(filepath.Join(dir, "config.worktree"), 0)
	}
	return r
}

// Fresh reports whether the files that r rests on are as they were.
func (r *Repository) Fresh() bool {
	for name, was := range r.read {
		now, err := os.Stat(name)
		switch {
		case err != nil && was == nil:
		case err != nil || was == nil || !os.SameFile(now, was):
			return false
		case !now.IsDir() && (now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime())):
			return false
		}
	}
	return true
}

// look describes a file, and remembers that r rests on it.
func (r *Repository) look(name string) os.FileInfo {
	st, err := os.Stat(name)
	if err != nil {
		r.failed(err)
		r.read[name] = nil
		return nil
	}
	r.read[name] = st
	return st
}

// failed notes an error, unless it says that there is no file for git.
func (r *Repository) failed(err error) {
	if !fsx.Nothing(err) {
		r.Err = cmp.Or(r.Err, err)
	}
}

// text reads a regular file, at most limit bytes of it.
func (r *Repository) text(name string, limit int64) string {
	st := r.look(name)
	if st == nil || !st.Mode().IsRegular() {
		return ""
	}
	var data []byte
	f, err := os.Open(name)
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, limit))
	}
	if err != nil {
		r.failed(err)
	}
	return string(data)
}

// Pointed returns the directory that the text of a .git file in dir refers to, or "" if
// it refers to none.
func Pointed(text, dir string) string {
	to, ok := strings.CutPrefix(text, "gitdir:")
	to = strings.TrimRight(strings.TrimLeft(to, " "), "\r\n")
	if !ok || to == "" {
		return ""
	}
	return within(dir, to)
}

// within makes a path absolute that is relative to dir.
func within(dir, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(dir, p)
}

// Inside reports whether dir, an absolute path without links, is in a
// repository's own directory. A work tree that is in one is no part of it.
func Inside(dir string) bool {
	for d := dir; ; d = filepath.Dir(d) {
		if isRepository(d) {
			return len(Top(dir)) <= len(d)
		}
		if filepath.Dir(d) == d {
			return false
		}
	}
}

// Top returns the innermost work tree that a directory, an absolute path which need
// not exist, is in, or is; "" if there is none.
func Top(dir string) string {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			return ""
		}
	}
}

// isRepository is [Is] for a directory by its name.
func isRepository(dir string) bool {
	head := filepath.Join(dir, Head)
	st, err := os.Lstat(head)
	if err != nil {
		return false
	}
	valid := false
	switch {
	case st.Mode()&os.ModeSymlink != 0:
		target, _ := os.Readlink(head)
		valid = strings.HasPrefix(target, "refs/")
	case st.Mode().IsRegular():
		r := &Repository{read: map[string]stamp{}}
		valid = ValidHead([]byte(r.text(head, HeadBytes)))
	}
	shape := Shape{Head: valid}
	for _, part := range []string{Objects, Refs, Common} {
		st, err := os.Stat(filepath.Join(dir, part))
		shape[part] = err == nil && st.IsDir() == (part != Common)
	}
	return shape.Repository()
}

// Uses reports whether git, in a work tree that one of the directories is in,
// reads or runs the file: its directory is one of the repository's own or of
// its hooks, or the file is a part of the configuration. All paths are absolute,
// and the directory of the file is without links.
func Uses(file string, user User, from ...string) bool {
	for _, dir := range append(from, filepath.Dir(file)) {
		for ; ; dir = filepath.Dir(dir) {
			if r := Find(dir, user); r != nil && r.uses(file) {
				return true
			}
			if filepath.Dir(dir) == dir {
				break
			}
		}
	}
	return false
}

func (r *Repository) uses(file string) bool {
	dir, name := filepath.Split(file)
	in := func(place string) bool { return same(place, dir) }
	if IsHook(strings.ToLower(name)) && slices.ContainsFunc(r.Hooks, in) || slices.ContainsFunc(r.Configs, func(config string) bool {
		return in(filepath.Dir(config)) && strings.EqualFold(filepath.Base(config), name)
	}) {
		return true
	}
	for up := filepath.Clean(dir); ; up = filepath.Dir(up) {
		if _, err := os.Lstat(filepath.Join(up, ".git")); err == nil {
			return false // a work tree: its own files are not git's
		}
		if slices.ContainsFunc(slices.Concat(r.Dirs, r.Hooks), func(d string) bool { return same(d, up) }) {
			return true
		}
		if filepath.Dir(up) == up {
			return false
		}
	}
}

// same reports whether two names are of one directory.
func same(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

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

// Part returns which of the entries a name is, "" for any other name. Every spelling of
// an entry counts, because it is that entry on a file system that folds names, which one
// directory of a file system can do.
func Part(name string) string {
	key := relpath.Fold(name)
	for _, p := range parts {
		if len(key) == len(p) && key == strings.ToLower(p) {
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
	_, err := hex.DecodeString(string(data[:min(len(data), id)]))
	return err == nil && len(data) >= id
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
	if err != nil {
		return false, fsx.Unless(err, fs.ErrNotExist)
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
