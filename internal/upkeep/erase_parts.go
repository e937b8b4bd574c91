package upkeep

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
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

// versions erases kept versions.
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

// scratch erases the objects of the scratchpad whose bytes, labels or notes hold the
// secret, with their entries.
func (e *eraser) scratch(ctx context.Context) error {
	dir, err := e.Engine.StatePart(scratch.Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	of := func(name string) file { return file{dir, scratch.Dir, name} }
	return e.withLocks(ctx, func() error {
		index, err := durable.ReadFile(dir, scratch.IndexFile, maxIndex)
		if ignoreAbsent(err) != nil {
			return err
		}
		gone := map[string]bool{}
		for line := range bytes.Lines(index) {
			if e.in(line) {
				gone[objectOf(line)] = true
			}
		}
		names, err := dir.Names()
		if err != nil {
			return err
		}
		for _, name := range names {
			sha, isObject := strings.CutSuffix(name, scratch.BinSuffix)
			if facts, ok := scratch.FactsOf(name); ok {
				sha = facts
			} else if !isObject || !engine.ValidSHA256(sha) {
				continue
			}
			hit, err := e.holds(of(name))
			if err != nil {
				return err
			}
			gone[sha] = gone[sha] || hit
		}
		for _, name := range []func(string) string{scratch.BinName, scratch.FactsName} {
			for _, sha := range slices.Sorted(maps.Keys(gone)) {
				if !gone[sha] || sha == "" {
					continue
				}
				if err := e.remove(of(name(sha))); err != nil {
					return err
				}
			}
			// The index follows the objects that it lists: if only the index were written,
			// an object that a power failure restores would have lost its entry.
			if err := e.carry(ctx); err != nil {
				return err
			}
		}
		var kept []byte
		for line := range bytes.Lines(index) {
			if sha := objectOf(line); !e.in(line) && (sha == "" || !gone[sha]) {
				kept = append(kept, line...)
			}
		}
		return e.replace(of(scratch.IndexFile), index, kept)
	}, engine.PathLock(engine.StateDirName+"/"+scratch.Index))
}

// maxIndex is the size up to which the index of the scratchpad is read.
const maxIndex = 64 << 20

// objectOf returns the object of a line of the index, "" if it names none.
func objectOf(line []byte) string {
	var row struct {
		SHA256 string `json:"sha256"`
	}
	json.Unmarshal(line, &row)
	if sha := strings.ToLower(row.SHA256); engine.ValidSHA256(sha) {
		return sha
	}
	return ""
}

// eachLocked calls fn with each directory in a part of the state directory, while its
// lock is held, and carries out the erasures that it adds. Its files are returned with
// their names sorted.
func (e *eraser) eachLocked(ctx context.Context, part string, lock func(string) string, fn func([]file) error) error {
	return e.Engine.EachIn(part, func(all fsx.Dir, name string) error {
		dir, err := all.OpenDir(name)
		if err != nil {
			return nil // a foreign file, which files looks into
		}
		defer dir.Close()
		return e.withLocks(ctx, func() error {
			names, err := dir.Names()
			if err != nil {
				return err
			}
			list := make([]file, len(names))
			for i := range names {
				list[i] = file{dir, part + "/" + name, names[i]}
			}
			return fn(list)
		}, lock(name))
	})
}

// sessions erases chunks, and what is recorded about their sessions. A chunk with a part
// removed would be composed into a file that no caller wrote, so the whole chunk is
// removed and has to be sent again.
func (e *eraser) sessions(ctx context.Context) error {
	return e.eachLocked(ctx, chunks.Dir, chunks.Lock, func(files []file) error {
		hit, err := e.spans(files)
		if err != nil {
			return err
		}
		for _, f := range files {
			in := hit[f.name] || e.named(f)
			if !in {
				if in, err = e.holds(f); err != nil {
					return err
				}
			}
			if in {
				if err := e.remove(f); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// spans returns the chunks that contain the secret together with those next to them: the
// end of one and the beginning of the next.
func (e *eraser) spans(files []file) (map[string]bool, error) {
	hit := map[string]bool{}
	if e.n == nil {
		return hit, nil
	}
	order := func(a, b file) int { return chunks.IndexOf(a.name) - chunks.IndexOf(b.name) }
	var starts []int64 // of the chunks that were read
	var read []string
	find := e.n.Finder(func(from, to int64) {
		for i := len(starts) - 1; i >= 0; i-- {
			if starts[i] < to {
				hit[read[i]] = true
			}
			if starts[i] <= from {
				break
			}
		}
	})
	at := int64(0)
	for _, f := range slices.SortedFunc(slices.Values(files), order) {
		if st, err := f.dir.Lstat(f.name); err != nil || st.Kind != fsx.Regular || chunks.IndexOf(f.name) == 0 {
			continue
		}
		in, st, err := engine.OpenIfThere(f.dir, f.name)
		if err != nil || in == nil {
			return hit, err
		}
		if st.Size > 0 {
			starts, read = append(starts, at), append(read, f.name)
		}
		n, err := io.Copy(find, io.NewSectionReader(in, 0, st.Size))
		in.Close()
		if at += n; err != nil {
			return hit, err
		}
	}
	return hit, find.Flush()
}

// transactions drops the staged transactions that contain the secret. If they were
// committed without a part, they would write content that no caller requested.
func (e *eraser) transactions(ctx context.Context) error {
	return e.eachLocked(ctx, staged.Dir, staged.Lock, func(files []file) error {
		if i := slices.IndexFunc(files, func(f file) bool { return f.name == staged.Begin }); i > 0 {
			files[0], files[i] = files[i], files[0] // a transaction exists as long as this file does
		}
		return e.drop(ctx, false, files...)
	})
}

// checkpoints drops the checkpoints that contain the secret, and data of earlier saves.
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
		err := e.withLocks(ctx, func() error {
			c, err := e.Checkpoints.Read(name, true)
			if err != nil {
				return ignoreAbsent(err)
			}
			files := []file{{dir, checkpoint.Dir, name + checkpoint.FileSuffix}}
			for _, blob := range c.Blobs {
				f := file{dir, checkpoint.Dir, blob}
				if blob == checkpoint.BlobName(name, c.SHA256) {
					files = append(files, f)
				} else if err := e.drop(ctx, false, f); err != nil {
					return err
				}
			}
			return e.drop(ctx, e.named(files[0]), files...)
		}, engine.PathLock(checkpoint.Path(name)))
		if err != nil {
			return err
		}
	}
	return nil
}
