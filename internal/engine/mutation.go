package engine

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"io/fs"
	"slices"
	"strconv"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// WriteOp is what a mutation does with its file.
type WriteOp string

const (
	OpCreate    WriteOp = "create"    // refuse an existing file
	OpOverwrite WriteOp = "overwrite" // replace it, or create it
	OpAppend    WriteOp = "append"    // add to its end, or create it
	OpEdit      WriteOp = "edit"
	OpDelete    WriteOp = "delete"
	OpMove      WriteOp = "move"
)

// ClassState marks the rows of objects of the state directory.
const ClassState = "state"

// NewObject is a mutation of an object of the state directory.
func NewObject(object, kind string, op WriteOp) *Mutation {
	return &Mutation{Path: StateDirName + "/" + object, Object: object, Private: true, Kind: kind, Op: op, Force: true}
}

// Mutation is the change of one file, from the request to the settled name.
type Mutation struct {
	Path string // as it was asked for, clean
	Op   WriteOp

	// What the request says.
	Content     Body
	Measured    *measurement // of the content, when it was taken already
	Expected    *string      // hash the file must have; "" for absent
	EOL, BOM    string
	AllowShrink bool
	Force       bool
	// private: the file is an object of the state directory: a chunk, a
	// checkpoint, a thing in the scratchpad. It has no history, and rules for
	// paths do not cover it.
	Private           bool
	Object            string    // its path there; of a file of the workspace: what it was made of
	Kind              string    // what the journal calls it, when that is not the mode
	Ungated           bool      // raw material that the gate does not judge
	Revise            Reviser   // makes the content from the current one
	Merge             Merger    // merges the content with what others wrote since; nil: that is refused
	Source            *Mutation // of a move: the old name
	Origin            string    // where the bytes come from, when they were under another path
	ExpectJournalHash bool      // expected is what the journal believes, not the caller
	MustExist         bool      // an overwrite creates nothing
	Overwrite         bool      // of a move: an existing file may be replaced
	Forgotten         bool      // what is taken away goes on under another name: no history
	Validate          bool      // the final file must be well formed
	AbsentOK          bool      // a file that is to be deleted may be gone already
	Perm              *uint32   // permission bits that the file gets, or fsx.ModeLink; nil: those it has
	NoFollow          bool      // the path names the entry itself, also a symbolic link
	WasLink           bool      // expected is the target of a symbolic link

	// Former is the row that took the file away which the mutation brings back; nil if none
	// did. FormerAt is the mutation of the name to which it was moved, if that is undone too.
	Former   *journal.Mutation
	FormerAt *Mutation

	base   []byte // of a merge: the version that the caller expects
	Base   string // its hash, once merged
	Others string // of a merge: the diff from it to what was there

	// What the stages find and make.
	Target    *relpath.Target
	Prev      fileFacts
	Applied   WriteOp // what will be done, once the current file is known
	Primitive publish.Primitive
	Final     Body   // the bytes of the staged file: the whole file, or what is appended
	SHA       string // of the whole final file
	Size      int64  // of the whole final file
	stageSHA  string // of the staged file
	paySHA    string // of an append: of the new bytes
	PayBytes  int64
	tail      *slotted // of an append: what was spooled of the new bytes
	traits    Traits   // of the final file
	midState  []byte   // hash state after the final file, for the next append
	Mode      uint32   // permission bits of the final file
	converted bool     // the final bytes are not those of the content
	Spooled   bool     // the slot holds the content already
	Slot      *slotted
	stageSt   fsx.Stat        // of the staged file
	metadata  bool            // of it was changed
	extra     bool            // the previous file has metadata that no new file gets
	home      inode           // the directory of the target
	shared    inode           // the target, if it is written in place and has other names
	ch        *publish.Change // once it is being published
	Warnings  []string
}

func (m *Mutation) Warn(reason string) {
	if !slices.Contains(m.Warnings, reason) {
		m.Warnings = append(m.Warnings, reason)
	}
}

// Link reports whether the mutation makes a symbolic link, whose target is its
// content.
func (m *Mutation) Link() bool { return m.Perm != nil && *m.Perm == fsx.ModeLink }

// HidePath makes sure that a path that was never looked at, or that is none of
// the workspace, is not reported.
func (m *Mutation) HidePath(s *Engine) {
	if m.Target != nil || m.Private {
		return
	}
	rel, _, err := relpath.Clean(m.Path, s.Tree.Rules)
	if err != nil {
		rel = ""
	}
	m.Path = rel
}

// Close releases the files of the mutation.
func (m *Mutation) Close() error {
	if m.Prev.File != nil {
		m.Prev.File.Close()
		m.Prev.File = nil
	}
	m.Slot.close()
	if m.ch != nil {
		m.ch.Close()
	}
	return nil
}

// fileFacts is what is known of a file that is there.
type fileFacts struct {
	Exists bool
	Stat   fsx.Stat
	SHA    string
	Traits Traits
	hash   Digest   // state after the last byte
	File   fsx.File // open for reading
}

// Link reports whether it is a symbolic link, whose target is its content.
func (p fileFacts) Link() bool { return p.Exists && p.Stat.Kind == fsx.Symlink }

// Reader reads the file from its start.
func (p fileFacts) Reader() io.Reader { return io.NewSectionReader(p.File, 0, p.Stat.Size) }

// look finds the current content, under the lock. One that another program
// changed while it was read is read again: its hash is that of no content.
func (m *Mutation) look(ctx context.Context, s *Engine) error {
	m.Prev = fileFacts{}
	if !m.Target.Exists() {
		return nil
	}
	f, err := m.Target.Parent.Open(m.Target.Name, fsx.Read, 0)
	if m.NoFollow && err != nil {
		f, err = fsx.OpenEntry(m.Target.Parent, m.Target.Name)
	}
	if err != nil {
		return fsx.Unless(err, fs.ErrNotExist)
	}
	m.Prev.Exists, m.Prev.File = true, f
	for range lookTries {
		if m.Prev.Stat, err = f.Stat(); err != nil {
			return err
		}
		if known, ok := s.Hashes.Get(m.Prev.Stat); ok {
			if m.Prev.hash, ok = resume(known.State); ok {
				m.Prev.SHA, m.Prev.Traits = known.SHA, known.Traits
				return nil
			}
		}
		if m.Prev.hash, m.Prev.Traits, err = Measure(NewStoppable(ctx, m.Prev.Reader())); err != nil {
			return err
		}
		m.Prev.SHA = m.Prev.hash.Hex()
		if now, err := f.Stat(); err != nil || IDOf(now) == IDOf(m.Prev.Stat) {
			return err
		}
	}
	return fault.New(fault.IOBusy).Hintf("another program is writing to the file; try again later")
}

// lookTries is how often a file that changes while it is read is read again.
const lookTries = 4

// judge decides whether the request fits the current file, and what exactly will
// be done.
func (m *Mutation) judge(ctx context.Context, s *Engine) error {
	m.Applied = m.Op
	if m.Source != nil {
		return m.judgeMove()
	}
	if m.Op == OpEdit && !m.Prev.Exists {
		return fault.New(fault.FileNotFound)
	}
	if m.MustExist && !m.Prev.Exists {
		return fault.New(fault.NotFound)
	}
	if m.Op == OpDelete && !m.Prev.Exists && m.Expected == nil {
		if m.AbsentOK {
			return nil
		}
		return fault.New(fault.NotFound)
	}
	if !m.Prev.Exists {
		if m.ExpectJournalHash && *m.Expected != "" {
			return ChangedOutside(m.Kind, *m.Expected, "")
		}
		if m.Expected != nil && *m.Expected != "" {
			return fault.New(fault.HashMismatch).With("expected_prev_sha256", *m.Expected).With("actual_prev_sha256", "").
				Hintf("the file does not exist; create it, or check the path")
		}
		m.Applied = OpCreate
		return nil
	}
	if m.Op == OpCreate {
		return m.alreadyDone(fault.New(fault.FileAlreadyExists).With("existing_sha256", m.Prev.SHA))
	}
	expected := m.Expected == nil || *m.Expected == m.Prev.SHA && m.WasLink == m.Prev.Link()
	if m.ExpectJournalHash && !expected {
		return ChangedOutside(m.Kind, *m.Expected, m.Prev.SHA)
	}
	if !expected {
		if ok, err := m.mergeable(s); err != nil {
			return err
		} else if !ok {
			e, _ := m.stale(ctx, s)
			return m.alreadyDone(e)
		}
	}
	if m.Prev.Stat.Mode&0o222 == 0 && !m.Force {
		return fault.New(fault.ReadOnlyFile).With("mode", Octal(m.Prev.Stat.Mode))
	}
	if m.Op == OpDelete || m.Private {
		return nil // no other name of the file is touched
	}
	if m.Prev.Stat.Nlink > 1 && s.Opts.HardLinks == hardLinksRefuse {
		return fault.New(fault.HardLinkRefused).With("links", m.Prev.Stat.Nlink)
	}
	return nil
}

// alreadyDone adds to a refusal that the disk holds what was asked for, which
// is what a repeated call sees.
func (m *Mutation) alreadyDone(e *fault.Fault) error {
	if whole, ok := m.Content.Whole(); ok && m.Op != OpAppend && HashOf(whole) == m.Prev.SHA {
		e.Hintf("already_applied: the file holds exactly this content; nothing is left to do")
	}
	return e
}

const (
	shrinkFrom  = 1 << 10 // bytes from which a file is guarded
	shrinkRatio = 5       // to less than a fifth
)

// composeFinal makes the final bytes and their hash.
func (m *Mutation) composeFinal(ctx context.Context, c *Commit) error {
	if m.Op == OpDelete {
		if err := m.reviseContent(ctx, c.s.Opts.MaxContentBytes); err != nil {
			return err
		}
		m.Primitive, m.Final, m.stageSHA, m.Mode = publish.Delete, MemBody(nil), HashOf(nil), m.Prev.Stat.Mode
		if m.Forgotten {
			m.Primitive = publish.Move
		}
		return nil
	}
	if m.Source != nil {
		m.composeMove()
		return nil
	}
	if err := m.reviseContent(ctx, c.s.Opts.MaxContentBytes); err != nil {
		return m.orStale(ctx, c.s, err)
	}
	if err := m.convert(ctx, c); err != nil {
		return err
	}
	if err := m.rebase(ctx, c.s); err != nil {
		return err
	}
	d, t, err := m.measureContent(ctx)
	if err != nil {
		return err
	}
	m.stageSHA, m.Mode, m.traits = d.Hex(), m.Prev.Stat.Mode, t
	if m.Perm != nil {
		m.Mode = *m.Perm
	} else if m.Prev.Link() { // a file takes its place
		m.Mode = 0o666
	}
	if t.nul && !m.Prev.Traits.nul { // text in UTF-16 has some
		m.Warn(call.WarnNULBytes)
	}
	if m.Applied == OpAppend {
		return m.composeAppend(ctx)
	}
	m.SHA, m.Size, m.midState = m.stageSHA, m.Final.Size(), d.State()
	m.Primitive = howToReplace(m, c.s)
	m.compareTexts(t)
	if m.Prev.Exists && !m.AllowShrink && !m.Private && m.Prev.Stat.Size >= shrinkFrom && m.Size*shrinkRatio < m.Prev.Stat.Size {
		return fault.New(fault.DestructiveShrink).With("prev_bytes", m.Prev.Stat.Size).With("bytes", m.Size)
	}
	return nil
}

// measureContent hashes the bytes that will be staged.
func (m *Mutation) measureContent(ctx context.Context) (Digest, Traits, error) {
	if m.Measured != nil && !m.converted {
		return m.Measured.Digest, m.Measured.traits, nil
	}
	if whole, ok := m.Final.Whole(); ok && len(whole) <= CopyBuffer {
		got := measureBytes(whole)
		return got.Digest, got.traits, nil
	}
	return Measure(NewStoppable(ctx, m.Final.Reader()))
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
func (m *Mutation) composeAppend(ctx context.Context) error {
	payload := m.Final
	sum, err := m.continueHash(ctx, payload)
	if err != nil {
		return err
	}
	m.paySHA, m.PayBytes = m.stageSHA, payload.Size()
	m.SHA, m.Size, m.midState = sum.Hex(), m.Prev.Stat.Size+payload.Size(), sum.State()
	m.traits = m.Prev.Traits.followedBy(m.traits)
	m.Primitive = publish.Append
	return nil
}

// copyAppend turns an append into a replacement by the current content and the new
// bytes, unless the file is large. One with several names is always copied, so
// that the other names do not change.
func (m *Mutation) copyAppend(s *Engine) {
	if m.Primitive != publish.Append {
		return
	}
	from := cmp.Or(s.TestHooks.AppendFrom, appendInPlace)
	if m.Private {
		from = privateInPlace
	}
	links := m.Prev.Stat.Nlink > 1
	if links && s.Opts.HardLinks == hardLinksInPlace || !links && m.Prev.Stat.Size >= from {
		return
	}
	payload := m.Final
	m.Final = Body{before: m.Prev.File, size0: m.Prev.Stat.Size, Mem: payload.Mem, file: payload.file, size1: payload.size1}
	m.stageSHA = m.SHA
	if m.Spooled { // what was spooled is a part of the final bytes
		m.tail, m.Slot, m.Spooled = m.Slot, nil, false
	}
	m.Primitive = howToReplace(m, s)
}

// continueHash is the hash of the current content followed by more.
func (m *Mutation) continueHash(ctx context.Context, more Body) (Digest, error) {
	sum, ok := resume(m.Prev.hash.State())
	if !ok {
		return sum, fault.New(fault.Internal)
	}
	_, err := Move(sum, NewStoppable(ctx, more.Reader()))
	return sum, err
}

// remember keeps the hash of what the file holds now, as a descriptor of our
// own shows it: what the name leads to may be another program's.
func (m *Mutation) remember(s *Engine) {
	if m.Size < cacheFrom || m.midState == nil || m.ch == nil || m.ch.Foreign && m.Primitive == publish.Append {
		return
	}
	f := m.ch.Opened()
	switch {
	case m.Source != nil:
		f = m.Source.Prev.File
	case f == nil:
		f = m.Slot.File
	}
	if f == nil {
		return
	}
	if st, err := f.Stat(); err == nil && st.Size == m.Size && (m.ch.Opened() != nil || m.Source != nil || st.Mtime == m.stageSt.Mtime) {
		s.Hashes.Put(st, HashEntry{SHA: m.SHA, State: m.midState, Traits: m.traits})
	}
}

// left describes the file that the mutation has left under its name; not that of one
// written in place whose state is not known.
func (m *Mutation) left() (st fsx.Stat) {
	switch f := m.ch.Opened(); {
	case f != nil:
		st, _ = f.Stat()
		return st
	case m.Source != nil:
		return m.Source.Prev.Stat
	}
	return m.stageSt
}

// converts reports whether the line endings or the byte order mark of the content may
// be changed.
func (m *Mutation) converts() bool { return !asIs(m.EOL) || !asIs(m.BOM) }

func asIs(option string) bool { return option == "" || option == "as_is" }

// convert applies the line ending and byte order mark options to the content.
func (m *Mutation) convert(ctx context.Context, c *Commit) error {
	m.Final = m.Content
	conv := convert{bom: m.BOM == "preserve" && m.Prev.Exists && m.Prev.Traits.BOM && m.Applied != OpAppend}
	switch m.EOL {
	case "lf", "crlf":
		conv.eol = m.EOL
	case "preserve":
		conv.eol = m.Prev.Traits.dominant()
	}
	if conv.idle() {
		return nil
	}
	m.converted = true
	if whole, ok := m.Content.Whole(); ok {
		text, err := io.ReadAll(&convertReader{src: NewStoppable(ctx, bytes.NewReader(whole)), conv: conv})
		m.Final = MemBody(text)
		return err
	}
	// The converted text takes the place of the spooled one.
	in, err := c.Spool(ctx, &convertReader{src: NewStoppable(ctx, m.Content.Reader()), conv: conv})
	if err != nil {
		return err
	}
	m.Slot.Drop()
	m.Slot, m.Final = in.Slot, in.body()
	return nil
}

// compareTexts warns of changes of the text's form that the caller did not ask for.
func (m *Mutation) compareTexts(t Traits) {
	if !m.Prev.Exists {
		return
	}
	if was, is := m.Prev.Traits.EOL(), t.EOL(); m.EOL != "lf" && m.EOL != "crlf" && was != "none" && is != "none" && was != is {
		m.Warn(call.WarnEOLChanged)
	}
	if m.Prev.Traits.BOM && !t.BOM {
		m.Warn(call.WarnBOMDropped)
	}
}

// Unchanged reports whether the file already holds the final bytes.
func (m *Mutation) Unchanged() bool {
	if m.Op == OpDelete {
		return !m.Prev.Exists
	}
	return m.Prev.Exists && m.SHA == m.Prev.SHA && m.Source == nil && (m.Perm == nil && !m.Prev.Link() || m.Perm != nil && *m.Perm == m.Prev.Stat.Mode)
}

// carried reports whether the mutation is the old name of a move, which the one
// of the new name takes away.
func (m *Mutation) carried() bool { return m.Forgotten }

// preview is a diff from the current content to the final bytes, for a dry run.
func (m *Mutation) preview() string {
	if m.Prev.Traits.nul || m.Prev.Stat.Size+m.Size > DiffLimit {
		return ""
	}
	var before, after []byte
	if m.Prev.Exists {
		before = make([]byte, m.Prev.Stat.Size)
		if _, err := m.Prev.File.ReadAt(before, 0); err != nil && err != io.EOF {
			return ""
		}
	}
	after, err := io.ReadAll(m.Final.Reader())
	if err != nil || bytes.IndexByte(after, 0) >= 0 {
		return ""
	}
	if m.Primitive == publish.Append {
		after = append(bytes.Clone(before), after...)
	}
	return UnifiedDiff(m.Path, before, after)
}

// row returns the facts of the final file for the journal.
func (m *Mutation) row(s *Engine) (journal.Mutation, error) {
	last, err := s.LastRow(m.Target.Path)
	if err != nil {
		return journal.Mutation{}, err
	}
	row := journal.Mutation{
		Op: string(m.Applied), Path: m.Path,
		SHA256: m.SHA, Bytes: m.Size, PrevSHA256: m.Prev.SHA, PrevBytes: m.Prev.Stat.Size,
		Mode: m.Mode, Rev: uint64(last.Rev) + 1, PrevSeq: last.Seq, How: string(m.Primitive), PrevID: m.Prev.id(s), PrevExtra: m.extra,
		PaySHA256: m.paySHA, PayBytes: m.PayBytes,
	}
	if m.Prev.Exists && m.Mode != m.Prev.Stat.Mode {
		row.PrevMode = m.Prev.Stat.Mode
	}
	if m.Target.Path != m.Path {
		row.Real = m.Target.Path
	}
	if m.Kind != "" {
		row.Op = m.Kind
	}
	if m.Source != nil {
		row.From = m.Source.Target.Path
	}
	if row.Object = m.Object; m.Private {
		row.Class = ClassState
	}
	row.Base = m.Base
	if m.Slot != nil && !m.Unchanged() {
		row.Slot, row.SlotDir, row.SlotBorn = m.Slot.Name, m.Slot.in.path, s.bornAt(m.stageSt)
	}
	return row, nil
}

func Octal(mode uint32) string { return "0" + strconv.FormatUint(uint64(mode), 8) }

// A reviser makes the new bytes of a file from the old ones.
type Reviser func(ctx context.Context, before []byte) ([]byte, error)

// reviseContent makes the new content of a file from the one it has.
func (m *Mutation) reviseContent(ctx context.Context, limit int64) error {
	if m.Revise == nil {
		return nil
	}
	var before []byte
	if m.Prev.Exists {
		if m.Prev.Stat.Size > limit {
			return fault.New(fault.TooLarge).With("bytes", m.Prev.Stat.Size).With("max_bytes", limit)
		}
		before = make([]byte, m.Prev.Stat.Size)
		_, err := io.ReadFull(NewStoppable(ctx, m.Prev.Reader()), before)
		if err == io.EOF || err == io.ErrUnexpectedEOF || err == nil && HashOf(before) != m.Prev.SHA { // another program has written to it since
			return fault.New(fault.ChangedDuringWrite)
		}
		if err != nil {
			return err
		}
	}
	if m.base != nil {
		before = m.base
	}
	after, err := m.Revise(ctx, before)
	if err != nil {
		return err
	}
	m.Hold(after)
	return nil
}

// ChangedOutside refuses to replace what another program made of a file without this
// store; have is "" when they took it away. What can be done about it depends
// on the verb: only some have force.
func ChangedOutside(verb, believed, have string) *fault.Fault {
	e := fault.New(fault.ChangedOutside).With("journal_sha256", believed).With("actual_prev_sha256", have)
	change := "changed"
	if have == "" {
		change = "deleted"
	}
	if verb == "undo" {
		return e.Hintf("the file was %s outside this store, so nothing was undone; to discard that change, call Store.Restore with force for the version you want", change)
	}
	return e.Hintf("the file was %s outside this store; read the current content, then pass force if it may be replaced (history keeps it)", change)
}

// Hold takes content that is in memory and returns its hash.
func (m *Mutation) Hold(content []byte) string {
	m.Content, m.Measured = MemBody(content), measureBytes(content)
	return m.Measured.Digest.Hex()
}

// SetObject changes what a mutation of the state directory writes to.
func (m *Mutation) SetObject(object string) {
	m.Object, m.Path = object, StateDirName+"/"+object
}

// MeasureBody hashes the content as it came.
func (m *Mutation) MeasureBody() (Digest, Traits, error) {
	if m.Measured != nil {
		return m.Measured.Digest, m.Measured.traits, nil
	}
	return Measure(m.Content.Reader())
}
