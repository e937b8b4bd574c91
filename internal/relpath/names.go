package relpath

import (
	"slices"
	"strings"
	"unicode"
)

// repositories are the directories in which version control systems keep the files that
// make them run programs: hooks, filters, monitors.
var repositories = []string{".git", ".hg", ".jj", ".svn", ".sl", ".bzr"}

// SlotsPrefix is the prefix of the name of a directory of slots, which a store has on a
// file system other than that of its state.
const SlotsPrefix = ".rw-slots-"

// IsSlots reports whether name is that of a directory of slots of any store, in any
// spelling.
func IsSlots(name string) bool { return strings.HasPrefix(Fold(name), SlotsPrefix) }

// ProtectedName reports whether name is that of a repository, of a directory of slots, or one of
// the protected names. It recognizes any spelling that some file system treats as equal: another
// letter case, ignorable Unicode characters, trailing dots and blanks, an alternate data stream,
// the short name of a repository.
func ProtectedName(name string, protected []string) bool {
	plain := Fold(name)
	if strings.HasPrefix(plain, SlotsPrefix) {
		return true
	}
	return slices.Contains(protected, plain) ||
		slices.ContainsFunc(repositories, func(p string) bool { return plain == p || isShortName(plain, p[1:]) })
}

// isShortName reports whether plain is a name that Windows makes of a dot and
// stem: git~1.
func isShortName(plain, stem string) bool {
	digits, ok := strings.CutPrefix(plain, stem)
	if ok {
		digits, ok = strings.CutPrefix(digits, "~")
	}
	return ok && (stem == "git" || digits != "" && strings.Trim(digits, "0123456789") == "")
}

// Fold reduces a name to the form that the most tolerant file systems compare.
func Fold(name string) string {
	if i := strings.IndexByte(name, ':'); i > 0 {
		name = name[:i]
	}
	name = strings.TrimRight(name, " .")
	return strings.Map(func(r rune) rune {
		if ignorable(r) {
			return -1
		}
		// Case folding by way of the upper case catches letters such as the
		// dotless i and the long s.
		return unicode.ToLower(unicode.ToUpper(r))
	}, name)
}

// ignorable reports whether HFS+ leaves r out when it compares names
// (Apple technical note 1150).
func ignorable(r rune) bool {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return true
	}
	return false
}

// Portable reports whether Windows can store name.
func Portable(name string) bool {
	if strings.ContainsAny(name, `<>:"|?*\`) || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return false
	}
	for _, c := range []byte(name) {
		if c < 0x20 {
			return false
		}
	}
	stem, _, _ := strings.Cut(name, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	number := strings.TrimPrefix(strings.TrimPrefix(stem, "COM"), "LPT")
	return !slices.Contains(devices, stem) && (len(stem)-len(number) != len("COM") || !slices.Contains(portNumbers, number))
}

var (
	devices = []string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}
	// portNumbers are the digits Windows numbers its serial and parallel ports with,
	// the superscript ones among them.
	portNumbers = strings.Split("0123456789¹²³", "")
)

// SameName reports whether some file system takes the two names for one.
func SameName(a, b string) bool { return Fold(a) == Fold(b) }
