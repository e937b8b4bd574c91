// Package handoff maintains the records of handoffs in the state directory: handoffs/,
// with a copy of each replaced handoff, and read.json, which records who has
// acknowledged which one.
package handoff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Layer keeps the archives and the acknowledgements of a store.
type Layer struct{ *engine.Engine }

const (
	Dir         = "handoffs"
	Lock        = "handoffs\x00"
	ReadName    = "read.json"
	KindArchive = "handoff_archive"
	KindRead    = "handoff_read"

	readLimit  = 1 << 20 // bytes of read.json
	maxKnown   = 200     // handoffs that it records
	maxReaders = 100     // readers of one of them
)

// record lists who has acknowledged one handoff. A handoff is identified by its path,
// with links resolved, and its bytes: a handoff that was changed since counts as
// unread.
type record struct {
	Path   string           `json:"path"`
	SHA256 string           `json:"sha256"`
	ReadBy []handoff.Reader `json:"read_by"`
}

// Records is read.json, oldest record first.
type Records struct {
	Handoffs []record `json:"handoffs"`
}

func (r *Records) of(path, sha string) *record {
	for i := range r.Handoffs {
		if r.Handoffs[i].Path == path && r.Handoffs[i].SHA256 == sha {
			return &r.Handoffs[i]
		}
	}
	return nil
}

// ReadBy are the readers of a handoff.
func (r *Records) ReadBy(path, sha string) []handoff.Reader {
	if rec := r.of(path, sha); rec != nil {
		return append([]handoff.Reader{}, rec.ReadBy...)
	}
	return []handoff.Reader{}
}

// add notes a reader, unless it is known. The oldest records and readers make room.
func (r *Records) add(path, sha, name string, at call.Timestamp) {
	rec := r.of(path, sha)
	if rec == nil {
		r.Handoffs = append(r.Handoffs, record{Path: path, SHA256: sha})
		if extra := len(r.Handoffs) - maxKnown; extra > 0 {
			r.Handoffs = r.Handoffs[extra:]
		}
		rec = &r.Handoffs[len(r.Handoffs)-1]
	}
	for _, reader := range rec.ReadBy {
		if reader.Name == name {
			return
		}
	}
	rec.ReadBy = append(rec.ReadBy, handoff.Reader{Name: name, At: at})
	if extra := len(rec.ReadBy) - maxReaders; extra > 0 {
		rec.ReadBy = rec.ReadBy[extra:]
	}
}

// Encode writes read.json. The oldest records make room when it would become
// too long to be read.
func (r *Records) Encode() ([]byte, error) {
	for {
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil || len(data) < readLimit || len(r.Handoffs) == 0 {
			return append(data, '\n'), err
		}
		if len(r.Handoffs) > 1 {
			r.Handoffs = r.Handoffs[len(r.Handoffs)/2:]
			continue
		}
		last := &r.Handoffs[0]
		last.ReadBy = last.ReadBy[(len(last.ReadBy)+1)/2:]
	}
}

// Records reads read.json. whole is false if there is one that cannot be understood:
// then no handoff counts as read.
func (l *Layer) Records() (rec Records, whole bool, err error) {
	data, err := l.ReadPart(Dir, ReadName, readLimit)
	if engine.IsAbsent(err) {
		return rec, true, nil
	}
	if engine.IsUnread(err) {
		return rec, false, err
	}
	if err != nil || json.Unmarshal(data, &rec) != nil {
		return Records{}, false, nil
	}
	return rec, true, nil
}

// quarantine moves a file of handoffs/ that cannot be used to
// quarantine/, where it keeps its bytes, and returns its name there.
func (l *Layer) quarantine(name string) (string, error) {
	dir, err := l.StatePart(Dir)
	if dir == nil || err != nil {
		return "", err
	}
	defer dir.Close()
	to, err := l.SetAside(dir, name, "handoff_"+name)
	if engine.IsAbsent(err) {
		return "", nil // another process moved it
	}
	return "quarantine/" + to, err
}

// taskOf is the task_id of a handoff, "" when it cannot be read.
func taskOf(doc []byte) string {
	yaml, _, err := frontmatter.Split(doc)
	if err != nil {
		return ""
	}
	m, err := frontmatter.Decode(yaml)
	if err != nil {
		return ""
	}
	v, _ := m.Get("task_id")
	return text(v)
}

// archiveName is a free name for the archive of a task's handoff.
func (l *Layer) archiveName(task, at string) (string, error) {
	names, err := l.PartNames(Dir)
	if err != nil {
		return "", err
	}
	taken := map[string]bool{}
	for _, name := range names {
		taken[strings.ToLower(name)] = true // where letter case is folded these are one
	}
	prefix := taskName(task) + "-" + at + "-"
	for n := 1; ; n++ {
		if name := fmt.Sprintf("%s%d.md", prefix, n); !taken[strings.ToLower(name)] {
			return name, nil
		}
	}
}

// maxTaskName is the length of the part of a task_id that is in the name
// of an archive.
const maxTaskName = 60

// taskName makes a task_id fit for a file name. One that had to be changed
// carries a piece of its hash, so that two tasks do not look like one.
func taskName(task string) string {
	if task == "" {
		return "unnamed"
	}
	var b bytes.Buffer
	for _, r := range task {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.' && b.Len() > 0, r == '-' && b.Len() > 0:
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
		if b.Len() >= maxTaskName {
			break
		}
	}
	if name := b.String(); name == task {
		return name
	}
	return b.String() + "." + engine.HashOf([]byte(task))[:8]
}

// archives lists the paths of the archives, newest first, at most n, and how
// many there are.
func (l *Layer) archives(n int) ([]string, int, error) {
	list := []string{}
	type found struct {
		name string
		at   int64
	}
	var all []found
	err := l.EachIn(Dir, func(dir fsx.Dir, name string) error {
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		st, err := dir.Lstat(name)
		if err == nil && st.Kind == fsx.Regular {
			all = append(all, found{name, st.Mtime})
		}
		if engine.IsUnread(err) {
			return err
		}
		return nil
	})
	if err != nil {
		return list, 0, err
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.name, a.name)) })
	for _, f := range all[:min(n, len(all))] {
		list = append(list, engine.StateDirName+"/"+Dir+"/"+f.name)
	}
	return list, len(all), nil
}
