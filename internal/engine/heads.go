package engine

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// The newest version of a file is in the workspace, where other programs may
// remove or change it. So history gets a copy of it, after the reply. A file that
// is replaced before that goes into history itself, and needs no copy.

const (
	headDelay   = 500 * time.Millisecond // that a version waits at least, unless there is no room
	headTurn    = headDelay / 2
	headInline  = 64 << 10  // up to this size the bytes wait in memory
	headMemory  = 8 << 20   // bytes in memory together
	headFiles   = maxBehind // larger files that wait open: those of the commits that wait to be settled
	headCount   = 100_000   // versions that wait
	headBatch   = 64        // versions that are flushed together, at least
	headRetries = 3

	DefaultKeepHeadMax = 8 << 20
)

// head is a newest version that history is to get.
type head struct {
	sha  string
	size int64
	path string
	rev  uint64
	seq  uint64
	refs int // files that became this
	// One of these has the bytes; otherwise the file is opened by its path.
	data  []byte
	file  fsx.File
	mtime int64     // of file, when it held exactly these bytes
	at    time.Time // when it was handed over
	tries int
	// before is a version that waits too, and that this one is appended to: with that
	// copied, not all is lost if another program overwrites the file before its copy.
	before *head
	busy   bool // it is being copied, and closed after that
}

func (h *head) close() {
	if h.file != nil {
		h.file.Close()
	}
	if cap(h.data) == headInline {
		headBytes.Put((*[headInline]byte)(h.data[:headInline]))
	}
	h.file, h.data = nil, nil
}

// headBytes are buffers for long versions that wait in memory.
var headBytes = sync.Pool{New: func() any { return new([headInline]byte) }}

// room returns memory for the bytes of the version.
func (h *head) room() []byte {
	if h.size <= headInline/2 {
		return make([]byte, h.size)
	}
	return headBytes.Get().(*[headInline]byte)[:h.size]
}

// heads holds the newest versions that wait for their copy. The goroutine that
// copies them runs only while there are some, and Close waits for it.
type heads struct {
	s       *Engine
	mu      sync.Mutex
	cond    sync.Cond
	queue   []*head
	waiting map[string]*head // those of queue, by hash
	made    map[string]bool  // copies that this process made last
	bytes   int64            // in memory
	files   int              // open
	running bool
	ended   bool
	turns   int           // of the goroutine
	sweep   bool          // the limits of history are to be checked
	now     bool          // the copies are wanted now
	kick    chan struct{} // ends the pause between two turns
	whole   atomic.Bool   // the file system cannot clone
}

func newHeads(s *Engine) *heads {
	h := &heads{s: s, waiting: map[string]*head{}, made: map[string]bool{}, kick: make(chan struct{}, 1)}
	h.cond.L = &h.mu
	return h
}

// keepsHead reports whether the limits of history allow a copy of the new version.
func (s *Engine) keepsHead(m *Mutation) bool {
	caps := s.Host.HistoryCaps()
	return caps.Versions >= 2 && // with one, that is the version before
		(caps.Object <= 0 || m.Size <= caps.Object) &&
		(m.Size <= caps.Head || m.Size > headInline && !s.Heads.whole.Load())
}

// keepHeads hands over the newest versions that a commit made, after its files
// are published.
func (c *Commit) keepHeads() {
	for i, m := range c.Muts {
		if m.Private || m.ch == nil || m.Op == OpDelete || !c.s.keepsHead(m) {
			continue
		}
		var before *head
		if m.PayBytes > 0 && !m.ch.Foreign {
			before = c.s.Heads.dropBefore(m)
		}
		if (m.Source != nil || c.files != nil) && c.s.History.Has(m.SHA) {
			continue
		}
		h := &head{sha: m.SHA, size: m.Size, path: m.Target.Path, rev: c.Rec.Muts[i].Rev, seq: c.Rec.Seq, before: before}
		m.bytesOfHead(c.s, h)
		c.s.Heads.add(h)
	}
}

// bytesOfHead keeps the bytes that the mutation wrote, if there is room for them.
func (m *Mutation) bytesOfHead(s *Engine, h *head) {
	moved := m.Source != nil
	written := moved || m.Primitive == publish.Create || m.Primitive == publish.Replace || m.Primitive == publish.InPlace
	if h.size <= headInline && written {
		if whole, ok := m.Final.Whole(); ok && !moved && int64(len(whole)) == h.size {
			h.data = h.room() // the caller may change whole after the reply
			copy(h.data, whole)
			return
		}
		from := m.Final.Reader()
		if moved {
			from = m.Source.Prev.Reader()
		}
		// Another program may have written to the file since it got its name.
		data := h.room()
		if _, err := io.ReadFull(from, data); err == nil && HashOf(data) == h.sha {
			h.data = data
		}
		return
	}
	f, err := m.Target.Parent.Open(m.Target.Name, fsx.Read, 0)
	if err != nil {
		return // another program is faster, or there are no descriptors
	}
	if st, err := f.Stat(); err == nil && st.Size == h.size && m.Primitive != publish.Append && m.Primitive != publish.InPlace && m.Source == nil &&
		st.Dev == s.slotDirs.home.at.Dev && st.Ino == m.stageSt.Ino && st.Mtime == m.stageSt.Mtime {
		h.mtime = st.Mtime
	}
	h.file = f
}

// add queues a version for copying. If there is no room, its bytes are not kept
// while it waits.
func (h *heads) add(x *head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.refs, x.at = 1, time.Now()
	if have := h.waiting[x.sha]; have != nil {
		have.refs++
		x.close()
		return
	}
	if h.bytes+int64(len(x.data)) > headMemory || x.file != nil && h.files >= min(headFiles, h.s.descriptors()/16) {
		x.close()
		h.hurry(true)
	}
	if len(h.queue) >= headCount { // the disk is slower than its writers
		h.remove(h.queue[0])
	}
	h.bytes += int64(len(x.data))
	if x.file != nil {
		h.files++
	}
	h.queue = append(h.queue, x)
	h.waiting[x.sha] = x
	h.start()
}

// start runs the goroutine. h.mu is held.
func (h *heads) start() {
	if h.running || h.ended || h.s.TestHooks.InTurn {
		return
	}
	h.running = true
	go h.run()
}

// hurry ends its pause; now has everything copied. h.mu is held.
func (h *heads) hurry(now bool) {
	h.now = h.now || now
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// dropBefore drops the version that m has appended to: it is the beginning of the new
// one. If the bytes of that are not kept in memory, the first of several is not dropped.
func (h *heads) dropBefore(m *Mutation) (before *head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.waiting[m.Prev.SHA]
	if x == nil {
		return nil
	}
	if m.Size > headInline && m.Primitive != publish.Append {
		if before = x.before; before == nil || h.waiting[before.sha] != before {
			x.before = nil
			return x
		}
	}
	if x.refs--; x.refs == 0 { // no other file became this version
		h.remove(x)
	}
	return before
}

// keptAs records that history holds a version, and reports whether it was not
// recorded before.
func (h *heads) keptAs(sha string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.waiting[sha]; x != nil {
		h.remove(x)
	}
	known := h.made[sha]
	delete(h.made, sha)
	return !known
}

// remove removes a version from the queue. h.mu is held.
func (h *heads) remove(x *head) {
	if h.waiting[x.sha] != x {
		return
	}
	delete(h.waiting, x.sha)
	h.bytes -= int64(len(x.data))
	if x.file != nil {
		h.files--
	}
	if !x.busy {
		x.close()
	}
	if len(h.queue) > 0 && h.queue[0] == x {
		h.queue = h.queue[1:]
	}
}

func (h *heads) run() {
	pause := time.NewTimer(headTurn)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-h.kick:
		}
		if !h.turn() {
			return
		}
		pause.Reset(headTurn)
	}
}

// turn copies the versions that have waited long enough, checks the objects that were
// adopted and the files that linger, and applies the limits of history, if that is due. It
// reports whether there is more to do.
func (h *heads) turn() (more bool) {
	h.mu.Lock()
	before := time.Now().Add(-headDelay)
	if h.now {
		before = time.Now()
	}
	h.now = false
	h.mu.Unlock()
	h.copyAll(before)
	h.s.FlushCopies()
	h.s.checkAdopted(h.s.adopted.due())
	h.s.checkLingering()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sweep || !h.ended && h.s.pruneDue() { // with what came into history after the last commit
		h.sweep = false // here: every commit has set it again while the copies were made
		h.mu.Unlock()
		h.s.pruneNow()
		h.mu.Lock()
	}
	more = len(h.waiting) > 0 || h.sweep || h.s.copies.any() || h.s.adopted.any() || !h.ended && h.s.lingering.any()
	h.running, h.turns = more, h.turns+1
	h.cond.Broadcast()
	return more
}

// Drain returns when history has the versions of all commits so far, or cannot have them.
// It fails if a flush of any process has failed.
func (s *Engine) Drain() error {
	if s.Settler == nil { // the store is open for reading only
		return nil
	}
	s.slotDirs.wait()
	err := s.Settler.Drain()
	if err == nil {
		s.Heads.Drain()
		err = s.certify()
	}
	return err
}

// Drain returns when every version that is waiting now was copied, or cannot be.
func (h *heads) Drain() {
	h.s.FlushCopies()
	if h.s.TestHooks.InTurn {
		h.copyAll(time.Now())
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// The turn that is in progress may have begun before.
	for last := h.turns + 2; h.running && len(h.waiting) > 0 && h.turns < last; {
		h.hurry(true)
		h.cond.Wait()
	}
}

// close drops the versions that are still waiting.
func (h *heads) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.waiting {
		h.remove(x)
	}
	for h.sweep, h.ended = false, true; h.running; {
		h.hurry(false)
		h.cond.Wait()
	}
}

// soon has a turn, now if there is too much to wait for it.
func (h *heads) soon(now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start()
	if now {
		h.hurry(false)
	}
}

// sweepSoon applies the limits of history in the next turn.
func (h *heads) sweepSoon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sweep = true
	h.start()
	h.hurry(false)
}

var errNoHead = errors.New("the bytes of this version are gone")

// copyAll copies the versions that were handed over up to a time, in batches.
func (h *heads) copyAll(upto time.Time) {
	for {
		h.mu.Lock()
		var batch []*head
		most := max(1, min(max(headBatch, len(h.queue)/8), h.s.descriptors()/16))
		for len(h.queue) > 0 && len(batch) < most && !h.queue[0].at.After(upto) {
			if x := h.queue[0]; h.waiting[x.sha] == x {
				x.busy = true
				batch = append(batch, x)
			}
			h.queue = h.queue[1:]
		}
		h.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		left := h.s.copyHeads(batch)
		h.mu.Lock()
		for _, x := range batch {
			x.busy = false
			switch x.tries++; {
			case h.waiting[x.sha] != x:
				x.close()
			case left[x] && x.tries < headRetries:
				h.queue = append(h.queue, x)
			default:
				h.remove(x)
			}
		}
		h.mu.Unlock()
		if len(left) > 0 {
			return // another program was stopped with the lock of history: later
		}
	}
}

// copyHeads adds versions to history as objects, durably unless the level is off,
// and returns those that must be tried again.
//
//	n × openat(aa, sha.tmp) write…   n × fsync(sha.tmp)   n × renameat(sha.tmp, sha)   fsync(aa) …
func (s *Engine) copyHeads(batch []*head) (left map[*head]bool) {
	if s.Poisoned.Load() {
		return nil
	}
	var drafts []*blob.Draft
	var made, there []*head
	for _, x := range batch {
		if s.History.Has(x.sha) {
			there = append(there, x)
			continue
		}
		d, err := s.copyHead(x)
		if err != nil {
			continue // it is in the workspace only, which History reports
		}
		drafts, made = append(drafts, d), append(made, x)
	}
	if err := s.flushObjects(drafts); err != nil {
		discard(drafts)
		return nil
	}
	return s.placeHeads(drafts, made, there)
}

// placeHeads gives objects their names, unless an Erase has come since their
// commits: it has not seen them. Objects that already existed are checked again,
// since a sweep that did not know of the commit may have removed them.
func (s *Engine) placeHeads(drafts []*blob.Draft, made, there []*head) (left map[*head]bool) {
	left = map[*head]bool{}
	done, err := s.shareHistory()
	if err != nil {
		discard(drafts)
		for _, x := range slices.Concat(made, there) {
			left[x] = true
		}
		return left
	}
	for _, x := range there {
		if !s.History.Has(x.sha) {
			left[x] = true
		}
	}
	erased := s.erasedTo()
	var placed []*blob.Draft
	for i, d := range drafts {
		if made[i].seq <= erased {
			d.Discard()
			continue
		}
		if d.Place() != nil {
			left[made[i]] = true
			continue
		}
		placed = append(placed, d)
		s.Heads.note(made[i])
	}
	done()
	s.syncObjects(placed)
	return left
}

// erasedTo returns the newest row when Erase last began: versions up to it are no
// longer copied.
func (s *Engine) erasedTo() uint64 {
	mark := s.Locks.Mark()
	if mark > s.Log.Head() {
		s.Log.CatchUp() // others may have written rows since
	}
	if mark <= s.Log.Head() {
		return mark
	}
	return 0 // of another journal
}

// note records a copy that was made.
func (h *heads) note(x *head) {
	h.s.countGrown(x.rev, x.size)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.made) >= headCount {
		clear(h.made)
	}
	h.made[x.sha] = true
}

// flushObjects makes the bytes of objects durable.
func (s *Engine) flushObjects(list []*blob.Draft) error {
	files := make([]fsx.File, len(list))
	for i, d := range list {
		files[i] = d.File
	}
	err := s.flushFiles(files)
	if err != nil && slices.ContainsFunc(list, (*blob.Draft).Named) {
		err = s.flushedHistory(err)
		renew(list)
	}
	return err
}

// renew writes objects again that could not be flushed.
func renew(list []*blob.Draft) {
	for _, d := range list {
		if d.Named() {
			d.Renew()
		}
	}
}

// syncObjects makes the names of objects durable, unless the level is off: each of their
// directories is flushed once.
func (s *Engine) syncObjects(list []*blob.Draft) error {
	if s.Opts.Sync == SyncOff {
		return nil
	}
	dirs := map[string]*blob.Draft{}
	for _, d := range list {
		dirs[d.Dir()] = d
	}
	var flushes []func() error
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		flushes = append(flushes, dirs[name].SyncDir)
	}
	err := s.Together(flushes...)
	if err != nil {
		renew(list)
	}
	return err
}

// flushFiles makes files durable, all concurrently.
func (s *Engine) flushFiles(files []fsx.File) error {
	if s.Opts.Sync == SyncOff || len(files) == 0 {
		return nil
	}
	list := make([]fsx.Syncer, 0, len(files))
	for _, f := range files {
		f.WriteOut()
		list = append(list, f)
	}
	return s.flushes.apart(list) // no commit waits for copies
}

// copyHead writes the bytes of a version to a new object.
func (s *Engine) copyHead(x *head) (*blob.Draft, error) {
	file, size := x.file, x.size
	if x.data == nil && file == nil {
		f, _, err := s.OpenCurrent(x.path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		d, err := s.draftHead(x)
		if err == nil {
			err = s.fillDraft(d, f, size)
		}
		return d, err
	}
	d, err := s.draftHead(x)
	if err != nil {
		return nil, err
	}
	if x.data != nil {
		if _, err = d.File.Write(x.data); err != nil {
			d.Discard()
		}
		return d, err
	}
	if cloned, err := s.cloneHead(d, x); cloned || err != nil {
		return d, err
	}
	return d, s.fillDraft(d, io.NewSectionReader(file, 0, size), size)
}

// draftHead makes the object for a version, unless an Erase has come since its commit. One
// that comes later removes it.
func (s *Engine) draftHead(x *head) (*blob.Draft, error) {
	d, err := s.History.Draft(x.sha)
	if err == nil && x.seq <= s.erasedTo() {
		d.Discard()
		err = errNoHead
	}
	return d, err
}

// fillDraft copies a version that is not too large.
func (s *Engine) fillDraft(d *blob.Draft, r io.Reader, size int64) error {
	err := errNoHead
	if size <= s.Host.HistoryCaps().Head {
		err = d.Fill(io.LimitReader(r, size))
	}
	if err != nil {
		d.Discard()
	}
	return err
}

// cloneHead lets the object share the blocks of the file, if that is supported
// and the file is known to hold what was written to it.
func (s *Engine) cloneHead(d *blob.Draft, x *head) (bool, error) {
	if x.mtime == 0 || s.Heads.whole.Load() {
		return false, nil
	}
	err := d.File.Clone(x.file)
	if errors.Is(err, fsx.ErrUnsupported) {
		s.Heads.whole.Store(true)
		return false, nil
	}
	if err == nil {
		if st, serr := x.file.Stat(); serr != nil || st.Size != x.size || st.Mtime != x.mtime {
			err = errNoHead
		}
	}
	if err != nil {
		d.Discard()
	}
	return err == nil, err
}
