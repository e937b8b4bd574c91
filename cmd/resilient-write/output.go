package main

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"
)

// output is standard output. It keeps the first error, because its callers do
// not check for one, and writes nothing after it: half a reply followed by
// something else could be taken for a whole one.
type output struct {
	w   io.Writer       // to ask what it is
	ctx context.Context // nil: never interrupted

	mu   sync.Mutex
	lost error
}

// lastWords is how long, after Ctrl-C, a reader is waited for that takes
// nothing. One who reads gets the reply also then.
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

// write writes on the side, because a write to a pipe cannot be called off.
func (o *output) write(p []byte) (int, error) {
	if o.ctx == nil {
		return o.w.Write(p)
	}
	type written struct {
		n   int
		err error
	}
	done := make(chan written, 1)
	kept := bytes.Clone(p) // the caller may reuse p after the wait was given up
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

// failed is the first error, or nil.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}
