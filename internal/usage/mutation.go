package usage

import (
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
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

// parseObject returns the kind of object that a path in the state directory names, and
// the name of the session or of the checkpoint. The path may begin with the name of the
// state directory.
func parseObject(path string) (what object, name string) {
	dir, rest, _ := strings.Cut(strings.TrimPrefix(path, statePrefix), "/")
	session, part, inside := strings.Cut(rest, "/")
	name, ok := strings.CutSuffix(rest, checkpoint.FileSuffix)
	switch {
	case dir == checkpoint.Dir && ok && name != "" && !strings.ContainsAny(name, "/\\\x00"):
		return objectCheckpoint, name
	case dir != chunks.Dir || chunks.CheckName(session) != nil:
	case !inside:
		return objectSession, session
	case !strings.Contains(part, "/") && chunks.IndexOf(part) > 0:
		return objectPart, session
	}
	return objectNone, ""
}
