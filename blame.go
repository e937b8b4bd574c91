package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/blame"
	"github.com/resilientwrite/resilientwrite/internal/versions"
)

// BlameRequest asks who wrote the lines of a file.
type BlameRequest struct {
	Path string `json:"path" required:"true"` // Path of the file, relative to the workspace.
	// The newest version with this content, in place of the file as it is.
	SHA256 Digest `json:"sha256,omitzero"`
}

// BlameResult says who wrote the lines of a file.
type BlameResult struct {
	Path   string      `json:"path"`   // Path of the file, relative to the workspace.
	SHA256 Digest      `json:"sha256"` // SHA-256 of the file.
	Lines  []BlameLine `json:"lines"`  // The lines of the file as it is.
	// The calls and groups that changed the file, newest first, those included of
	// which no line is left.
	Calls []BlameCall `json:"calls"`
	// False when the content of a version is not kept, or there are more than
	// 1000: lines that came before have no row.
	Complete bool `json:"complete"`
}

// BlameLine is a line of a file.
type BlameLine struct {
	Line int    `json:"line"` // Number, from 1.
	Row  uint64 `json:"row"`  // Journal row of the change that wrote it; 0 where that is not known.
	// True when no row records the change: the file was changed since by another
	// program, and no scan has seen it.
	Unrecorded bool   `json:"unrecorded,omitempty"`
	Text       string `json:"text"` // The line, without its end.
}

// BlameCall is a change of a file.
type BlameCall struct {
	Row     uint64    `json:"row"`               // Journal row.
	Op      string    `json:"op"`                // Operation.
	TS      Timestamp `json:"ts"`                // When, RFC 3339 UTC.
	Caller  string    `json:"caller"`            // Who; outside means another program.
	Session string    `json:"session,omitempty"` // Working session.
	// What the adapter knew of the call: client, model, call, turn, trace.
	Via *Via `json:"via,omitempty"`
	// Of a change by another program: the tool calls that were open, and the
	// command line, without secrets. With several calls it is not known which of
	// them made it.
	During  []string `json:"during,omitempty"`
	Command string   `json:"command,omitempty"`
	Lines   int      `json:"lines"` // Lines of the file that it wrote.
	// Journal row of the undo or the restoration that took the change back.
	UndoneBy uint64 `json:"undone_by,omitempty"`
}

// Blame reports for each line of a file which call wrote it, who made the call
// and when. It follows the file through earlier names. Lines that an undo or a
// restoration brought back belong to the call that wrote them first. Errors: the
// path details, [ErrFileNotFound], [ErrVersionNotFound] and [ErrVersionNotKept]
// for a content, [ErrTooLarge] for a file over 8 MiB, [ErrNotUTF8] for a binary
// one, the storage details, [ErrStoreClosed].
func (s *Store) Blame(ctx context.Context, r BlameRequest) (BlameResult, error) {
	if err := s.engine.EnterReader(); err != nil {
		return BlameResult{}, s.verbError("blame", err)
	}
	defer s.engine.Leave()
	out := BlameResult{Lines: []BlameLine{}, Calls: []BlameCall{}}
	path, err := versions.Identity(s.engine, r.Path)
	if err != nil {
		return BlameResult{}, s.verbError("blame", err)
	}
	b, err := (&blame.Layer{Versions: s.versions, Observed: s.observed}).Read(ctx, path, r.SHA256.String())
	if err != nil {
		return BlameResult{}, s.verbError("blame", err)
	}
	out.Path, out.SHA256, out.Complete = path, digest(b.SHA), b.Complete
	for _, line := range b.Lines {
		out.Lines = append(out.Lines, BlameLine(line))
	}
	for _, v := range b.Calls {
		c := BlameCall{
			Row: v.Seq, Op: v.M.Op, TS: timestamp(v.TS), Caller: v.Caller, Session: v.Session, Via: viaOf(v.Via), Lines: v.Lines, UndoneBy: v.UndoneBy,
		}
		if v.Group != nil {
			c.During, c.Command = v.Group.Calls, v.Group.Command
		}
		out.Calls = append(out.Calls, c)
	}
	return out, nil
}
