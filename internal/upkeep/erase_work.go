package upkeep

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
)

// versions erases kept versions: an object cannot be changed without becoming
// another one, so it goes as a whole.
func (e *eraser) versions(ctx context.Context) error {
	if e.Engine.History == nil {
		return nil
	}
	var shas []string
	err := e.Engine.History.Each(func(name string, _ fsx.Stat, ok bool) error {
		e.Meter.One()
		if !ok {
			return ctx.Err() // files looks into it
		}
		hit := name == e.sha
		if e.n != nil {
			f, err := e.Engine.History.Open(name)
			if err != nil {
				return ignoreAbsent(err)
			}
			hit, err = e.n.In(f)
			f.Close()
			if err != nil {
				return err
			}
		}
		if hit {
			shas = append(shas, name)
			e.add(file{part: "history/" + name[:2], name: name}, name, func() error { return nil })
		}
		return ctx.Err()
	})
	if err != nil || len(shas) == 0 {
		return err
	}
	err = e.carry(ctx)
	e.out.Versions = append(e.out.Versions, shas[:min(len(shas), maxNamed-len(e.out.Versions))]...)
	if err != nil || e.DryRun {
		return err
	}
	return e.Engine.History.Erase(shas)
}

// scratch erases objects of the scratchpad with their entries, and the secret
// in the entries of others.
func (e *eraser) scratch(ctx context.Context) error {
	dir, err := e.Engine.StatePart(scratch.Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	return e.withLocks(ctx, func() error {
		names, err := dir.Names()
		if err != nil {
			return err
		}
		gone := map[string]bool{}
		for _, name := range names {
			sha, ok := strings.CutSuffix(name, scratch.BinSuffix)
			if !ok || !engine.ValidSHA256(sha) {
				continue
			}
			if gone[sha], err = e.removeIf(file{dir, scratch.Dir, name}); err != nil {
				return err
			}
		}
		for _, name := range names {
			f := file{dir, scratch.Dir, name}
			if sha, beside := scratch.FactsOf(name); beside && gone[sha] {
				_, err = e.remove(f)
			} else if beside {
				err = e.scratchLines(f, gone)
			}
			if err != nil {
				return err
			}
		}
		// The index follows the objects that it lists: if only the index were written,
		// an object that a power failure restores would have lost its entry.
		if err := e.carry(ctx); err != nil {
			return err
		}
		return e.scratchLines(file{dir, scratch.Dir, scratch.IndexFile}, gone)
	}, engine.PathLock(engine.StateDirName+"/"+scratch.Index))
}

// scratchLines changes the index, or the facts file of an object. It drops the entries
// of erased objects and masks the secret in the other ones.
func (e *eraser) scratchLines(f file, gone map[string]bool) error {
	text, err := durable.ReadFile(f.dir, f.name, maskInMem)
	if err != nil {
		return ignoreAbsent(err)
	}
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		var row struct {
			SHA256 string `json:"sha256"`
		}
		if json.Unmarshal(line, &row) == nil && gone[strings.ToLower(row.SHA256)] {
			continue
		}
		out.Write(e.masked(line))
	}
	return e.replace(f, text, out.Bytes())
}

// eachLocked calls fn with each directory in a part of the state directory, while its
// lock is held, and carries out the erasures that it adds.
func (e *eraser) eachLocked(ctx context.Context, part string, lock func(string) string, fn func(dir fsx.Dir, name string) error) error {
	return e.each(part, func(all fsx.Dir, name string) error {
		dir, err := all.OpenDir(name)
		if err != nil {
			return nil // a foreign file, which files looks into
		}
		defer dir.Close()
		return e.withLocks(ctx, func() error { return fn(dir, name) }, lock(name))
	})
}

// sessions erases chunks. A chunk with a part removed would be composed into a file
// that no caller wrote, so the whole chunk is removed and has to be sent again.
func (e *eraser) sessions(ctx context.Context) error {
	return e.eachLocked(ctx, chunks.Dir, chunks.Lock, func(dir fsx.Dir, name string) error {
		sess, err := e.Chunks.Read(name)
		if err != nil {
			return err
		}
		split, err := e.splits(dir, sess)
		if err != nil {
			return err
		}
		for _, p := range sess.Parts {
			f := file{dir, chunks.SessionObject(name), chunks.PartName(p.Index)}
			if split[p.Index] {
				_, err = e.remove(f)
			} else {
				_, err = e.removeIf(f)
			}
			if err != nil {
				return err
			}
		}
		return e.description(file{dir, chunks.SessionObject(name), chunks.ManifestName}, name)
	})
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
		joint, owner := append(bytes.Clone(tail), head...), append(slices.Clone(from), slices.Repeat([]int{p.Index}, len(head))...)
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
		tail, from = end, slices.Repeat([]int{p.Index}, len(end))
	}
	return hit, nil
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

// description overwrites the secret in the description of a session, and computes its
// checksum again.
func (e *eraser) description(f file, session string) error {
	text, err := durable.ReadFile(f.dir, f.name, chunks.ManifestLimit)
	if err != nil || e.n == nil || !e.n.Within(text) && !e.n.Within(e.plain(text)) {
		return ignoreAbsent(err)
	}
	out := e.masked(text)
	if m, state := chunks.DecodeManifest(text, session); state == chunks.ManifestWhole {
		m.Session, m.Separator = e.shown(m.Session), e.shown(m.Separator)
		if m.Sealed != nil {
			m.Sealed.OutputPath = e.shown(m.Sealed.OutputPath)
		}
		if out, err = m.Encode(); err != nil {
			return err
		}
	}
	return e.replace(f, text, out)
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

// transactions drops the staged transactions that contain the secret. If they were
// committed with a mask in its place, they would write content that no caller
// requested.
func (e *eraser) transactions(ctx context.Context) error {
	return e.eachLocked(ctx, staged.Dir, staged.Lock, func(dir fsx.Dir, id string) error {
		names, err := dir.Names()
		if err != nil {
			return err
		}
		hit := false
		for _, name := range names {
			in, err := e.opHolds(file{dir, staged.Dir + "/" + id, name})
			if err != nil {
				return err
			}
			hit = hit || in
		}
		if !hit {
			return nil
		}
		// The transaction exists as long as begin.json does, so that goes first.
		for _, name := range names {
			x, err := e.remove(file{dir, staged.Dir + "/" + id, name})
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
		}
		return nil
	})
}

// opHolds reports whether a staged operation holds the secret, also in a
// content that is base64.
func (e *eraser) opHolds(f file) (bool, error) {
	hit, err := e.holds(f)
	if err != nil || hit {
		return hit, err
	}
	text, err := durable.ReadFile(f.dir, f.name, staged.MaxOp)
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
	if len(names) == 0 || err != nil {
		return err
	}
	dir, err := e.Engine.StatePart(checkpoint.Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range names {
		if err := e.withLocks(ctx, func() error { return e.checkpoint(ctx, dir, name) }, engine.PathLock(checkpoint.Path(name))); err != nil {
			return err
		}
	}
	return nil
}

func (e *eraser) checkpoint(ctx context.Context, dir fsx.Dir, name string) error {
	c, err := e.Checkpoints.Read(name, true)
	if err != nil {
		return ignoreAbsent(err)
	}
	stale, sha, err := e.blobs(dir, c)
	if err == nil {
		err = e.document(dir, c, sha)
	}
	if err == nil {
		err = e.carry(ctx)
	}
	if err != nil || stale == "" || e.DryRun {
		return err
	}
	if err := ignoreAbsent(dir.Remove(stale)); err != nil {
		return err
	}
	return dir.Sync()
}

// blobs erases the files that hold the data of a checkpoint, which has the hash sha
// then. stale is removed when the document names another file.
func (e *eraser) blobs(dir fsx.Dir, c *checkpoint.Stored) (stale, sha string, err error) {
	sha = c.SHA256
	for _, name := range c.Blobs {
		f := file{dir, checkpoint.Dir, name}
		hit, err := e.holds(f)
		if err != nil {
			return "", "", err
		}
		if !hit {
			continue
		}
		apply := func() error { return dir.Remove(name) }
		if c.Corrupt == "" && c.Chunked && name == checkpoint.BlobName(c.Stem, c.SHA256) && e.n != nil {
			stale, apply = name, func() error { return nil }
			if sha, err = e.blob(f, c.Stem); err != nil {
				return "", "", err
			}
		}
		x, err := e.remove(f)
		if err != nil {
			return "", "", err
		}
		x.whole, x.apply = stale != name, apply
	}
	return stale, sha, nil
}

// blob adds a new file with the data of another without the secret, and returns its
// hash. It is durable before the document names it.
func (e *eraser) blob(f file, stem string) (sha string, err error) {
	text, err := durable.ReadFile(f.dir, f.name, e.Checkpoints.MaxDocument())
	if err != nil {
		return "", err
	}
	text = e.masked(text)
	f.name = checkpoint.BlobName(stem, engine.HashOf(text))
	x := e.add(f, "", nil)
	if err := e.rewrite(x, 0o600, writing(text)); err != nil {
		return "", err
	}
	place := x.apply
	x.apply = func() error {
		if err := place(); err != nil {
			return err
		}
		return f.dir.Sync()
	}
	return engine.HashOf(text), nil
}

// document changes the document of a checkpoint, whose data has the hash sha now.
func (e *eraser) document(dir fsx.Dir, c *checkpoint.Stored, sha string) error {
	f := file{dir, checkpoint.Dir, c.Stem + checkpoint.FileSuffix}
	text, err := durable.ReadFile(dir, f.name, e.Checkpoints.MaxDocument())
	if err != nil {
		return ignoreAbsent(err)
	}
	if e.n == nil {
		if engine.HashOf(text) == e.sha || c.SHA256 == e.sha && c.Corrupt == "" {
			_, err = e.remove(f)
		}
		return err
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
			_, err = e.remove(f)
			return err
		}
		out = bytes.Replace(out, was, is, 1)
	}
	return e.replace(f, text, out)
}
