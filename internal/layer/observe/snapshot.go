package observe

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
	"github.com/resilientwrite/resilientwrite/internal/tree"
)

// A snapshot is the stat index of one moment under a name of its own. History
// or git has the bytes.

const (
	snapshotDir  = "snapshots" // in Dir
	snapshotStem = "snap_"
	// maxSnapshots is how many are kept.
	maxSnapshots = 50
	// snapshotAge is how long one is kept at least if there are few.
	snapshotAge  = 30 * 24 * time.Hour
	snapshotMeta = 64 << 10
)

// Snapshot describes a snapshot.
type Snapshot struct {
	ID         string    `json:"id"`
	At         time.Time `json:"at"`
	Seq        uint64    `json:"seq"` // newest row then
	Label      string    `json:"label,omitempty"`
	Session    string    `json:"session,omitempty"`
	BaseCommit string    `json:"base,omitempty"` // commit that was checked out
	Files      int       `json:"files"`
	FromGit    int       `json:"from_git"` // files whose bytes are in git
	Bytes      int64     `json:"bytes"`
	NotKept    int       `json:"unkept"` // files that are too large to be kept
}

// Report returns the snapshot in the form of its readers.
func (s Snapshot) Report() around.Snapshot {
	s.At = stamp.Of(s.At)
	return around.Snapshot(s)
}

// File is a file in a snapshot or in the index.
type File struct{ *Entry }

// Hex is the hash of a file as the journal has it.
func (f File) Hex() string { return hex.EncodeToString(f.SHA[:]) }

// Link reports whether the file is a symbolic link; a missing file is not.
func (f File) Link() bool { return f.Entry != nil && f.link() }

// GitHex is the name of the git object with its bytes, "" for none.
func (f File) GitHex() string { return hex.EncodeToString([]byte(f.Git)) }

// All are the files of an index, by their paths.
func (x *Index) All() map[string]File {
	all := make(map[string]File, len(x.dirs))
	for dir, list := range x.dirs {
		for i := range list {
			if list[i].kept() {
				p := tree.Join(dir, list[i].Name)
				all[p] = File{&list[i]}
			}
		}
	}
	return all
}

// Save makes a snapshot of the result of a scan. Versions that history no longer has
// are read again.
func (l *Layer) Save(ctx context.Context, x *Index, snap Snapshot) (Snapshot, error) {
	for p, f := range x.All() {
		snap.Files++
		snap.Bytes += f.Size
		switch {
		case f.Git != "":
			snap.FromGit++
		case f.Flags&Unkept != 0:
			snap.NotKept++
		case f.Size > 0 && !l.History.Has(f.Hex()):
			if err := l.keepAgain(ctx, p, f); err != nil {
				return snap, err
			}
		}
	}
	up, err := l.OpenPart(Dir)
	if err != nil {
		return snap, err
	}
	defer up.Close()
	dir, err := durable.Mkdir(up, snapshotDir, 0o700)
	if fsx.NotDir(err) {
		err = engine.Misplaced(Dir + "/" + snapshotDir)
	}
	if err != nil {
		return snap, err
	}
	defer dir.Close()
	err = l.Alone("snapshot", func() error {
		for at := l.Now().UTC(); ; at = at.Add(time.Microsecond) { // the clock may have been set back, or stand still
			snap.At, snap.ID = at, snapshotStem+at.Format("20060102T150405.000000")
			if _, err := dir.Lstat(snap.ID + ".json"); err != nil {
				break
			}
		}
		meta, err := json.Marshal(snap)
		if err != nil {
			return err
		}
		if err := durable.WriteFile(dir, snap.ID+".index", x.encode(), 0o600); err != nil {
			return err
		}
		if err := durable.WriteFile(dir, snap.ID+".json", meta, 0o600); err != nil {
			return err
		}
		return l.expire(dir, snap.ID)
	})
	return snap, err
}

// keepAgain keeps the bytes of a file that matches its index entry.
func (l *Layer) keepAgain(ctx context.Context, p string, f File) error {
	r, size, err := l.OpenCurrent(p)
	if err != nil {
		return err
	}
	defer r.Close()
	err = l.Keep([]engine.Bytes{{SHA: f.Hex(), Size: size, From: engine.NewStoppable(ctx, r)}})
	if err != nil && ctx.Err() == nil && l.ErrorOf(err).Code == fault.Internal { // it is another one by now
		return fault.New(fault.ChangedDuringWrite)
	}
	return err
}

// snapshots opens the directory of the snapshots; nil if there is none.
func (l *Layer) snapshots() (fsx.Dir, error) { return l.StatePart(Dir + "/" + snapshotDir) }

// List returns the snapshots, newest first. A snapshot with a damaged description
// is left out.
func (l *Layer) List() ([]Snapshot, error) {
	dir, err := l.snapshots()
	if dir == nil || err != nil {
		return nil, err
	}
	defer dir.Close()
	return listSnapshots(dir)
}

func listSnapshots(dir fsx.Dir) (list []Snapshot, err error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(names) {
		id, ok := strings.CutSuffix(name, ".json")
		if !ok {
			continue
		}
		var snap Snapshot
		data, err := durable.ReadFile(dir, name, snapshotMeta)
		if engine.IsUnread(err) {
			return nil, err
		}
		if err == nil && json.Unmarshal(data, &snap) == nil && snap.ID == id {
			list = append(list, snap)
		}
	}
	// Their times are not in order if the clock was wrong.
	slices.SortStableFunc(list, func(a, b Snapshot) int { return cmp.Compare(b.Seq, a.Seq) })
	return list, nil
}

// expire removes the snapshots over the limits, but not the one that was just made, and
// incomplete ones that a crash left.
func (l *Layer) expire(dir fsx.Dir, made string) error {
	list, err := listSnapshots(dir)
	if err != nil {
		return err
	}
	// Those whose label a newer one has go first: programs make them again and again.
	labels, again := map[string]bool{}, []Snapshot{}
	first := slices.DeleteFunc(slices.Clone(list), func(snap Snapshot) bool {
		repeated := snap.Label != "" && labels[snap.Label]
		if labels[snap.Label] = true; repeated {
			again = append(again, snap)
		}
		return repeated
	})
	stays := map[string]bool{}
	for i, snap := range append(first, again...) {
		if snap.ID == made || i < maxSnapshots && l.Now().Sub(snap.At) < snapshotAge {
			stays[snap.ID] = true
		}
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) { // the description first: without it there is no snapshot
		if stays[strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".index")] || !strings.HasPrefix(name, snapshotStem) {
			continue
		}
		if st, err := dir.Lstat(name); err == nil && st.Kind == fsx.Directory { // not one of ours
			continue
		}
		if err := dir.Remove(name); err != nil && !engine.IsAbsent(err) {
			return err
		}
	}
	return nil
}

// Load reads a snapshot.
func (l *Layer) Load(id string) (Snapshot, *Index, error) {
	none := fault.New(fault.NotFound).With("snapshot", id).Hintf("no snapshot has this identifier; resilient-write snapshot list lists them")
	if !strings.HasPrefix(id, snapshotStem) || strings.ContainsAny(id, "/\\\x00") {
		return Snapshot{}, nil, none
	}
	dir, err := l.snapshots()
	if err != nil {
		return Snapshot{}, nil, err
	}
	if dir == nil {
		return Snapshot{}, nil, none
	}
	defer dir.Close()
	var snap Snapshot
	meta, err := durable.ReadFile(dir, id+".json", snapshotMeta)
	if engine.IsAbsent(err) {
		return snap, nil, none
	}
	data, ierr := durable.ReadFile(dir, id+".index", MaxIndex)
	for _, err := range []error{err, ierr} {
		if engine.IsUnread(err) {
			return snap, nil, err
		}
	}
	x, derr := decodeIndex(data)
	if err != nil || json.Unmarshal(meta, &snap) != nil || derr != nil {
		if _, err := dir.Lstat(id + ".json"); engine.IsAbsent(err) { // it was removed meanwhile
			return snap, nil, none
		}
		return snap, nil, fault.New(fault.HashDriftOnRead).With("snapshot", id).Hintf("the snapshot is damaged; choose another one")
	}
	return snap, x, nil
}

// Pinned are the versions that snapshots need, without those of damaged ones.
func (l *Layer) Pinned() (map[string]bool, error) {
	list, err := l.List()
	if err != nil || len(list) == 0 {
		return nil, err
	}
	all := map[Digest]bool{}
	for _, snap := range list {
		_, x, err := l.Load(snap.ID)
		if err != nil {
			if code := l.ErrorOf(err).Code; code == fault.HashDriftOnRead || code == fault.NotFound {
				continue
			}
			return nil, err
		}
		for _, entries := range x.dirs {
			for i := range entries {
				if e := &entries[i]; e.kept() && e.Git == "" && e.Flags&Unkept == 0 {
					all[e.SHA] = true
				}
			}
		}
	}
	out := make(map[string]bool, len(all))
	for sha := range all {
		out[hex.EncodeToString(sha[:])] = true
	}
	return out, nil
}

// Difference is a file that differs between two states.
type Difference struct {
	around.FileChange
	WasLink bool
}

// Differences returns the changes from one state to another, in the order of paths.
func Differences(from, to map[string]File) (list []Difference) {
	differs := func(p, change string, was, now File) {
		d := Difference{FileChange: around.FileChange{Path: p, Change: change, Link: now.Link()}, WasLink: was.Link()}
		if was.Entry != nil {
			d.PrevSHA256 = was.SHA
		}
		if now.Entry != nil {
			d.SHA256, d.Bytes = now.SHA, now.Size
		}
		list = append(list, d)
	}
	for p, now := range to {
		switch was, ok := from[p]; {
		case !ok:
			differs(p, "created", was, now)
		case was.SHA != now.SHA || was.Link() != now.Link():
			differs(p, "changed", was, now)
		case was.Mode != now.Mode:
			differs(p, "mode", was, now)
		}
	}
	for p, was := range from {
		if _, ok := to[p]; !ok {
			differs(p, "deleted", was, File{})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return list
}
