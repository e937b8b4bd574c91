package upkeep

import (
	"context"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// export writes the rows after one number up to another, 0 for all, to w. With same
// the same rows are the same bytes; otherwise the export names the version tool.
func (c *Call) export(ctx context.Context, w io.Writer, after, upto uint64, same bool, tool string) (journal.ExportFooter, error) {
	if c.Engine.Log == nil {
		return journal.ExportFooter{}, fault.New(fault.NotFound).Hintf("there is no journal here")
	}
	c.Meter.Things("export", int64(c.Engine.Log.Head()), "exporting rows")
	to := &countingWriter{w: w}
	head := journal.ExportHeader{Head: upto, CreatedAt: stamp.Text(c.Engine.Now()), Tool: tool}
	if same {
		head.Version, head.CreatedAt, head.Tool = journal.ExportVersion, "", ""
	}
	foot, err := c.Engine.Log.Export(to, head, after, func() error {
		c.Meter.One()
		return canceled(ctx)
	})
	if to.err != nil {
		err = c.outside(to.err, "the export could not be written; what was written is incomplete")
	}
	return foot, err
}

// countingWriter distinguishes errors of its writer from other errors.
type countingWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.n += int64(n); err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		c.err = err
	}
	return n, err
}
