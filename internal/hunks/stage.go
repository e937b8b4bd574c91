package hunks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gitcmd"
)

// gitTime bounds all calls of git together.
const gitTime = 60 * time.Second

// intentToAdd is the flag, in the output of git ls-files --debug, of an entry that
// git add -N made.
const intentToAdd = 1 << 29

// entry is a file in the index.
type entry struct{ mode, object string }

// stager changes the index of the repository of a directory. It holds the lock
// of the index, works on a copy, and puts the copy in its place.
type stager struct {
	ctx   context.Context
	dir   string
	below string // the directory, from the top of the work tree
	copy  string // GIT_INDEX_FILE
	input bytes.Buffer

	removed map[string]bool // names
	inFiles map[string]bool // results of inFile, by directory
	placed  bool            // the lock has become the index
}

// Staged is what Stage did with the files, by path.
type Staged struct {
	Staged, Already []string
	Skipped         []around.SkippedFile
}

// Stage adds the changes of files to the index of git: of all files that can be staged
// or of none, and nothing else. Other entries of the index and the work tree stay
// unchanged.
func Stage(ctx context.Context, dir string, files []*Net) (out Staged, err error) {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	s := &stager{ctx: ctx, dir: dir, removed: map[string]bool{}, inFiles: map[string]bool{}}
	index, err := s.git(nil, "rev-parse", "--path-format=absolute", "--git-path", "index")
	below, berr := s.git(nil, "rev-parse", "--show-prefix")
	if err != nil || berr != nil {
		return out, fault.New(fault.InvalidArgument).Hintf("the workspace is in no git repository, or git cannot be run")
	}
	at := strings.TrimSuffix(string(index), "\n")
	s.below = strings.TrimSuffix(string(below), "\n")
	lock, err := os.OpenFile(at+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, os.ErrExist) {
		return out, fault.New(fault.IOBusy).Hintf("another program has locked the index of git; try again when it has ended")
	}
	if err != nil {
		return out, err
	}
	defer func() {
		if lock.Close(); !s.placed { // a lock that is there now is another program's
			os.Remove(at + ".lock")
		}
	}()
	if err := s.copyOf(at, lock); err != nil {
		return out, err
	}
	defer os.Remove(s.copy)
	order := func(n *Net) int {
		if n.In.Exists {
			return 1
		}
		return 0 // first: a file may take the place of those that go
	}
	for _, n := range slices.SortedStableFunc(slices.Values(files), func(a, b *Net) int { return order(a) - order(b) }) {
		var why Reason
		switch changed, err := s.add(n); {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case errors.As(err, &why):
			out.Skipped = append(out.Skipped, around.SkippedFile{Path: n.Path, Reason: string(why)})
		case err != nil:
			return out, err
		case changed:
			out.Staged = append(out.Staged, n.Path)
		default:
			out.Already = append(out.Already, n.Path)
		}
	}
	slices.Sort(out.Staged)
	slices.Sort(out.Already)
	if len(out.Staged) == 0 {
		return out, nil
	}
	if _, err := s.git(&s.input, "update-index", "-z", "--index-info"); err != nil {
		return out, err
	}
	return out, s.place(lock, at)
}

// git runs a command; in is its input.
func (s *stager) git(in io.Reader, args ...string) ([]byte, error) {
	cmd := gitcmd.New(s.ctx, s.dir, args...)
	if s.copy != "" {
		cmd.Env = append(cmd.Env, "GIT_INDEX_FILE="+s.copy)
	}
	cmd.Stdin = in
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = cmp.Or(s.ctx.Err(), error(fault.New(fault.InvalidArgument).Because(err).Hintf("git cannot read or write this repository; git status shows why"))) // its message holds paths
	}
	return out, err
}

// copyOf makes the copy of the index, in its directory: it may refer to a shared one. It has
// the time of the index, by which git knows the entries whose files may have changed since.
// The lock gets its permissions.
func (s *stager) copyOf(index string, lock *os.File) error {
	f, err := os.CreateTemp(filepath.Dir(index), "resilientwrite-index-")
	if err != nil {
		return err
	}
	name := f.Name()
	data, err := os.ReadFile(index)
	if err == nil {
		_, err = f.Write(data)
	}
	f.Close()
	if info, serr := os.Stat(index); err == nil && serr == nil {
		err = cmp.Or(os.Chtimes(name, time.Time{}, info.ModTime()), lock.Chmod(info.Mode().Perm()))
	}
	if errors.Is(err, os.ErrNotExist) { // nothing was ever staged
		err = os.Remove(name)
	} else if err != nil {
		os.Remove(name)
	}
	s.copy = name
	return err
}

// place puts the copy in the place of the index.
func (s *stager) place(lock *os.File, index string) error {
	data, err := os.ReadFile(s.copy)
	if err == nil {
		_, err = lock.Write(data)
	}
	if err == nil {
		err = lock.Sync()
	}
	err = cmp.Or(err, lock.Close())
	if err == nil {
		err = os.Rename(index+".lock", index)
		s.placed = err == nil
	}
	return err
}

// add records the new index entry of a file.
func (s *stager) add(n *Net) (changed bool, err error) {
	was, err := s.entry(n.Path)
	if err != nil {
		return false, err
	}
	have := Version{Exists: was.object != "", Exec: was.mode == mode(true)}
	if have.Exists {
		if have.Text, err = s.git(nil, "cat-file", "blob", was.object); err != nil {
			return false, err
		}
	} else if n.In.Exists {
		if s.inFile(s.below + n.Path) {
			return false, ErrOverlap
		}
		if _, err := s.git(nil, "check-ignore", "-q", "--no-index", "--", "./"+n.Path); err == nil {
			return false, ErrIgnored
		}
	}
	want, err := n.in(have)
	if err != nil || want.Exists == have.Exists && want.Exec == have.Exec && bytes.Equal(want.Text, have.Text) {
		return false, err
	}
	if err := s.converted(n.Path, want.Text); err != nil {
		return false, err
	}
	object := strings.Repeat("0", max(40, len(was.object)))
	if !want.Exists {
		fmt.Fprintf(&s.input, "0 %s\t%s\x00", object, s.below+n.Path)
		s.removed[s.below+n.Path] = true
		return true, nil
	}
	out, err := s.git(bytes.NewReader(want.Text), "hash-object", "-w", "--stdin", "--no-filters")
	if err != nil {
		return false, err
	}
	fmt.Fprintf(&s.input, "%s %s\t%s\x00", mode(want.Exec), strings.TrimSpace(string(out)), s.below+n.Path)
	return true, nil
}

// in returns the file with the changes applied to the version in the index.
func (n *Net) in(have Version) (Version, error) {
	same := func(v Version) bool { return have.Exists == v.Exists && bytes.Equal(have.Text, v.Text) }
	switch {
	case n.Without.Exists && n.In.Exists && have.Exists:
		text, err := Apply(n.Without.Text, have.Text, n.In.Text)
		if err == nil {
			have.Text = text
		}
		if n.Mode {
			have.Exec = n.In.Exec
		}
		return have, err
	case same(n.In):
		return have, nil
	case same(n.Without):
		return n.In, nil
	}
	return have, ErrOverlap
}

// inFile reports whether the index has a file, a link or a submodule in the place of a
// directory of a name. Git would remove it.
func (s *stager) inFile(name string) bool {
	dir := path.Dir(name)
	if dir == "." {
		return false
	}
	is, known := s.inFiles[dir]
	if !known {
		_, err := s.git(nil, "rev-parse", "-q", "--verify", ":0:"+dir)
		is = err == nil && !s.removed[dir] || s.inFile(dir)
		s.inFiles[dir] = is
	}
	return is
}

// entry returns the index entry of a name. An entry without content, which git add -N
// makes, is none.
func (s *stager) entry(path string) (entry, error) {
	out, err := s.git(nil, "--literal-pathspecs", "ls-files", "--stage", "-v", "--debug", "-z", "--", path)
	if err != nil {
		return entry{}, err
	}
	first, more, _ := strings.Cut(string(out), "\x00")
	_, more, _ = strings.Cut(more, "flags: ")
	bits, _, _ := strings.Cut(more, "\n")
	flags, _ := strconv.ParseUint(bits, 16, 64)
	facts, name, _ := strings.Cut(first, "\t")
	fields := strings.Fields(facts)
	switch {
	case first == "" || name == path && flags&intentToAdd != 0 || name != path && s.emptied(path):
		return entry{}, nil
	case len(fields) != 4 || fields[0] != "H" || fields[3] != "0" || name != path || !strings.HasPrefix(fields[1], "100"):
		return entry{}, ErrUnmerged
	}
	return entry{fields[1], fields[2]}, nil
}

// emptied reports whether all entries of a directory go.
func (s *stager) emptied(dir string) bool {
	out, err := s.git(nil, "--literal-pathspecs", "ls-files", "-z", "--", dir)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if !s.removed[s.below+name] {
			return false
		}
	}
	return err == nil
}

// converted refuses a file whose bytes git converts when it adds them to the index: a
// filter would run a program, and the index would contain other bytes.
func (s *stager) converted(path string, text []byte) error {
	out, err := s.git(nil, "check-attr", "-z", "filter", "working-tree-encoding", "text", "eol", "ident", "--", path)
	if err != nil {
		return err
	}
	fields := strings.Split(string(out), "\x00")
	set := map[string]string{}
	for i := 0; i+2 < len(fields); i += 3 {
		if v := fields[i+2]; v != "unspecified" && v != "unset" {
			set[fields[i+1]] = v
		}
	}
	auto, _ := s.git(nil, "config", "--get", "core.autocrlf")
	ends := set["text"] != "" || set["eol"] != "" || len(auto) > 0 && string(auto) != "false\n"
	if set["filter"] != "" || set["working-tree-encoding"] != "" || ends && bytes.Contains(text, []byte("\r\n")) || set["ident"] != "" && bytes.Contains(text, []byte("$Id:")) {
		return ErrFiltered
	}
	return nil
}
