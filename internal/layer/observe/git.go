package observe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitcmd"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// gitLimit bounds the time in which git must have answered everything.
const gitLimit = 60 * time.Second

// errGit is returned for an object that git does not have.
var errGit = errors.New("git does not have the object")

// Git reads objects of the repositories in and around the workspace. It runs one git
// cat-file for each, with nothing that could run a program: cat-file applies no filters
// unless requested, the configuration of monitors and hooks is overruled, and nothing
// is fetched.
type Git struct {
	ctx    context.Context
	cancel context.CancelFunc
	root   string
	runs   map[string]*gitRun // by the top of the work tree
}

// gitRun is one git cat-file --batch; its zero value is one that failed.
type gitRun struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Git begins to read objects. Close ends it.
func (l *Layer) Git(ctx context.Context) *Git {
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	return &Git{ctx: ctx, cancel: cancel, root: l.RealRoot, runs: map[string]*gitRun{}}
}

// Close ends the programs.
func (g *Git) Close() {
	for _, run := range g.runs {
		if run.cmd != nil {
			run.in.Close()
			g.cancel()
			run.cmd.Wait()
		}
	}
	g.cancel()
}

// Open opens an object, by its name in hex, of the repository that holds a file of the
// workspace; nil if git does not have it, or if the name is "".
func (g *Git) Open(path, object string) (io.ReadCloser, error) {
	if object == "" || g.root == "" {
		return nil, nil
	}
	top := gitdir.Top(filepath.Join(g.root, filepath.FromSlash(engine.ParentOf(path))))
	if top == "" {
		return nil, nil
	}
	run := g.runs[top]
	if run == nil {
		run = g.start(top)
		g.runs[top] = run
	}
	if run.cmd == nil {
		return nil, nil
	}
	data, err := run.read(object)
	if err == nil {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	if err != errGit { // what follows on the stream is unknown
		run.in.Close()
		run.cmd.Process.Kill()
		run.cmd.Wait()
		run.cmd = nil
	}
	return nil, nil
}

func (g *Git) start(top string) *gitRun {
	cmd := gitcmd.New(g.ctx, top, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		return &gitRun{}
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return &gitRun{}
	}
	return &gitRun{cmd, in, bufio.NewReader(out)}
}

// read requests one object: a line with its name, type and size, its bytes, and a
// newline.
func (r *gitRun) read(object string) ([]byte, error) {
	if _, err := fmt.Fprintln(r.in, object); err != nil {
		return nil, err
	}
	line, err := r.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	parts := strings.Fields(line)
	if len(parts) == 2 && parts[1] == "missing" {
		return nil, errGit
	}
	if len(parts) != 3 || parts[0] != object || parts[1] != "blob" {
		return nil, errors.New("git answered something else")
	}
	size, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || size < 0 || size > maxGit {
		return nil, errors.New("the git object is too large")
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(r.out, data); err != nil {
		return nil, err
	}
	return data[:size], nil
}

const maxGit = 256 << 20 // bytes of one object

// Head is the commit that is checked out in the repository of the workspace, ""
// where that cannot be read from its files.
func (l *Layer) Head() string {
	if l.RealRoot == "" {
		return ""
	}
	dirs := outermost(l.RealRoot).repo.dirs
	if len(dirs) == 0 {
		return ""
	}
	read := func(dir, name string) string {
		text, _ := patterns(filepath.Join(dir, name))
		return strings.TrimSpace(string(text))
	}
	text := read(dirs[0], "HEAD")
	ref, ok := strings.CutPrefix(text, "ref: ")
	if !ok {
		return commitName(text)
	}
	if strings.Contains(ref, "..") || filepath.IsAbs(ref) {
		return ""
	}
	for _, dir := range dirs {
		if name := commitName(read(dir, ref)); name != "" {
			return name
		}
		for line := range strings.Lines(read(dir, "packed-refs")) {
			if name, of, _ := strings.Cut(strings.TrimSpace(line), " "); of == ref {
				return commitName(name)
			}
		}
	}
	return ""
}

func commitName(text string) string {
	if _, err := hex.DecodeString(text); err != nil || len(text) != 40 && len(text) != 64 {
		return ""
	}
	return text
}

// Kept opens a version in history, as [engine.Engine.OpenVersion] does; nil if it cannot.
func (l *Layer) Kept(sha string, size int64, by ...*journal.Mutation) (io.ReadCloser, error) {
	if sha == engine.HashOf(nil) { // history holds no object for an empty file
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	f, err := l.OpenVersion(sha, by...)
	if err != nil {
		return nil, err
	}
	return engine.SectionCloser{Reader: io.NewSectionReader(f, 0, size), Closer: f}, nil
}

// StartOf opens the first bytes of the current file: its content before an append; nil
// if there is no such file.
func (l *Layer) StartOf(path string, size int64) (io.ReadCloser, error) {
	t, err := l.LocateEntry(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if !t.Exists() {
		return nil, nil
	}
	f, err := t.Parent.Open(t.Name, fsx.Read, 0)
	if err != nil {
		return nil, err
	}
	return engine.SectionCloser{Reader: io.NewSectionReader(f, 0, size), Closer: f}, nil
}

// ReadKept reads the content of a version to the end, and compares it with its hash.
func ReadKept(src io.ReadCloser, sha string) ([]byte, error) {
	if src == nil {
		return nil, fault.New(fault.VersionNotKept)
	}
	defer src.Close()
	data, err := io.ReadAll(io.LimitReader(src, engine.MergeLimit+1))
	if err == nil && engine.HashOf(data) != sha {
		err = fault.New(fault.HashDriftOnRead)
	}
	return data, err
}
