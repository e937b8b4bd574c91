package call

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

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
