package chunks

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

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
