package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// interruptible is a stream whose reading ends when ctx does. A read of a
// terminal or a pipe cannot be canceled, so it happens in a goroutine, which
// starts with the first Read, because most commands do not read standard input.
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

// named is a file whose reader may have to wait.
type named struct {
	interruptible
	file *os.File
}

func (n *named) Close() error { return n.file.Close() }

// openNamed opens a file that the user names. It may be a pipe: opening it
// waits for a writer, and reading it waits for bytes; both end when ctx does.
// The file is opened in a goroutine, because a non-blocking open treats a pipe
// without a writer as an empty file.
func openNamed(ctx context.Context, name string) (io.ReadCloser, error) {
	f, err := await(ctx, func() (*os.File, error) { return os.Open(name) }, func(late *os.File) { late.Close() })
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		err = &os.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
		fallthrough
	case err != nil:
		f.Close()
		return nil, err
	case info.Mode().IsRegular():
		return f, nil
	}
	return &named{interruptible: interruptible{ctx: ctx, src: f}, file: f}, nil
}

// await runs work that cannot be interrupted. If ctx ends first, the result of
// the work goes to late.
func await[T any](ctx context.Context, work func() (T, error), late func(T)) (T, error) {
	var v T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = work()
	}()
	select {
	case <-done:
		return v, err
	case <-ctx.Done():
		go func() {
			if <-done; err == nil {
				late(v)
			}
		}()
		var none T
		return none, ctx.Err()
	}
}

// readNamed reads a file that the user names.
func readNamed(ctx context.Context, name string) ([]byte, error) {
	f, err := openNamed(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// open opens a file that the user names, or standard input. what is the
// position of the name on the command line: an error contains that and not the
// name, which may be content given in the wrong place.
func (a *app) open(ctx context.Context, what, name string) (io.ReadCloser, error) {
	if name == "" || name == "-" {
		if isTerminal(a.out.w) && name == "" && isTerminal(a.in) {
			fmt.Fprintln(a.messages(), "reading standard input; end it with Ctrl-D")
		}
		return sized(io.NopCloser(a.stdin), a.in), nil
	}
	f, err := openNamed(ctx, name)
	if err != nil {
		return nil, unreadable(what, err)
	}
	return sized(f, f), nil
}

// sizedInput is an input with a known remaining length, for the progress bar.
type sizedInput struct {
	io.ReadCloser
	left int64
}

func (s *sizedInput) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.left -= int64(n)
	return n, err
}

// Len returns how much is left, unless the file changes.
func (s *sizedInput) Len() int { return int(max(0, s.left)) }

// sized returns src with the length of the regular file from which it comes.
func sized(src io.ReadCloser, from any) io.ReadCloser {
	f, ok := from.(interface {
		io.Seeker
		Stat() (os.FileInfo, error)
	})
	if !ok {
		return src
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return src
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return src
	}
	return &sizedInput{src, info.Size() - at}
}

// readAll reads the input that the user names, as open does.
func (a *app) readAll(ctx context.Context, what, name string) ([]byte, error) {
	src, err := a.open(ctx, what, name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	data, err := io.ReadAll(src)
	if err != nil {
		return nil, unreadable(what, err)
	}
	return data, nil
}

// unreadable returns the error of an input that cannot be read.
func unreadable(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &misuse{fmt.Sprintf("cannot read %s: %s", what, plainError(err)), "name a file, or - for standard input"}
}

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
	late, end := context.WithCancel(context.WithoutCancel(o.ctx))
	defer end()
	defer context.AfterFunc(o.ctx, func() { time.AfterFunc(lastWords, end) })()
	kept := bytes.Clone(p) // the caller may reuse p after the wait was abandoned
	return await(late, func() (int, error) { return o.w.Write(kept) }, func(int) {})
}

// failed returns the first error, or nil.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}
