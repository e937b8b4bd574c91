package main

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"
)

// output is standard output. It keeps the first error, because its callers do
// not check for errors, and writes nothing after it: half a reply followed by
// something else could be mistaken for a complete one.
type output struct {
	w   io.Writer       // to find out its kind
	ctx context.Context // nil: never interrupted

	mu   sync.Mutex
	lost error
}

// lastWords is how long to wait, after Ctrl-C, for a reader that accepts
// nothing. A reader that does read still gets the reply.
const lastWords = time.Second

func (o *output) Write(p []byte) (int, error) {
	if err := o.failed(); err != nil {
		return 0, err
	}
	n, err := o.write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.lost = err
	}
	return n, err
}

// write writes in a goroutine, because a write to a pipe cannot be canceled.
func (o *output) write(p []byte) (int, error) {
	if o.ctx == nil {
		return o.w.Write(p)
	}
	type written struct {
		n   int
		err error
	}
	done := make(chan written, 1)
	kept := bytes.Clone(p) // the caller may reuse p after the wait was abandoned
	go func() {
		n, err := o.w.Write(kept)
		done <- written{n, err}
	}()
	select {
	case w := <-done:
		return w.n, w.err
	case <-o.ctx.Done():
	}
	select {
	case w := <-done:
		return w.n, w.err
	case <-time.After(lastWords):
		return 0, o.ctx.Err()
	}
}

// failed returns the first error, or nil.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}
