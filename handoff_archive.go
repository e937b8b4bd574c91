package resilientwrite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Handoffs that were replaced are in handoffs/ of the state directory, each as
// it was, beside read.json, which knows who has acknowledged which one.
const (
	handoffsDir  = "handoffs"
	handoffsLock = "handoffs\x00"
	readName     = "read.json"
	kindArchive  = "handoff_archive"
	kindRead     = "handoff_read"

	readLimit    = 1 << 20 // bytes of read.json
	maxKnown     = 200     // handoffs it knows
	maxReaders   = 100     // readers of one of them
	archiveInMem = 4 << 20 // bytes up to which an archive is held in memory
)

// HandoffReader is an agent that has acknowledged a handoff.
type HandoffReader struct {
	// Who acknowledged it.
	Name string `json:"name"`
	// When, RFC 3339 UTC.
	At string `json:"at"`
}

// readRecord says who has acknowledged one handoff. It is known by its path,
// behind links, and its bytes: one that was changed since has been read by
// no one.
type readRecord struct {
	Path   string          `json:"path"`
	SHA256 string          `json:"sha256"`
	ReadBy []HandoffReader `json:"read_by"`
}

// readRecords is read.json, oldest record first.
type readRecords struct {
	Handoffs []readRecord `json:"handoffs"`
}

func (r *readRecords) of(path, sha string) *readRecord {
	for i := range r.Handoffs {
		if r.Handoffs[i].Path == path && r.Handoffs[i].SHA256 == sha {
			return &r.Handoffs[i]
		}
	}
	return nil
}

// readBy are the readers of a handoff.
func (r *readRecords) readBy(path, sha string) []HandoffReader {
	if rec := r.of(path, sha); rec != nil {
		return append([]HandoffReader{}, rec.ReadBy...)
	}
	return []HandoffReader{}
}

// add notes a reader and reports whether it is new. The oldest records and
// readers make room.
func (r *readRecords) add(path, sha, name, at string) bool {
	rec := r.of(path, sha)
	if rec == nil {
		r.Handoffs = append(r.Handoffs, readRecord{Path: path, SHA256: sha})
		if extra := len(r.Handoffs) - maxKnown; extra > 0 {
			r.Handoffs = r.Handoffs[extra:]
		}
		rec = &r.Handoffs[len(r.Handoffs)-1]
	}
	for _, reader := range rec.ReadBy {
		if reader.Name == name {
			return false
		}
	}
	rec.ReadBy = append(rec.ReadBy, HandoffReader{Name: name, At: at})
	if extra := len(rec.ReadBy) - maxReaders; extra > 0 {
		rec.ReadBy = rec.ReadBy[extra:]
	}
	return true
}

// encode writes read.json. The oldest records make room when it would become
// too long to be read.
func (r *readRecords) encode() ([]byte, error) {
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

// readHandoffRecords reads read.json. whole is false when there is one that
// cannot be understood: then no one is known to have read anything.
func (s *Store) readHandoffRecords() (rec readRecords, whole bool, err error) {
	dir, err := s.handoffDir()
	if dir == nil || err != nil {
		return rec, true, err
	}
	defer dir.Close()
	data, err := durable.ReadFile(dir, readName, readLimit)
	if engine.IsAbsent(err) {
		return rec, true, nil
	}
	if err != nil || json.Unmarshal(data, &rec) != nil {
		return readRecords{}, false, nil
	}
	return rec, true, nil
}

// handoffDir opens handoffs/; nil when there is none.
func (s *Store) handoffDir() (fsx.Dir, error) {
	if s.engine.Disk.State == nil {
		return nil, nil
	}
	dir, err := s.engine.Disk.State.OpenDir(handoffsDir)
	if engine.IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.BadStateDir).Because(err).Hintf("handoffs in the state directory is not a plain directory")
	}
	return dir, nil
}

// quarantineHandoff moves a file of handoffs/ that cannot be used to
// quarantine/, where it keeps its bytes, and returns its name there.
func (s *Store) quarantineHandoff(name string) (string, error) {
	dir, err := s.handoffDir()
	if dir == nil || err != nil {
		return "", err
	}
	defer dir.Close()
	to := ""
	err = s.engine.Alone("quarantine", func() error {
		q, err := s.engine.OpenPart("quarantine")
		if err != nil {
			return err
		}
		defer q.Close()
		for n := 1; ; n++ {
			to = fmt.Sprintf("handoff_%s.%d", name, n)
			if len(to) > 255 {
				to = fmt.Sprintf("handoff_%s.%d", engine.HashOf([]byte(name))[:16], n)
			}
			err := dir.RenameNoReplace(name, q, to)
			if errors.Is(err, fsx.ErrUnsupported) { // this runs alone
				if _, taken := q.Lstat(to); taken == nil {
					continue
				}
				err = dir.Rename(name, q, to)
			}
			if engine.IsExist(err) {
				continue
			}
			if err != nil {
				return err
			}
			if err := q.Sync(); err != nil {
				return err
			}
			return dir.Sync()
		}
	})
	if engine.IsAbsent(err) {
		return "", nil // another process moved it
	}
	return "quarantine/" + to, err
}

// keepOld adds the handoff that is there to the commit, as an archive, when it
// was asked for or when no one has acknowledged it.
func (h *handoffWrite) keepOld() error {
	h.archived = ""
	for _, m := range h.c.Muts[1:] {
		m.Target.Close()
	}
	h.c.Muts = h.c.Muts[:1]
	m := h.c.First()
	target, err := h.s.engine.Tree.Resolve(m.Path)
	if err != nil {
		return err
	}
	defer target.Close()
	if !target.Exists() {
		return nil
	}
	f, st, err := engine.OpenIfThere(target.Parent, target.Name)
	if err != nil || f == nil {
		return err
	}
	h.c.Handles = append(h.c.Handles, f)
	sha, err := engine.ShaOf(f, st.Size)
	if err != nil {
		return err
	}
	if !h.r.Archive {
		known, _, err := h.s.readHandoffRecords()
		if err != nil {
			return err
		}
		if sha == m.Measured.Digest.Hex() || len(known.readBy(target.Path, sha)) > 0 {
			return nil
		}
		m.Warn(WarnUnreadHandoff)
	}
	return h.archive(f, st.Size)
}

// archive adds the mutation that keeps a handoff. It goes to the disk as it
// is: what is in it is there already, so the gate is not asked.
func (h *handoffWrite) archive(f fsx.File, size int64) error {
	head := make([]byte, min(size, frontmatter.MaxSize+4096))
	if n, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	} else if n < len(head) {
		head = head[:n]
	}
	name, err := h.s.archiveName(taskOf(head), h.c.Began.UTC().Format("20060102T150405Z"))
	if err != nil {
		return err
	}
	a := engine.NewObject(handoffsDir+"/"+name, kindArchive, engine.OpCreate)
	a.Ungated = true
	if size > archiveInMem {
		a.Content = engine.FileBody(f, size)
	} else {
		whole, err := io.ReadAll(io.NewSectionReader(f, 0, size))
		if err != nil {
			return err
		}
		a.Hold(whole)
	}
	if err := h.c.ResolveOne(a); err != nil {
		return err
	}
	h.c.Muts = append(h.c.Muts, a)
	h.archived = a.Path
	return nil
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
	return asText(v)
}

// archiveName is a free name for the archive of a task's handoff.
func (s *Store) archiveName(task, at string) (string, error) {
	dir, err := s.handoffDir()
	if err != nil {
		return "", err
	}
	taken := map[string]bool{}
	if dir != nil {
		defer dir.Close()
		names, err := dir.Names()
		if err != nil {
			return "", err
		}
		for _, name := range names {
			taken[strings.ToLower(name)] = true // where letter case is folded these are one
		}
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
func (s *Store) handoffArchives(n int) ([]string, int, error) {
	list := []string{}
	dir, err := s.handoffDir()
	if dir == nil || err != nil {
		return list, 0, err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return list, 0, err
	}
	type found struct {
		name string
		at   int64
	}
	var all []found
	for _, name := range names {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		if st, err := dir.Lstat(name); err == nil && st.Kind == fsx.Regular {
			all = append(all, found{name, st.Mtime})
		}
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].at != all[j].at {
			return all[i].at > all[j].at
		}
		return all[i].name > all[j].name
	})
	for _, f := range all[:min(n, len(all))] {
		list = append(list, engine.StateDirName+"/"+handoffsDir+"/"+f.name)
	}
	return list, len(all), nil
}

// checkpointNames are the names of the checkpoints there are. What cannot be
// listed is left out: a handoff does not fail for it.
func (s *Store) checkpointNames() []string {
	list := []string{}
	if s.engine.Disk.State == nil {
		return list
	}
	dir, err := s.engine.Disk.State.OpenDir("checkpoints")
	if err != nil {
		return list
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return list
	}
	for _, name := range names {
		if base, ok := strings.CutSuffix(name, ".json"); ok && base != "" && base[0] != '.' {
			list = append(list, base)
		}
	}
	sort.Strings(list)
	return list
}
