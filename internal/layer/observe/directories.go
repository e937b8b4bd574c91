package observe

import (
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// dirState is what commits since the last scan did to a directory.
type dirState struct {
	made, gone bool
	mode       uint32 // 0 where it is not known, as of the parent of a file
}

// explain notes the directories that a commit since the last scan made or removed.
// It is called in the order of commits.
func (s *scan) explain(m *journal.Mutation) {
	if s.explained == nil {
		s.explained = map[string]dirState{}
	}
	for _, dir := range m.Dirs {
		s.explained[dir] = dirState{made: true}
	}
	if d, ok := m.Directory(); ok {
		state := dirState{made: d.Mode != 0, gone: d.Mode == 0, mode: d.Mode}
		if d.Mode == fsx.ModeDir {
			state.mode = 0
		}
		s.explained[d.Path] = state
	}
}

// directories finds directories that were added or removed since the last scan, and
// those whose mode was changed.
func (s *scan) directories() {
	if s.out.Baseline || s.old.Growing {
		return
	}
	add := func(p string, was, now uint32) {
		switch state := s.explained[p]; {
		case state.gone:
			was = 0
		case state.mode != 0:
			was = state.mode
		case state.made && now != 0:
			return
		}
		if was != now {
			s.dirs = append(s.dirs, journal.Mutation{Path: p, Class: journal.ClassDirectory, Mode: now, PrevMode: was})
		}
	}
	for p, now := range s.fresh.modes {
		_, known := s.old.dirs[p]
		_, seen := s.fresh.dirs[p]
		if was := s.old.modes[p]; seen && now != 0 && (was != 0 || !known) && s.recordable(p) {
			s.touched = s.touched || was != now
			add(p, was, now)
		}
	}
	for p, was := range s.old.modes {
		if _, there := s.fresh.dirs[p]; !there && was != 0 && !below(s.left, p) {
			add(p, was, 0)
		}
	}
	for p, state := range s.explained { // made since, and gone already
		_, known := s.old.dirs[p]
		if _, there := s.fresh.dirs[p]; !known && !there && state.mode != 0 && !below(s.left, p) {
			add(p, state.mode, 0)
		}
	}
	slices.SortFunc(s.dirs, func(a, b journal.Mutation) int { return strings.Compare(a.Path, b.Path) })
}

// Directories returns the changes from the directories of one index to those of
// another.
func Directories(from, to *Index) (list []journal.Mutation) {
	for p := range to.modes {
		if was, now := from.modes[p], to.modes[p]; was != now && (was != 0 && now != 0 || !from.has(p)) {
			list = append(list, journal.Mutation{Path: p, Mode: now, PrevMode: was})
		}
	}
	for p, was := range from.modes {
		if was != 0 && !to.has(p) {
			list = append(list, journal.Mutation{Path: p, PrevMode: was})
		}
	}
	slices.SortFunc(list, func(a, b journal.Mutation) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// DirMode is the mode of a directory, with fsx.ModeDir; 0 where it is not known.
func (x *Index) DirMode(dir string) uint32 { return x.modes[dir] }

func (x *Index) has(dir string) bool {
	_, ok := x.dirs[dir]
	return ok
}

// directoryRows returns the changes of directories that the journal does not have. If a
// path is also one of the files, the row of the file records the change with its modes.
func (s *scan) directoryRows(rows *engine.Newest, files []journal.Mutation) (list []journal.Mutation, err error) {
	named := make(map[string]*journal.Mutation, len(files))
	for i := range files {
		named[files[i].Path] = &files[i]
	}
	for _, d := range s.dirs {
		if m := named[d.Path]; m != nil {
			switch {
			case d.Mode != 0:
				m.PrevMode, m.Mode = m.Mode, d.Mode
			case m.PrevSHA256 == "": // else a commit had put the file there
				m.PrevMode = d.PrevMode
			}
			continue
		}
		last, _, known, err := rows.Of(d.Path)
		if err != nil {
			return nil, err
		}
		if known != nil && last.Seq > s.old.Seq {
			if now, _ := known.Directory(); now.Mode == d.Mode || now.Mode == fsx.ModeDir && d.Mode != 0 {
				continue
			}
		}
		d.Op, d.Rev, d.PrevSeq = engine.DirectoryOp(&d), uint64(last.Rev)+1, last.Seq
		list = append(list, d)
	}
	return list, nil
}
