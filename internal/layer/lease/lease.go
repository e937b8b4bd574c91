// Package lease records temporary claims of sessions on paths.
package lease

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

const (
	// Longest is how long a claim holds at most unless it is renewed.
	Longest = 10 * time.Minute

	dir      = "claims" // of the state directory
	file     = "claims.json"
	maxFile  = 4 << 20
	MaxCount = 256 // claims at a time
	MaxPaths = 256 // of one claim
)

// Claim lists paths that only one session may change. A path covers everything below
// it.
type Claim struct {
	Fence   uint64    `json:"fence"`
	Session string    `json:"session"`
	Caller  string    `json:"caller,omitempty"`
	Paths   []string  `json:"paths"`
	Until   time.Time `json:"until"`
}

// Covers reports whether the claim is for a path, or for a directory above it.
func (c *Claim) Covers(path string) bool {
	return slices.ContainsFunc(c.Paths, func(p string) bool { return Within(path, p) })
}

// Within reports whether a path is another one or below it.
func Within(path, of string) bool {
	path, of = relpath.Key(path), relpath.Key(of)
	return path == of || strings.HasPrefix(path, of+"/")
}

// kept is the file. Last is the highest fence that was ever given.
type kept struct {
	Last   uint64  `json:"last"`
	Claims []Claim `json:"claims"`
}

// Layer keeps the claims of a store.
type Layer struct{ *engine.Engine }

// List returns the claims that hold.
func (l *Layer) List() ([]Claim, error) {
	d, err := l.StatePart(dir)
	if err != nil || d == nil {
		return nil, err
	}
	defer d.Close()
	data, err := durable.ReadFile(d, file, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l.parse(data).Claims, nil
}

// parse reads the file. A damaged file holds no claims: they are advisory among
// cooperating sessions, and must not exclude others permanently. A claim that would
// last longer than the maximum, because the clock was set back, has expired.
func (l *Layer) parse(data []byte) (k kept) {
	if json.Unmarshal(data, &k) != nil {
		k = kept{}
	}
	now := l.Now()
	k.Claims = slices.DeleteFunc(k.Claims, func(c Claim) bool { return !now.Before(c.Until) || c.Until.Sub(now) > Longest })
	return k
}

// Edit changes the claims while no commit of any process is in progress: one that
// began before has ended, and one that begins later sees the change. next is the
// fence for a new claim; it grows also where the file was lost.
func (l *Layer) Edit(ctx context.Context, edit func(claims []Claim, next uint64) ([]Claim, error)) error {
	unlock, err := l.Locks.Tree(ctx, l.Opts.LockTimeout, "claim")
	if err != nil {
		return err
	}
	defer unlock()
	d, err := l.OpenPart(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	data, err := durable.ReadFile(d, file, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k := l.parse(data)
	next := max(k.Last+1, uint64(max(l.Now().UnixMicro(), 0)))
	if k.Claims, err = edit(k.Claims, next); err != nil {
		return err
	}
	for _, c := range k.Claims {
		k.Last = max(k.Last, c.Fence)
	}
	if data, err = json.Marshal(k); err != nil {
		return err
	}
	return durable.WriteFile(d, file, data, 0o600)
}
