// Package lease records temporary claims of sessions on paths.
package lease

import (
	"cmp"
	"context"
	"encoding/json"
	slash "path"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

const (
	dir      = "claims" // of the state directory
	file     = "claims.json"
	maxFile  = 4 << 20
	maxCount = 256 // claims at a time
	maxPaths = 256 // of one claim
)

// covers reports whether a claim is for a path, or for a directory above it.
func covers(c *around.Claim, path string) bool {
	return slices.ContainsFunc(c.Paths, func(p string) bool { return within(path, p) })
}

// within reports whether a path is another one or below it.
func within(path, of string) bool {
	path, of = relpath.Key(path), relpath.Key(of)
	return path == of || strings.HasPrefix(path, of+"/")
}

// kept is the file. Last is the highest fence that was ever given.
type kept struct {
	Last   uint64         `json:"last"`
	Claims []around.Claim `json:"claims"`
}

// Layer keeps the claims of a store.
type Layer struct{ *engine.Engine }

// List returns the claims that hold.
func (l *Layer) List() ([]around.Claim, error) {
	data, err := l.ReadPart(dir, file, maxFile)
	if engine.IsUnread(err) {
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
	k.Claims = slices.DeleteFunc(k.Claims, func(c around.Claim) bool { return !now.Before(c.Until) || c.Until.Sub(now) > around.MaxClaim })
	return k
}

// Claim makes a claim for its session; locate returns the path of a file without links.
func (l *Layer) Claim(ctx context.Context, c around.Claim, ttl time.Duration, locate func(string) (string, error)) (around.Claim, error) {
	paths := c.Paths
	c.Paths = nil
	err := l.edit(ctx, func(list []around.Claim, next uint64) ([]around.Claim, error) {
		if err := check(c.Session, len(paths), ttl); err != nil {
			return nil, err
		}
		for _, path := range paths {
			if strings.Contains(path, "*") { // it would be a name, and protect nothing
				return nil, fault.New(fault.InvalidArgument).With("argument", "paths").Hintf("a claim takes files and directories, not patterns; name the directory, which covers everything below it")
			}
			if slash.Clean(path) == "." && path != "" {
				return nil, fault.New(fault.InvalidArgument).With("argument", "paths").Hintf("the workspace itself cannot be claimed; name files and directories in it")
			}
			real, err := locate(cmp.Or(strings.TrimRight(path, "/"), path))
			if err != nil {
				return nil, err
			}
			for _, o := range list {
				if o.Session != c.Session && (covers(&o, real) || slices.ContainsFunc(o.Paths, func(p string) bool { return within(p, real) })) {
					return nil, refusal(&o, real)
				}
			}
			c.Paths = append(c.Paths, real)
		}
		if len(list) >= maxCount {
			return nil, fault.New(fault.InvalidArgument).Hintf("there are %d claims; release some", len(list))
		}
		c.Fence, c.Until = next, l.Now().UTC().Add(ttl)
		return append(list, c), nil
	})
	return c, err
}

// Renew extends a claim of a session to ttl from now.
func (l *Layer) Renew(ctx context.Context, session string, fence uint64, ttl time.Duration) (c around.Claim, err error) {
	err = l.edit(ctx, func(list []around.Claim, _ uint64) ([]around.Claim, error) {
		i := slices.IndexFunc(list, func(c around.Claim) bool { return c.Fence == fence && c.Session == session })
		if i < 0 {
			return nil, fault.New(fault.ClaimLost)
		}
		if err := check(session, len(list[i].Paths), ttl); err != nil {
			return nil, err
		}
		list[i].Until = l.Now().UTC().Add(ttl)
		c = list[i]
		return list, nil
	})
	return c, err
}

// Release ends a claim of a session, or of any session.
func (l *Layer) Release(ctx context.Context, session string, fence uint64, any bool) error {
	return l.edit(ctx, func(list []around.Claim, _ uint64) ([]around.Claim, error) {
		return slices.DeleteFunc(list, func(c around.Claim) bool { return c.Fence == fence && (c.Session == session || any) }), nil
	})
}

func check(session string, paths int, ttl time.Duration) error {
	switch {
	case session == "":
		return fault.New(fault.InvalidArgument).With("argument", "session").Hintf("a claim belongs to a session; name one")
	case ttl <= 0 || ttl > around.MaxClaim:
		return fault.New(fault.InvalidArgument).With("argument", "ttl").Hintf("ttl must be more than 0 and at most %s; renew the claim for longer", around.MaxClaim)
	case paths == 0 || paths > maxPaths:
		return fault.New(fault.InvalidArgument).With("argument", "paths").Hintf("give 1 to %d paths", maxPaths)
	}
	return nil
}

// Check refuses a commit of files that another session has claimed, and one whose own
// claim, if fence is not 0, has expired. The paths are locked, so no claim can be made
// in between.
func (l *Layer) Check(c *engine.Commit, fence uint64) error {
	list, err := l.List()
	if err != nil {
		return err
	}
	if fence != 0 && !slices.ContainsFunc(list, func(o around.Claim) bool { return o.Fence == fence && o.Session == c.Req.Session }) {
		return fault.New(fault.ClaimLost)
	}
	for i := range list {
		if list[i].Session == c.Req.Session {
			continue
		}
		for _, m := range c.Muts {
			if !m.Private && covers(&list[i], m.Target.Path) {
				return c.About(m, refusal(&list[i], m.Target.Path))
			}
		}
	}
	return nil
}

// refusal returns the error of a change of a path.
func refusal(c *around.Claim, path string) *fault.Fault {
	e := fault.New(fault.PathClaimed).With("claimed_by", c.Session).With("until", stamp.Text(c.Until)).
		Hintf("session %s has claimed the path until %s; work on something else, and try again then", c.Session, c.Until.Format(time.TimeOnly))
	e.Path = path
	return e
}

// File is a file that a session has claimed and that another one, or another program,
// changed.
type File struct {
	around.ClaimedFile
	Fence uint64
}

// Over returns those of some changed files that a session has claimed. Files are omitted
// if all sessions that changed them are the claiming one.
func (l *Layer) Over(paths, sessions []string) (out []File) {
	list, err := l.List()
	if err != nil || len(list) == 0 {
		return nil
	}
	for _, path := range paths {
		i := slices.IndexFunc(list, func(c around.Claim) bool { return path != "" && covers(&c, path) })
		if i >= 0 && slices.ContainsFunc(sessions, func(of string) bool { return of != list[i].Session }) {
			out = append(out, File{around.ClaimedFile{Path: path, Session: list[i].Session, Until: list[i].Until}, list[i].Fence})
		}
	}
	return out
}

// edit changes the claims while no commit of any process is in progress: one that
// began before has ended, and one that begins later sees the change. next is the
// fence for a new claim; it grows also where the file was lost.
func (l *Layer) edit(ctx context.Context, edit func(claims []around.Claim, next uint64) ([]around.Claim, error)) error {
	unlock, err := l.Locks.Tree(ctx, l.Opts.LockTimeout, "claim")
	if err != nil {
		return err
	}
	defer unlock()
	data, err := l.ReadPart(dir, file, maxFile)
	if engine.IsUnread(err) {
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
	if len(data) > maxFile {
		return fault.New(fault.InvalidArgument).With("argument", "paths").Hintf("the paths of all claims take more than %d bytes; claim directories, or release some", maxFile)
	}
	if err := l.WritePart(dir, file, data); err != nil {
		e := l.ErrorOf(err)
		e.Effect = fault.EffectUnknown // it may be written, and not flushed
		return e
	}
	return nil
}
