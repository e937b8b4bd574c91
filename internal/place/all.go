package place

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
// removed because its root is gone. The error is why some may be missing, or are not
// described.
func All(w *Workspace) (list []Store, err error) {
	w = cmp.Or(w, new(Workspace))
	seen := map[string]bool{}
	add := func(path string) {
		if path = real(path); path == "" || seen[path] || !IsStore(path) {
			return
		}
		seen[path] = true
		list = append(list, w.describe(path))
	}
	if w.Root != "" {
		for _, p := range w.Found() {
			add(p.Path)
		}
		if p := w.git(); p.base != "" {
			for _, dir := range w.inside(filepath.Join(p.base, app)) {
				add(dir)
			}
		}
	}
	base := filepath.Join(StateHome(), app)
	if !filepath.IsAbs(base) {
		return list, w.err
	}
	for _, dir := range w.inside(base) {
		add(dir)
	}
	entries, err := os.ReadDir(filepath.Join(base, known))
	w.failed(err)
	for _, e := range entries {
		var to pointer
		if json.Unmarshal([]byte(w.small(filepath.Join(base, known, e.Name()))), &to) == nil {
			add(to.State)
			for _, dir := range w.inside(filepath.Dir(to.State)) {
				if strings.HasPrefix(dir, to.State+aside) {
					add(dir)
				}
			}
		}
	}
	return list, w.err
}

func (w *Workspace) describe(path string) Store {
	s := Store{Path: path}
	short := func(err error) { // one store that cannot be read hides no others
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			w.failed(err)
		}
	}
	r, err := ReadRecord(path)
	short(err)
	if err == nil {
		s.Root = r.Root
		_, err := os.Stat(r.Root)
		s.Gone = errors.Is(err, fs.ErrNotExist) || fsx.NotDir(err)
	}
	filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		short(err)
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
