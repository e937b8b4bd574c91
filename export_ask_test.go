package resilientwrite

import "context"

// WriteUnasked writes as if the user had not been asked because an idempotency
// key was to answer.
func (s *Store) WriteUnasked(ctx context.Context, r SafeWriteRequest) error {
	c, m := s.newWrite(ctx, "safe_write", &r)
	c.req.hash = r.hash(m.hold([]byte(r.Content)))
	c.unasked = true
	return s.commit(ctx, c)
}
