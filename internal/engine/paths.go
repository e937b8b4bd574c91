package engine

import (
	"errors"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// SetRoot makes an open directory the workspace. The rules say how callers may name files
// in it.
func (s *Engine) SetRoot(root fsx.Dir, rules relpath.Rules) {
	rules.Protected = []string{StateDirName}
	s.Disk.Root = root
	s.Tree = relpath.Tree{Root: root, Rules: rules, Spelling: &relpath.Spelling{Known: s.isKnown}}
}

// isKnown reports whether the journal has a file at a path, or cannot tell.
func (s *Engine) isKnown(path string) bool {
	if s.Rows == nil {
		return true
	}
	last, err := s.LastRow(path)
	if err != nil || last.Seq == 0 {
		return err != nil
	}
	rec, err := s.Log.Find(last.Seq)
	if err != nil {
		return true
	}
	i := MutationOf(rec, path)
	return i < 0 || rec.Muts[i].SHA256 != ""
}

// ExistingPath is the path of the deepest directory on the way to a target
// that exists, "" for the workspace itself.
func ExistingPath(t *relpath.Target) string {
	names := strings.Split(t.Path, "/")
	return strings.Join(names[:len(names)-1-len(t.Missing)], "/")
}

// ParentOf is the directory of a clean path, "" for the workspace itself. It
// copies nothing, where a path may have thousands of names.
func ParentOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// Locate finds where a path of the journal leads: in the
// workspace, or in the state directory for the objects that are kept there.
func (s *Engine) Locate(path string) (*relpath.Target, error) {
	if object, ok := strings.CutPrefix(path, StateDirName+"/"); ok {
		return s.LocateObject(object)
	}
	return s.Tree.Resolve(path)
}

// LocateEntry is Locate that does not follow a symbolic link under the final name.
func (s *Engine) LocateEntry(path string) (*relpath.Target, error) {
	if strings.HasPrefix(path, StateDirName+"/") {
		return s.Locate(path)
	}
	tree := s.Tree
	tree.NoFollow = true
	return tree.Resolve(path)
}

// LocateObject finds an object of the state directory. Its path in the
// journal begins with the default name of that directory, wherever it is.
func (s *Engine) LocateObject(object string) (*relpath.Target, error) {
	t, err := relpath.Tree{Root: s.Disk.State}.Resolve(object)
	if err == nil && t.Linked {
		t.Close()
		err = relpath.ErrEscapes
	}
	if errors.Is(err, relpath.ErrEscapes) || errors.Is(err, relpath.ErrLoop) || fsx.NotDir(err) {
		err = Misplaced(object)
	}
	if err != nil {
		return nil, err
	}
	t.Path = StateDirName + "/" + t.Path
	return t, nil
}

// dirPerm is the mode of a directory that is made on the way to a path.
func dirPerm(path string) uint32 {
	if strings.HasPrefix(path, StateDirName+"/") {
		return 0o700
	}
	return 0o777
}

func JoinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// IsThere reports whether something is under a path.
func (s *Engine) IsThere(path string) bool {
	rel, _, err := relpath.Clean(path, s.Tree.Rules)
	if err != nil {
		return false
	}
	t, err := s.Tree.Resolve(rel)
	if err != nil {
		return false
	}
	defer t.Close()
	if !t.Exists() {
		return false
	}
	_, err = t.Parent.Lstat(t.Name)
	return err == nil
}

// StateDirName is the name of the state directory in a workspace.
const StateDirName = ".resilient_write"
