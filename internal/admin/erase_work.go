package admin

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
)

// What agents have in progress: chunk sessions, staged transactions,
// checkpoints.

// sessions erases chunks. A chunk with a part removed would be composed into a file
// that no caller wrote, so the whole chunk is removed and has to be sent again.
func (e *eraser) sessions(ctx context.Context) error {
	return e.each(chunks.Dir, func(all fsx.Dir, name string) error {
		dir, err := all.OpenDir(name)
		if err != nil {
			return nil // not a session; the rest looks at it
		}
		defer dir.Close()
		return e.withLocks(ctx, []string{chunks.Lock(name)}, func() error { return e.session(ctx, name, dir) })
	})
}

func (e *eraser) session(ctx context.Context, name string, dir fsx.Dir) error {
	part := chunks.SessionObject(name)
	sess, err := e.Chunks.Read(name)
	if err != nil {
		return err
	}
	split, err := e.splits(dir, sess)
	if err != nil {
		return err
	}
	var list []erasure
	for _, p := range sess.Parts {
		hit, err := e.holds(dir, chunks.PartName(p.Index))
		if err != nil {
			return err
		}
		if !hit && !split[p.Index] {
			continue
		}
		x, err := e.removal("chunks", part, dir, chunks.PartName(p.Index))
		if err != nil {
			return err
		}
		list = append(list, x)
	}
	if x, err := e.manifest(part, dir, name); err != nil {
		return err
	} else if x != nil {
		list = append(list, *x)
	}
	return e.carry(ctx, list)
}

// splits finds adjacent pieces that contain the secret together: the end of one and the
// beginning of the next.
func (e *eraser) splits(dir fsx.Dir, sess *chunks.Session) (map[int]bool, error) {
	hit := map[int]bool{}
	if e.n == nil {
		return hit, nil
	}
	var tail []byte // the last bytes that were read
	var from []int  // the chunk that each of them belongs to
	for _, p := range sess.Parts {
		f, st, err := engine.OpenIfThere(dir, chunks.PartName(p.Index))
		if err != nil || f == nil {
			return hit, err
		}
		head, end, err := bothEnds(f, st.Size, e.n.Overlap())
		f.Close()
		if err != nil {
			return hit, err
		}
		joint, owner := append(bytes.Clone(tail), head...), append(append([]int{}, from...), repeat(p.Index, len(head))...)
		for _, span := range e.n.Find(joint) {
			for i := span.From; i < span.To; i++ {
				hit[owner[i]] = true
			}
		}
		if st.Size <= int64(e.n.Overlap()) { // a short piece does not end the run
			tail, from = joint, owner
			if extra := len(tail) - e.n.Overlap(); extra > 0 {
				tail, from = tail[extra:], from[extra:]
			}
			continue
		}
		tail, from = end, repeat(p.Index, len(end))
	}
	return hit, nil
}

func repeat(v, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// bothEnds reads the first and the last n bytes of a file.
func bothEnds(f fsx.File, size int64, n int) (head, end []byte, err error) {
	n = int(min(size, int64(n)))
	head, end = make([]byte, n), make([]byte, n)
	if n == 0 {
		return head, end, nil
	}
	if _, err = f.ReadAt(head, 0); err == nil {
		_, err = f.ReadAt(end, size-int64(n))
	}
	return head, end, err
}

// manifest overwrites the secret in the description of the session, and computes its
// checksum again.
func (e *eraser) manifest(part string, dir fsx.Dir, name string) (*erasure, error) {
	text, err := durable.ReadFile(dir, chunks.ManifestName, chunks.ManifestLimit)
	if err != nil || e.n == nil || !e.n.Within(text) && !e.n.Within(e.plain(text)) {
		if engine.IsAbsent(err) {
			err = nil
		}
		return nil, err
	}
	out := e.masked(text)
	if m, state := chunks.DecodeManifest(text, name); state == chunks.ManifestWhole {
		m.Session, m.Separator = e.shown(m.Session), e.shown(m.Separator)
		if m.Sealed != nil {
			m.Sealed.OutputPath = e.shown(m.Sealed.OutputPath)
		}
		if out, err = m.Encode(); err != nil {
			return nil, err
		}
	}
	return e.replaced("chunks", part, dir, chunks.ManifestName, text, out)
}

// plain returns the text of a JSON document without its escapes: enough to find a
// secret that escapes hide.
func (e *eraser) plain(text []byte) []byte {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return text
	}
	var b bytes.Buffer
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			b.WriteString(v)
			b.WriteByte(0)
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for k, x := range v {
				walk(k)
				walk(x)
			}
		}
	}
	walk(v)
	return b.Bytes()
}

// replaced is the erasure that gives a file other bytes, which fit in memory.
func (e *eraser) replaced(place, part string, dir fsx.Dir, name string, old, data []byte) (*erasure, error) {
	x := &erasure{place: place, path: engine.JoinPath(part, name), was: engine.HashOf(old), now: engine.HashOf(data), dir: dir}
	if e.DryRun {
		return x, nil
	}
	tmp := e.tempName()
	f, err := e.createTemp(tmp)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := e.finishTemp(f, data, 0o600); err != nil {
		return nil, err
	}
	x.apply = func() error { return e.Engine.Disk.Staging.Rename(tmp, dir, name) }
	return x, nil
}

// transactions drops the staged transactions that contain the secret. If they were
// committed with a mask in its place, they would write content that no caller
// requested.
func (e *eraser) transactions(ctx context.Context) error {
	return e.each(staged.Dir, func(all fsx.Dir, id string) error {
		dir, err := all.OpenDir(id)
		if err != nil {
			return nil
		}
		defer dir.Close()
		return e.withLocks(ctx, []string{staged.Lock(id)}, func() error { return e.transaction(ctx, id, dir) })
	})
}

func (e *eraser) transaction(ctx context.Context, id string, dir fsx.Dir) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	hit := false
	for _, name := range names {
		in, err := e.opHolds(dir, name)
		if err != nil {
			return err
		}
		hit = hit || in
	}
	if !hit {
		return nil
	}
	// The transaction exists as long as begin.json does, so that goes first.
	list := []erasure{}
	for _, name := range names {
		x, err := e.removal("tx", "tx/"+id, dir, name)
		if err != nil {
			return err
		}
		if name == staged.Begin {
			x.apply = func() error {
				if err := dir.Remove(staged.Begin); err != nil {
					return err
				}
				return dir.Sync()
			}
		}
		list = append(list, x)
	}
	return e.carry(ctx, list)
}

// opHolds reports whether a staged operation holds the secret, also in a
// content that is base64.
func (e *eraser) opHolds(dir fsx.Dir, name string) (bool, error) {
	hit, err := e.holds(dir, name)
	if err != nil || hit {
		return hit, err
	}
	text, err := durable.ReadFile(dir, name, staged.MaxOp)
	var op struct{ Content []byte }
	if err != nil || json.Unmarshal(text, &op) != nil {
		return false, nil
	}
	if e.n == nil {
		return engine.HashOf(op.Content) == e.sha, nil
	}
	return e.n.Within(op.Content) || e.n.Within(e.plain(text)), nil
}

// checkpoints overwrites the secret in the saved data and computes the hashes again, so
// that the state of a task is not lost.
func (e *eraser) checkpoints(ctx context.Context) error {
	names, err := e.Checkpoints.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		err := e.withLocks(ctx, []string{engine.PathLock(checkpoint.Path(name))}, func() error { return e.checkpoint(ctx, name) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *eraser) checkpoint(ctx context.Context, name string) error {
	dir, err := e.Engine.StatePart(checkpoint.Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	c, err := e.Checkpoints.Read(name, true)
	if engine.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	list, stale, sha, err := e.blobs(dir, c)
	if err != nil {
		return err
	}
	doc, err := e.document(dir, c, sha)
	if err != nil {
		return err
	}
	if doc != nil {
		list = append(list, *doc)
	}
	if err := e.carry(ctx, list); err != nil || stale == "" || e.DryRun {
		return err
	}
	if err := dir.Remove(stale); err != nil && !engine.IsAbsent(err) {
		return err
	}
	return dir.Sync()
}

// blobs is what becomes of the files that hold the data of a checkpoint, which
// has the hash sha then. stale goes when the document names another file.
func (e *eraser) blobs(dir fsx.Dir, c *checkpoint.Stored) (list []erasure, stale, sha string, err error) {
	sha = c.SHA256
	for _, file := range c.Blobs {
		hit, err := e.holds(dir, file)
		if err != nil {
			return nil, "", "", err
		}
		if !hit {
			continue
		}
		old, err := e.removal("checkpoints", checkpoint.Dir, dir, file)
		if err != nil {
			return nil, "", "", err
		}
		if c.Corrupt != "" || !c.Chunked || file != checkpoint.BlobName(c.Stem, c.SHA256) || e.n == nil {
			list = append(list, old)
			continue
		}
		fresh, now, err := e.blob(dir, c.Stem, file)
		if err != nil {
			return nil, "", "", err
		}
		stale, sha, old.apply = file, now, func() error { return nil }
		list = append(list, *fresh, old)
	}
	return list, stale, sha, nil
}

// blob is a new file of data without the secret, and its hash. It is durable
// before the document names it.
func (e *eraser) blob(dir fsx.Dir, stem, file string) (*erasure, string, error) {
	text, err := durable.ReadFile(dir, file, e.Checkpoints.MaxDocument())
	if err != nil {
		return nil, "", err
	}
	out := e.masked(text)
	sha := engine.HashOf(out)
	fresh, err := e.replaced("checkpoints", checkpoint.Dir, dir, checkpoint.BlobName(stem, sha), nil, out)
	if err != nil {
		return nil, "", err
	}
	fresh.was = ""
	if place := fresh.apply; place != nil {
		fresh.apply = func() error {
			if err := place(); err != nil {
				return err
			}
			return dir.Sync()
		}
	}
	return fresh, sha, nil
}

// document is the change of the document of a checkpoint whose data has the
// hash sha now; nil when nothing changes.
func (e *eraser) document(dir fsx.Dir, c *checkpoint.Stored, sha string) (*erasure, error) {
	file := c.Stem + checkpoint.FileSuffix
	text, err := durable.ReadFile(dir, file, e.Checkpoints.MaxDocument())
	if engine.IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if e.n == nil {
		if engine.HashOf(text) != e.sha && (c.SHA256 != e.sha || c.Corrupt != "") {
			return nil, nil
		}
		x, err := e.removal("checkpoints", checkpoint.Dir, dir, file)
		return &x, err
	}
	out := e.masked(text)
	if c.Corrupt == "" && c.Version > 0 {
		after := &checkpoint.Stored{Stem: c.Stem}
		content, problem := after.Parse(out)
		if !c.Chunked && problem == "" {
			sha = engine.HashOf(content)
		}
		was, is := []byte(`"sha256":"`+c.SHA256+`"`), []byte(`"sha256":"`+sha+`"`)
		if problem != "" || !bytes.Contains(out, was) {
			x, err := e.removal("checkpoints", checkpoint.Dir, dir, file)
			return &x, err
		}
		out = bytes.Replace(out, was, is, 1)
	}
	if bytes.Equal(out, text) {
		return nil, nil
	}
	return e.replaced("checkpoints", checkpoint.Dir, dir, file, text, out)
}
