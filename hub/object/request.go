package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// request is one request, which is repeated until it has an answer.
type request struct {
	method string
	key    string // "" for the bucket
	query  url.Values
	header map[string]string
	body   []byte
	most   int64 // maximum bytes of the answer
}

// reply is an answer of the store.
type reply struct {
	status int
	header http.Header
	body   []byte
	code   string // of an error
}

// StatusError is an error answer of the object store.
type StatusError struct {
	Status int    // of HTTP
	Code   string // of S3, "" if there is none
}

func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the object store answered %d %s", e.Status, e.Code))
}

// Hint says how to repair the call. It is empty if only repeating may help.
func (e *StatusError) Hint() string {
	switch {
	case e.Code == "RequestTimeTooSkewed":
		return "set the clock of this machine"
	case e.Code == "NoSuchBucket":
		return "create the bucket, or name another one"
	case e.Status/100 == 3 || e.Code == "AuthorizationHeaderMalformed":
		return "set region= and endpoint= in the address of the hub to those of the bucket"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they may read, write, list and delete"
	case e.Status == http.StatusNotImplemented || e.Status == http.StatusBadRequest || e.Status == http.StatusMethodNotAllowed:
		return "use an object store with conditional writes (If-None-Match and If-Match on PUT)"
	}
	return ""
}

// failed returns err, or the error that the reply represents.
func (r reply) failed(err error) error {
	if err != nil || r.status/100 == 2 {
		return err
	}
	return &StatusError{r.status, r.code}
}

// again reports whether the request should be repeated after this answer.
func (r reply) again() bool {
	switch r.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	}
	return r.status >= 500 || r.code == "RequestTimeout"
}

// send repeats the request until an answer is final, or the allowance of ctx is used up. maybe
// reports that an attempt without a definite answer from the store may have been applied.
func (s *s3Store) send(ctx context.Context, q request) (r reply, maybe bool, err error) {
	ctx, done := WithAllowance(ctx, len(q.body))
	defer done()
	for n := 0; ; n++ {
		var sent bool
		r, sent, err = s.once(ctx, q)
		if err == nil && !r.again() {
			return r, maybe, nil
		}
		maybe = maybe || err != nil && sent || err == nil && r.status >= 500
		if err = r.failed(err); errors.Is(err, ErrTooLarge) || !pause(ctx, s.pause, n) {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
				err = errors.Join(cause, err)
			}
			return reply{}, maybe, err
		}
	}
}

// once makes the request once. sent reports whether any part of it may have reached the
// store.
func (s *s3Store) once(ctx context.Context, q request) (r reply, sent bool, err error) {
	if ctx.Err() != nil {
		return reply{}, false, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(requestTime+timeFor(int64(len(q.body))), func() { cancel(errStalled) })
	defer timer.Stop()
	var got atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got.Store(true) }}
	req, err := s.signed(httptrace.WithClientTrace(ctx, trace), q)
	if err != nil {
		return reply{}, false, err
	}
	resp, err := s.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		r.status, r.header = resp.StatusCode, resp.Header
		most := int64(1 << 20) // of an error
		if resp.StatusCode/100 == 2 {
			most = q.most
		}
		if resp.ContentLength > most && q.method != http.MethodHead {
			return reply{}, true, fmt.Errorf("%w: %d bytes", ErrTooLarge, resp.ContentLength)
		}
		extend(ctx, max(resp.ContentLength, 0))
		timer.Reset(requestTime + timeFor(max(resp.ContentLength, 0)))
		r.body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
		if err == nil && int64(len(r.body)) > most {
			err = ErrTooLarge
		}
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return reply{}, got.Load(), fmt.Errorf("cannot reach the object store: %w", err)
	}
	if r.status/100 != 2 {
		r.code = codeOf(r.body)
	}
	return r, true, nil
}

// signed returns the signed HTTP request.
func (s *s3Store) signed(ctx context.Context, q request) (*http.Request, error) {
	u := *s.endpoint
	u.RawQuery = q.query.Encode()
	if q.key != "" {
		u.Path += "/" + s.prefix + q.key
	} else if u.Path == "" {
		u.Path = "/"
	}
	req, err := http.NewRequestWithContext(ctx, q.method, u.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, errors.New("the address of the object store is malformed")
	}
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	sum := sha256.Sum256(q.body)
	hash := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Content-Sha256", hash)
	req.Header.Set("User-Agent", "resilient-write-hub")
	return req, s.signer.SignHTTP(ctx, s.keys, req, hash, "s3", s.region, time.Now())
}

var errorCode = regexp.MustCompile(`^[A-Za-z0-9.]{1,64}$`)

// codeOf returns the code in the body of an error, or "" if it has none.
func codeOf(body []byte) string {
	var e struct{ Code string }
	if decode(body, "Error", &e) != nil || !errorCode.MatchString(e.Code) {
		return ""
	}
	return e.Code
}

// decode decodes an answer in XML whose outermost element is name.
func decode(body []byte, name string, to any) error {
	d := xml.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.Token()
		if err != nil {
			return errors.New("the answer of the object store is malformed")
		}
		if start, ok := token.(xml.StartElement); ok {
			if start.Name.Local != name || d.DecodeElement(to, &start) != nil {
				return errors.New("the answer of the object store is malformed")
			}
			return nil
		}
	}
}
