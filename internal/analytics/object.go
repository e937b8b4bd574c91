package analytics

import "strings"

// statePrefix is where the Python implementation kept its state; its rows name
// state objects by such paths.
const statePrefix = ".resilient_write/"

// object is what a path in the state directory names.
type object uint8

const (
	objectNone       object = iota
	objectSession           // chunks/<session>
	objectPart              // chunks/<session>/part-001.txt
	objectCheckpoint        // checkpoints/<name>.json
)

const (
	maxSessionName    = 64
	maxCheckpointName = 255
)

// parseObject tells what a path in the state directory names, with the name of
// the session or of the checkpoint. The path may begin with the name of the
// state directory.
func parseObject(path string) (what object, name string) {
	path = strings.TrimPrefix(path, statePrefix)
	if rest, ok := strings.CutPrefix(path, "checkpoints/"); ok {
		name, ok = strings.CutSuffix(rest, ".json")
		if !ok || name == "" || len(name) > maxCheckpointName || strings.ContainsAny(name, "/\\\x00") {
			return objectNone, ""
		}
		return objectCheckpoint, name
	}
	rest, ok := strings.CutPrefix(path, "chunks/")
	if !ok {
		return objectNone, ""
	}
	name, part, within := strings.Cut(rest, "/")
	switch {
	case !isSessionName(name):
		return objectNone, ""
	case !within:
		return objectSession, name
	case !isPart(part):
		return objectNone, ""
	}
	return objectPart, name
}

// isSessionName reports whether s is 1 to 64 letters, digits, _ or -.
func isSessionName(s string) bool {
	if s == "" || len(s) > maxSessionName {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// isPart reports whether s is the file name of a chunk: its index, 1 to 999999,
// has three digits, and more only past 999.
func isPart(s string) bool {
	s, ok := strings.CutPrefix(s, "part-")
	if !ok {
		return false
	}
	s, ok = strings.CutSuffix(s, ".txt")
	if !ok || len(s) < 3 || len(s) > 6 || s == "000" || len(s) > 3 && s[0] == '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
