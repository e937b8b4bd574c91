package place

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Store is a state directory that was found.
type Store struct {
	Path  string    `json:"state"`     // absolute
	Root  string    `json:"root"`      // the workspace when the store was used last; "" where that is not recorded
	Gone  bool      `json:"root_gone"` // there is no directory under that path
	Bytes int64     `json:"bytes"`     // of its files
	Used  time.Time `json:"used"`      // the newest change of a file in it
}

type pointer struct {
	State string `json:"state"`
}

// register remembers a store that is not among those of the user's state. It is
// for lists: without it, a store is found from its workspace.
func register(path string) {
	base := StateHome()
	if base == "" {
		return
	}
	name := digest(path) + ".json"
	if _, err := os.Lstat(filepath.Join(base, app, known, name)); err == nil {
		return
	}
	if d, err := openBase(filepath.Join(base, app, known), true); err == nil {
		data, _ := json.Marshal(pointer{path})
		durable.WriteFile(d, name, append(data, '\n'), 0o600)
		d.Close()
	}
}

// All lists the stores of this user: those in the directory of the user's
// state, those that were opened elsewhere, and those of the workspace w, which
// may be nil. What an interrupted move or removal left of one is among them. Nothing is
// removed because its root is gone.
func All(w *Workspace) (list []Store) {
	seen := map[string]bool{}
	add := func(path string) {
		if path = real(path); path == "" || seen[path] || !IsStore(path) {
			return
		}
		seen[path] = true
		list = append(list, describe(path))
	}
	if w != nil {
		for _, p := range w.Found() {
			add(p.Path)
		}
		if p := w.git(); p.base != "" {
			for _, dir := range inside(filepath.Join(p.base, app)) {
				add(dir)
			}
		}
	}
	base := filepath.Join(StateHome(), app)
	if !filepath.IsAbs(base) {
		return list
	}
	for _, dir := range inside(base) {
		add(dir)
	}
	entries, _ := os.ReadDir(filepath.Join(base, known))
	for _, e := range entries {
		var to pointer
		if json.Unmarshal([]byte(readSmall(filepath.Join(base, known, e.Name()))), &to) == nil {
			add(to.State)
			for _, dir := range inside(filepath.Dir(to.State)) {
				if strings.HasPrefix(dir, to.State+aside) {
					add(dir)
				}
			}
		}
	}
	return list
}

func describe(path string) Store {
	s := Store{Path: path}
	if r, err := ReadRecord(path); err == nil {
		s.Root = r.Root
		_, err := os.Stat(r.Root)
		s.Gone = errors.Is(err, fs.ErrNotExist) || fsx.NotDir(err)
	}
	filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			s.Bytes += info.Size()
			if info.ModTime().After(s.Used) {
				s.Used = info.ModTime().UTC()
			}
		}
		return nil
	})
	return s
}
