package usage

import (
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// named is how a caller, mode or reason that was not given is shown.
func named(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// saves reports whether an operation on a state object stores it, rather than
// taking it away.
func saves(op string, legacy bool) bool {
	switch op {
	case "chunk", "chunk_write", "chunk_append", "checkpoint":
		return true
	case "create", "overwrite", "append":
		return legacy
	}
	return false
}

// written is how many bytes a mutation wrote: the whole file, or what an append
// added. The Python implementation rewrote the whole file for an append, and
// noted only its size.
func written(m *journal.Mutation) int64 {
	n := m.Bytes
	switch {
	case m.Op != "append" || m.ImportID != "":
	case m.PayBytes > 0 || m.PaySHA256 != "":
		n = m.PayBytes
	default: // the file was copied, so the row has only its sizes
		n -= m.PrevBytes
	}
	return max(n, 0)
}

// statePrefix is where the Python implementation kept its state; its rows name
// state objects by such paths.
const statePrefix = ".resilient_write/"

// object is the kind of object that a path in the state directory names.
type object uint8

const (
	objectNone       object = iota
	objectSession           // chunks/<session>
	objectPart              // chunks/<session>/part-001.txt
	objectCheckpoint        // checkpoints/<name>.json
)

const (
	maxSessionName = 64

	digits       = "0123456789"
	sessionChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + digits + "_-"
)

// parseObject returns the kind of object that a path in the state directory names, and
// the name of the session or of the checkpoint. The path may begin with the name of the
// state directory.
func parseObject(path string) (what object, name string) {
	path = strings.TrimPrefix(path, statePrefix)
	if name, ok := within(path, "checkpoints/", ".json"); ok {
		if name == "" || strings.ContainsAny(name, "/\\\x00") {
			return objectNone, ""
		}
		return objectCheckpoint, name
	}
	rest, ok := strings.CutPrefix(path, "chunks/")
	name, part, inside := strings.Cut(rest, "/")
	if !ok || name == "" || len(name) > maxSessionName || strings.Trim(name, sessionChars) != "" {
		return objectNone, ""
	}
	if !inside {
		return objectSession, name
	}
	// The index, 1 to 999999, has three digits, and more only past 999.
	index, ok := within(part, "part-", ".txt")
	if !ok || len(index) < 3 || len(index) > 6 || index == "000" || len(index) > 3 && index[0] == '0' || strings.Trim(index, digits) != "" {
		return objectNone, ""
	}
	return objectPart, name
}

// within is the text between a prefix and a suffix.
func within(s, prefix, suffix string) (string, bool) {
	rest, ok := strings.CutPrefix(s, prefix)
	inner, ended := strings.CutSuffix(rest, suffix)
	return inner, ok && ended
}
