package durable

import (
	"io"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// WriteStream is [WriteFile] for content that need not fit in memory. The
// caller flushes the directory.
func WriteStream(dir fsx.Dir, name string, src io.Reader) error {
	return Place(dir, name, name+TempSuffix, 0o600, func(f fsx.File) error {
		_, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{src}, make([]byte, 256<<10))
		return err
	})
}
