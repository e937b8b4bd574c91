package object

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// s3Store is the backend in a bucket of an S3-compatible store. It makes each request itself
// instead of using an S3 client, because the outcome of a conditional write depends on all
// attempts: an attempt that fails or has no answer may have been applied, and then the next one
// fails its own condition. Every write has its own mark in the metadata of the object, which
// distinguishes the two cases.
type s3Store struct {
	endpoint *url.URL // with the bucket
	prefix   string   // "" or ends with a slash
	region   string
	keys     aws.Credentials
	signer   *v4.Signer
	client   *http.Client

	pause time.Duration // before a request is repeated; it doubles
}

// markHeader is the metadata that holds the mark of a write.
const markHeader = "X-Amz-Meta-Rw-Write"

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// openS3 parses s3://bucket/prefix?endpoint=…&region=…, and reads credentials from the
// environment.
func openS3(text string) (*s3Store, error) {
	u, err := url.Parse(text)
	if err != nil { // the error contains the text
		return nil, address("the address of the object store is malformed; use s3://bucket/prefix?endpoint=https://host")
	}
	q := u.Query()
	endpoint, region := q.Get("endpoint"), q.Get("region")
	q.Del("endpoint")
	q.Del("region")
	prefix := strings.Trim(u.Path, "/")
	switch {
	case u.User != nil:
		return nil, address("the address of the object store holds credentials; put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case !bucketName.MatchString(u.Host):
		return nil, address("the address of the object store names no bucket; use s3://bucket/prefix?endpoint=https://host")
	case len(q) > 0 || u.Fragment != "":
		return nil, address("the address of the object store may have the parameters endpoint and region only")
	case prefix != "" && CheckKey(prefix) != nil:
		return nil, fmt.Errorf("%w: the prefix in the address of the object store: %w", ErrAddress, CheckKey(prefix))
	}
	region = cmp.Or(region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	s := &s3Store{
		region: region, pause: 200 * time.Millisecond,
		keys: aws.Credentials{
			AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
		},
		signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }),
	}
	if prefix != "" {
		s.prefix = prefix + "/"
	}
	if s.keys.AccessKeyID == "" || s.keys.SecretAccessKey == "" {
		return nil, address("credentials of the object store are absent; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	if s.endpoint, err = bucketAt(endpoint, u.Host, region); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // compression would hide the length
	transport.MaxIdleConnsPerHost = 32
	// A signature is valid for one host, so a redirect is an error.
	s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s, nil
}

func address(text string) error { return fmt.Errorf("%w: %s", ErrAddress, text) }

// bucketAt returns the address of a bucket. The bucket is in the path, unless the endpoint says
// with {bucket} where it goes.
func bucketAt(endpoint, bucket, region string) (*url.URL, error) {
	if endpoint == "" {
		endpoint = "https://{bucket}.s3." + region + ".amazonaws.com"
		if strings.Contains(bucket, ".") { // no certificate covers its host
			endpoint = "https://s3." + region + ".amazonaws.com"
		}
	}
	if !strings.Contains(endpoint, "{bucket}") {
		endpoint = strings.TrimSuffix(endpoint, "/") + "/{bucket}"
	}
	u, err := url.Parse(strings.ReplaceAll(endpoint, "{bucket}", bucket))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, address("the endpoint of the object store is malformed; use endpoint=https://host, without credentials")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// Close closes idle connections.
func (s *s3Store) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

func (s *s3Store) Get(ctx context.Context, key string) ([]byte, string, error) {
	if err := CheckKey(key); err != nil {
		return nil, "", err
	}
	r, _, err := s.send(ctx, request{method: http.MethodGet, key: key, most: MaxSize})
	if err == nil && r.code == "NoSuchKey" {
		err = fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	etag := r.header.Get("Etag")
	if err = r.failed(err); err == nil && etag == "" {
		err = unfit("it returns no etag", nil)
	}
	if err != nil {
		return nil, "", err
	}
	return r.body, etag, nil
}

func (s *s3Store) PutIfAbsent(ctx context.Context, key string, data []byte) (string, error) {
	return s.put(ctx, key, data, "If-None-Match", "*", ErrExists)
}

func (s *s3Store) CompareAndSwap(ctx context.Context, key, etag string, data []byte) (string, error) {
	if etag == "" {
		return s.put(ctx, key, data, "If-None-Match", "*", ErrChanged)
	}
	return s.put(ctx, key, data, "If-Match", etag, ErrChanged)
}

// put writes an object under a condition. It returns otherwise if the condition does
// not hold.
func (s *s3Store) put(ctx context.Context, key string, data []byte, condition, etag string, otherwise error) (string, error) {
	if err := checkWrite(key, len(data)); err != nil {
		return "", err
	}
	ctx, done := WithAllowance(ctx, len(data))
	defer done()
	mark := rand.Text()
	header := map[string]string{condition: etag, markHeader: mark, "Content-Type": "application/octet-stream"}
	r, maybe, err := s.send(ctx, request{method: http.MethodPut, key: key, header: header, body: data})
	failed := err == nil && (r.status == http.StatusPreconditionFailed || r.code == "NoSuchKey")
	if err = r.failed(err); err == nil {
		if etag := r.header.Get("Etag"); etag != "" {
			return etag, nil
		}
		maybe, err = true, errors.New("the object store answered without an etag")
	}
	if !failed && !maybe {
		return "", err
	}
	// The condition may have failed because of an earlier attempt, of this program or of a proxy that repeats requests.
	etag, found, rerr := s.mine(ctx, key, mark, data, maybe)
	switch {
	case found:
		return etag, nil
	case failed && !maybe && rerr == nil:
		return "", fmt.Errorf("%w: %s", otherwise, key)
	}
	return "", uncertain(ctx, key, err, rerr)
}

// mine reports whether the object was written by the call with this mark. If the object has another
// mark, this call may still have written it, and another one replaced it since. A store may keep no
// metadata: with byContent, the content decides then.
func (s *s3Store) mine(ctx context.Context, key, mark string, data []byte, byContent bool) (etag string, found bool, err error) {
	r, _, err := s.send(ctx, request{method: http.MethodHead, key: key})
	if err == nil && r.status == http.StatusNotFound {
		return "", false, nil
	}
	if err := r.failed(err); err != nil {
		return "", false, err
	}
	had := r.header.Get(markHeader)
	if had == "" && byContent {
		now, etag, err := s.Get(ctx, key)
		return etag, err == nil && bytes.Equal(now, data), err
	}
	return r.header.Get("Etag"), had == mark, nil
}

// uncertain returns the error of a write with an attempt that had no answer. Of the later errors it
// wraps only the end of ctx: a condition that did not hold later proves nothing.
func uncertain(ctx context.Context, key string, causes ...error) error {
	return errors.Join(fmt.Errorf("%w: %s: an attempt had no answer; afterwards: %v", ErrUncertain, key, errors.Join(causes...)), context.Cause(ctx))
}

func (s *s3Store) Delete(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	r, maybe, err := s.send(ctx, request{method: http.MethodDelete, key: key})
	if err == nil && r.code == "NoSuchKey" {
		return nil
	}
	if err = r.failed(err); err != nil && maybe {
		return uncertain(ctx, key, err)
	}
	return err
}

// page is one page of a list, as the store returns it.
type page struct {
	IsTruncated           bool
	NextContinuationToken string
	EncodingType          string
	Contents              []struct {
		Key  string
		Size int64
	}
}

func (s *s3Store) List(ctx context.Context, prefix, after string) ([]Info, bool, error) {
	query := url.Values{"list-type": {"2"}, "max-keys": {strconv.Itoa(MaxList)}, "encoding-type": {"url"}, "prefix": {s.prefix + prefix}}
	if after != "" {
		query.Set("start-after", s.prefix+after)
	}
	var list []Info
	for {
		r, _, err := s.send(ctx, request{method: http.MethodGet, query: query, most: 16 << 20})
		if err := r.failed(err); err != nil {
			return nil, false, err
		}
		var p page
		if err := decode(r.body, "ListBucketResult", &p); err != nil {
			return nil, false, err
		}
		more, err := s.add(&list, p, prefix, after)
		if err != nil || len(list) > 0 || !more {
			return list, more, err
		}
		// All names of the page were invalid keys.
		if p.NextContinuationToken == "" || p.NextContinuationToken == query.Get("continuation-token") {
			return nil, false, unfit("its list ends without saying where it goes on", nil)
		}
		query.Set("continuation-token", p.NextContinuationToken)
	}
}

// add appends the keys of a page. The last page holds all remaining keys, in any order. A page that
// is not the last must be in order, and after the requested key; otherwise keys would be missed.
func (s *s3Store) add(list *[]Info, p page, prefix, after string) (more bool, err error) {
	last := s.prefix + after
	for _, c := range p.Contents {
		name := c.Key
		if p.EncodingType == "url" {
			if name, err = url.QueryUnescape(name); err != nil {
				return false, errors.New("the list of the object store is malformed")
			}
		}
		if p.IsTruncated && name <= last {
			return false, unfit("its lists are not in the order of the keys", nil)
		}
		last = name
		key, ok := strings.CutPrefix(name, s.prefix)
		if ok && strings.HasPrefix(key, prefix) && key > after && CheckKey(key) == nil {
			*list = append(*list, Info{key, c.Size})
		}
	}
	slices.SortFunc(*list, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	*list = slices.CompactFunc(*list, func(a, b Info) bool { return a.Key == b.Key })
	if len(*list) > MaxList {
		*list, p.IsTruncated = (*list)[:MaxList], true
	}
	return p.IsTruncated, nil
}
