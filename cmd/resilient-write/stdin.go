package main

import (
	"context"
	"io"
	"sync"
)

// interruptible is a stream whose reading ends when ctx does. A read of a
// terminal or a pipe cannot be called off, so it happens on the side; it starts
// with the first Read, because most commands leave standard input alone.
type interruptible struct {
	ctx   context.Context
	src   io.Reader
	start sync.Once
	out   *io.PipeReader
}

func (r *interruptible) Read(p []byte) (int, error) {
	r.start.Do(func() {
		out, in := io.Pipe()
		r.out = out
		context.AfterFunc(r.ctx, func() { in.CloseWithError(r.ctx.Err()) })
		go func() {
			_, err := io.Copy(in, r.src)
			in.CloseWithError(err) // of nil: the end
		}()
	})
	return r.out.Read(p)
}
