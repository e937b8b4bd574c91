package object

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
)

// credentials sets test credentials in the environment.
func credentials(t testing.TB) aws.Credentials {
	keys := aws.Credentials{AccessKeyID: "hub-test-id", SecretAccessKey: strings.Join([]string{"not", "a", "live", "key"}, "+/"), SessionToken: "token/of+test="}
	t.Setenv("AWS_ACCESS_KEY_ID", keys.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", keys.SecretAccessKey)
	t.Setenv("AWS_SESSION_TOKEN", keys.SessionToken)
	t.Setenv("AWS_REGION", "eu-test-1")
	return keys
}

// serve starts a handler and returns a client of its bucket that does not pause between attempts.
func serve(t testing.TB, h http.Handler) *s3Store {
	t.Helper()
	if os.Getenv("AWS_ACCESS_KEY_ID") == "" {
		credentials(t)
	}
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return client(t, web.URL)
}

func client(t testing.TB, endpoint string) *s3Store {
	t.Helper()
	s, err := openS3("s3://bucket/some/prefix?endpoint=" + url.QueryEscape(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	s.pause = 0
	t.Cleanup(func() { s.Close() })
	return s
}

// TestS3 also checks the signatures.
func TestS3(t *testing.T) {
	for name, server := range map[string]*s3test.Server{"": {}, "no metadata": {NoMetadata: true}, "small pages": {PageSize: MaxList}} {
		server.Keys = credentials(t)
		s := serve(t, server)
		t.Run(name, func(t *testing.T) {
			if err := probe(ctx, s); err != nil {
				t.Fatal(err)
			}
			conform(t, s)
			if server.Len() != 0 {
				t.Errorf("%d objects are left", server.Len())
			}
		})
	}
}

// TestS3IsProbed: a store that ignores a condition is refused, and the error says which.
func TestS3IsProbed(t *testing.T) {
	credentials(t)
	for want, server := range map[string]*s3test.Server{
		"":                     {},
		"If-None-Match":        {IgnoreNoneMatch: true},
		"If-Match names ano":   {IgnoreMatch: true},
		"If-Match names an ea": {MatchMakes: true},
	} {
		web := httptest.NewServer(server)
		defer web.Close()
		s, err := Open(ctx, "s3://bucket?endpoint="+web.URL)
		if want == "" && err != nil || want != "" && (s != nil || !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
		if server.Len() != 0 {
			t.Errorf("%q: %d objects are left", want, server.Len())
		}
	}
}

// first is a fault for the first request with a method, and a function for the moment after it.
func first(method string, fault s3test.Fault, then func()) func(*http.Request) s3test.Fault {
	var n atomic.Int64
	return func(r *http.Request) s3test.Fault {
		if r.Method != method && method != "" {
			return s3test.Pass
		}
		if n.Add(1) == 1 {
			return fault
		}
		if n.Load() == 2 && then != nil {
			then()
		}
		return s3test.Pass
	}
}

// TestOneFault: a call whose first request meets a fault returns the same result as without it.
func TestOneFault(t *testing.T) {
	for _, bare := range []bool{false, true} {
		for fault := range s3test.Faults {
			server := &s3test.Server{NoMetadata: bare}
			p := &s3test.Proxy{Next: server}
			s := serve(t, p)
			arm := func(method string) { p.Choose = first(method, fault, nil) }
			check := func(what string, err, want error) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("fault %d, %s: %v, want %v", fault, what, err, want)
				}
				p.Flush() // apply delayed requests
			}
			holds := func(key, want, etag string) {
				t.Helper()
				data, tag, err := s.Get(ctx, key)
				if err != nil || string(data) != want || etag != tag {
					t.Errorf("fault %d: %q %q %v, want %q %q", fault, data, tag, err, want, etag)
				}
			}
			if bare && fault == s3test.Twice { // cannot be distinguished from an existing object
				continue
			}
			arm("PUT")
			one, err := s.PutIfAbsent(ctx, "a/b", []byte("one"))
			check("put", err, nil)
			arm("GET")
			holds("a/b", "one", one)
			arm("PUT")
			two, err := s.CompareAndSwap(ctx, "a/b", one, []byte("two"))
			check("swap", err, nil)
			holds("a/b", "two", two)
			for i := range 5 {
				s.PutIfAbsent(ctx, fmt.Sprint("l/", i), nil)
			}
			arm("GET")
			list, more, err := s.List(ctx, "l/", "l/0")
			check("list", err, nil)
			if len(list) != 4 || more || list[0].Key != "l/1" || list[3].Key != "l/4" {
				t.Errorf("fault %d: %v %v", fault, list, more)
			}
			arm("DELETE")
			check("delete", s.Delete(ctx, "a/b"), nil)
			if _, _, err := s.Get(ctx, "a/b"); !errors.Is(err, ErrNotFound) {
				t.Errorf("fault %d: %v", fault, err)
			}
			// A condition that does not hold.
			s.PutIfAbsent(ctx, "taken", []byte("x"))
			arm("PUT")
			_, err = s.PutIfAbsent(ctx, "taken", []byte("y"))
			if !errors.Is(err, ErrUncertain) { // only after a fault: it may have been written and replaced
				check("put on another", err, ErrExists)
			} else if fault == s3test.Pass || fault == s3test.Twice || fault == s3test.Shuffle || fault == s3test.Replay {
				t.Errorf("fault %d: %v", fault, err)
			}
			p.Flush()
			holds("taken", "x", mustTag(t, s, "taken"))
		}
	}
}

// TestOneFaultInTheProbe: a fault of one request does not keep a store from being opened.
func TestOneFaultInTheProbe(t *testing.T) {
	for fault := range s3test.Twice {
		for n := range int64(12) {
			p := &s3test.Proxy{Next: &s3test.Server{}}
			var at atomic.Int64
			p.Choose = func(*http.Request) s3test.Fault {
				if at.Add(1) == n+1 {
					return fault
				}
				return s3test.Pass
			}
			if err := probe(ctx, serve(t, p)); err != nil {
				t.Errorf("fault %d of request %d: %v", fault, n, err)
			}
		}
	}
}

func mustTag(t *testing.T, s Store, key string) string {
	t.Helper()
	_, tag, err := s.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// TestReplacedBeforeTheNextAttempt: a write that was applied without an answer, and replaced before
// it was repeated, is not reported as failed. The second attempt meets a conflict.
func TestReplacedBeforeTheNextAttempt(t *testing.T) {
	for _, bare := range []bool{false, true} {
		server := &s3test.Server{NoMetadata: bare}
		var busy atomic.Bool
		p := &s3test.Proxy{Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if busy.CompareAndSwap(true, false) {
				w.WriteHeader(http.StatusConflict)
				return
			}
			server.ServeHTTP(w, r)
		})}
		s := serve(t, p)
		other := serve(t, server)
		n := 0
		replace := func() {
			n++
			defer busy.Store(true)
			if _, err := other.CompareAndSwap(ctx, "a", mustTag(t, other, "a"), fmt.Append(nil, "other ", n)); err != nil {
				t.Error(err)
			}
		}
		for _, fault := range []s3test.Fault{s3test.DropAfter, s3test.FailAfter, s3test.Cut} {
			p.Choose = first("PUT", fault, replace)
			_, err := s.PutIfAbsent(ctx, "a", []byte("mine"))
			if !errors.Is(err, ErrUncertain) || errors.Is(err, ErrExists) {
				t.Errorf("fault %d: put: %v", fault, err)
			}
			p.Choose = first("PUT", fault, replace)
			_, err = s.CompareAndSwap(ctx, "a", mustTag(t, other, "a"), []byte("mine too"))
			if !errors.Is(err, ErrUncertain) || errors.Is(err, ErrChanged) {
				t.Errorf("fault %d: swap: %v", fault, err)
			}
			other.Delete(ctx, "a")
		}
	}
}

// TestNoAnswerAtAll checks what a call returns when every request of a kind fails. Only requests
// that may have been applied are uncertain.
func TestNoAnswerAtAll(t *testing.T) {
	for _, fault := range []s3test.Fault{s3test.DropBefore, s3test.DropAfter, s3test.FailBefore, s3test.Delay} {
		p := &s3test.Proxy{Next: &s3test.Server{}, Choose: func(*http.Request) s3test.Fault { return fault }}
		s := serve(t, p)
		for i, err := range callAll(s, "a", "x") {
			if get := i == 0; err == nil || errors.Is(err, ErrNotFound) || !get && !errors.Is(err, ErrUncertain) {
				t.Errorf("fault %d, call %d: %v", fault, i, err)
			}
		}
		if _, _, err := s.List(ctx, "", ""); err == nil {
			t.Errorf("fault %d: no error", fault)
		}
	}
	// Definite answers are not repeated.
	for status, code := range map[int]string{403: "AccessDenied", 404: "NoSuchBucket", 501: "NotImplemented", 400: "EntityTooLarge", 301: "PermanentRedirect"} {
		n := 0
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, r.Header.Get("Authorization"))
		}))
		_, _, lerr := s.List(ctx, "", "")
		for i, err := range append(callAll(s, "a", "x"), lerr) {
			var answer *StatusError
			if !errors.As(err, &answer) || answer.Status != status || answer.Code != code || errors.Is(err, ErrUncertain) || errors.Is(err, ErrNotFound) ||
				strings.Contains(err.Error(), "Credential") {
				t.Errorf("%d, call %d: %v", status, i, err)
			}
		}
		if n != 5 {
			t.Errorf("%d: %d requests for 5 calls", status, n)
		}
	}
	// No server listens: nothing was sent.
	web := httptest.NewServer(nil)
	web.Close()
	s := client(t, web.URL)
	if _, err := s.PutIfAbsent(ctx, "a", nil); !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrUncertain) {
		t.Errorf("%v", err)
	}
	if err := s.Delete(ctx, "a"); !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrUncertain) {
		t.Errorf("%v", err)
	}
}

// TestS3Addresses checks which addresses are valid, and that no error shows a
// credential in one.
func TestS3Addresses(t *testing.T) {
	keys := credentials(t)
	for address, want := range map[string]string{
		"s3://my-bucket":                                "https://my-bucket.s3.eu-test-1.amazonaws.com",
		"s3://my-bucket/p/q/?region=us-west-2":          "https://my-bucket.s3.us-west-2.amazonaws.com",
		"s3://my.bucket":                                "https://s3.eu-test-1.amazonaws.com/my.bucket",
		"s3://my-bucket?endpoint=http://127.0.0.1:9000": "http://127.0.0.1:9000/my-bucket",
		"s3://my-bucket?endpoint=https://host/sub/":     "https://host/sub/my-bucket",
		"s3://my-bucket?endpoint=https://{bucket}.host": "https://my-bucket.host",
		"s3://":                                    "",
		"s3:///p":                                  "",
		"s3://my_bucket":                           "",
		"s3://my-bucket/p/../q":                    "",
		"s3://my-bucket/P":                         "",
		"s3://my-bucket#x":                         "",
		"s3://my-bucket?acl=public":                "",
		"s3://my-bucket?endpoint=ftp://host":       "",
		"s3://my-bucket?endpoint=host":             "",
		"s3://my-bucket?endpoint=https://host?x=y": "",
		"s3://my-bucket?access_key=" + keys.SecretAccessKey:                    "",
		"s3://id:" + url.QueryEscape(keys.SecretAccessKey) + "@my-bucket":      "",
		"s3://my-bucket?endpoint=https://id:" + keys.SecretAccessKey + "@host": "",
		"s3://my-bucket:" + keys.SecretAccessKey:                               "",
	} {
		s, err := openS3(address)
		if want != "" {
			if err != nil || s.endpoint.String() != want {
				t.Errorf("%s: %v", address, err)
			}
			continue
		}
		if err == nil || strings.Contains(err.Error(), "live") {
			t.Errorf("%s: %v", address, err)
		}
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if _, err := Open(ctx, "s3://my-bucket"); err == nil || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("%v", err)
	}
}

// TestListsOfForeignNames: names that are not valid keys are not in a list, and do not
// end it.
func TestListsOfForeignNames(t *testing.T) {
	server := &s3test.Server{PageSize: 3}
	s := serve(t, server)
	for i := range 20 {
		server.Set("bucket", fmt.Sprintf("some/prefix/A %d\x01<&>+%%", i), nil)
	}
	server.Set("bucket", "some/prefix/b", nil)
	server.Set("bucket", "some/other", nil)
	server.Set("other", "some/prefix/c", nil)
	if list := all(t, s, ""); fmt.Sprint(list) != "[b]" {
		t.Errorf("%q", list)
	}
	// Pages out of order would lose keys.
	for _, body := range []string{
		"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>some/prefix/b</Key></Contents><Contents><Key>some/prefix/a</Key></Contents></ListBucketResult>",
		"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>some/prefix/0</Key></Contents><Contents><Key>some/prefix/1</Key></Contents></ListBucketResult>",
		"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
		"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></ListBucketResult>",
	} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, body) }))
		if list, _, err := s.List(ctx, "", "9"); !errors.Is(err, ErrUnfit) {
			t.Errorf("%v %v", list, err)
		}
	}
	s = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>welcome</html>") }))
	if list, _, err := s.List(ctx, "", ""); err == nil {
		t.Errorf("%v", list)
	}
}
