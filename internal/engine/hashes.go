package engine

import (
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// hashCache caches the hash of large files that were read or written, so that
// appending to one, or replacing it, does not read it again. An entry is valid
// only while inode, size, modification and change time of the file are unchanged.
// Small files are always read: that is cheap, and does not rely on time stamps.
type hashCache struct {
	mu   sync.Mutex
	list map[fileID]HashEntry
}

// fileID identifies content as far as the file system reports it.
type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64
}

type HashEntry struct {
	SHA    string
	State  []byte // of the digest after the last byte
	Traits Traits
}

const (
	cacheFrom = 1 << 20 // bytes from which a file is worth remembering
	cacheSize = 256     // files
)

func IDOf(st fsx.Stat) fileID {
	return fileID{st.Dev, st.Ino, st.Size, st.Mtime, st.Ctime}
}

func (h *hashCache) Get(st fsx.Stat) (HashEntry, bool) {
	if st.Size < cacheFrom {
		return HashEntry{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.list[IDOf(st)]
	return e, ok
}

// Put records the hash of the file that st describes now.
func (h *hashCache) Put(st fsx.Stat, e HashEntry) {
	if st.Size < cacheFrom {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list == nil {
		h.list = map[fileID]HashEntry{}
	}
	for id := range h.list { // entries of earlier states of the file, then any
		if (id.dev == st.Dev && id.ino == st.Ino) || len(h.list) >= cacheSize {
			delete(h.list, id)
		}
	}
	h.list[IDOf(st)] = e
}

// NoFile reports whether an error for a path means that no file can exist there:
// the path is a directory, or a file or a symbolic link is in place of one of its
// directories.
func (s *Engine) NoFile(err error) bool {
	if err == nil {
		return false
	}
	switch s.ErrorOf(err).Code {
	case fault.IsADirectory, fault.NotADirectory, fault.EscapesWorkspace, fault.SymlinkLoop, fault.BadStateDir:
		return true
	}
	return false
}

// HashEntry returns the hash and the size of the entry at a path of the journal; "" and 0
// when it is absent.
func (s *Engine) HashEntry(path string) (sha string, size int64, err error) {
	f, size, err := s.OpenCurrent(path)
	if IsAbsent(err) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum := NewDigest()
	if _, err = Move(sum, f); err != nil {
		return "", 0, err
	}
	return sum.Hex(), size, nil
}

// HashPath hashes a file of the workspace; "" when it is absent.
func (s *Engine) HashPath(path string) (string, error) {
	target, err := s.Locate(path)
	if err != nil {
		return "", err
	}
	defer target.Close()
	if !target.Exists() {
		return "", nil
	}
	f, _, err := OpenIfThere(target.Parent, target.Name)
	if err != nil || f == nil {
		return "", err
	}
	defer f.Close()
	sha, _, err := HashFile(f)
	return sha, err
}
