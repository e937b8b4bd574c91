package journal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// The kinds of records.
const (
	KindCommit   = "commit"   // mutations that happened, unless an abort row refers to it
	KindAbort    = "abort"    // the commit Ref did not happen
	KindConflict = "conflict" // a file of the commit Ref was changed by another program
	KindRefused  = "refused"  // a call that was refused
	KindNote     = "note"     // something about the journal or a row
	KindObserved = "observed" // changes that other programs made, and a scan found
)

// Record is one line of the journal.
type Record struct {
	Seq        uint64          `json:"seq"`
	TS         string          `json:"ts"` // RFC 3339 UTC; informational
	Kind       string          `json:"kind"`
	Writer     string          `json:"writer"`  // process and start nonce
	Chain      string          `json:"chain"`   // hex SHA-256 of the JSON of the record before
	Settled    uint64          `json:"settled"` // up to here this writer has no commits in progress
	Commit     string          `json:"commit,omitempty"`
	Ref        uint64          `json:"ref,omitempty"`
	Caller     string          `json:"caller,omitempty"`
	Session    string          `json:"session,omitempty"`
	Via        *Via            `json:"via,omitempty"`
	Invocation string          `json:"invocation,omitempty"`
	Key        string          `json:"key,omitempty"`      // idempotency key
	KeyHash    string          `json:"key_hash,omitempty"` // of the request made with it
	Tx         string          `json:"tx,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Policy     string          `json:"policy,omitempty"`
	AcceptRisk string          `json:"accept_risk,omitempty"`
	Level      string          `json:"level,omitempty"` // off: neither bytes nor names were flushed
	Reply      json.RawMessage `json:"reply,omitempty"`
	Manifest   string          `json:"manifest,omitempty"` // hash of the file with the mutations
	Muts       []Mutation      `json:"muts,omitempty"`
	Note       *Note           `json:"note,omitempty"`
	Group      *Group          `json:"group,omitempty"` // of an observed row; of a commit only its command
}

// Group describes during which calls observed changes were made.
type Group struct {
	Calls   []string `json:"calls,omitempty"`   // tool calls that were open; more than one: it is not known which
	Command string   `json:"command,omitempty"` // redacted
	Partial bool     `json:"partial,omitempty"` // the scan ended before it had seen everything
	Ignored []string `json:"ignored,omitempty"` // ignored directories that changed too, and are not kept
}

// Via is what an adapter knew of a call, in addition to the arguments of the call.
type Via struct {
	Client     string `json:"client,omitempty"`
	Version    string `json:"version,omitempty"`
	Connection string `json:"connection,omitempty"`
	Thread     string `json:"thread,omitempty"`
	Call       string `json:"call,omitempty"`
	Model      string `json:"model,omitempty"`
	Turn       string `json:"turn,omitempty"`
	Trace      string `json:"trace,omitempty"`
}

// Mutation is what one path is after a commit: facts, never content.
type Mutation struct {
	Op         string   `json:"op"`
	Path       string   `json:"path"`           // as requested
	Real       string   `json:"real,omitempty"` // the target of a symlink
	From       string   `json:"from,omitempty"`
	SHA256     string   `json:"sha256"` // "" for absent
	Bytes      int64    `json:"bytes"`
	PrevSHA256 string   `json:"prev_sha256"`
	PrevBytes  int64    `json:"prev_bytes,omitempty"`
	Mode       uint32   `json:"mode,omitempty"`      // permission bits; 0120000 of a symbolic link
	PrevMode   uint32   `json:"prev_mode,omitempty"` // where they were others
	Rev        uint64   `json:"rev,omitempty"`       // how many versions the path has had
	PrevSeq    uint64   `json:"prev_seq,omitempty"`
	How        string   `json:"how,omitempty"`        // the primitive that publishes
	PaySHA256  string   `json:"pay_sha256,omitempty"` // append: of the new bytes
	PayBytes   int64    `json:"pay_bytes,omitempty"`
	Slot       string   `json:"slot,omitempty"` // that the mutation uses; its name ends with its inode
	SlotBorn   int64    `json:"slot_born,omitempty"`
	PrevID     string   `json:"prev_id,omitempty"`    // inode.size.mtime.ctime, or inode.size.mtime.ctime.btime, of the file before
	PrevExtra  bool     `json:"prev_extra,omitempty"` // delete: the file had an owner or attributes that no new file gets
	SlotDir    string   `json:"slot_dir,omitempty"`   // the directory of the slot, a path in the workspace; "" is staging/
	Dirs       []string `json:"dirs,omitempty"`       // directories the commit made
	Class      string   `json:"class,omitempty"`
	Object     string   `json:"object,omitempty"`
	ImportID   string   `json:"import_id,omitempty"`  // bytes of the legacy journal: from-to
	JournalID  string   `json:"journal_id,omitempty"` // id of a legacy row
	PrevGit    string   `json:"prev_git,omitempty"`   // git object with the bytes of the file before
	Base       string   `json:"base,omitempty"`       // of a merge: the version that the caller expected
}

// Identity is the path without symlinks: the one that has a history.
func (m *Mutation) Identity() string {
	if m.Real != "" {
		return m.Real
	}
	return m.Path
}

// Link reports whether the path is a symbolic link afterwards. Its content is its
// target.
func (m *Mutation) Link() bool {
	return m.SHA256 != "" && fsx.KindOf(m.Mode) == fsx.Symlink
}

// ModeBefore returns the previous mode of the path.
func (m *Mutation) ModeBefore() uint32 { return cmp.Or(m.PrevMode, m.Mode) }

// ClassDirectory marks a mutation of a directory, which has modes and no content: a
// mode of 0 means that it is absent.
const ClassDirectory = "directory"

// Directory returns the effect of the mutation on a directory of the same name: a file
// or a symbolic link may replace a directory, or be replaced by one. ok is false if no
// directory was or is involved.
func (m *Mutation) Directory() (d Mutation, ok bool) {
	if m.Class == ClassDirectory {
		return *m, true
	}
	d = Mutation{Path: m.Identity(), Class: ClassDirectory, Mode: dirMode(m.Mode), PrevMode: dirMode(m.PrevMode)}
	return d, m.Class == "" && d.Mode != d.PrevMode
}

// dirMode returns the mode if it is that of a directory, else 0.
func dirMode(mode uint32) uint32 {
	if fsx.KindOf(mode) == fsx.Directory {
		return mode
	}
	return 0
}

// Note records something about the journal itself or about a row.
type Note struct {
	What    string     `json:"what"`
	Segment uint64     `json:"segment,omitempty"`
	From    int64      `json:"from,omitempty"` // bytes of the segment
	To      int64      `json:"to,omitempty"`
	SHA256  string     `json:"sha256,omitempty"`
	Missing *[2]uint64 `json:"missing,omitempty"` // first and last seq
	Path    string     `json:"path,omitempty"`
	Bytes   int64      `json:"bytes,omitempty"`
	Rows    int64      `json:"rows,omitempty"`
	Last    uint64     `json:"last,omitempty"` // newest seq of Segment
	Skipped int64      `json:"skipped,omitempty"`
	Text    string     `json:"text,omitempty"`

	Changed  []Change   `json:"changed,omitempty"`
	Accepted []Accepted `json:"accepted,omitempty"`
}

// The kinds of notes.
const (
	NoteTorn     = "torn"        // bytes of Segment that are no rows
	NoteMissing  = "seq_missing" // rows that a crash took
	NoteArchived = "archived"    // Segment is in the archive
	NoteCompact  = "compacted"   // Compact ran
	NoteErased   = "erased"      // bytes were overwritten on purpose
	NoteMended   = "mended"      // segments were put in order
	NoteHead     = "head_lost"   // the journal is not the one that was closed
	NoteImport   = "import"      // rows came from elsewhere
	NoteAccepted = "accepted"    // problems that the operator has accepted
)

// Change is something whose bytes were replaced on purpose: a row, by its Seq; bytes
// that are not a row, by Segment and From; otherwise the file Path, in the state
// directory or a segment by its name.
type Change struct {
	Seq     uint64 `json:"seq,omitempty"`
	Segment uint64 `json:"segment,omitempty"`
	From    int64  `json:"from,omitempty"`
	Path    string `json:"path,omitempty"`
	Was     string `json:"was,omitempty"` // hash before; "" when it was not there
	Now     string `json:"now,omitempty"` // hash afterwards; "" when it is gone
}

// Accepted is a known problem: it is not reported again as long as the
// evidence is the same.
type Accepted struct {
	Code     string `json:"code"`
	Segment  uint64 `json:"segment,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Evidence string `json:"evidence,omitempty"`
}

var (
	ErrTooLarge = errors.New("journal record too large")
	ErrPoisoned = errors.New("journal is poisoned by a failed flush")
	ErrGone     = errors.New("journal is gone")
	ErrNotFound = errors.New("no such journal row")
	ErrReadOnly = errors.New("journal is open for reading only")
	ErrLocked   = errors.New("journal lock timeout")
)

// MaxRecord is the limit of one record's line, in bytes.
const MaxRecord = 256 << 10

// maxSeq is the largest seq every JSON implementation keeps exactly.
const maxSeq = 1 << 53

// encode returns the line of a record, without newlines.
func encode(r *Record) ([]byte, error) {
	if r.Manifest != "" {
		brief := *r
		brief.Muts = nil
		r = &brief
	}
	line, err := json.Marshal(r)
	if err == nil && len(line) > MaxRecord {
		err = ErrTooLarge
	}
	return line, err
}

// decode parses a line. ok is false if it is not a record.
func decode(line []byte) (*Record, bool) {
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
		return nil, false
	}
	r := new(Record)
	if json.Unmarshal(line, r) != nil || r.Seq == 0 || r.Seq > maxSeq || r.Kind == "" {
		return nil, false
	}
	return r, true
}

var seqPrefix = []byte(`{"seq":`)

// seqOf reads the seq of a line without decoding the rest.
func seqOf(line []byte) (uint64, bool) {
	rest, ok := bytes.CutPrefix(line, seqPrefix)
	if !ok {
		if r, ok := decode(line); ok {
			return r.Seq, true
		}
		return 0, false
	}
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
	return seq, err == nil && seq > 0
}

// chainOf is the hash that the next record carries.
func chainOf(line []byte) [32]byte { return sha256.Sum256(line) }

func chainText(c [32]byte) string { return hex.EncodeToString(c[:]) }
