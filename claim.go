package resilientwrite

import (
	"cmp"
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/lease"
	"github.com/resilientwrite/resilientwrite/internal/versions"
)

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
// cannot claim. A claim holds for ttl, at most [around.MaxClaim], and no longer than the
// session wants: see [Store.Renew] and [Store.Release].
//
// When it returns nil, no call of another session that could still change the
// paths is in progress, in this process or another. Claims bind calls of this
// library only. What other programs change is reported by [Store.Scan].
//
// Errors: the path details, [ErrInvalidArgument], [ErrPathClaimed],
// [ErrLockTimeout], the storage details, [ErrStoreClosed], [ErrStoreReadOnly],
// [ErrCanceled].
func (s *Store) Claim(ctx context.Context, paths []string, ttl time.Duration) (around.Claim, error) {
	session, caller := s.sessionOf(ctx)
	return s.claiming(ctx, func() (around.Claim, error) {
		return s.leases.Claim(ctx, around.Claim{Session: session, Caller: caller, Paths: paths}, ttl, func(path string) (string, error) { return versions.Identity(s.engine, path) })
	})
}

// Renew extends a claim to ttl from now. An expired claim cannot be renewed:
// [ErrClaimLost]. Other errors: those of [Store.Claim].
func (s *Store) Renew(ctx context.Context, fence uint64, ttl time.Duration) (around.Claim, error) {
	session, _ := s.sessionOf(ctx)
	return s.claiming(ctx, func() (around.Claim, error) { return s.leases.Renew(ctx, session, fence, ttl) })
}

// Release ends a claim of the session, or any claim in the context of an operator
// ([WithOperator]). Releasing an expired claim is no error. Errors: those of
// [Store.Claim].
func (s *Store) Release(ctx context.Context, fence uint64) error {
	session, _ := s.sessionOf(ctx)
	_, err := s.claiming(ctx, func() (around.Claim, error) {
		return around.Claim{}, s.leases.Release(ctx, session, fence, isOperator(ctx))
	})
	return err
}

// Claims lists the claims that hold. Errors: the storage details, [ErrStoreClosed].
func (s *Store) Claims(ctx context.Context) ([]around.Claim, error) {
	return looking(ctx, s, "claim", func() ([]around.Claim, error) {
		list, err := s.leases.List()
		return append([]around.Claim{}, list...), err
	})
}

// claiming changes the claims.
func (s *Store) claiming(ctx context.Context, edit func() (around.Claim, error)) (around.Claim, error) {
	if err := s.enter(ctx); err != nil {
		return around.Claim{}, s.verbError("claim", err)
	}
	defer s.engine.Leave()
	c, err := edit()
	if err != nil {
		return around.Claim{}, s.verbError("claim", err)
	}
	return c, nil
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

// unclaimed refuses a commit that claims do not allow.
func (c *commit) unclaimed() error {
	if c.operator {
		return nil
	}
	return c.s.leases.Check(c.Commit, c.fence)
}

func claimedFiles(list []lease.File) (out []around.ClaimedFile) {
	for _, f := range list {
		out = append(out, f.ClaimedFile)
	}
	return out
}
