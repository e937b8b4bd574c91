package admin

import (
	"bytes"
	"context"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// The records of changes by other programs contain file names, too.

// inEach calls fn for the names of a directory of the state directory, and for
// those of directories in it.
func (e *eraser) inEach(ctx context.Context, part string, fn func(dir fsx.Dir, part, name string) error) error {
	dir, err := e.Engine.StatePart(part)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	return e.withLocks(ctx, []string{"state"}, func() error {
		return walkDir(dir, part, 2, func(dir fsx.Dir, part, name string, st fsx.Stat) error {
			if st.Kind != fsx.Regular {
				return nil
			}
			return fn(dir, part, name)
		})
	})
}

// manifests overwrites the secret in the mutations of long rows, as in those of other
// rows. A manifest keeps its name; the file next to it contains its hash.
func (e *eraser) manifests(ctx context.Context) error {
	if e.n == nil {
		return nil
	}
	err := e.inEach(ctx, engine.ManifestDir, func(dir fsx.Dir, part, name string) error {
		if !engine.ValidSHA256(name) {
			return ctx.Err()
		}
		e.Meter.One()
		text, err := durable.ReadFile(dir, name, journal.MaxManifest)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		for line := range bytes.Lines(text) {
			if e.n.Within(line) {
				line = e.masked(line)
			}
			out.Write(line)
		}
		if bytes.Equal(out.Bytes(), text) {
			return ctx.Err()
		}
		x, err := e.replaced("manifests", part, dir, name, text, out.Bytes())
		if err != nil {
			return err
		}
		apply := x.apply
		x.apply = func() error {
			if err := durable.WriteFile(dir, name+engine.ManifestMasked, []byte(x.now), 0o600); err != nil {
				return err
			}
			return apply()
		}
		return e.carry(ctx, []erasure{*x})
	})
	e.Engine.Log.ForgetManifest()
	return err
}

// observed removes the files whose paths contain the secret from the stat index and the
// snapshots.
func (e *eraser) observed(ctx context.Context) error {
	if e.n == nil {
		return nil
	}
	hit := func(path string) bool { return e.n.Within([]byte(path)) }
	return e.inEach(ctx, observe.Dir, func(dir fsx.Dir, part, name string) error {
		if !strings.HasSuffix(name, "index") {
			return ctx.Err()
		}
		e.Meter.One()
		text, err := durable.ReadFile(dir, name, observe.MaxIndex)
		if err != nil {
			return err
		}
		out, err := observe.Without(text, hit)
		switch {
		case err == nil && bytes.Equal(out, text) && !e.n.Within(text):
			return ctx.Err()
		case err != nil && !e.n.Within(text):
			return ctx.Err() // it is damaged, and no code reads it
		case err != nil || e.n.Within(out):
			x, err := e.removal(observe.Dir, part, dir, name)
			if err != nil {
				return err
			}
			return e.carry(ctx, []erasure{x})
		}
		x, err := e.replaced(observe.Dir, part, dir, name, text, out)
		if err != nil {
			return err
		}
		return e.carry(ctx, []erasure{*x})
	})
}
