package call

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
