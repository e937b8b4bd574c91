package resilientwrite

import "context"

// WriteUnasked writes as if the user had not been asked because an idempotency
// key was to answer.
func (s *Store) WriteUnasked(ctx context.Context, r SafeWriteRequest) error {
	c, m := s.newWrite(ctx, "safe_write", &r)
	c.Req.Hash = r.hash(m.Hold([]byte(r.Content)))
	c.Unasked = true
	return s.commit(ctx, c)
}
