// Package chunks keeps the chunks that become one file: chunks/<session>/ holds
// part-001.txt and so on, which are authoritative, and manifest.json, which is
// checked against them.
package chunks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Layer keeps the sessions of chunks of a store.
type Layer struct{ *engine.Engine }

const (
	Dir          = "chunks"
	ManifestName = "manifest.json"
	MaxIndex     = 999_999
	OpReset      = "reset" // the operation in the journal that ends a session
)

// Session is the stored form of a session.
type Session struct {
	Name     string
	Found    bool // there is a piece or a manifest
	Manifest Manifest
	State    ManifestState
	Parts    []Part   // the pieces on disk, by number
	Odd      []string // names that are ours and are no regular files
}

func PartName(index int) string { return fmt.Sprintf("part-%03d.txt", index) }

func SessionObject(session string) string { return Dir + "/" + session }

func PartObject(session string, index int) string {
	return SessionObject(session) + "/" + PartName(index)
}

func ManifestObject(session string) string { return SessionObject(session) + "/" + ManifestName }

// IndexOf is the number of the piece that an object is, 0 for another one.
func IndexOf(object string) int {
	digits, ok := strings.CutPrefix(object[strings.LastIndexByte(object, '/')+1:], "part-")
	digits, ended := strings.CutSuffix(digits, ".txt")
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || !ended || err != nil || n < 1 || n > MaxIndex || len(digits) < 3 || len(digits) > 3 && digits[0] == '0' {
		return 0
	}
	return int(n)
}

// OpenDir opens the directory of a session; nil if there is none.
func (s *Layer) OpenDir(name string) (fsx.Dir, error) {
	return s.StatePart(SessionObject(name))
}

// Read reads a session without its chunks.
func (s *Layer) Read(name string) (*Session, error) {
	sess := &Session{Name: name}
	sess.Manifest.Session = name
	dir, err := s.OpenDir(name)
	if dir == nil || err != nil {
		return sess, err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	if slices.Contains(names, ManifestName) {
		sess.Found = true
		if err := sess.readManifest(dir); err != nil {
			return nil, err
		}
	}
	known := map[int]Part{}
	for _, p := range sess.Manifest.Parts {
		known[p.Index] = p
	}
	for _, n := range names {
		index := IndexOf(n)
		if index == 0 {
			continue
		}
		p, ok := known[index]
		if !ok {
			st, err := dir.Lstat(n)
			if engine.IsAbsent(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if st.Kind != fsx.Regular {
				sess.Odd = append(sess.Odd, n)
				continue
			}
			p = Part{Index: index, Bytes: st.Size}
		}
		sess.Found = true
		sess.Parts = append(sess.Parts, p)
	}
	slices.SortFunc(sess.Parts, func(a, b Part) int { return a.Index - b.Index })
	if sess.State == ManifestLost && sess.Found {
		err = s.recallSession(sess)
	}
	return sess, err
}

// search returns the place of a piece, and whether it is there.
func (sess *Session) search(index int) (at int, found bool) {
	return slices.BinarySearchFunc(sess.Parts, index, func(p Part, index int) int { return p.Index - index })
}

// Next is the number after the last piece.
func (sess *Session) Next() int {
	if len(sess.Parts) == 0 {
		return 1
	}
	return sess.Parts[len(sess.Parts)-1].Index + 1
}

// Total is how many pieces are expected, nil when no caller said.
func (sess *Session) Total() *int {
	if n := sess.Manifest.TotalExpected; n > 0 {
		return &n
	}
	return nil
}

func (sess *Session) Bytes() (sum int64) {
	for _, p := range sess.Parts {
		sum += p.Bytes
	}
	return sum
}

func (sess *Session) Indices() []int {
	list := make([]int, 0, len(sess.Parts))
	for _, p := range sess.Parts {
		list = append(list, p.Index)
	}
	return list
}

// maxMissing is how many missing numbers are listed; all are counted.
const maxMissing = 1000

// Missing lists the numbers up to the expected total, or to the last piece,
// that no piece has.
func (sess *Session) Missing() (list []int, count int) {
	list = []int{}
	upto := cmp.Or(sess.Manifest.TotalExpected, sess.Next()-1)
	at := 0
	for i := 1; i <= upto; i++ {
		if at < len(sess.Parts) && sess.Parts[at].Index == i {
			at++
			continue
		}
		if count++; len(list) < maxMissing {
			list = append(list, i)
		}
	}
	return list, count
}

// Gone makes a session that is being reset look like the empty one it is.
func (sess *Session) Gone() *Session {
	out := &Session{Name: sess.Name}
	out.Manifest.Session = sess.Name
	return out
}

func Lock(session string) string { return "chunks\x00" + relpath.Key(session) }

// MaxAgain is how often a call is repeated because of what others left.
const MaxAgain = 16

// withSession runs fn while no other call changes the session.
func (s *Layer) withSession(ctx context.Context, session, what string, fn func() error) error {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Leave()
	manifest := engine.StateDirName + "/" + ManifestObject(session)
	unlock, err := s.Locks.Names(ctx, s.Opts.LockTimeout, what, Lock(session), engine.PathLock(manifest))
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}

// setAside moves entries that have our names but are not our files into quarantine:
// they must not keep a caller from the chunks.
func (s *Layer) setAside(ctx context.Context, session string, names []string) error {
	return s.withSession(ctx, session, "quarantine", func() error {
		dir, err := s.OpenDir(session)
		if dir == nil || err != nil {
			return err
		}
		defer dir.Close()
		for _, name := range names {
			st, err := dir.Lstat(name)
			if engine.IsAbsent(err) || err == nil && st.Kind == fsx.Regular {
				continue
			}
			if err != nil {
				return err
			}
			if _, err := s.SetAside(dir, name, "chunk-"+session+"-"+name); err != nil && !engine.IsAbsent(err) {
				return err
			}
		}
		return nil
	})
}

// maxName is the length of the longest name of a session, in bytes.
const maxName = 64

var sessionName = regexp.MustCompile(`^[A-Za-z0-9_-]+\z`)

// CheckName refuses an invalid name.
func CheckName(name string) *fault.Fault {
	if len(name) > maxName || !sessionName.MatchString(name) {
		return fault.New(fault.BadSession).With("argument", "session")
	}
	return nil
}

// Look returns a session for a reader: one whose reset was interrupted is gone. Work that
// a dead writer left half done is completed first.
func (s *Layer) Look(ctx context.Context, name string) (*Session, error) {
	if e := CheckName(name); e != nil {
		return nil, e
	}
	if err := s.settle(ctx, name); err != nil {
		return nil, err
	}
	sess, err := s.Read(name)
	if err == nil && sess.Manifest.ResetPending {
		return sess.Gone(), nil
	}
	return sess, err
}

// settle completes the interrupted work of a dead writer in a session, so that
// the next read returns the final state.
func (s *Layer) settle(ctx context.Context, session string) error {
	if s.Log == nil {
		return nil
	}
	if err := s.Log.CatchUp(); err != nil {
		return err
	}
	if s.Opts.ReadOnly || s.Poisoned.Load() {
		return nil
	}
	manifest := engine.StateDirName + "/" + ManifestObject(session)
	for range MaxAgain {
		left, err := s.LeftBehind([]string{manifest})
		if left == nil || err != nil {
			return err
		}
		if err := s.FinishDead(ctx, left, new(engine.Report)); err != nil {
			return err
		}
	}
	return nil
}

// List calls fn for every session, in the order of their names. One that cannot be read
// has only its name and is not found.
func (s *Layer) List(ctx context.Context, fn func(*Session)) error {
	return s.EachIn(Dir, func(dir fsx.Dir, name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if st, err := dir.Lstat(name); CheckName(name) != nil || err == nil && st.Kind != fsx.Directory {
			return nil
		}
		sess, err := s.Read(name)
		if err != nil {
			fn(&Session{Name: name})
		} else if sess.Found && !sess.Manifest.ResetPending {
			fn(sess)
		}
		return nil
	})
}

// Copy writes the file that a compose would make to w. Every piece is compared with the
// hash that was recorded when it was stored. A nil separator is that of the session.
func (s *Layer) Copy(ctx context.Context, name string, separator *string, w io.Writer) (*Session, error) {
	sess, err := s.Look(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case !sess.Found:
		return nil, fault.New(fault.SessionNotFound).With("session", name)
	case len(sess.Parts) == 0:
		return nil, fault.New(fault.NoChunksFound).With("session", name)
	}
	src, err := s.join(sess, separator)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	_, err = engine.Move(w, engine.NewStoppable(ctx, src))
	return sess, err
}

// Manifest is the list of a session. It is a cache: lost entries are rebuilt from the
// chunks and the journal.
type Manifest struct {
	Format        string `json:"format"`
	Session       string `json:"session"`
	CreatedAt     string `json:"created_at,omitempty"` // RFC 3339; "" when it is not known
	TotalExpected int    `json:"total_expected,omitempty"`
	Separator     string `json:"separator,omitempty"` // of the last compose
	Parts         []Part `json:"parts"`
	Sealed        *Seal  `json:"sealed,omitempty"`
	ResetPending  bool   `json:"reset_pending,omitempty"` // the pieces count no more and are being removed
	Check         string `json:"check"`                   // hash of everything else
}

// Part is one piece.
type Part struct {
	Index  int    `json:"index"`
	SHA256 string `json:"sha256"` // "" while it is not known
	Bytes  int64  `json:"bytes"`
}

// Seal describes the composed file of a session.
type Seal struct {
	OutputPath string `json:"output_path"`
	SHA256     string `json:"sha256"`
	Bytes      int64  `json:"bytes"`
}

const (
	manifestFormat = "resilientwrite.chunks/1"
	ManifestLimit  = 256 << 20 // bytes
)

// How far a manifest can be believed.
type ManifestState int

const (
	ManifestLost    ManifestState = iota // none, or not what we wrote
	manifestForeign                      // of the Python implementation, which rewrites it with each piece
	ManifestWhole
)

// Encode returns the manifest with its own hash in it. Two sessions with the
// same pieces have the same bytes: there is no time in them.
func (m Manifest) Encode() ([]byte, error) {
	m.Format = manifestFormat
	if m.Parts == nil {
		m.Parts = []Part{}
	}
	m.Check = m.sum()
	return json.Marshal(m)
}

// sum is the hash of everything but the hash.
func (m Manifest) sum() string {
	parts := m.Parts
	m.Parts, m.Check = nil, ""
	d := engine.NewDigest()
	json.NewEncoder(d).Encode(m)
	for _, p := range parts {
		fmt.Fprintln(d, p.Index, p.SHA256, p.Bytes)
	}
	return d.Hex()
}

// possible reports whether a session can have the manifest: its hash only shows that it
// was not changed by accident, and numbers without bounds would have unbounded cost.
func (m *Manifest) possible() bool {
	last := 0
	for _, p := range m.Parts {
		if p.Index <= last || p.Index > MaxIndex || p.Bytes < 0 || p.SHA256 != "" && !engine.ValidSHA256(p.SHA256) {
			return false
		}
		last = p.Index
	}
	return m.TotalExpected >= 0 && m.TotalExpected <= MaxIndex && (m.Sealed == nil || m.Sealed.Bytes >= 0)
}

func DecodeManifest(data []byte, session string) (Manifest, ManifestState) {
	var m Manifest
	if json.Unmarshal(data, &m) == nil && m.Format == manifestFormat && m.Session == session {
		if m.Check == m.sum() && m.possible() {
			return m, ManifestWhole
		}
		return Manifest{}, ManifestLost
	}
	var any map[string]json.RawMessage
	if json.Unmarshal(data, &any) == nil && any != nil && any["format"] == nil {
		// The total number of chunks is stored only in the manifest.
		n := 0
		if json.Unmarshal(any["total_expected"], &n) != nil || n < 0 || n > MaxIndex {
			n = 0
		}
		return Manifest{TotalExpected: n}, manifestForeign
	}
	return Manifest{}, ManifestLost
}

// readManifest reads the valid parts of the manifest. A damaged manifest never makes
// the chunks inaccessible.
func (sess *Session) readManifest(dir fsx.Dir) error {
	data, err := durable.ReadFile(dir, ManifestName, ManifestLimit)
	var kind *fsx.TypeError
	if errors.As(err, &kind) {
		sess.Odd = append(sess.Odd, ManifestName)
	}
	if engine.IsAbsent(err) || engine.IsOdd(err) {
		return nil
	}
	if err != nil {
		return err
	}
	m, state := DecodeManifest(data, sess.Name)
	if state != ManifestLost {
		sess.Manifest = m
	}
	sess.State = state
	return nil
}

// recallSession restores from the journal what a lost manifest recorded about the whole
// session: its newest row says whether it was composed or reset.
func (s *Layer) recallSession(sess *Session) error {
	rec, err := s.NewestRow(ManifestObject(sess.Name))
	if rec == nil {
		return err
	}
	for _, m := range rec.Muts {
		switch {
		case m.Op == "compose" && m.Object == SessionObject(sess.Name):
			sess.Manifest.Sealed = &Seal{OutputPath: m.Path, SHA256: m.SHA256, Bytes: m.Bytes}
		case m.Op == OpReset && m.Object == ManifestObject(sess.Name):
			sess.Manifest.ResetPending = true
		}
	}
	return nil
}

// NewestRow returns the newest commit of an object, or nil if there is none or it
// is lost. Rows of the Python implementation do not count.
func (s *Layer) NewestRow(object string) (*journal.Record, error) {
	if s.Rows == nil || s.Log == nil {
		return nil, nil
	}
	e, err := s.LastRow(engine.StateDirName + "/" + object)
	if err != nil || e.Seq == 0 {
		return nil, err
	}
	rec, err := s.Log.Find(e.Seq)
	if errors.Is(err, journal.ErrNotFound) || err == nil && (len(rec.Muts) == 0 || rec.Muts[0].ImportID != "") {
		return nil, nil
	}
	return rec, err
}

// RecordedSHA returns the hash that the journal last recorded for an object, or "" if
// there is none.
func (s *Layer) RecordedSHA(object string) (string, error) {
	rec, err := s.NewestRow(object)
	if rec == nil {
		return "", err
	}
	for _, m := range rec.Muts {
		if m.Object == object {
			return m.SHA256, nil
		}
	}
	return "", nil
}

// HoldManifest makes the manifest of a session the content of the mutation.
func HoldManifest(m *engine.Mutation, sess *Session) error {
	sess.Manifest.Session, sess.Manifest.Parts = sess.Name, sess.Parts
	data, err := sess.Manifest.Encode()
	if err != nil {
		return err
	}
	m.Hold(data)
	return nil
}
