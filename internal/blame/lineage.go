package blame

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/aside"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/merge"
)

// Layer reads who wrote the lines of the files of a store.
type Layer struct {
	Versions *history.Layer
	Observed *observe.Layer
}

const (
	maxVersions = 1000
	unrecorded  = 1<<64 - 1 // represents changes that no row records
)

// Read attributes the lines of the file at a path or, with a hash, of its newest version
// that has it.
func (l *Layer) Read(ctx context.Context, path, sha string) (out around.BlameResult, err error) {
	out = around.BlameResult{Path: path, Lines: []around.BlameLine{}, Calls: []around.BlameCall{}}
	lineage, err := l.Versions.Lineage(path)
	if err != nil {
		return out, err
	}
	chain, all, err := chainOf(lineage)
	if err != nil {
		return out, err
	}
	var now []byte
	if sha == "" {
		now, err = l.current(path)
	} else {
		chain, now, err = l.until(chain, sha)
	}
	if err != nil {
		return out, err
	}
	f, err := l.origins(ctx, chain, now)
	if errors.Is(err, merge.ErrTooMuchWork) {
		err = fault.New(fault.TooLarge).Hintf("two versions of the file differ too much to compare them")
	}
	if err != nil {
		return out, err
	}
	rows, complete := f.Rows()
	out.SHA256, out.Complete = call.DigestOf(now), complete && all
	wrote := map[uint64]int{}
	for i, text := range merge.Lines(now) {
		line := around.BlameLine{Line: i + 1, Row: rows[i], Text: string(bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'}))}
		if line.Row == unrecorded {
			line.Row, line.Unrecorded = 0, true
		}
		wrote[line.Row]++
		out.Lines = append(out.Lines, line)
	}
	for _, v := range slices.Backward(chain) {
		c := around.BlameCall{Row: v.Seq, Op: v.M.Op, Caller: v.Caller, Lines: wrote[v.Seq], UndoneBy: f.UndoneBy(v.Seq)}
		c.TS.UnmarshalText([]byte(v.TS)) // any text is one
		if v.Via != nil {
			via := call.Via(*v.Via)
			c.Via = &via
		}
		if v.Group != nil {
			c.During, c.Command = v.Group.Calls, v.Group.Command
		}
		if rec, err := l.Versions.Log.Find(v.Seq); err == nil {
			c.Session = rec.Session
		}
		out.Calls = append(out.Calls, c)
	}
	return out, nil
}

// origins goes through the versions that led to a text.
func (l *Layer) origins(ctx context.Context, chain []*history.Version, now []byte) (f *File, err error) {
	last, current := "", engine.HashOf(now)
	f = &File{Restored: map[string]bool{}}
	add := func(v Version) error {
		failed, err := aside.Run(ctx, len(f.text)+len(v.Text), func() error { return f.Add(v) })
		return cmp.Or(err, failed)
	}
	for _, v := range chain {
		f.Restored[v.M.SHA256] = f.Restored[v.M.SHA256] || brings(v)
	}
	for _, v := range chain {
		if ctx.Err() != nil {
			return f, fault.New(fault.Canceled).Because(ctx.Err())
		}
		b := Version{Row: v.Seq, SHA: v.M.SHA256, Back: brings(v), Text: now}
		if b.SHA != current {
			b.Text, b.Opaque, err = l.text(v)
		}
		if err != nil {
			return f, err
		}
		prev := Version{SHA: v.M.PrevSHA256}
		switch {
		case v.M.From != "": // its content is that of the file that was moved
			prev = Version{SHA: b.SHA, Text: b.Text, Opaque: b.Opaque}
		case prev.SHA != "" && prev.SHA != last:
			prev.Text, prev.Opaque, err = l.before(ctx, v)
		}
		if err == nil && prev.SHA != last && v.M.ImportID == "" {
			err = add(prev)
		}
		if err == nil {
			err = add(b)
		}
		if err != nil {
			return f, err
		}
		last = b.SHA
	}
	if last != current {
		return f, add(Version{Row: unrecorded, SHA: current, Text: now})
	}
	return f, nil
}

// until returns a chain up to its newest version with the given content, and that text.
func (l *Layer) until(chain []*history.Version, sha string) ([]*history.Version, []byte, error) {
	for i, v := range slices.Backward(chain) {
		if v.M.SHA256 != sha {
			continue
		}
		text, opaque, err := l.text(v)
		if opaque {
			err = fault.New(fault.VersionNotKept)
		}
		if err == nil {
			err = textOnly(text)
		}
		return chain[:i+1], text, err
	}
	return nil, nil, fault.New(fault.VersionNotFound)
}

func textOnly(text []byte) error {
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return fault.New(fault.NotUTF8)
	}
	return nil
}

// current reads the current file.
func (l *Layer) current(path string) ([]byte, error) {
	src, size, err := l.Versions.OpenCurrent(path)
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
		if len(chain) == maxVersions {
			slices.Reverse(chain)
			return chain, false, nil
		}
		chain = append(chain, v)
	}
	slices.Reverse(chain)
	return chain, true, nil
}

// brings reports whether a version may bring back an earlier one.
func brings(v *history.Version) bool { return v.M.Op == "undo" || v.M.Op == "restore" }

// text returns the text of a version; opaque is true if it cannot be had.
func (l *Layer) text(v *history.Version) (text []byte, opaque bool, err error) {
	if v.M.SHA256 == "" {
		return nil, false, nil
	}
	src, _, err := l.Versions.VersionContent(v)
	if err == nil {
		text, err = observe.ReadKept(src, v.M.SHA256)
	}
	return known(text, err)
}

// before returns the content that a version replaced, if no row records it.
func (l *Layer) before(ctx context.Context, v *history.Version) (text []byte, opaque bool, err error) {
	src, err := l.Observed.Kept(v.M.PrevSHA256, v.M.PrevBytes)
	if err != nil && !engine.IsShortage(err) && v.M.PrevGit != "" {
		git := l.Observed.Git(ctx)
		defer git.Close()
		src, err = git.Open(v.Path, v.M.PrevGit)
	}
	if err == nil {
		text, err = observe.ReadKept(src, v.M.PrevSHA256)
	}
	return known(text, err)
}

// known returns a text that was read. A shortage is an error: the text may be there.
func known(text []byte, err error) (_ []byte, opaque bool, _ error) {
	if engine.IsShortage(err) {
		return nil, false, err
	}
	if err != nil {
		return nil, true, nil
	}
	return text, false, nil
}
