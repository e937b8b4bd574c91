package simfs

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Loss is how much of the unsynced data a crash loses.
type Loss int

const (
	All   Loss = iota // everything that was not synced
	None              // nothing
	Some              // a part of it, picked by the seed
	Older             // as Some, and the kept part may be older than the visible content
)

// Crash returns a disk that a power failure at this moment could leave. f stays
// unchanged, so that other outcomes can be examined.
func (f *FS) Crash(seed uint64, loss Loss) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &crash{
		loss: loss, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)),
		names: map[*inode]map[string]*inode{}, copies: map[*inode]*inode{}, cuts: map[*inode]int{},
	}
	for _, s := range f.pending {
		keep := c.keep() && !s.failed
		for _, k := range s.cuts {
			if keep && k.n.cut == k {
				c.cuts[k.n] = k.size
			}
		}
		for _, a := range s.sets {
			if keep {
				set(c.entries(a.dir), a)
			}
		}
	}
	out := &FS{NoExchange: f.NoExchange, NoReplace: f.NoReplace, NoLink: f.NoLink, NoSymlink: f.NoSymlink, NoSyncEach: f.NoSyncEach, Ordered: f.Ordered, Clones: f.Clones, Umask: f.Umask,
		nextIno: f.nextIno, clock: f.clock + 1, stopAt: -1, nextDev: f.nextDev, cap: f.cap}
	out.root = c.copy(f.root)
	out.start()
	return out
}

// crash builds the disk after a power failure.
type crash struct {
	loss   Loss
	rng    *rand.Rand
	names  map[*inode]map[string]*inode
	copies map[*inode]*inode
	cuts   map[*inode]int // sizes that kept names brought with them
}

func (c *crash) keep() bool {
	switch c.loss {
	case All:
		return false
	case None:
		return true
	}
	return c.rng.IntN(2) == 0
}

func (c *crash) entries(d *inode) map[string]*inode {
	m := c.names[d]
	if m == nil {
		m = maps.Clone(d.dskns)
		c.names[d] = m
	}
	return m
}

// copy returns the inode as it is after the crash.
func (c *crash) copy(n *inode) *inode {
	if m := c.copies[n]; m != nil {
		m.nlink++
		return m
	}
	m := &inode{id: n.id, dev: n.dev, kind: n.kind, target: n.target, born: n.born, mtime: n.mtime, ctime: n.ctime, nlink: 1}
	c.copies[n] = m
	m.meta = n.dmeta.clone()
	if c.keep() {
		m.meta = n.meta.clone()
	}
	m.dmeta = m.meta.clone()
	if n.kind == fsx.Directory {
		m.nlink = 2
		have := c.entries(n)
		m.names = make(map[string]*inode, len(have))
		for _, name := range slices.Sorted(maps.Keys(have)) { // the outcome depends on the seed alone
			m.names[name] = c.copy(have[name])
		}
		m.dskns = maps.Clone(m.names)
		return m
	}
	m.data, m.fixed = c.content(n), true
	m.disk = m.data
	return m
}

func (c *crash) content(n *inode) []byte {
	disk := n.disk
	cut, ordered := c.cuts[n]
	if ordered {
		disk = disk[:min(cut, len(disk))]
	}
	if c.loss == All || len(n.dirty) == 0 && len(n.data) == len(disk) {
		return disk
	}
	if c.loss == None && len(n.lost) == 0 {
		n.fixed = true
		return n.data
	}
	size := len(disk)
	if len(n.data) != size && c.keep() {
		if size = len(n.data); !ordered {
			size = c.size(n)
		}
	}
	out := make([]byte, size)
	copy(out, disk)
	for _, s := range slices.Sorted(maps.Keys(n.dirty)) {
		if n.lost[s] || !c.keep() {
			continue
		}
		from := s * sector
		if from >= int64(size) {
			continue
		}
		in := out[from:min(from+sector, int64(size))]
		clear(in)
		copy(in, c.sector(n, s))
	}
	return out
}

// past records the contents of a file between two syncs, for [Older]. Of a sector and
// of the size it keeps the newest few, so that a long append costs little.
type past struct {
	sectors map[int64][][]byte
	sizes   []int
}

const pastStates = 4

func (p *past) sector(s int64, content []byte) {
	if p.sectors == nil {
		p.sectors = map[int64][][]byte{}
	}
	p.sectors[s] = newest(append(p.sectors[s], append([]byte(nil), content...)))
}

func (p *past) size(n int) { p.sizes = newest(append(p.sizes, n)) }

func newest[T any](list []T) []T { return list[max(0, len(list)-pastStates):] }

// sector is the content of a sector that was written back.
func (c *crash) sector(n *inode, s int64) []byte {
	if was := n.past.sectors[s]; c.loss == Older {
		if i := c.rng.IntN(len(was) + 1); i < len(was) {
			return was[i]
		}
	}
	from := min(s*sector, int64(len(n.data)))
	return n.data[from:min(from+sector, int64(len(n.data)))]
}

// size is a size of the file that was written back.
func (c *crash) size(n *inode) int {
	if was := n.past.sizes; c.loss == Older {
		if i := c.rng.IntN(len(was) + 1); i < len(was) {
			return was[i]
		}
	}
	return len(n.data)
}
