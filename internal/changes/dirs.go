package changes

import (
	"maps"
	"path"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// undoDirs returns the directories of some commits, newest commit first, as they
// were before. Those that the commits made for their files are removed if nothing
// else is in them.
func (l *Layer) undoDirs(recs []*journal.Record, files []*undoing) (list []journal.Mutation) {
	at := map[string]int{}
	made := map[string]bool{}
	for _, rec := range recs {
		for i := range rec.Muts {
			if rec.Muts[i].Class == "" {
				for _, dir := range rec.Muts[i].Dirs {
					made[dir] = true
				}
			}
			d, ok := rec.Muts[i].Directory()
			if !ok {
				continue
			}
			j, ok := at[d.Path]
			if !ok {
				j = len(list)
				at[d.Path] = j
				list = append(list, journal.Mutation{Path: d.Path, PrevMode: d.Mode})
			}
			list[j].Mode = d.PrevMode
		}
	}
	for path, j := range at {
		if delete(made, path); list[j].Mode == 0 {
			made[path] = false
		}
	}
	return l.DirsToMake(append(list, l.leftEmpty(made, files)...))
}

// leftEmpty returns removals of those directories that are empty, or contain only
// what the undo removes. Those that are false in made are removed anyway.
func (l *Layer) leftEmpty(made map[string]bool, files []*undoing) (list []journal.Mutation) {
	goes := map[string]bool{}
	for _, f := range files {
		if f.oldest.PrevSHA256 == "" {
			goes[f.path] = true
		}
	}
	paths := slices.Sorted(maps.Keys(made))
	slices.Reverse(paths) // what is inside first
	for _, dir := range paths {
		names, mode, err := l.ListDirectory(dir)
		if err != nil || slices.ContainsFunc(names, func(name string) bool { return !goes[engine.JoinPath(dir, name)] }) {
			continue
		}
		if goes[dir] = true; made[dir] {
			list = append(list, journal.Mutation{Path: dir, PrevMode: mode})
		}
	}
	return list
}

// DirsToMake returns the changes of directories that a commit may make: those
// with an effect, except empty directories that git would treat as parts of a
// repository.
func (l *Layer) DirsToMake(list []journal.Mutation) []journal.Mutation {
	return slices.DeleteFunc(list, func(d journal.Mutation) bool {
		part := gitdir.Part(path.Base(d.Path), l.Folds)
		return d.Mode == d.PrevMode || d.PrevMode == 0 && part != "" && l.IsThere(engine.JoinPath(engine.ParentOf(d.Path), gitdir.Head))
	})
}

// GoneDirs returns the directories that restored files need and that the journal
// records as removed: they get their previous modes. Those in known are omitted.
func (l *Layer) GoneDirs(muts []*engine.Mutation, known []journal.Mutation) (list []journal.Mutation, err error) {
	seen := map[string]bool{}
	for i := range known {
		seen[known[i].Path] = true
	}
	for _, m := range muts {
		if m.Op == engine.OpDelete {
			continue
		}
		for dir := engine.ParentOf(m.Path); dir != "" && !seen[dir] && !l.IsThere(dir); dir = engine.ParentOf(dir) {
			seen[dir] = true
			versions, err := l.Versions.Lineage(dir)
			if err != nil {
				return nil, err
			}
			last, err := versions.At(0)
			if err != nil {
				return nil, err
			}
			if last == nil {
				continue
			}
			if d, ok := last.M.Directory(); ok && d.Mode == 0 {
				list = append(list, journal.Mutation{Path: dir, Mode: d.PrevMode})
			}
		}
	}
	return l.DirsToMake(list), nil
}
