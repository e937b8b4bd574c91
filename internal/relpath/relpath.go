// Package relpath turns the paths of requests into names below a workspace.
//
// [Clean] works on the text alone; [Resolve] walks the directories. Between
// them no path can leave the workspace: not by "..", not by an absolute name,
// not by a symlink, and not by a symlink that appears during the walk, because
// each step opens one name of one open directory and follows nothing.
package relpath

import (
	"errors"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// The ways in which a path is not acceptable.
var (
	ErrEmpty     = errors.New("empty path")
	ErrInvalid   = errors.New("path is not valid UTF-8 or holds a NUL")
	ErrTooLong   = errors.New("path or name too long")
	ErrAbsolute  = errors.New("absolute path outside the workspace")
	ErrEscapes   = errors.New("path leaves the workspace")
	ErrProtected = errors.New("path is protected")
	ErrReserved  = errors.New("name is reserved on this system")
	ErrDirectory = errors.New("path names a directory")
	ErrLoop      = errors.New("too many symbolic links")
)

// Limits of a path, in bytes.
const (
	MaxPath = 4095
	MaxName = 255
)

// Rules is what Clean needs to know of the workspace.
type Rules struct {
	// Roots are the absolute names of the workspace, slash-separated, without
	// a trailing slash: as it was opened and with its links resolved.
	Roots []string
	// Protected lists names that may be no component of a path, in lower
	// case.
	Protected []string
	// Windows refuses the names that Windows reserves.
	Windows bool
	// Folds makes the letter case of a root in a path insignificant.
	Folds bool
}

// Clean returns the slash-separated relative form of raw. portable is false
// when Windows could not store the name.
//
// A file: URL is the path that it names, and any other URL is outside the workspace.
func Clean(raw string, rules Rules) (rel string, portable bool, err error) {
	if scheme, rest, ok := strings.Cut(raw, "://"); ok && scheme != "" && strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz") == "" {
		if raw, err = url.PathUnescape(rest); err != nil || !strings.EqualFold(scheme, "file") || !strings.HasPrefix(raw, "/") {
			return "", false, ErrAbsolute
		}
		if rules.Windows && IsAbs(raw[1:]) { // file:///C:/x
			raw = raw[1:]
		}
	}
	switch {
	case raw == "":
		return "", false, ErrEmpty
	case len(raw) > MaxPath+maxRoot(rules.Roots):
		return "", false, ErrTooLong
	case !utf8.ValidString(raw) || strings.IndexByte(raw, 0) >= 0:
		return "", false, ErrInvalid
	}
	p := raw
	if rules.Windows {
		p = strings.ReplaceAll(p, `\`, "/")
	}
	if IsAbs(p) {
		if p, err = below(p, rules); err != nil {
			return "", false, err
		}
	}
	if strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") {
		return "", false, ErrDirectory
	}
	if backslashEscape(p) {
		return "", false, ErrEscapes
	}
	rel = path.Clean(p)
	switch {
	case rel == ".":
		return "", false, ErrDirectory
	case rel == ".." || strings.HasPrefix(rel, "../"):
		return "", false, ErrEscapes
	case IsAbs(rel):
		// "./C:/x" or a name that begins with a backslash: the rest is absolute again,
		// so the next reader of it would refuse it.
		return "", false, ErrAbsolute
	case len(rel) > MaxPath:
		return "", false, ErrTooLong
	}
	portable = true
	for _, name := range strings.Split(rel, "/") {
		if len(name) > MaxName {
			return "", false, ErrTooLong
		}
		if ProtectedName(name, rules.Protected) {
			return "", false, ErrProtected
		}
		portable = portable && Portable(name)
	}
	if rules.Windows && !portable {
		return "", false, ErrReserved
	}
	return rel, portable, nil
}

// IsAbs reports whether p is absolute on any system: a Unix path, a Windows drive or a
// UNC name. A request that means one of these never means a name in the workspace, on
// any system.
func IsAbs(p string) bool {
	if strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`) {
		return true
	}
	if len(p) < 2 || p[1] != ':' {
		return false
	}
	c := p[0] | 0x20
	return c >= 'a' && c <= 'z' && (len(p) == 2 || p[2] == '/' || p[2] == '\\')
}

// below makes the absolute path p relative to the root that contains it. A
// directory that only has a root as the prefix of its name is not in it.
func below(p string, rules Rules) (string, error) {
	for _, root := range rules.Roots {
		rest, ok := strings.CutPrefix(p, root)
		if !ok && rules.Folds && len(p) >= len(root) && strings.EqualFold(p[:len(root)], root) {
			rest, ok = p[len(root):], true
		}
		if ok && (rest == "" || rest[0] == '/') {
			// A doubled slash must not make the rest absolute again.
			rest = strings.TrimLeft(rest, "/")
			if rest == "" {
				return "", ErrDirectory
			}
			return rest, nil
		}
	}
	return "", ErrAbsolute
}

// backslashEscape reports whether p would leave the workspace if its
// backslashes were separators. On Unix a backslash is a letter, but a path
// that climbs on one system is refused on all.
func backslashEscape(p string) bool {
	if !strings.Contains(p, `\`) {
		return false
	}
	depth := 0
	for _, name := range strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch name {
		case ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

func maxRoot(roots []string) int {
	n := 0
	for _, r := range roots {
		n = max(n, len(r)+1)
	}
	return n
}

// Key is the identity of a path for locks. Letter case is folded, so that two
// spellings of one file on a file system that ignores case share a lock; where
// they are two files the only cost is that they wait for each other.
func Key(rel string) string { return strings.ToLower(rel) }

// Dirs are the directories that one walk over many paths has opened. Each is
// opened once, and stays open for all paths that lead through it.
type Dirs struct {
	open  map[string]fsx.Dir // by the way without links
	shown bool               // the root
}

func (d *Dirs) find(way []string, name string) fsx.Dir {
	if d == nil {
		return nil
	}
	return d.open[strings.Join(append(way[:len(way):len(way)], name), "/")]
}

func (d *Dirs) keep(way []string, dir fsx.Dir) {
	if d == nil {
		return
	}
	if d.open == nil {
		d.open = map[string]fsx.Dir{}
	}
	d.open[strings.Join(way, "/")] = dir
}

// begun reports whether the root was shown, and notes that it is.
func (d *Dirs) begun() bool {
	if d == nil {
		return false
	}
	was := d.shown
	d.shown = true
	return was
}

// Len is the number of directories that are open.
func (d *Dirs) Len() int {
	if d == nil {
		return 0
	}
	return len(d.open)
}

// Close closes them. Targets with these directories must not be used afterwards.
func (d *Dirs) Close() error {
	if d == nil {
		return nil
	}
	for _, dir := range d.open {
		dir.Close()
	}
	d.open = nil
	return nil
}

// Below returns the path of a file relative to a directory that is above it, or is the
// file itself, with slashes. ok is false for a file that is elsewhere.
func Below(dir, file string) (rel string, ok bool) {
	rel, err := filepath.Rel(dir, file)
	return filepath.ToSlash(rel), err == nil && filepath.IsLocal(rel)
}

// Contains reports whether a file is a directory or is below it.
func Contains(dir, file string) bool {
	_, ok := Below(dir, file)
	return ok
}
