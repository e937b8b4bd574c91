package resilientwrite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/blame"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/merge"
)

// BlameRequest asks who wrote the lines of a file.
type BlameRequest struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path" required:"true"`
	// The newest version with this content, in place of the file as it is.
	SHA256 Digest `json:"sha256,omitzero"`
}

// BlameResult says who wrote the lines of a file.
type BlameResult struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path"`
	// SHA-256 of the file.
	SHA256 Digest `json:"sha256"`
	// The lines of the file as it is.
	Lines []BlameLine `json:"lines"`
	// The calls and groups that changed the file, newest first, those included of
	// which no line is left.
	Calls []BlameCall `json:"calls"`
	// False when the content of a version is not kept, or there are more than
	// 1000: lines that came before have no row.
	Complete bool `json:"complete"`
}

// BlameLine is a line of a file.
type BlameLine struct {
	// Number, from 1.
	Line int `json:"line"`
	// Journal row of the change that wrote it; 0 where that is not known.
	Row uint64 `json:"row"`
	// True when no row records the change: the file was changed since by another
	// program, and no scan has seen it.
	Unrecorded bool `json:"unrecorded,omitempty"`
	// The line, without its end.
	Text string `json:"text"`
}

// BlameCall is a change of a file.
type BlameCall struct {
	// Journal row.
	Row uint64 `json:"row"`
	// Operation.
	Op string `json:"op"`
	// When, RFC 3339 UTC.
	TS string `json:"ts"`
	// Who; outside means another program.
	Caller string `json:"caller"`
	// Working session.
	Session string `json:"session,omitempty"`
	// What the adapter knew of the call: client, model, call, turn, trace.
	Via *Via `json:"via,omitempty"`
	// Of a change by another program: the tool calls that were open, and the
	// command line, without secrets. With several calls it is not known which of
	// them made it.
	During  []string `json:"during,omitempty"`
	Command string   `json:"command,omitempty"`
	// Lines of the file that it wrote.
	Lines int `json:"lines"`
	// Journal row of the undo or the restoration that took the change back.
	UndoneBy uint64 `json:"undone_by,omitempty"`
}

const maxBlamed = 1000 // versions

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
	out, err := s.blame(ctx, r)
	if errors.Is(err, merge.ErrTooMuchWork) {
		err = fault.New(fault.TooLarge).Hintf("two versions of the file differ too much to compare them")
	}
	if err != nil {
		return BlameResult{}, s.verbError("blame", err)
	}
	return out, nil
}

func (s *Store) blame(ctx context.Context, r BlameRequest) (BlameResult, error) {
	out := BlameResult{Lines: []BlameLine{}, Calls: []BlameCall{}, Complete: true}
	path, err := s.identity(r.Path)
	if err != nil {
		return out, err
	}
	l, err := s.versions.Lineage(path)
	if err != nil {
		return out, err
	}
	chain, all, err := chainOf(l)
	if err != nil {
		return out, err
	}
	var now []byte
	if r.SHA256.IsZero() {
		now, err = s.currentText(path)
	} else {
		chain, now, err = s.until(chain, r.SHA256.String())
	}
	if err != nil {
		return out, err
	}
	var f blame.File
	for i, v := range chain {
		if ctx.Err() != nil {
			return out, fault.New(fault.Canceled).Because(ctx.Err())
		}
		if (i == 0 || chain[i-1].M.SHA256 != v.M.PrevSHA256) && v.M.PrevSHA256 != "" {
			if err := f.Add(s.blamedBefore(v)); err != nil {
				return out, err
			}
		}
		if err := f.Add(s.blamed(v)); err != nil {
			return out, err
		}
	}
	out.Path, out.SHA256 = path, digest(engine.HashOf(now))
	recorded := len(chain) > 0 && chain[len(chain)-1].M.SHA256 == engine.HashOf(now)
	if !recorded {
		if err := f.Add(blame.Version{Row: unrecorded, SHA: engine.HashOf(now), Text: now}); err != nil {
			return out, err
		}
	}
	rows, complete := f.Rows()
	out.Complete = complete && all
	wrote := map[uint64]int{}
	for i, text := range merge.Lines(now) {
		line := BlameLine{Line: i + 1, Text: trimEnd(text)}
		if line.Row = rows[i]; line.Row == unrecorded {
			line.Row, line.Unrecorded = 0, true
		}
		wrote[line.Row]++
		out.Lines = append(out.Lines, line)
	}
	for _, v := range slices.Backward(chain) {
		out.Calls = append(out.Calls, s.blamedCall(v, wrote[v.Seq], f.UndoneBy(v.Seq)))
	}
	return out, nil
}

// unrecorded represents changes that no row records.
const unrecorded = 1<<64 - 1

func trimEnd(line []byte) string {
	n := len(line)
	if n > 0 && line[n-1] == '\n' {
		n--
	}
	if n > 0 && line[n-1] == '\r' {
		n--
	}
	return string(line[:n])
}

// until returns a chain up to its newest version with the given content, and that
// text.
func (s *Store) until(chain []*history.Version, sha string) ([]*history.Version, []byte, error) {
	i := len(chain) - 1
	for i >= 0 && chain[i].M.SHA256 != sha {
		i--
	}
	if i < 0 {
		return nil, nil, fault.New(fault.VersionNotFound)
	}
	v := s.blamed(chain[i])
	if v.Opaque {
		return nil, nil, fault.New(fault.VersionNotKept)
	}
	return chain[:i+1], v.Text, textOnly(v.Text)
}

func textOnly(text []byte) error {
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return fault.New(fault.NotUTF8)
	}
	return nil
}

// currentText reads the current file.
func (s *Store) currentText(path string) ([]byte, error) {
	src, size, err := s.engine.OpenCurrent(path)
	if engine.IsAbsent(err) {
		return nil, fault.New(fault.FileNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if size > engine.MergeLimit {
		return nil, fault.New(fault.TooLarge).With("bytes", size).With("max_bytes", engine.MergeLimit)
	}
	text, err := io.ReadAll(src)
	if err == nil {
		err = textOnly(text)
	}
	return text, err
}

// chainOf returns the versions that led to the newest one, oldest first; all is
// false if there are more.
func chainOf(l *history.Lineage) (chain []*history.Version, all bool, err error) {
	for i := 0; ; i++ {
		v, err := l.At(i)
		if err != nil {
			return nil, false, err
		}
		if v == nil {
			break
		}
		if n := len(chain); n > 0 {
			later := chain[n-1]
			at := later.Path
			if later.M.From != "" {
				at = later.M.From
			}
			if v.Path != at || !slices.Contains(v.Later, later) {
				continue
			}
		}
		if len(chain) == maxBlamed {
			slices.Reverse(chain)
			return chain, false, nil
		}
		chain = append(chain, v)
	}
	slices.Reverse(chain)
	return chain, true, nil
}

// blamed returns a version with its text.
func (s *Store) blamed(v *history.Version) blame.Version {
	b := blame.Version{Row: v.Seq, SHA: v.M.SHA256, Back: v.M.Op == "undo" || v.M.Op == "restore"}
	if v.M.SHA256 == "" {
		return b
	}
	src, size, err := s.versions.VersionContent(v)
	if err == nil {
		b.Text, err = observe.ReadKept(src, v.M.SHA256)
	}
	b.Opaque = err != nil || size > engine.MergeLimit
	return b
}

// blamedBefore returns the content that a version replaced, if no row records it.
func (s *Store) blamedBefore(v *history.Version) blame.Version {
	b := blame.Version{SHA: v.M.PrevSHA256}
	src := s.observed.Kept(v.M.PrevSHA256, v.M.PrevBytes)
	if src == nil && v.M.PrevGit != "" {
		git := s.observed.Git(context.Background())
		defer git.Close()
		src = git.Open(v.Path, v.M.PrevGit)
	}
	var err error
	b.Text, err = observe.ReadKept(src, v.M.PrevSHA256)
	b.Opaque = err != nil
	return b
}

// blamedCall returns the facts about the call that made a version.
func (s *Store) blamedCall(v *history.Version, lines int, undoneBy uint64) BlameCall {
	c := BlameCall{Row: v.Seq, Op: v.M.Op, TS: v.TS, Caller: v.Caller, Via: viaOf(v.Via), Lines: lines, UndoneBy: undoneBy}
	if rec, err := s.engine.Log.Find(v.Seq); err == nil {
		c.Session = rec.Session
		if rec.Group != nil {
			c.During, c.Command = rec.Group.Calls, rec.Group.Command
		}
	}
	return c
}
