package journal

// The two ways to read a row, and how it is written.
var (
	DecodeRow = decode
	EncodeRow = encode
)

// SkimRow is what Skim makes of a line; usual reports whether it did so without
// decode.
func SkimRow(line []byte) (rec *Record, ok, usual bool) {
	k := new(skimmer)
	usual = k.skim(line)
	rec, ok = k.read(line)
	return rec, ok, usual
}

// SkimPreviousRow is what SkimPrevious makes of a line.
func SkimPreviousRow(line []byte) (rec *Record, ok bool) {
	return (&skimmer{previous: true}).read(line)
}
