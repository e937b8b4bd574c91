// Package index finds the newest journal row of a path and the row of an
// idempotency key without reading the journal.
//
// An Index is a map in memory over an immutable sorted file. All of it is a
// cache: it can be rebuilt from the journal, so a damaged file is reported and
// kept, never repaired.
//
// The file is a sequence of 4096-byte blocks of up to 113 entries, in the
// order of their keys, each block ending in its CRC-32; then a footer with the
// first key of each block and the state of the caller; then a trailer:
//
//	entry    key 16, seq 8, rev 4, when 4, flags 4      little endian
//	trailer  magic 8, blocks 8, entries 8, state 8, CRC-32 of footer and trailer 4
package index

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// ErrDamaged is returned if a part of the file differs from what was written.
var ErrDamaged = errors.New("index is damaged")

// Key is the identity of a path or of an idempotency key.
type Key [16]byte

// PathKey is the key of a path.
func PathKey(path string) Key { return keyOf("path", path) }

// IdemKey is the key of an idempotency key.
func IdemKey(key string) Key { return keyOf("key", key) }

func keyOf(domain, name string) Key {
	sum := sha256.Sum256([]byte(domain + "\x00" + name))
	return Key(sum[:16])
}

// Entry is the information about a key.
type Entry struct {
	Seq  uint64
	Rev  uint32
	When uint32 // seconds since the Unix epoch
	Idem bool   // of an idempotency key
}

const (
	blockSize   = 4096
	entrySize   = 36
	perBlock    = (blockSize - 4) / entrySize
	trailerSize = 36
	magic       = "rwindex1"
	maxState    = 64 << 10
	flagIdem    = 1
)

// Index is safe for concurrent use.
type Index struct {
	mu      sync.RWMutex
	overlay map[Key]Entry
	file    fsx.File
	first   []Key // first key of each block
	count   int64 // entries in the file
}

// New returns an empty index without a file.
func New() *Index { return &Index{overlay: map[Key]Entry{}} }

// Put sets the entry of a key.
func (x *Index) Put(k Key, e Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.overlay[k] = e
}

// Get returns the entry of a key. The block it comes from is verified.
func (x *Index) Get(k Key) (Entry, bool, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if e, ok := x.overlay[k]; ok {
		return e, true, nil
	}
	n := sort.Search(len(x.first), func(i int) bool { return bytes.Compare(x.first[i][:], k[:]) > 0 })
	if n == 0 {
		return Entry{}, false, nil
	}
	var buf [blockSize]byte
	block, err := x.block(n-1, &buf)
	if err != nil {
		return Entry{}, false, err
	}
	count := len(block) / entrySize
	i := sort.Search(count, func(i int) bool { return bytes.Compare(block[i*entrySize:i*entrySize+16], k[:]) >= 0 })
	if i == count || !bytes.Equal(block[i*entrySize:i*entrySize+16], k[:]) {
		return Entry{}, false, nil
	}
	_, e := decodeEntry(block[i*entrySize:])
	return e, true, nil
}

// block reads and verifies one block and returns its entries.
func (x *Index) block(n int, buf *[blockSize]byte) ([]byte, error) {
	if _, err := x.file.ReadAt(buf[:], int64(n)*blockSize); err != nil && err != io.EOF {
		return nil, err
	}
	if crc32.ChecksumIEEE(buf[:blockSize-4]) != binary.LittleEndian.Uint32(buf[blockSize-4:]) {
		return nil, ErrDamaged
	}
	count := min(perBlock, x.count-int64(n)*perBlock)
	return buf[:count*entrySize], nil
}

func encodeEntry(buf []byte, k Key, e Entry) []byte {
	buf = append(buf, k[:]...)
	buf = binary.LittleEndian.AppendUint64(buf, e.Seq)
	buf = binary.LittleEndian.AppendUint32(buf, e.Rev)
	buf = binary.LittleEndian.AppendUint32(buf, e.When)
	flags := uint32(0)
	if e.Idem {
		flags = flagIdem
	}
	return binary.LittleEndian.AppendUint32(buf, flags)
}

func decodeEntry(b []byte) (Key, Entry) {
	return Key(b[:16]), Entry{
		Seq: binary.LittleEndian.Uint64(b[16:]), Rev: binary.LittleEndian.Uint32(b[24:]),
		When: binary.LittleEndian.Uint32(b[28:]), Idem: binary.LittleEndian.Uint32(b[32:])&flagIdem != 0,
	}
}

// Close releases the file.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file == nil {
		return nil
	}
	err := x.file.Close()
	x.file, x.first, x.count = nil, nil, 0
	return err
}

const (
	prefix = "index-"
	suffix = ".snap"
)

// snapshots lists the snapshot files, newest first.
func snapshots(dir fsx.Dir) ([]string, error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	var list []string
	for i := len(names) - 1; i >= 0; i-- {
		if strings.HasPrefix(names[i], prefix) && strings.HasSuffix(names[i], suffix) {
			list = append(list, names[i])
		}
	}
	return list, nil
}

// Load opens the newest snapshot with a complete footer and returns the state that was
// saved with it. Without one it returns an empty index.
func Load(dir fsx.Dir) (*Index, []byte, error) {
	list, err := snapshots(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range list {
		x, state, err := load(dir, name)
		if err == nil {
			return x, state, nil
		}
		if !errors.Is(err, ErrDamaged) {
			return nil, nil, err
		}
	}
	return New(), nil, nil
}

func load(dir fsx.Dir, name string) (*Index, []byte, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return nil, nil, err
	}
	x := New()
	state, err := x.readFooter(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	x.file = f
	return x, state, nil
}

func (x *Index) readFooter(f fsx.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size < trailerSize {
		return nil, ErrDamaged
	}
	var t [trailerSize]byte
	if _, err := f.ReadAt(t[:], st.Size-trailerSize); err != nil {
		return nil, err
	}
	blocks := int64(binary.LittleEndian.Uint64(t[8:]))
	count := int64(binary.LittleEndian.Uint64(t[16:]))
	stateLen := int64(binary.LittleEndian.Uint64(t[24:]))
	if string(t[:8]) != magic || blocks < 0 || blocks > st.Size/blockSize || stateLen < 0 || stateLen > maxState ||
		count > blocks*perBlock || blocks*blockSize+blocks*16+stateLen+trailerSize != st.Size {
		return nil, ErrDamaged
	}
	footer := make([]byte, blocks*16+stateLen)
	if _, err := f.ReadAt(footer, blocks*blockSize); err != nil && err != io.EOF {
		return nil, err
	}
	sum := crc32.Update(crc32.ChecksumIEEE(footer), crc32.IEEETable, t[:32])
	if sum != binary.LittleEndian.Uint32(t[32:]) {
		return nil, ErrDamaged
	}
	x.count = count
	x.first = make([]Key, blocks)
	for i := range x.first {
		x.first[i] = Key(footer[i*16:])
	}
	return footer[blocks*16:], nil
}

// Save writes everything to a new snapshot, named by seq, and continues with it. drop
// reports the entries to leave out. One older snapshot is kept.
//
//	openat(dir, name.tmp)  write…  fsync  renameat  fsync(dir)
func (x *Index) Save(dir fsx.Dir, seq uint64, state []byte, drop func(Key, Entry) bool) error {
	if len(state) > maxState {
		return errors.New("index state too large")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	name := fmt.Sprintf("%s%020d%s", prefix, seq, suffix)
	err := durable.Place(dir, name, name+durable.TempSuffix, 0o600, func(f fsx.File) error {
		w := &writer{out: bufio.NewWriterSize(f, 64*blockSize)}
		if err := x.merge(w, drop); err != nil {
			return err
		}
		return w.finish(state)
	})
	if err != nil {
		return err
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	fresh, _, err := load(dir, name)
	if err != nil {
		return err
	}
	if x.file != nil {
		x.file.Close()
	}
	x.file, x.first, x.count, x.overlay = fresh.file, fresh.first, fresh.count, map[Key]Entry{}
	return forgetOld(dir)
}

// forgetOld keeps the two newest snapshots.
func forgetOld(dir fsx.Dir) error {
	list, err := snapshots(dir)
	if err != nil {
		return err
	}
	for i := 2; i < len(list); i++ {
		if err := dir.Remove(list[i]); err != nil {
			return err
		}
	}
	return nil
}

// merge passes the entries of the file and of the overlay to w in the order of
// their keys; the overlay wins.
func (x *Index) merge(w *writer, drop func(Key, Entry) bool) error {
	keys := slices.SortedFunc(maps.Keys(x.overlay), func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
	put := func(k Key, e Entry) error {
		if drop != nil && drop(k, e) {
			return nil
		}
		return w.put(k, e)
	}
	var buf [blockSize]byte
	for n := range x.first {
		block, err := x.block(n, &buf)
		if err != nil {
			return err
		}
		for ; len(block) > 0; block = block[entrySize:] {
			k, e := decodeEntry(block)
			for len(keys) > 0 && bytes.Compare(keys[0][:], k[:]) < 0 {
				if err := put(keys[0], x.overlay[keys[0]]); err != nil {
					return err
				}
				keys = keys[1:]
			}
			if len(keys) > 0 && keys[0] == k {
				continue
			}
			if err := put(k, e); err != nil {
				return err
			}
		}
	}
	for _, k := range keys {
		if err := put(k, x.overlay[k]); err != nil {
			return err
		}
	}
	return nil
}

// writer writes a snapshot.
type writer struct {
	out   *bufio.Writer
	block []byte
	first []Key
	count uint64
}

func (w *writer) put(k Key, e Entry) error {
	if len(w.block) == 0 {
		w.first = append(w.first, k)
	}
	w.block = encodeEntry(w.block, k, e)
	w.count++
	if len(w.block) < perBlock*entrySize {
		return nil
	}
	return w.endBlock()
}

func (w *writer) endBlock() error {
	if len(w.block) == 0 {
		return nil
	}
	_, err := w.out.Write(sealed(append(w.block, make([]byte, blockSize-4-len(w.block))...)))
	w.block = w.block[:0]
	return err
}

// sealed is b with its checksum.
func sealed(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)) }

func (w *writer) finish(state []byte) error {
	if err := w.endBlock(); err != nil {
		return err
	}
	var end []byte
	for _, k := range w.first {
		end = append(end, k[:]...)
	}
	end = append(append(end, state...), magic...)
	for _, n := range []uint64{uint64(len(w.first)), w.count, uint64(len(state))} {
		end = binary.LittleEndian.AppendUint64(end, n)
	}
	w.out.Write(sealed(end))
	return w.out.Flush()
}
