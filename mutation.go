package resilientwrite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// opDelete takes a file away. Verbs of their own use it.
// writeOp is what a mutation does with its file.
type writeOp string

const (
	opCreate    writeOp = "create"    // refuse an existing file
	opOverwrite writeOp = "overwrite" // replace it, or create it
	opAppend    writeOp = "append"    // add to its end, or create it
	opEdit      writeOp = "edit"
	opDelete    writeOp = "delete"
	opMove      writeOp = "move"
)

// classState marks the rows of objects of the state directory.
const classState = "state"

// newObject is a mutation of an object of the state directory.
func newObject(object, kind string, op writeOp) *mutation {
	return &mutation{path: stateDirName + "/" + object, object: object, private: true, kind: kind, op: op, force: true}
}

// mutation is the change of one file, from the request to the settled name.
type mutation struct {
	path string // as it was asked for, clean
	op   writeOp

	// What the request says.
	content     body
	measured    *measurement // of the content, when it was taken already
	expected    *string      // hash the file must have; "" for absent
	eol, bom    string
	allowShrink bool
	force       bool
	// private: the file is an object of the state directory: a chunk, a
	// checkpoint, a thing in the scratchpad. It has no history, and rules for
	// paths do not cover it.
	private   bool
	object    string    // its path there; of a file of the workspace: what it was made of
	kind      string    // what the journal calls it, when that is not the mode
	ungated   bool      // raw material that the gate does not judge
	revise    reviser   // makes the content from what is there
	replaced  int       // places that revise replaced
	source    *mutation // of a move: the old name
	origin    string    // where the bytes come from, when they were under another path
	guarded   bool      // expected is what the journal believes, not the caller
	mustExist bool      // an overwrite creates nothing
	overwrite bool      // of a move: what is there may be replaced
	forgotten bool      // what is taken away goes on under another name: no history
	validate  bool      // the final file must be well formed
	absentOK  bool      // a file that is to be deleted may be gone already

	// What the stages find and make.
	target    *relpath.Target
	prev      fileFacts
	applied   writeOp // what will be done, once it is known what is there
	how       publish.How
	final     body   // the bytes of the staged file: the whole file, or what is appended
	sha       string // of the whole final file
	size      int64  // of the whole final file
	stageSHA  string // of the staged file
	paySHA    string // of an append: of the new bytes
	payBytes  int64
	tail      *slotted // of an append: what was spooled of the new bytes
	traits    traits   // of the final file
	midState  []byte   // hash state after the final file, for the next append
	mode      uint32   // permission bits of the final file
	converted bool     // the final bytes are not those of the content
	spooled   bool     // the slot holds the content already
	slot      *slotted
	stageSt   fsx.Stat        // of the staged file
	ch        *publish.Change // once it is being published
	warnings  []string
}

func (m *mutation) warn(reason string) {
	if !slices.Contains(m.warnings, reason) {
		m.warnings = append(m.warnings, reason)
	}
}

// hidePath makes sure that a path that was never looked at, or that is none of
// the workspace, is told to nobody.
func (m *mutation) hidePath(s *engine) {
	if m.target != nil || m.private {
		return
	}
	rel, _, err := relpath.Clean(m.path, s.tree.Rules)
	if err != nil {
		rel = ""
	}
	m.path = rel
}

// Close releases the files of the mutation.
func (m *mutation) Close() error {
	if m.prev.file != nil {
		m.prev.file.Close()
		m.prev.file = nil
	}
	m.slot.close()
	if m.ch != nil {
		m.ch.Close()
	}
	return nil
}

// fileFacts is what is known of a file that is there.
type fileFacts struct {
	exists bool
	stat   fsx.Stat
	sha    string
	traits traits
	hash   digest   // state after the last byte
	file   fsx.File // open for reading
}

// reader reads the file from its start.
func (p fileFacts) reader() io.Reader { return io.NewSectionReader(p.file, 0, p.stat.Size) }

// look finds what is there, under the lock.
func (m *mutation) look(ctx context.Context, s *engine) error {
	m.prev = fileFacts{}
	if !m.target.Exists() {
		return nil
	}
	f, err := m.target.Parent.Open(m.target.Name, fsx.Read, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m.prev.exists, m.prev.file = true, f
	if m.prev.stat, err = f.Stat(); err != nil {
		return err
	}
	if known, ok := s.hashes.get(m.prev.stat); ok {
		if m.prev.hash, ok = resume(known.state); ok {
			m.prev.sha, m.prev.traits = known.sha, known.traits
			return nil
		}
	}
	if m.prev.hash, m.prev.traits, err = measure(newStoppable(ctx, m.prev.reader())); err != nil {
		return err
	}
	m.prev.sha = m.prev.hash.hex()
	return nil
}

// judge decides whether the request fits what is there, and what exactly will
// be done.
func (m *mutation) judge(ctx context.Context, s *engine) error {
	m.applied = m.op
	if m.source != nil {
		return m.judgeMove()
	}
	if m.op == opEdit && !m.prev.exists {
		return fault.New(fault.FileNotFound)
	}
	if m.mustExist && !m.prev.exists {
		return fault.New(fault.NotFound)
	}
	if m.op == opDelete && !m.prev.exists && m.expected == nil {
		if m.absentOK {
			return nil
		}
		return fault.New(fault.NotFound)
	}
	if !m.prev.exists {
		if m.guarded && *m.expected != "" {
			return changedOutside(m.kind, *m.expected, "")
		}
		if m.expected != nil && *m.expected != "" {
			return fault.New(fault.HashMismatch).With("expected_prev_sha256", *m.expected).With("actual_prev_sha256", "").
				Hintf("the file does not exist; create it, or check the path")
		}
		m.applied = opCreate
		return nil
	}
	if m.op == opCreate {
		return m.alreadyDone(fault.New(fault.FileAlreadyExists).With("existing_sha256", m.prev.sha))
	}
	if m.guarded && *m.expected != m.prev.sha {
		return changedOutside(m.kind, *m.expected, m.prev.sha)
	}
	if m.expected != nil && *m.expected != m.prev.sha {
		e := fault.New(fault.HashMismatch).With("expected_prev_sha256", *m.expected).With("actual_prev_sha256", m.prev.sha)
		if diff := m.changeSince(ctx, s, *m.expected); diff != "" {
			e.With("diff", diff)
		}
		return m.alreadyDone(e)
	}
	if m.prev.stat.Mode&0o222 == 0 && !m.force {
		return fault.New(fault.ReadOnlyFile).With("mode", octal(m.prev.stat.Mode))
	}
	if m.op == opDelete || m.private {
		return nil // no other name of the file is touched
	}
	if m.prev.stat.Nlink > 1 && s.opts.HardLinks == hardLinksRefuse {
		return fault.New(fault.HardLinkRefused).With("links", m.prev.stat.Nlink)
	}
	return nil
}

// changeSince is a short diff from the version the caller believes in, where
// history holds it, to what is there.
func (m *mutation) changeSince(ctx context.Context, s *engine, sha string) string {
	if sha == "" || m.prev.stat.Size > diffLimit || m.prev.traits.nul {
		return ""
	}
	if s.behind.drain() != nil {
		return ""
	}
	f, err := s.history.Open(sha)
	if err != nil {
		return ""
	}
	defer f.Close()
	old, err := io.ReadAll(io.LimitReader(f, diffLimit+1))
	if err != nil || len(old) > diffLimit || hashOf(old) != sha {
		return ""
	}
	now, err := io.ReadAll(m.prev.reader())
	if err != nil || !utf8.Valid(old) || !utf8.Valid(now) {
		return ""
	}
	old, now = s.host.Redacted(ctx, m.target.Path, old), s.host.Redacted(ctx, m.target.Path, now)
	return firstLines(unifiedDiff(m.path, old, now), errorLines)
}

// alreadyDone adds to a refusal that the disk holds what was asked for, which
// is what a repeated call sees.
func (m *mutation) alreadyDone(e *fault.Fault) error {
	if whole, ok := m.content.whole(); ok && m.op != opAppend && hashOf(whole) == m.prev.sha {
		e.Hintf("already_applied: the file holds exactly this content; nothing is left to do")
	}
	return e
}

const (
	shrinkFrom  = 1 << 10 // bytes from which a file is guarded
	shrinkRatio = 5       // to less than a fifth
)

// composeFinal makes the final bytes and their hash.
func (m *mutation) composeFinal(ctx context.Context, c *engineCommit) error {
	if m.op == opDelete {
		if err := m.reviseContent(ctx, c.s.opts.MaxContentBytes); err != nil {
			return err
		}
		m.how, m.final, m.stageSHA, m.mode = publish.Delete, memBody(nil), hashOf(nil), m.prev.stat.Mode
		if m.forgotten {
			m.how = publish.Move
		}
		return nil
	}
	if m.source != nil {
		m.composeMove(c.s)
		return nil
	}
	if err := m.reviseContent(ctx, c.s.opts.MaxContentBytes); err != nil {
		return err
	}
	if err := m.convert(ctx, c); err != nil {
		return err
	}
	d, t, err := m.measureContent(ctx)
	if err != nil {
		return err
	}
	m.stageSHA, m.mode, m.traits = d.hex(), m.prev.stat.Mode, t
	if t.nul {
		m.warn(warnNULBytes)
	}
	if m.applied == opAppend {
		return m.composeAppend(ctx)
	}
	m.sha, m.size, m.midState = m.stageSHA, m.final.size(), d.state()
	m.how = howToReplace(m, c.s)
	m.compareTexts(t)
	if m.prev.exists && !m.allowShrink && !m.private && m.prev.stat.Size >= shrinkFrom && m.size*shrinkRatio < m.prev.stat.Size {
		return fault.New(fault.DestructiveShrink).With("prev_bytes", m.prev.stat.Size).With("bytes", m.size)
	}
	return nil
}

// measureContent hashes the bytes that will be staged.
func (m *mutation) measureContent(ctx context.Context) (digest, traits, error) {
	if m.measured != nil && !m.converted {
		return m.measured.digest, m.measured.traits, nil
	}
	if whole, ok := m.final.whole(); ok && len(whole) <= copyBuffer {
		got := measureBytes(whole)
		return got.digest, got.traits, nil
	}
	return measure(newStoppable(ctx, m.final.reader()))
}

// appendInPlace is the size in bytes from which a file is appended to in place.
// A smaller one is replaced by a copy with the new bytes at its end, which takes
// fewer flushes and is never seen half done. The objects of the state directory
// that are appended to grow by every call, so that copies would cost more.
const (
	appendInPlace  = 1 << 20
	privateInPlace = 16 << 10
)

// composeAppend measures the file as it will be with the bytes at its end.
func (m *mutation) composeAppend(ctx context.Context) error {
	payload := m.final
	sum, err := m.continueHash(ctx, payload)
	if err != nil {
		return err
	}
	m.paySHA, m.payBytes = m.stageSHA, payload.size()
	m.sha, m.size, m.midState = sum.hex(), m.prev.stat.Size+payload.size(), sum.state()
	m.traits = m.prev.traits.followedBy(m.traits)
	m.how = publish.Append
	return nil
}

// copyAppend turns an append into a replacement by what is there and the new
// bytes, unless the file is large. One with several names is always copied, so
// that the other names do not change.
func (m *mutation) copyAppend(s *engine) {
	if m.how != publish.Append {
		return
	}
	from := cmp.Or(s.seam.appendFrom, appendInPlace)
	if m.private {
		from = privateInPlace
	}
	links := m.prev.stat.Nlink > 1
	if links && s.opts.HardLinks == hardLinksInPlace || !links && m.prev.stat.Size >= from {
		return
	}
	payload := m.final
	m.final = body{before: m.prev.file, size0: m.prev.stat.Size, mem: payload.mem, file: payload.file, size1: payload.size1}
	m.stageSHA = m.sha
	if m.spooled { // what was spooled is a part of the final bytes
		m.tail, m.slot, m.spooled = m.slot, nil, false
	}
	m.how = howToReplace(m, s)
}

// continueHash is the hash of what is there followed by more.
func (m *mutation) continueHash(ctx context.Context, more body) (digest, error) {
	sum, ok := resume(m.prev.hash.state())
	if !ok {
		return sum, fault.New(fault.Internal)
	}
	_, err := move(sum, newStoppable(ctx, more.reader()))
	return sum, err
}

// remember keeps the hash of what the file holds now, as a descriptor of our
// own shows it: what the name leads to may be another program's.
func (m *mutation) remember(s *engine) {
	if m.size < cacheFrom || m.midState == nil || m.ch == nil || m.ch.Foreign && m.how == publish.Append {
		return
	}
	f := m.ch.Opened()
	switch {
	case m.source != nil:
		f = m.source.prev.file
	case f == nil:
		f = m.slot.file
	}
	if f == nil {
		return
	}
	if st, err := f.Stat(); err == nil && st.Size == m.size && (m.ch.Opened() != nil || m.source != nil || st.Mtime == m.stageSt.Mtime) {
		s.hashes.put(st, hashEntry{sha: m.sha, state: m.midState, traits: m.traits})
	}
}

// convert applies the line ending and byte order mark options to the content.
func (m *mutation) convert(ctx context.Context, c *engineCommit) error {
	m.final = m.content
	conv := convert{bom: m.bom == "preserve" && m.prev.exists && m.prev.traits.bom && m.applied != opAppend}
	switch m.eol {
	case "lf", "crlf":
		conv.eol = m.eol
	case "preserve":
		conv.eol = m.prev.traits.dominant()
	}
	if conv.idle() {
		return nil
	}
	m.converted = true
	if whole, ok := m.content.whole(); ok {
		text, err := io.ReadAll(&convertReader{src: newStoppable(ctx, bytes.NewReader(whole)), conv: conv})
		m.final = memBody(text)
		return err
	}
	// The converted text takes the place of the spooled one.
	in, err := c.spool(&convertReader{src: newStoppable(ctx, m.content.reader()), conv: conv})
	if err != nil {
		return err
	}
	m.slot.drop()
	m.slot, m.final = in.slot, in.body()
	return nil
}

// compareTexts warns of changes of the text's form that nobody asked for.
func (m *mutation) compareTexts(t traits) {
	if !m.prev.exists {
		return
	}
	if was, is := m.prev.traits.eol(), t.eol(); m.eol != "lf" && m.eol != "crlf" && was != "none" && is != "none" && was != is {
		m.warn(warnEOLChanged)
	}
	if m.prev.traits.bom && !t.bom {
		m.warn(warnBOMDropped)
	}
}

// unchanged reports whether the file already holds the final bytes.
func (m *mutation) unchanged() bool {
	if m.op == opDelete {
		return !m.prev.exists
	}
	return m.prev.exists && m.sha == m.prev.sha && m.source == nil
}

// carried reports whether the mutation is the old name of a move, which the one
// of the new name takes away.
func (m *mutation) carried() bool { return m.forgotten }

// preview is a diff from what is there to the final bytes, for a dry run.
func (m *mutation) preview() string {
	if m.prev.traits.nul || m.prev.stat.Size+m.size > diffLimit {
		return ""
	}
	var before, after []byte
	if m.prev.exists {
		before = make([]byte, m.prev.stat.Size)
		if _, err := m.prev.file.ReadAt(before, 0); err != nil && err != io.EOF {
			return ""
		}
	}
	after, err := io.ReadAll(m.final.reader())
	if err != nil || bytes.IndexByte(after, 0) >= 0 {
		return ""
	}
	if m.how == publish.Append {
		after = append(bytes.Clone(before), after...)
	}
	return unifiedDiff(m.path, before, after)
}

// row tells the journal the facts of the final file.
func (m *mutation) row(s *engine) (journal.Mutation, error) {
	last, err := s.lastRow(m.target.Path)
	if err != nil {
		return journal.Mutation{}, err
	}
	row := journal.Mutation{
		Op: string(m.applied), Path: m.path,
		SHA256: m.sha, Bytes: m.size, PrevSHA256: m.prev.sha, PrevBytes: m.prev.stat.Size,
		Mode: m.mode, Rev: uint64(last.Rev) + 1, PrevSeq: last.Seq, How: string(m.how), PrevID: m.prev.id(),
		PaySHA256: m.paySHA, PayBytes: m.payBytes,
	}
	if m.target.Path != m.path {
		row.Real = m.target.Path
	}
	if m.kind != "" {
		row.Op = m.kind
	}
	if m.source != nil {
		row.From = m.source.target.Path
	}
	if row.Object = m.object; m.private {
		row.Class = classState
	}
	if m.slot != nil && !m.unchanged() {
		row.Slot, row.Beside = m.slot.Name, m.slot.mark != nil
	}
	return row, nil
}

func octal(mode uint32) string { return "0" + strconv.FormatUint(uint64(mode), 8) }

// expect sets the hash guard of a mutation.
func (m *mutation) expect(sha *string) *fault.Fault {
	if sha == nil {
		return nil
	}
	low := strings.ToLower(*sha)
	if low != "" && !validSHA256(low) {
		return fault.New(fault.BadSHA256).With("argument", "expected_prev_sha256")
	}
	m.expected = &low
	return nil
}

// A reviser makes the new bytes of a file from the old ones.
type reviser func(ctx context.Context, before []byte) ([]byte, error)

// reviseContent makes the new content of a file from the one it has.
func (m *mutation) reviseContent(ctx context.Context, limit int64) error {
	if m.revise == nil {
		return nil
	}
	var before []byte
	if m.prev.exists {
		if m.prev.stat.Size > limit {
			return fault.New(fault.TooLarge).With("bytes", m.prev.stat.Size).With("max_bytes", limit)
		}
		before = make([]byte, m.prev.stat.Size)
		if _, err := io.ReadFull(newStoppable(ctx, m.prev.reader()), before); err != nil {
			return err
		}
	}
	after, err := m.revise(ctx, before)
	if err != nil {
		return err
	}
	m.hold(after)
	return nil
}

// changedOutside refuses to replace what somebody made of a file without this
// store; have is "" when they took it away. What can be done about it depends
// on the verb: only some have force.
func changedOutside(verb, believed, have string) *fault.Fault {
	e := fault.New(fault.ChangedOutside).With("journal_sha256", believed).With("actual_prev_sha256", have)
	change := "changed"
	if have == "" {
		change = "deleted"
	}
	if verb == "undo" {
		return e.Hintf("the file was %s outside this store, so nothing was undone; to discard that change, call rw_restore with force for the version you want", change)
	}
	return e.Hintf("the file was %s outside this store; read the current content, then pass force if it may be replaced (history keeps it)", change)
}

// hold takes content that is in memory and returns its hash.
func (m *mutation) hold(content []byte) string {
	m.content, m.measured = memBody(content), measureBytes(content)
	return m.measured.digest.hex()
}

// setObject changes what a mutation of the state directory writes to.
func (m *mutation) setObject(object string) {
	m.object, m.path = object, stateDirName+"/"+object
}

// measureBody hashes the content as it came.
func (m *mutation) measureBody() (digest, traits, error) {
	if m.measured != nil {
		return m.measured.digest, m.measured.traits, nil
	}
	return measure(m.content.reader())
}
