package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// place checks where a file outside the workspace may be written: a result, a
// report, an export. The state directory, directories of version control
// systems, and what git reads or runs, are refused under every name and link. A
// file that does not exist yet is judged by its directory.
func (s *settings) place(flag, name string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return &misuse{flag + " names no file", "name a file"}
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	real := filepath.Dir(abs)
	if there, err := filepath.EvalSymlinks(real); err == nil {
		real = there
	}
	for _, way := range []string{abs, filepath.Join(real, filepath.Base(abs))} {
		for part := range strings.SplitSeq(filepath.ToSlash(way), "/") {
			if relpath.ProtectedName(part, []string{".resilient_write"}) {
				return &misuse{flag + " is in a state directory, or in a directory of a version control system", "name a file elsewhere"}
			}
		}
	}
	if gitdir.Inside(real) {
		return &misuse{flag + " is in a directory of a version control system", "name a file elsewhere"}
	}
	root, err := filepath.Abs(s.root)
	if err != nil {
		return err
	}
	if gitdir.Uses(filepath.Join(real, filepath.Base(abs)), gitdir.ThisUser(), root) {
		return &misuse{flag + " is in a place that git reads or runs", "name a file elsewhere"}
	}
	own, err := os.Stat(s.stateDirectory())
	for dir := real; err == nil; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && os.SameFile(info, own) {
			return &misuse{flag + " is in the state directory", "name a file elsewhere"}
		}
		if filepath.Dir(dir) == dir {
			break
		}
	}
	return nil
}

// stateDirectory returns the state directory of the workspace.
func (s *settings) stateDirectory() string {
	switch dir := s.stateDir; {
	case dir == "":
		return place.At(s.root)
	case filepath.IsAbs(dir):
		return dir
	default:
		return filepath.Join(s.root, dir)
	}
}

// tellPlace prints the warnings about the location of the state directory.
func (a *app) tellPlace(list []rw.Warning) {
	for _, w := range list {
		switch w.Reason {
		case call.WarnStateInTree, call.WarnSeveralStateDirs, call.WarnStateOfOtherRoot:
			fmt.Fprintf(a.messages(), "resilient-write: warning: %s: %s\n", w.Reason, w.Hint)
		}
	}
}
