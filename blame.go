package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/blame"
	"github.com/resilientwrite/resilientwrite/internal/versions"
)

// Blame reports for each line of a file which call wrote it, who made the call
// and when. It follows the file through earlier names. Lines that an undo or a
// restoration brought back belong to the call that wrote them first. Errors: the
// path details, [ErrFileNotFound], [ErrVersionNotFound] and [ErrVersionNotKept]
// for a content, [ErrTooLarge] for a file over 8 MiB, [ErrNotUTF8] for a binary
// one, the storage details, [ErrStoreClosed].
func (s *Store) Blame(ctx context.Context, r around.BlameRequest) (around.BlameResult, error) {
	return looking(ctx, s, "blame", func() (around.BlameResult, error) {
		path, err := versions.Identity(s.engine, r.Path)
		if err != nil {
			return around.BlameResult{}, err
		}
		return (&blame.Layer{Versions: s.versions, Observed: s.observed}).Read(ctx, path, r.SHA256.String())
	})
}
