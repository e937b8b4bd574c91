// Package object stores named sequences of bytes with conditional writes: what the hub needs from a
// store that many machines share. The backends are a directory of the local file system and a
// bucket of an S3-compatible store.
//
// All conditions hold between any number of processes and machines that use one store, and a write
// that returned without an error is durable. [Open] refuses a store that ignores a condition. A
// proxy before a bucket must not repeat a PUT that was not answered. Otherwise a write that was
// applied, repeated by the proxy, and replaced by another client before this one looks, would be
// mistaken for a refused one.
//
// # Keys
//
// A key consists of segments of the characters a to z, 0 to 9, ".", "_" and "-", separated by
// slashes. A segment has 1 to 255 bytes and does not end with a dot; a key has at most 512 bytes
// ([CheckKey]). No key may be a directory of another: a store need not hold both "a" and "a/b".
package object

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Limits.
const (
	MaxKey     = 512     // bytes of a key
	MaxSegment = 255     // bytes of one segment of a key
	MaxSize    = 1 << 30 // bytes of an object
	MaxList    = 1000    // keys that one List call returns
)

// Errors of a [Store]. They are wrapped: use [errors.Is].
var (
	// ErrNotFound: there is no object under the key.
	ErrNotFound = errors.New("no such object")
	// ErrExists: the key is taken. The existing object is durable.
	ErrExists = errors.New("object exists")
	// ErrChanged: the object is not the one that the etag names, or is absent. Nothing was written.
	ErrChanged = errors.New("object has changed")
	// ErrUncertain: the request may or may not have been applied, or may have been applied and
	// replaced since. Read the object to find out.
	ErrUncertain = errors.New("it is unknown whether the object was written")
	// ErrKey: the key is invalid; see [CheckKey].
	ErrKey = errors.New("not a key of an object store")
	// ErrTooLarge: the object has more than MaxSize bytes. Nothing was written.
	ErrTooLarge = errors.New("object is too large")
	// ErrAddress: the argument of [Open] names no object store, or credentials are absent. The text
	// says how to name one.
	ErrAddress = errors.New("the object store is not named")
	// ErrUnfit: the store lacks what the hub relies on. Use another one.
	ErrUnfit = errors.New("the object store cannot be used")
)

// Store is a set of objects. It is safe for concurrent use. Each call makes requests until it has
// an answer, ctx ends, or the allowance of the call is used up ([WithAllowance]). If a call fails
// with an error other than those listed at the method, nothing was written.
type Store interface {
	// Get returns the content of an object, and the etag that names this content to CompareAndSwap. Equal contents may have equal etags. Errors:
	// ErrNotFound, ErrTooLarge.
	Get(ctx context.Context, key string) (data []byte, etag string, err error)

	// PutIfAbsent creates an object, unless the key is taken: then the error is ErrExists, even if
	// the content is equal. Of concurrent calls with different contents exactly one succeeds.
	// Errors: ErrExists, ErrUncertain, ErrTooLarge.
	PutIfAbsent(ctx context.Context, key string, data []byte) (etag string, err error)

	// CompareAndSwap replaces the content of the object, if etag still names it; "" means an
	// absent object. Of concurrent calls with one etag exactly one succeeds, if their contents
	// differ from each other and from all earlier ones of the object. With equal contents several
	// may succeed, or the result may be ErrUncertain. Errors: ErrChanged, ErrUncertain,
	// ErrTooLarge.
	CompareAndSwap(ctx context.Context, key, etag string, data []byte) (newEtag string, err error)

	// List returns up to MaxList keys that begin with prefix and follow after, in byte order, and
	// whether more may follow. If so, the list has at least one key, and the next list may be
	// empty. Prefix need not end at a segment; "" is every key. A key that is created or deleted
	// during the call may be missing or present; every other key is listed once.
	List(ctx context.Context, prefix, after string) ([]Info, bool, error)

	// Delete removes an object. It is not an error if there is none. A request that the network
	// delayed may be applied until 15 minutes later, also to an object that was created under the
	// key meanwhile. Errors: ErrUncertain.
	Delete(ctx context.Context, key string) error
}

// Info describes an object in a list.
type Info struct {
	Key  string
	Size int64 // bytes
}

// CheckKey reports whether every backend accepts the key: the error is nil or
// ErrKey.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrKey, len(key), MaxKey)
	}
	for _, segment := range strings.Split(key, "/") {
		switch {
		case segment == "":
			return fmt.Errorf("%w: a segment is empty", ErrKey)
		case len(segment) > MaxSegment:
			return fmt.Errorf("%w: a segment has %d bytes, more than %d", ErrKey, len(segment), MaxSegment)
		case strings.HasSuffix(segment, "."):
			return fmt.Errorf("%w: a segment ends with a dot", ErrKey)
		case strings.Trim(segment, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "":
			return fmt.Errorf("%w: use a to z, 0 to 9, and the characters . _ -", ErrKey)
		}
	}
	return nil
}

// checkWrite checks the arguments of every write.
func checkWrite(key string, size int) error {
	if size > MaxSize {
		return fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, size, MaxSize)
	}
	return CheckKey(key)
}

// Open opens the store that url names, and probes it: a store that ignores a condition is ErrUnfit,
// with the condition. A malformed url, or one without credentials, is ErrAddress.
//
//   - "dir:/path" or a plain path is a directory of the local file system. It is created if it
//     is absent; its parent must exist. A network file system is ErrUnfit, because its locks
//     and flushes cannot be relied on.
//   - "s3://bucket/prefix?endpoint=https://host&region=name" is a bucket, or the part of it
//     below prefix. Without endpoint it is a bucket of AWS; an endpoint that takes the bucket in
//     its host name contains {bucket} there. Without region it is that of AWS_REGION,
//     AWS_DEFAULT_REGION, or us-east-1. Credentials come from AWS_ACCESS_KEY_ID,
//     AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN only.
func Open(ctx context.Context, url string) (Store, error) {
	var s Store
	var err error
	scheme, rest, ok := strings.Cut(url, ":")
	switch {
	case ok && scheme == "dir":
		s, err = openPath(rest)
	case ok && scheme == "s3":
		s, err = openS3(url)
	case strings.Contains(url, "://"):
		err = address(fmt.Sprintf("the scheme %q is unknown; use dir:/path or s3://bucket/prefix", scheme))
	default:
		s, err = openPath(url)
	}
	if err != nil {
		return nil, err
	}
	if err := probe(ctx, s); err != nil {
		s.(io.Closer).Close()
		return nil, err
	}
	return s, nil
}

// probe checks that the store honors the conditions, with an object of its own.
func probe(ctx context.Context, s Store) (err error) {
	key := "probe/" + strings.ToLower(rand.Text())
	one, two, three := []byte("1"), []byte("22"), []byte("333")
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			s.Delete(ctx, key)
		}
	}()
	first, err := s.PutIfAbsent(ctx, key, one)
	if err != nil {
		return fmt.Errorf("cannot write to the object store: %w", err)
	}
	err = mustFail(ctx, ErrExists, "it replaces an object although If-None-Match forbids it", func(ctx context.Context) (string, error) {
		return s.PutIfAbsent(ctx, key, two)
	})
	if err != nil {
		return err
	}
	swap := func(etag string, data []byte) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return s.CompareAndSwap(ctx, key, etag, data) }
	}
	if err = mustFail(ctx, ErrChanged, "it replaces an object although If-None-Match forbids it", swap("", two)); err != nil {
		return err
	}
	second, err := s.CompareAndSwap(ctx, key, first, two)
	if err != nil {
		return ignores("it does not replace an object whose etag If-Match names", err)
	}
	if err = mustFail(ctx, ErrChanged, "it replaces an object although If-Match names another one", swap(first, three)); err != nil {
		return err
	}
	data, etag, err := s.Get(ctx, key)
	if err != nil || etag != second || !bytes.Equal(data, two) {
		return ignores("it does not return what was written last", err)
	}
	list, _, err := s.List(ctx, key, "")
	if err != nil || len(list) != 1 || list[0] != (Info{key, int64(len(two))}) {
		return ignores("it does not list what was written last", err)
	}
	if err = s.Delete(ctx, key); err != nil {
		return fmt.Errorf("cannot delete the object of the probe: %w", err)
	}
	return mustFail(ctx, ErrChanged, "it makes an object although If-Match names an earlier one", swap(second, three))
}

// mustFail makes a write that must be refused with the error want, again if its outcome is unknown.
func mustFail(ctx context.Context, want error, what string, write func(context.Context) (string, error)) error {
	ctx, done := WithAllowance(ctx, 0)
	defer done()
	for {
		_, err := write(ctx)
		switch {
		case errors.Is(err, want):
			return nil
		case !errors.Is(err, ErrUncertain) || !Again(ctx):
			return ignores(what, err)
		}
	}
}

// ignores returns ErrUnfit, unless the probe failed for another reason: no answer, or no
// permission.
func ignores(what string, err error) error {
	var answer *StatusError
	if err == nil || errors.Is(err, ErrUnfit) || errors.Is(err, ErrExists) || errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) ||
		errors.As(err, &answer) && (answer.Status == http.StatusNotImplemented || answer.Status == http.StatusBadRequest) {
		return unfit(what, err)
	}
	return fmt.Errorf("cannot probe the object store: %w", err)
}

func unfit(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnfit, what, err)
	}
	return fmt.Errorf("%w: %s", ErrUnfit, what)
}
