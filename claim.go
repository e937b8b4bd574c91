package resilientwrite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/lease"
)

// MaxClaim is how long a claim holds unless it is renewed.
const MaxClaim = lease.Longest

// Claim is paths that only the calls of one session may change for a while.
type Claim struct {
	// Number of the claim: higher than that of every earlier one.
	Fence uint64 `json:"fence"`
	// Who has it.
	Session string `json:"session"`
	Caller  string `json:"caller,omitempty"`
	// Files and directories, with everything below.
	Paths []string `json:"paths"`
	// When it ends unless it is renewed.
	Until time.Time `json:"until"`
}

type (
	fenceKey    struct{}
	operatorKey struct{}
)

// WithFence returns a context whose calls change something only while the claim
// with this number holds; otherwise they fail with [ErrClaimLost]. This stops a
// caller that was suspended until its claim expired.
func WithFence(ctx context.Context, fence uint64) context.Context {
	return context.WithValue(ctx, fenceKey{}, fence)
}

// WithOperator returns a context whose calls are made by a person. Claims do not
// bind them.
func WithOperator(ctx context.Context) context.Context {
	return context.WithValue(ctx, operatorKey{}, true)
}

// Claim keeps the calls of other sessions from changing paths: they fail with
// [ErrPathClaimed], which says who has the claim and until when. A directory
// covers everything below it; a path need not exist. The session is that of the
// context ([WithVia], [WithCaller]) or of the options, and a call without one
// cannot claim. A claim holds for ttl, at most [MaxClaim], and no longer than the
// session wants: see [Store.Renew] and [Store.Release].
//
// When it returns nil, no call of another session that could still change the
// paths is in progress, in this process or another. Claims bind calls of this
// library only. What other programs change is reported by [Store.Scan].
//
// Errors: the path details, [ErrInvalidArgument], [ErrPathClaimed],
// [ErrLockTimeout], the storage details, [ErrStoreClosed], [ErrStoreReadOnly].
func (s *Store) Claim(ctx context.Context, paths []string, ttl time.Duration) (Claim, error) {
	session, caller := s.sessionOf(ctx)
	c := lease.Claim{Session: session, Caller: caller}
	return s.editClaims(ctx, func(now time.Time, list []lease.Claim, next uint64) (*lease.Claim, []lease.Claim, error) {
		if err := s.checkClaim(session, paths, ttl); err != nil {
			return nil, nil, err
		}
		for _, path := range paths {
			real, err := s.identity(path)
			if err != nil {
				return nil, nil, err
			}
			for _, o := range list {
				if o.Session != session && (o.Covers(real) || slices.ContainsFunc(o.Paths, func(p string) bool { return lease.Within(p, real) })) {
					return nil, nil, claimedBy(&o, real)
				}
			}
			c.Paths = append(c.Paths, real)
		}
		if len(list) >= lease.MaxCount {
			return nil, nil, fault.New(fault.InvalidArgument).Hintf("there are %d claims; release some", len(list))
		}
		c.Fence, c.Until = next, now.Add(ttl)
		return &c, append(list, c), nil
	})
}

// Renew extends a claim to ttl from now. An expired claim cannot be renewed:
// [ErrClaimLost]. Other errors: those of [Store.Claim].
func (s *Store) Renew(ctx context.Context, fence uint64, ttl time.Duration) (Claim, error) {
	session, _ := s.sessionOf(ctx)
	return s.editClaims(ctx, func(now time.Time, list []lease.Claim, _ uint64) (*lease.Claim, []lease.Claim, error) {
		i := slices.IndexFunc(list, func(c lease.Claim) bool { return c.Fence == fence && c.Session == session })
		if i < 0 {
			return nil, nil, fault.New(fault.ClaimLost)
		}
		if err := s.checkClaim(session, list[i].Paths, ttl); err != nil {
			return nil, nil, err
		}
		list[i].Until = now.Add(ttl)
		return &list[i], list, nil
	})
}

// Release ends a claim of the session, or any claim in the context of an operator
// ([WithOperator]). Releasing an expired claim is no error. Errors: those of
// [Store.Claim].
func (s *Store) Release(ctx context.Context, fence uint64) error {
	session, _ := s.sessionOf(ctx)
	_, err := s.editClaims(ctx, func(_ time.Time, list []lease.Claim, _ uint64) (*lease.Claim, []lease.Claim, error) {
		return &lease.Claim{}, slices.DeleteFunc(list, func(c lease.Claim) bool {
			return c.Fence == fence && (c.Session == session || isOperator(ctx))
		}), nil
	})
	return err
}

// Claims lists the claims that hold. Errors: the storage details, [ErrStoreClosed].
func (s *Store) Claims(ctx context.Context) ([]Claim, error) {
	if err := s.engine.EnterReader(); err != nil {
		return nil, s.verbError("claim", err)
	}
	defer s.engine.Leave()
	list, err := s.leases.List()
	if err != nil {
		return nil, s.verbError("claim", err)
	}
	out := []Claim{}
	for _, c := range list {
		out = append(out, Claim(c))
	}
	return out, nil
}

func (s *Store) checkClaim(session string, paths []string, ttl time.Duration) error {
	switch {
	case session == "":
		return fault.New(fault.InvalidArgument).With("argument", "session").Hintf("a claim belongs to a session; name one")
	case ttl <= 0 || ttl > MaxClaim:
		return fault.New(fault.InvalidArgument).With("argument", "ttl").Hintf("ttl must be more than 0 and at most %s; renew the claim for longer", MaxClaim)
	case len(paths) == 0 || len(paths) > lease.MaxPaths:
		return fault.New(fault.InvalidArgument).With("argument", "paths").Hintf("give 1 to %d paths", lease.MaxPaths)
	}
	return nil
}

// editClaims changes the claims and returns the one that was changed.
func (s *Store) editClaims(ctx context.Context, edit func(time.Time, []lease.Claim, uint64) (*lease.Claim, []lease.Claim, error)) (out Claim, err error) {
	if err := s.engine.Enter(); err != nil {
		return out, s.verbError("claim", err)
	}
	defer s.engine.Leave()
	err = s.leases.Edit(ctx, func(list []lease.Claim, next uint64) ([]lease.Claim, error) {
		c, list, err := edit(s.engine.Now().UTC(), list, next)
		if err == nil {
			out = Claim(*c)
		}
		return list, err
	})
	if err != nil {
		return Claim{}, s.verbError("claim", err)
	}
	return out, nil
}

// sessionOf returns the session and the caller of a call that names neither.
func (s *Store) sessionOf(ctx context.Context) (session, caller string) {
	of, via := labelsOf(ctx), journal.Via{}
	if known := s.via(ctx); known != nil {
		via = *known
	}
	return cmp.Or(via.Thread, via.Connection, of.session, s.opts.Session), cmp.Or(via.Client, of.caller, s.opts.Caller)
}

func isOperator(ctx context.Context) bool { return ctx.Value(operatorKey{}) != nil }

// unclaimed refuses a commit of files that another session has claimed, and one
// whose own claim has expired. The paths are locked, so no claim can be made in
// between.
func (c *commit) unclaimed() error {
	if c.operator {
		return nil
	}
	list, err := c.s.leases.List()
	if err != nil {
		return err
	}
	if c.fence != 0 && !slices.ContainsFunc(list, func(o lease.Claim) bool { return o.Fence == c.fence && o.Session == c.Req.Session }) {
		return fault.New(fault.ClaimLost)
	}
	for i := range list {
		if list[i].Session == c.Req.Session {
			continue
		}
		for _, m := range c.Muts {
			if !m.Private && list[i].Covers(m.Target.Path) {
				return c.About(m, claimedBy(&list[i], m.Target.Path))
			}
		}
	}
	return nil
}

func claimedBy(c *lease.Claim, path string) *fault.Fault {
	e := fault.New(fault.PathClaimed).With("claimed_by", c.Session).With("until", c.Until.Format(engine.TimeFormat)).
		Hintf("session %s has claimed the path until %s; work on something else, and try again then", c.Session, c.Until.Format(time.TimeOnly))
	e.Path = path
	return e
}

// ClaimedFile is a file that a session has claimed and that another one, or
// another program, changed.
type ClaimedFile struct {
	// Path relative to the workspace.
	Path string `json:"path"`
	// Who has claimed it.
	Session string `json:"session"`
	// When the claim ends.
	Until time.Time `json:"until"`

	fence uint64
}

// claimedOf returns the files that a session has claimed. Files are omitted if
// all sessions that changed them are the claiming one.
func (s *Store) claimedOf(files []ObservedFile, sessions ...string) (out []ClaimedFile) {
	list, err := s.leases.List()
	if err != nil || len(list) == 0 {
		return nil
	}
	for _, f := range files {
		for _, path := range []string{f.Path, f.From} {
			i := slices.IndexFunc(list, func(c lease.Claim) bool { return path != "" && c.Covers(path) })
			if i >= 0 && slices.ContainsFunc(sessions, func(of string) bool { return of != list[i].Session }) {
				out = append(out, ClaimedFile{path, list[i].Session, list[i].Until, list[i].Fence})
			}
		}
	}
	return out
}
