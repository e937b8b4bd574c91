// Package call defines what the calls of a store have in common: the facts that
// each gives about itself, and the receipt that it returns.
package call

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Call is what a call that changes something says about itself. A call that
// writes no content takes no notice of AcceptRisk; those of an operator and
// tx_commit, which happens once, take none of IdempotencyKey. The chunk
// calls have a Session of their own, the name of the chunk session; the working
// session is that of their Call.
type Call struct {
	Caller string `json:"caller,omitempty" maxlen:"200"` // Who is asking; recorded in the journal.
	// Name of the working session; recorded in the journal.
	Session string `json:"session,omitempty" maxlen:"200"`
	// Idempotency key. Send the same key again after a lost reply: the change is
	// made once and the first reply is returned.
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200"`
	// Check everything and report what would be done, such as the hash and a
	// diff, but change nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Justification for writing flagged content; recorded in the journal. The
	// policy decides whether it is accepted.
	AcceptRisk string `json:"accept_risk,omitempty" maxlen:"500"`
}

// Via is what an adapter knows of a call, whatever the call says of itself. It
// comes with the context and never from an argument.
type Via struct {
	Client  string `json:"client,omitempty"`  // Client name, as given when it connected.
	Version string `json:"version,omitempty"` // Client version, as given when it connected.
	// Name of the connection; it begins with mcp-. Absent when the protocol has
	// no sessions.
	Connection string `json:"connection,omitempty"`
	// The conversation, as named by the host of the client.
	Thread string `json:"thread,omitempty"`
	Call   string `json:"call,omitempty"` // The call, as named by the host of the client.
	// The language model, as named by the host of the client.
	Model string `json:"model,omitempty"`
	// The turn of the conversation, as named by the host of the client.
	Turn string `json:"turn,omitempty"`
	// The trace, as its identifier in the traceparent of the host of the client.
	Trace string `json:"trace,omitempty"`
}

// Receipt reports what one mutating call did. Every such call has one: on
// success in its result, on refusal in the context of the error.
type Receipt struct {
	InvocationID string `json:"invocation_id"`     // Identifier of the call.
	ToolVersion  string `json:"tool_version"`      // Version of resilientwrite.
	Caller       string `json:"caller"`            // Who made the call.
	Session      string `json:"session,omitempty"` // Name of the working session.
	Op           string `json:"op"`                // The verb of the call.
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed,failed,refused" copied:"3"`
	// True when the call changed nothing by request.
	DryRun bool   `json:"dry_run"`
	Path   string `json:"path"` // Path of the file as requested, relative to the workspace.
	// Resolved path of a symbolic link.
	RealPath string `json:"real_path,omitempty"`
	// SHA-256 of the file, chunk or object afterwards.
	SHA256 Digest `json:"sha256,omitzero"`
	// SHA-256 of the previous file, if there was one.
	PrevSHA256 Digest `json:"prev_sha256,omitzero"`
	Bytes      int64  `json:"bytes"`                 // Its size in bytes.
	JournalSeq uint64 `json:"journal_seq,omitempty"` // Sequence number of the journal row.
	JournalID  string `json:"journal_id,omitempty"`  // Identifier of the journal row, if any.
	// The idempotency key of the call.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// Durability of the result when the call returned.
	Durability string    `json:"durability" enum:"full,journal,off,unverified,none"`
	StartedAt  time.Time `json:"started_at"`  // Start of the call, RFC 3339 UTC.
	DurationMS float64   `json:"duration_ms"` // Duration of the call in milliseconds.
	// When the change was made, RFC 3339 UTC; also of a replay.
	WroteAt time.Time `json:"-" copy:"wrote_at"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
}

// Status is how a mutating call ended.
type Status string

const (
	Succeeded Status = "succeeded"
	Unchanged Status = "unchanged" // the bytes were already there
	Replayed  Status = "replayed"  // the idempotency key had done it before
	Failed    Status = "failed"    // the storage or the system failed
	Refused   Status = "refused"   // a rule or a precondition refused it
)

// Warning is one thing the caller should know although the call succeeded.
type Warning struct {
	Reason string `json:"reason"`         // Stable name of the warning.
	Hint   string `json:"hint,omitempty"` // What it means, or what to do.
}

// FileResult is what became of the file of one operation.
type FileResult struct {
	Op string `json:"op" enum:"write,edit,delete,move"` // The operation.
	// Path of the file; the new one for a move.
	Path   string `json:"path"`
	SHA256 Digest `json:"sha256"` // SHA-256 of the final file; empty when it no longer exists.
	// SHA-256 of the previous file.
	PrevSHA256 Digest `json:"prev_sha256,omitzero"`
	Bytes      int64  `json:"bytes"`                // Size of the final file in bytes.
	JournalID  string `json:"journal_id,omitempty"` // Identifier of the journal row of this file.
}

// Expect is what a file must be before a call changes it: [AnyVersion],
// [Absent], or a version. A file that is something else is left alone, and the
// call is refused.
type Expect struct {
	version Digest
	given   bool
}

var (
	AnyVersion = Expect{}            // any content, or no file
	Absent     = Expect{given: true} // no file
)

// Exactly expects a file with the digest d; no file for the zero Digest.
func Exactly(d Digest) Expect { return Expect{version: d, given: true} }

// MarshalText returns the text of the expected version, empty for [Absent].
func (e Expect) MarshalText() ([]byte, error) { return e.version.MarshalText() }

// UnmarshalText reads the text of an expected version, empty for [Absent].
func (e *Expect) UnmarshalText(text []byte) error {
	var d Digest
	if err := d.UnmarshalText(text); err != nil {
		return err
	}
	*e = Exactly(d)
	return nil
}

// Hash returns the expected hash as text, nil for any version.
func (e Expect) Hash() *string {
	if !e.given {
		return nil
	}
	text := e.version.String()
	return &text
}

// Timestamp is a time in the journal or the state directory. Another version or
// program may have written it, so it keeps its text. The zero Timestamp has none.
type Timestamp struct {
	Time time.Time // zero if the text is not in the form of RFC 3339
	text string    // unless it is the one that a Time is written with
}

// IsZero reports whether t has no text.
func (t Timestamp) IsZero() bool { return t == Timestamp{} }

// String returns the text of t.
func (t Timestamp) String() string { return cmp.Or(t.text, stamp.Text(t.Time)) }

// MarshalText returns the text of t.
func (t Timestamp) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a Timestamp. It accepts any text.
func (t *Timestamp) UnmarshalText(text []byte) error {
	*t = Timestamp{Time: stamp.Parse(string(text))}
	if stamp.Text(t.Time) != string(text) {
		t.text = string(text)
	}
	return nil
}

// Digest is the SHA-256 of a file or of other bytes. The zero Digest is that of
// a file that does not exist. Its text is 64 lower-case hexadecimal digits, and
// empty for the zero Digest.
type Digest [sha256.Size]byte

// DigestOf returns the digest of b.
func DigestOf(b []byte) Digest { return sha256.Sum256(b) }

// ParseDigest reads the text of a digest, in lower or upper case.
func ParseDigest(text string) (Digest, error) {
	var d Digest
	err := d.UnmarshalText([]byte(text))
	return d, err
}

var errDigest = errors.New("a SHA-256 has 64 hexadecimal digits")

// IsZero reports whether d is the zero Digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// String returns the text of d.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// MarshalText returns the text of d.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text of a digest. 64 zeros are read as 64 times f: no
// known bytes have either, and the zero Digest has a meaning of its own.
func (d *Digest) UnmarshalText(text []byte) error {
	var fresh Digest
	if len(text) > 0 {
		if len(text) != hex.EncodedLen(len(fresh)) {
			return errDigest
		}
		if _, err := hex.Decode(fresh[:], text); err != nil {
			return errDigest
		}
		if fresh.IsZero() {
			fresh = Digest(bytes.Repeat([]byte{0xff}, len(fresh)))
		}
	}
	*d = fresh
	return nil
}
