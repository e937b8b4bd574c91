package frontmatter

// DecodeInPieces is Decode with long mappings in pieces of two keys.
func DecodeInPieces(yaml []byte) (*Map, error) {
	defer func(n int) { maxRun = n }(maxRun)
	maxRun = 2
	return Decode(yaml)
}
