// Package hunks separates what one writer changed in a file from what others
// did, and puts it into the index of git.
package hunks

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/merge"
)

// Reason is why the changes of a file cannot be separated from those of others, or
// cannot be staged.
type Reason string

const (
	ErrOverlap  Reason = "overlap"   // others changed the same lines, or the index has others
	ErrBinary   Reason = "binary"    // it is no UTF-8 text
	ErrLink     Reason = "link"      // it is or was a symbolic link
	ErrTooLarge Reason = "too_large" // over Limit
	ErrNotKept  Reason = "not_kept"  // history does not have all versions
	ErrFiltered Reason = "filtered"  // git converts its bytes, or would run a filter
	ErrIgnored  Reason = "ignored"   // git ignores it
	ErrUnmerged Reason = "unmerged"  // in the index it has a conflict, is no regular file, or is not compared
)

func (r Reason) Error() string { return string(r) }

// Limit is the size in bytes up to which the content of files is compared.
const Limit = 8 << 20

// Version is a file at one time.
type Version struct {
	Exists bool
	Exec   bool // it may be executed
	Text   []byte
}

// Net is one file without and with the changes of the writer, and with those of
// the others in both.
type Net struct {
	Path        string
	Without, In Version
	Mode        bool // the writer changed whether it may be executed
}

// Start begins with the first change of the writer.
func Start(path string, before, after Version) *Net {
	return &Net{Path: path, Without: before, In: after, Mode: before.Exists && after.Exists && before.Exec != after.Exec}
}

// Mine adds a change of the writer.
func (n *Net) Mine(before, after Version) error {
	if err := n.Others(before); err != nil {
		return err
	}
	n.Mode = n.Mode || before.Exists && after.Exists && before.Exec != after.Exec
	n.In = after
	return nil
}

// Others adds what others made of the file.
func (n *Net) Others(now Version) error {
	if now.Exists == n.In.Exists && now.Exec == n.In.Exec && bytes.Equal(now.Text, n.In.Text) {
		return nil
	}
	if now.Exists != n.In.Exists || n.Without.Exists != n.In.Exists {
		return ErrOverlap
	}
	text, err := Apply(n.In.Text, n.Without.Text, now.Text)
	if err != nil {
		return err
	}
	n.Without.Text = text
	if now.Exec != n.In.Exec && !n.Mode {
		n.Without.Exec = now.Exec
	}
	n.In = now
	return nil
}

// Apply makes the change from one text to another to a third one.
func Apply(from, third, to []byte) ([]byte, error) {
	if bytes.Equal(from, third) {
		return to, nil
	}
	for _, text := range [][]byte{from, third, to} {
		if err := check(text); err != nil {
			return nil, err
		}
	}
	got, err := merge.Three(from, third, to)
	if err == nil && len(got.Conflicts) > 0 || errors.Is(err, merge.ErrTooMuchWork) {
		err = ErrOverlap
	}
	return got.Content, err
}

func check(text []byte) error {
	switch {
	case len(text) > Limit:
		return ErrTooLarge
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return ErrBinary
	}
	return nil
}

// Same reports whether nothing is left of the changes.
func (n *Net) Same() bool {
	return n.Without.Exists == n.In.Exists && bytes.Equal(n.Without.Text, n.In.Text) && (!n.Mode || n.Without.Exec == n.In.Exec)
}

// Hunks lists the changed lines.
func (n *Net) Hunks() ([]merge.Hunk, error) {
	for _, text := range [][]byte{n.Without.Text, n.In.Text} {
		if err := check(text); err != nil {
			return nil, err
		}
	}
	return merge.Hunks(n.Without.Text, n.In.Text)
}

// Patch is the change as git apply takes it, "" if nothing is left of it.
func (n *Net) Patch() (string, error) {
	if _, err := n.Hunks(); err != nil || n.Same() {
		return "", err
	}
	from, to := merge.Names(n.Path)
	head := "diff --git " + from + " " + to + "\n"
	switch {
	case !n.Without.Exists:
		head, from = head+"new file mode "+mode(n.In.Exec)+"\n", "/dev/null"
	case !n.In.Exists:
		head, to = head+"deleted file mode "+mode(n.Without.Exec)+"\n", "/dev/null"
	case n.Mode && n.Without.Exec != n.In.Exec:
		head += "old mode " + mode(n.Without.Exec) + "\nnew mode " + mode(n.In.Exec) + "\n"
	}
	text, err := merge.Unified(from, to, n.Without.Text, n.In.Text)
	return head + text, err
}

func mode(exec bool) string {
	if exec {
		return "100755"
	}
	return "100644"
}
