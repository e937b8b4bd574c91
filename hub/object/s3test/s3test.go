// Package s3test provides an in-memory S3-compatible store, and a proxy that injects faults, for
// tests of code that uses such a store. It is not covered by the promises of module hub.
package s3test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Server is a store with one bucket for each first path segment. The zero value is ready to use.
// Its switches must be set before it serves.
type Server struct {
	IgnoreNoneMatch, IgnoreMatch bool // ignore these conditions of a PUT
	MatchMakes                   bool // If-Match succeeds for an absent object
	NoMetadata                   bool // metadata is not kept
	PageSize                     int  // keys of a list page; 0: as requested
	// Keys are the credentials that signatures are checked with. If absent, signatures
	// are not checked.
	Keys aws.Credentials

	mu      sync.Mutex
	objects map[string]object // by bucket/key
}

type object struct {
	data []byte
	etag string
	mark string // the metadata sent by the client
}

const metadata = "X-Amz-Meta-Rw-Write"

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength >= 0 && int64(len(body)) != r.ContentLength {
		fail(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	if s.Keys.AccessKeyID != "" && !s.signed(r, body) {
		fail(w, http.StatusForbidden, "SignatureDoesNotMatch")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Path, "/")
	bucket, key, _ := strings.Cut(name, "/")
	now, there := s.objects[name]
	switch {
	case key == "" && r.Method == http.MethodGet:
		s.list(w, bucket, r)
	case r.Method == http.MethodHead && !there:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet && !there:
		fail(w, http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		w.Header().Set("Etag", now.etag)
		if now.mark != "" {
			w.Header().Set(metadata, now.mark)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(now.data)))
		if r.Method == http.MethodGet {
			w.Write(now.data)
		}
	case r.Method == http.MethodDelete:
		delete(s.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		s.put(w, r, name, body)
	default:
		fail(w, http.StatusNotImplemented, "NotImplemented")
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	now, there := s.objects[name]
	match := r.Header.Get("If-Match")
	switch {
	case r.Header.Get("If-None-Match") == "*" && there && !s.IgnoreNoneMatch, match != "" && there && match != now.etag && !s.IgnoreMatch:
		fail(w, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	case match != "" && !there && !s.MatchMakes:
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	o := object{data: body, etag: fmt.Sprintf("%q", hex.EncodeToString(sum(md5.New(), body)))}
	if !s.NoMetadata {
		o.mark = r.Header.Get(metadata)
	}
	if s.objects == nil {
		s.objects = map[string]object{}
	}
	s.objects[name] = o
	w.Header().Set("Etag", o.etag)
}

func sum(h interface {
	io.Writer
	Sum([]byte) []byte
}, data []byte) []byte {
	h.Write(data)
	return h.Sum(nil)
}

// Set creates or replaces an object, whatever its name is.
func (s *Server) Set(bucket, key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string]object{}
	}
	s.objects[bucket+"/"+key] = object{data: data, etag: fmt.Sprintf("%q", hex.EncodeToString(sum(md5.New(), data)))}
}

// Len returns the number of objects.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

func (s *Server) list(w http.ResponseWriter, bucket string, r *http.Request) {
	q := r.URL.Query()
	most, err := strconv.Atoi(q.Get("max-keys"))
	if err != nil || q.Get("list-type") != "2" {
		fail(w, http.StatusBadRequest, "InvalidArgument")
		return
	}
	if s.PageSize > 0 {
		most = min(most, s.PageSize)
	}
	after := max(q.Get("start-after"), q.Get("continuation-token"))
	var keys []string
	for name := range s.objects {
		if key, ok := strings.CutPrefix(name, bucket+"/"); ok && strings.HasPrefix(key, q.Get("prefix")) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	more := len(keys) > most
	keys = keys[:min(len(keys), most)]
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult><IsTruncated>%v</IsTruncated><EncodingType>url</EncodingType>", more)
	if more {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", escape(keys[most-1]))
	}
	for _, key := range keys {
		fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", escape(queryEscape(key)), len(s.objects[bucket+"/"+key].data))
	}
	io.WriteString(w, "</ListBucketResult>")
}

func escape(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text))
	return b.String()
}

// queryEscape escapes characters as S3 does for encoding-type=url.
func queryEscape(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if c == '/' || c == '.' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>as asked</Message></Error>", code)
}

// signed signs the request again, and compares.
func (s *Server) signed(r *http.Request, body []byte) bool {
	have := r.Header.Get("Authorization")
	_, names, _ := strings.Cut(have, "SignedHeaders=")
	names, _, _ = strings.Cut(names, ",")
	_, scope, _ := strings.Cut(have, "Credential=")
	parts := strings.Split(scope, "/")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	hash := hex.EncodeToString(sum(sha256.New(), body))
	if err != nil || len(parts) < 5 || hash != r.Header.Get("X-Amz-Content-Sha256") || time.Since(at).Abs() > 15*time.Minute {
		return false
	}
	again := r.Clone(context.Background())
	again.URL.Scheme, again.URL.Host = "http", r.Host
	again.Header = http.Header{}
	for _, name := range strings.Split(names, ";") {
		if values := r.Header.Values(name); len(values) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	err = signer.SignHTTP(r.Context(), s.Keys, again, hash, "s3", parts[2], at)
	return err == nil && again.Header.Get("Authorization") == have
}
