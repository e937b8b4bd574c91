package observe

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/tree"
)

// Digest is a SHA-256.
type Digest = [32]byte

// Entry records one file: its stat and the hash of its content, or that git ignores it.
type Entry struct {
	Name         string
	Size         int64
	Mtime, Ctime int64
	Ino          uint64
	Mode         uint32
	Flags        uint8
	SHA          Digest
	Git          string // binary name of the git object with the same bytes, if there is one
}

// The flags of an entry.
const (
	Ignored   = 1 << iota // git ignores it
	Directory             // an ignored directory, which is not entered
	Unkept                // history has no copy of its bytes: it is too large
	hasGit
)

// kept reports whether changes of the file are recorded.
func (e *Entry) kept() bool {
	return e.Flags&Directory == 0 && (e.Flags&Ignored == 0 || e.SHA != Digest{})
}

// link reports whether the entry is a symbolic link.
func (e *Entry) link() bool { return e.Mode == fsx.ModeLink }

// same reports whether a file is unchanged according to its stat.
func (e *Entry) same(st *fsx.Stat) bool {
	return e.Ino == st.Ino && e.Size == st.Size && e.Mtime == st.Mtime && e.Ctime == st.Ctime && e.Mode == st.Mode
}

// take copies the stat of a file to the entry.
func (e *Entry) take(st *fsx.Stat) {
	e.Size, e.Mtime, e.Ctime, e.Ino, e.Mode = st.Size, st.Mtime, st.Ctime, st.Ino, st.Mode
}

// How much older than the scan a time stamp must be to be relied on, in
// nanoseconds: time stamps are as coarse as two seconds on some file systems, and
// set by another clock. Those that a local one keeps below the millisecond are
// those of this system's clock, which advances every few milliseconds.
const (
	coarseSlack = 2e9
	fineSlack   = 1e8
)

// racy reports whether the file may have been changed after it was read without a
// change of its time stamps. local is set if this system sets them.
func (e *Entry) racy(scanned int64, local bool) bool {
	slack := int64(coarseSlack)
	if local && e.Ctime%1e6 != 0 {
		slack = fineSlack
	}
	return max(e.Mtime, e.Ctime) >= scanned-slack
}

// Index is the result of the last scan. It is a cache in addition to the journal: for a
// path that has rows the newest row records its content; for any other path the index
// does.
type Index struct {
	Scanned int64             // when the scan began, nanoseconds
	Seq     uint64            // newest row then
	Rules   uint64            // hash of the patterns that are not in the workspace, and of the policy's globs
	Tracked uint64            // stamp of git's own index
	Growing bool              // no scan has seen everything yet: a file that is not in it counts as known
	modes   map[string]uint32 // of the directories, with fsx.ModeDir
	dirs    map[string][]Entry
}

// Files returns the number of files whose changes are recorded.
func (x *Index) Files() (n int) {
	for _, list := range x.dirs {
		for i := range list {
			if list[i].kept() {
				n++
			}
		}
	}
	return n
}

// Directories are the paths of the directories that were entered, in order.
func (x *Index) Directories() []string {
	if x == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(x.dirs))
}

func find(list []Entry, name string) *Entry {
	if i, ok := slices.BinarySearchFunc(list, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) }); ok {
		return &list[i]
	}
	return nil
}

// The file: magic, scanned, seq, rules, tracked, growing, number of directories and of entries;
// for each directory its path, the number of its entries, and these; CRC-32.
const (
	magic      = "rwobsrv3"
	headerSize = len(magic) + 7*8
	fixedSize  = 4*8 + 4 + 1 + 32 // of an entry, without names
)

var errDamaged = errors.New("the stat index is damaged")

// encode writes directories in the order of their paths.
func (x *Index) encode() []byte {
	paths, entries := x.Directories(), 0
	for _, list := range x.dirs {
		entries += len(list)
	}
	b := make([]byte, 0, headerSize+len(paths)*48+entries*(fixedSize+40)+4)
	b = append(b, magic...)
	for _, n := range []uint64{uint64(x.Scanned), x.Seq, x.Rules, x.Tracked, map[bool]uint64{true: 1}[x.Growing], uint64(len(paths)), uint64(entries)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for _, p := range paths {
		b = appendText(b, p)
		b = binary.AppendUvarint(b, uint64(x.modes[p]))
		b = binary.AppendUvarint(b, uint64(len(x.dirs[p])))
		for i := range x.dirs[p] {
			b = x.dirs[p][i].append(b)
		}
	}
	return sealed(b)
}

// sealed is b with its checksum.
func sealed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (e *Entry) append(b []byte) []byte {
	b = appendText(b, e.Name)
	for _, n := range []uint64{uint64(e.Size), uint64(e.Mtime), uint64(e.Ctime), e.Ino} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, e.Mode)
	flags := e.Flags &^ hasGit
	if e.Git != "" {
		flags |= hasGit
	}
	b = append(append(b, flags), e.SHA[:]...)
	if e.Git != "" {
		b = appendText(b, e.Git)
	}
	return b
}

// decodeIndex reads an index. Its texts are parts of one string.
func decodeIndex(data []byte) (*Index, error) {
	end := len(data) - 4
	if end < headerSize || !isIndex(data) || crc32.Checksum(data[:end], castagnoli()) != binary.LittleEndian.Uint32(data[end:]) {
		return nil, errDamaged
	}
	r := reader{s: string(data[:end]), i: len(magic)}
	x := &Index{Scanned: int64(r.fixed(8)), Seq: r.fixed(8), Rules: r.fixed(8), Tracked: r.fixed(8), Growing: r.fixed(8) != 0}
	dirs, entries := r.fixed(8), r.fixed(8)
	if dirs > uint64(end) || entries > uint64(end/fixedSize) {
		return nil, errDamaged
	}
	x.dirs = make(map[string][]Entry, dirs)
	all := make([]Entry, entries)
	x.modes = make(map[string]uint32, dirs)
	for range dirs {
		path := r.text()
		x.modes[path] = uint32(r.uvarint())
		n := r.uvarint()
		if r.bad || n > uint64(len(all)) {
			return nil, errDamaged
		}
		for i := range all[:n] {
			r.entry(&all[i])
		}
		x.dirs[path], all = all[:n:n], all[n:]
	}
	if r.bad || r.i != end {
		return nil, errDamaged
	}
	return x, nil
}

func isIndex(data []byte) bool {
	return strings.HasPrefix(string(data[:min(len(data), len(magic))]), magic)
}

// Without returns the index without the files and directories for which hit is true.
func Without(data []byte, hit func(path string) bool) ([]byte, error) {
	x, err := decodeIndex(data)
	if err != nil {
		return nil, err
	}
	gone := false
	for dir, list := range x.dirs {
		if hit(dir) {
			delete(x.dirs, dir)
			gone = true
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(list), func(e Entry) bool { return hit(tree.Join(dir, e.Name)) })
		gone = gone || len(kept) < len(list)
		x.dirs[dir] = kept
	}
	if !gone {
		return data, nil
	}
	return x.encode(), nil
}

// reader reads the parts of an index; bad means that one was incomplete.
type reader struct {
	s   string
	i   int
	bad bool
}

func (r *reader) bytes(n int) string {
	if n < 0 || n > len(r.s)-r.i {
		r.bad, n = true, 0
	}
	r.i += n
	return r.s[r.i-n : r.i]
}

func (r *reader) fixed(n int) uint64 {
	var b [8]byte
	copy(b[:], r.bytes(n))
	return binary.LittleEndian.Uint64(b[:])
}

func (r *reader) uvarint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		c := r.fixed(1)
		v |= c & 0x7f << shift
		if c < 0x80 {
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *reader) text() string { return r.bytes(int(min(r.uvarint(), 1<<20))) }

func (r *reader) entry(e *Entry) {
	e.Name = r.text()
	e.Size, e.Mtime, e.Ctime, e.Ino = int64(r.fixed(8)), int64(r.fixed(8)), int64(r.fixed(8)), r.fixed(8)
	e.Mode, e.Flags = uint32(r.fixed(4)), uint8(r.fixed(1))
	copy(e.SHA[:], r.bytes(32))
	if e.Flags&hasGit != 0 {
		e.Git = r.text()
	}
	e.Flags &^= hasGit
}
