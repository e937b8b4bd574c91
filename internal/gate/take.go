package gate

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// mostKept is how many bytes of earlier versions a commit of many files holds in
// memory.
const mostKept = 64 << 20

// lending holds the buffers for the content of streams. Allocating memory for each
// write would cost more than copying.
var lending sync.Pool

func borrow(room int) []byte {
	if b, ok := lending.Get().(*bytes.Buffer); ok && b.Cap() >= room {
		b.Reset()
		return b.Bytes()
	}
	return make([]byte, 0, room)
}

// GiveBack releases the borrowed buffer, at the end of the call.
func (c *Check) GiveBack() {
	if c.lent != nil {
		lending.Put(c.lent)
	}
	c.lent = nil
}

// Take reads the content of a stream, a short one into memory, where its scan
// begins, a long one into a slot, and returns its hash.
func (c *Check) Take(ctx context.Context, m *engine.Mutation, src io.Reader) (string, error) {
	room := bytes.MinRead // for what is known of the length
	if known, ok := src.(interface{ Len() int }); ok {
		room += min(known.Len(), engine.InMemory)
	}
	account := progress.Of(ctx)
	account.Reading(src)
	src = account.Counting(engine.NewStoppable(ctx, src))
	head := bytes.NewBuffer(borrow(room))
	if !c.Layer.Transforms {
		c.lent = head
	}
	n, err := head.ReadFrom(io.LimitReader(src, engine.InMemory+1))
	if err != nil {
		return "", err
	}
	if n <= engine.InMemory {
		c.ScanEarly(ctx, head.Bytes())
		return m.Hold(head.Bytes()), nil
	}
	account.Long()
	return c.spool(ctx, m, io.MultiReader(head, src), 0)
}

// TakeKept takes the bytes of an earlier version. If there is no file whose mode
// is kept, the new file gets the mode that the journal records.
func (c *Check) TakeKept(ctx context.Context, m *engine.Mutation, src io.Reader, mode uint32) (string, error) {
	if mode == 0 || m.Link() || c.Layer.IsThere(m.Path) {
		mode = 0
		if !c.Commit.Many() || c.kept < mostKept {
			sum, err := c.Take(ctx, m, src)
			c.kept += m.Content.Size()
			return sum, err
		}
	}
	account := progress.Of(ctx)
	account.Reading(src)
	return c.spool(ctx, m, account.Counting(engine.NewStoppable(ctx, src)), mode)
}

// spool reads the content of a file into a slot, which gets the mode unless it is 0.
func (c *Check) spool(ctx context.Context, m *engine.Mutation, src io.Reader, mode uint32) (string, error) {
	in, err := c.Commit.Spool(ctx, src)
	if err != nil {
		return "", err
	}
	m.TakeSpooled(in)
	if mode == 0 {
		return in.Got.Digest.Hex(), nil
	}
	if err := in.Slot.File.Chmod(mode); err != nil {
		m.DropSpooled()
		return "", err
	}
	return in.Got.Digest.Hex(), nil
}
