package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
)

// CommandOracle is a hook that runs a command before a commit, on the files as
// they would be. If the command exits with another code than 0, or not in time,
// the commit is refused with its output. The command runs without a shell, in a
// private directory. These words in its arguments are replaced by paths:
//
//	{}         the file as it would be; the command runs once for each file
//	{root}     the workspace, or its copy
//	{overlay}  a file for go's -overlay flag that names all files of the commit
//
// Without {} the command runs once for a commit. RW_ROOT, RW_OVERLAY, and, for
// the file it runs for or the first one, RW_PATH and RW_STAGED hold the same
// paths; RW_STAGED is empty for a file that is removed.
//
//	CommandOracle{Match: []string{"**/*.go"}, Command: []string{"gofmt", "-e", "{}"}}
//	build := []string{"go", "-C", "{root}", "build", "-overlay={overlay}", "./..."}
//	CommandOracle{Command: build}
//	CommandOracle{Command: []string{"npm", "test"}, Tree: true}
type CommandOracle struct {
	Match   []string      // globs of paths it looks at; empty means all
	Command []string      // program and arguments
	Tree    bool          // run it in a copy of the workspace without .git, after the commit
	Timeout time.Duration // of one run; 0 means 30 seconds
	Env     []string      // besides the environment of the process and the variables above

	// OnComplete runs the command also before a handoff that says that the
	// task is done, whatever Match says: no one declares a task complete
	// whose check does not pass after the last change. It needs a command
	// without {}, which looks at the whole workspace.
	OnComplete bool
}

// maxOracleOutput is how much of a command's output is read, in bytes.
const maxOracleOutput = 64 << 10

// Verify runs the command.
func (o CommandOracle) Verify(ctx context.Context, c Staged) error {
	if len(o.Command) == 0 {
		return errors.New("the oracle needs a command")
	}
	each := strings.Contains(strings.Join(o.Command, "\x00"), "{}")
	atEnd := o.OnComplete && c.Complete
	if atEnd && each {
		return errors.New("an oracle that runs for a complete handoff needs a command without {}")
	}
	var looked []int
	for i, f := range c.Files {
		if atEnd || len(o.Match) == 0 || policyfile.Covers(o.Match, f.Path) {
			looked = append(looked, i)
		}
	}
	if len(looked) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := trial{CommandOracle: o, dir: dir, root: c.Root}
	if err := t.prepare(ctx, c); err != nil {
		return err
	}
	if !each {
		return t.run(ctx, c.Files[looked[0]].Path, t.files[looked[0]])
	}
	for _, i := range looked {
		if t.files[i] == "" {
			continue // there is nothing to look at
		}
		if err := t.run(ctx, c.Files[i].Path, t.files[i]); err != nil {
			return &FileError{c.Files[i].Path, err}
		}
	}
	return nil
}

// trial holds the files of one commit as they would be.
type trial struct {
	CommandOracle
	dir     string   // private
	root    string   // of the workspace or its copy
	overlay string   // the file that names them all
	files   []string // where each one is; "" for one that is removed
}

// prepare copies the files under their own names, as compilers require.
func (t *trial) prepare(ctx context.Context, c Staged) error {
	if t.Tree {
		t.root = filepath.Join(t.dir, "tree")
		if err := copyTree(ctx, c.Root, t.root); err != nil {
			return err
		}
	}
	replace := map[string]string{}
	for i, f := range c.Files {
		place := filepath.Join(t.dir, strconv.Itoa(i), path.Base(f.Path))
		if t.Tree {
			place = filepath.Join(t.root, filepath.FromSlash(f.Path))
		}
		if target, lerr := os.Readlink(f.Staged); f.Staged == "" || lerr == nil {
			if t.Tree {
				os.Remove(place)
			}
			if t.Tree && lerr == nil {
				if err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o700), os.Symlink(target, place)); err != nil {
					return err
				}
			}
			place = ""
		} else if err := copyFinal(c, f, place); err != nil {
			return err
		}
		t.files = append(t.files, place)
		replace[filepath.Join(c.Root, filepath.FromSlash(f.Path))] = place
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	t.overlay = filepath.Join(t.dir, "overlay.json")
	return os.WriteFile(t.overlay, data, 0o600)
}

// copyFinal makes the final file that a staged one represents.
func copyFinal(c Staged, f File, place string) error {
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	os.Remove(place) // of a copied tree
	if f.Append {
		if err := appendFile(place, filepath.Join(c.Root, filepath.FromSlash(f.Path))); err != nil {
			return err
		}
	}
	return appendFile(place, f.Staged)
}

func appendFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_APPEND, st.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// copyTree copies the regular files and links of a workspace, except the
// repository and the state directory.
func copyTree(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		place := filepath.Join(to, rel)
		switch {
		case d.IsDir() && (d.Name() == ".git" || rel == engine.StateDirName):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(place, 0o700)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, place)
		case d.Type().IsRegular():
			return appendFile(place, p)
		}
		return nil
	})
}

// run runs the command for one file.
func (t *trial) run(ctx context.Context, name, staged string) error {
	limit := t.Timeout
	if limit <= 0 {
		limit = 30 * time.Second
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	words := strings.NewReplacer("{}", staged, "{root}", t.root, "{overlay}", t.overlay)
	args := make([]string, len(t.Command))
	for i, a := range t.Command {
		args[i] = words.Replace(a)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.WaitDelay = t.dir, time.Second
	if t.Tree {
		cmd.Dir = t.root
	}
	cmd.Env = append(append(cmd.Environ(), "RW_ROOT="+t.root, "RW_OVERLAY="+t.overlay, "RW_PATH="+name, "RW_STAGED="+staged), t.Env...)
	killGroup(cmd)
	out := &capped{left: maxOracleOutput}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the check of %s took longer than %v", name, limit)
		}
		return fmt.Errorf("the check of %s failed: %v\n%s", name, err, t.named(out.whole(), name, staged))
	}
	return nil
}

// named replaces the paths of the trial with those of the workspace.
func (t *trial) named(text, name, staged string) string {
	if staged != "" {
		text = strings.ReplaceAll(text, staged, name)
	}
	sep := string(filepath.Separator)
	return strings.NewReplacer(t.root+sep, "", t.dir+sep, "").Replace(text)
}

// capped keeps the first bytes of an output.
type capped struct {
	text bytes.Buffer // not embedded: a copy would go around Write
	left int
	cut  bool
}

// whole returns the kept output without a truncated last line: the rest of a
// secret in it would not be recognized.
func (c *capped) whole() string {
	text := c.text.String()
	if end := strings.LastIndexByte(text, '\n'); c.cut && end >= 0 {
		text = text[:end+1]
	}
	return text
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left, c.cut = c.left-n, c.cut || n < len(p)
	c.text.Write(p[:n])
	return len(p), nil
}
