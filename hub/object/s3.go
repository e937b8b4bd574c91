package object

import (
	"bytes"
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

// s3Store is the backend in a bucket of a store that speaks S3. It makes each request itself instead of through a client of S3, because what becomes of a
// conditional write depends on all attempts: one that is answered with an error, or not at all, may have been applied, and the next one then fails its own condition. Every
// write has a mark of its own in the metadata of the object, which tells the two apart.
type s3Store struct {
	endpoint *url.URL // with the bucket
	prefix   string   // "" or with a slash at its end
	region   string
	keys     aws.Credentials
	signer   *v4.Signer
	client   *http.Client

	pause time.Duration // before a request is repeated; it doubles
}

// markHeader is the metadata that holds the mark of a write.
const markHeader = "X-Amz-Meta-Rw-Write"

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// openS3 takes s3://bucket/prefix?endpoint=…&region=…, and credentials from the environment.
func openS3(text string) (*s3Store, error) {
	u, err := url.Parse(text)
	if err != nil { // it holds the text
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
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if region == "" {
			region = os.Getenv(name)
		}
	}
	if region == "" {
		region = "us-east-1"
	}
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
	transport.DisableCompression = true // it would hide the length
	transport.MaxIdleConnsPerHost = 32
	// A signature holds for one host: a redirect is an error.
	s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s, nil
}

func address(text string) error { return fmt.Errorf("%w: %s", ErrAddress, text) }

// bucketAt is the address of a bucket: at the endpoint, in its path, unless the endpoint says with {bucket} where it goes.
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

// Close frees idle connections.
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

// put writes an object under a condition; otherwise is the error if it does not hold.
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

// mine reports whether the object was written by the call that has this mark. Where another one is found, that call may have written it, too, and another have replaced it since.
// A store may keep no metadata: byContent has the content decide then.
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

// uncertain is the error of a write one of whose attempts had no answer. Of the errors afterwards only the end of ctx is wrapped: a condition that did not hold then
// says nothing.
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

// page is what the store returns of a list.
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
		// All of the page were names that are no keys.
		if p.NextContinuationToken == "" || p.NextContinuationToken == query.Get("continuation-token") {
			return nil, false, unfit("its list ends without saying where it goes on", nil)
		}
		query.Set("continuation-token", p.NextContinuationToken)
	}
}

// add appends the keys of a page. The last page holds all that is left, whatever its order. One that more follow must be in order, and after what
// was asked for: otherwise keys would be missed.
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
