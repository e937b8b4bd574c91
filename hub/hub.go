// Package hub ships the journal, the versions and the state of tasks of stores on many machines to
// one object store, exactly once, and lets another machine resume a task with the same files.
// docs/hub.md describes it for operators.
//
// The object store, with its conditional writes, is the only thing that machines share (package
// object). In it the hub has these keys:
//
//	stores/<store>/<incarnation>/log/<first>-<last>.jsonl.zst  a slice: journal rows, byte for byte
//	stores/<store>/head.json      Head: how far the log of a store reaches, and its last slice
//	objects/<aa>/<sha256>         contents, packs of small contents, manifests; compressed, named by the bytes
//	tasks/<task>/head.json        TaskHead: lease, manifest, handoff, and the rows that belong to the task
//	gc/marked.json                what the last GC found unreferenced
//	keys/check.age                in an encrypted hub: which keys it has
//
// Slices and objects are only added; heads are compared and swapped. Each slice names the previous
// one, so a reader follows the chain from the head. Slices outside the chain, left by a crash or a
// copy of the store, are ignored.
package hub

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hub/object"
)

// The codes of an [Error].
const (
	// Forked: the log in the hub and the journal do not continue each other. A copy of
	// the store has shipped, or the store or the hub was restored from a backup.
	// Nothing was shipped; the store itself remains usable.
	Forked = "hub_forked"
	// Fenced: another machine has taken over the task. Rows after that do not belong to
	// it.
	Fenced = "hub_fenced"
	// Leased: another machine works on the task.
	Leased = "hub_leased"
	// NotFound: the hub has no such task, store, manifest or object.
	NotFound = "hub_not_found"
	// NeedsBase: the bytes of some files are in git only; the directory must be a
	// checkout of the commit that the hint names.
	NeedsBase = "hub_needs_base"
	// Damaged: an object does not match its name or cannot be decoded.
	Damaged = "hub_damaged"
	// Unreachable: the object store could not be read or written.
	Unreachable = "hub_unreachable"
	// Unusable: the object store lacks what the hub relies on, refuses the credentials,
	// or is not named. Waiting does not help.
	Unusable = "hub_unusable"
	// Locked: the hub is encrypted with keys other than those that were given, or is
	// not encrypted although keys were given.
	Locked = "hub_locked"
)

// Error is the error type of this package. Errors of the store are [rw.Error].
type Error struct {
	Code string // one of the constants
	Key  string // key in the hub, if the error is about one
	Hint string // what to do
	Err  error
}

func (e *Error) Error() string {
	text := e.Code
	if e.Key != "" {
		text += " " + e.Key
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Exit is the exit code of a program that ends with the error.
func (e *Error) Exit() rw.Code {
	switch e.Code {
	case NotFound:
		return rw.CodeNotFound
	case Forked, Fenced, Leased, NeedsBase:
		return rw.CodePrecondition
	case Locked:
		return rw.CodePermission
	}
	return rw.CodeStorage
}

// IsCode reports whether err is an [Error] with the code.
func IsCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Head is what stores/<store>/head.json holds.
type Head struct {
	Version     int    `json:"version"`
	Store       string `json:"store"`
	Incarnation string `json:"incarnation"`
	Label       string `json:"label,omitempty"` // name of the store for people
	Seq         uint64 `json:"seq"`             // the newest row
	Chain       string `json:"chain"`           // its hash
	Slice       string `json:"slice"`           // key of the slice that ends with it
	At          string `json:"at"`
	Note        string `json:"note,omitempty"` // why there is a new incarnation
}

// Withheld is a file whose bytes did not leave the machine.
type Withheld struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Reason string `json:"reason"` // findings, ignored, too_large, not_kept, erased
	// Families of the gate's findings.
	Kinds []string `json:"kinds,omitempty"`
}

// sliceHead is the first line of a slice. An export of the rows follows.
type sliceHead struct {
	Format      string     `json:"format"`
	Version     int        `json:"version"`
	Store       string     `json:"store"`
	Incarnation string     `json:"incarnation"`
	First       uint64     `json:"first"`
	Last        uint64     `json:"last"`
	Prev        string     `json:"prev,omitempty"` // key of the previous slice
	Task        string     `json:"task,omitempty"` // task of the store
	Epoch       uint64     `json:"epoch,omitempty"`
	Packs       []string   `json:"packs,omitempty"`
	Objects     []string   `json:"objects,omitempty"`
	Withheld    []Withheld `json:"withheld,omitempty"`
	NotShipped  []Withheld `json:"not_shipped,omitempty"` // bytes that no longer existed when they were to be shipped
}

const (
	sliceFormat    = "resilientwrite.hub-slice"
	packFormat     = "resilientwrite.hub-pack"
	manifestFormat = "resilientwrite.hub-manifest"
	version        = 1

	packedBytes = 256 << 10      // objects up to this size share one object
	packBytes   = 16 << 20       // of one pack
	maxDecoded  = object.MaxSize // of any object or slice: a row alone may have more than [journal.MaxManifest] bytes
)

func headKey(store string) string { return "stores/" + store + "/head.json" }

func sliceKey(store, incarnation string, first, last uint64) string {
	return fmt.Sprintf("stores/%s/%s/log/%020d-%020d.jsonl.zst", store, incarnation, first, last)
}

// objectKey returns the key of the content with a digest.
func (h *Hub) objectKey(sha string) string {
	if h.keys != nil {
		sha = h.keys.name("object", sha)
	}
	return "objects/" + sha[:min(2, len(sha))] + "/" + sha
}

// taskKey returns the key of a task. An id that is not a valid segment is replaced
// and carries a part of its hash, so that two tasks have two keys.
func (h *Hub) taskKey(task string) string {
	if h.keys != nil {
		return "tasks/" + h.keys.name("task", task) + "/head.json"
	}
	var b strings.Builder
	for _, r := range task {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	name := b.String()
	if name != task || len(name) > 80 {
		name = name[:min(len(name), 60)] + "." + hashOf([]byte(task))[:12]
	}
	return "tasks/" + name + "/head.json"
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func newID() string { return strings.ToLower(rand.Text())[:16] }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Codecs are safe for concurrent use. The fastest level is used: it compresses a
// slice of rows to about a sixth, and the object store is slower than that.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxDecoded), zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
)

const unsized = 255 // bytes up to which the encoder does not state the size

func pack(data []byte) []byte { return encoder.EncodeAll(data, nil) }

// unpack returns what [pack] was given. An object takes no more memory than it says at its
// beginning.
func unpack(key string, data []byte) ([]byte, error) {
	var frame zstd.Header
	err := frame.Decode(data)
	if !frame.HasFCS {
		frame.FrameContentSize = unsized
	}
	var out []byte
	if err == nil && frame.FrameContentSize > maxDecoded {
		err = zstd.ErrDecoderSizeExceeded
	}
	if err == nil {
		out, err = decoder.DecodeAll(data, make([]byte, 0, frame.FrameContentSize))
	}
	if err != nil {
		return nil, &Error{Code: Damaged, Key: key, Err: err, Hint: "the object was changed or cut off; run resilient-write hub verify"}
	}
	return out, nil
}

// Hub is one object store.
type Hub struct {
	store    object.Store
	keys     *Keys // nil: nothing is encrypted
	requests int64 // number of requests made, for benchmarks
}

// New uses an object store as a hub. With keys everything in it is encrypted; with
// nil nothing is. An empty object store becomes either. Errors: [Locked] for a hub
// with other keys, [Damaged], [Unreachable], [Unusable].
func New(ctx context.Context, s object.Store, keys *Keys) (*Hub, error) {
	h := &Hub{store: s, keys: keys}
	return h, h.unlock(ctx)
}

// Open opens the object store that url names, as [object.Open] does, and uses it as
// [New] does. Errors: those of New.
func Open(ctx context.Context, url string, keys *Keys) (*Hub, error) {
	s, err := object.Open(ctx, url)
	if err != nil {
		return nil, failed(ctx, "", err)
	}
	h, err := New(ctx, s, keys)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Close closes the object store.
func (h *Hub) Close() error {
	if c, ok := h.store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// lost reports whether err says that the hub does not have an object any more, or not as
// it was.
func lost(err error) bool { return IsCode(err, Damaged) || IsCode(err, NotFound) }

// unlessLost returns the errors that say nothing of what the hub has.
func unlessLost(err error) error {
	if lost(err) {
		return nil
	}
	return err
}

// failed returns the error of a failed request, with a hint how to repair it.
func failed(ctx context.Context, key string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &Error{Code: Unreachable, Key: key, Err: err, Hint: "check the network and the object store, and try again; local work continues"}
	var own *Error
	var answer *object.StatusError
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, errLost):
		e.Hint = "another machine changed the hub at the same time; try again"
	case errors.Is(err, object.ErrAddress):
		e.Code, e.Hint = Unusable, "name a local directory, or s3://bucket/prefix?endpoint=https://host"
	case errors.Is(err, object.ErrUnfit):
		e.Code, e.Hint = Unusable, "use an object store with conditional writes, or a directory of a local file system"
	case errors.Is(err, object.ErrKey):
		e.Code, e.Hint = Damaged, "another program changed the hub; run resilient-write hub verify"
	case errors.Is(err, object.ErrTooLarge):
		e.Code, e.Hint = Damaged, "no object of a hub is that large; another program wrote it: delete it, and run resilient-write hub verify"
	case errors.As(err, &answer) && answer.Hint() != "":
		e.Code, e.Hint = Unusable, answer.Hint()
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		e.Code, e.Hint = Unusable, "let this user read and write the directory of the hub"
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		e.Hint = "free space on the disk of the hub, and try again; local work continues"
	}
	return e
}

// get returns an object. ErrNotFound of package object is returned unchanged.
func (h *Hub) get(ctx context.Context, key string) (data []byte, etag string, err error) {
	h.requests++
	data, etag, err = h.store.Get(ctx, key)
	if errors.Is(err, object.ErrNotFound) {
		return nil, "", err
	}
	if err != nil {
		return nil, "", failed(ctx, key, err)
	}
	data, err = h.keys.open(key, data)
	return data, etag, err
}

// getJSON reads a head. The etag of an absent head is "".
func (h *Hub) getJSON(ctx context.Context, key string, v any) (etag string, err error) {
	data, etag, err := h.get(ctx, key)
	if errors.Is(err, object.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return "", &Error{Code: Damaged, Key: key, Err: err, Hint: "the head was written by another program or a newer version"}
	}
	return etag, nil
}

// head reads the head of a store's log. The etag of an absent one is "".
func (h *Hub) head(ctx context.Context, store string) (head Head, etag string, err error) {
	key := headKey(store)
	etag, err = h.getJSON(ctx, key, &head)
	if err == nil && etag != "" && (head.Version != version || head.Store != store || head.Seq == 0 || head.Chain == "" ||
		path.Dir(head.Slice) != path.Dir(sliceKey(store, head.Incarnation, 0, 0))) {
		err = forged(key, "it is not the head of this log")
	}
	return head, etag, err
}

// taskHead reads the head of a task from its key. The etag of an absent one is "".
func (h *Hub) taskHead(ctx context.Context, key string) (head TaskHead, etag string, err error) {
	etag, err = h.getJSON(ctx, key, &head)
	if err != nil || etag == "" {
		return head, etag, err
	}
	if n := len(head.Epochs); head.Version != version || h.taskKey(head.Task) != key || n == 0 ||
		head.Epochs[n-1].Epoch != head.Lease.Epoch || head.Epochs[n-1].Store != head.Lease.Holder {
		err = forged(key, "it is not the head of this task")
	}
	return head, etag, err
}

// forged returns the error of something in the hub that is not what its key says.
func forged(key, text string) error {
	return &Error{Code: Damaged, Key: key, Err: errors.New(text), Hint: "it was changed, or written by a newer version; run resilient-write hub verify"}
}

// tries is how often a head that other machines change is read again. Failed requests
// are repeated by package object, within one allowance for each call.
const tries = 5

// put creates an object whose name identifies its content, unless it exists.
func (h *Hub) put(ctx context.Context, key string, data []byte) (made bool, err error) {
	if data, err = h.keys.seal(data); err != nil {
		return false, err
	}
	within, done := object.WithAllowance(ctx, len(data))
	defer done()
	for {
		h.requests++
		_, err = h.store.PutIfAbsent(within, key, data)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, object.ErrExists):
			return false, nil
		case !errors.Is(err, object.ErrUncertain) || !object.Again(within):
			return false, failed(ctx, key, err)
		}
	}
}

// errLost is returned by swap if the object has changed.
var errLost = errors.New("the object was changed meanwhile")

// swap replaces a head. If the outcome is not known, it reads the current
// content: no two contents of a head are equal.
func (h *Hub) swap(ctx context.Context, key, etag string, v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	text, err := h.keys.seal(data)
	if err != nil {
		return "", err
	}
	within, done := object.WithAllowance(ctx, len(text))
	defer done()
	for {
		h.requests++
		next, err := h.store.CompareAndSwap(within, key, etag, text)
		switch {
		case err == nil:
			return next, nil
		case !errors.Is(err, object.ErrUncertain) && !errors.Is(err, object.ErrChanged):
			return "", failed(ctx, key, err)
		}
		// A request that a lower layer sent twice may have succeeded the first time.
		have, now, gerr := h.get(within, key)
		switch {
		case gerr != nil && !errors.Is(gerr, object.ErrNotFound):
			return "", failed(ctx, key, gerr)
		case gerr == nil && bytes.Equal(have, data):
			return now, nil
		case errors.Is(err, object.ErrChanged):
			return "", errLost
		case !object.Again(within):
			return "", failed(ctx, key, err)
		}
	}
}

// putObject stores some bytes as an object and returns its name.
func (h *Hub) putObject(ctx context.Context, data []byte) (string, error) {
	sha := hashOf(data)
	return sha, h.putShared(ctx, h.objectKey(sha), pack(data))
}

// putShared is put for an object that another upload may have created before: a
// collection will not delete it.
func (h *Hub) putShared(ctx context.Context, key string, data []byte) error {
	made, err := h.put(ctx, key, data)
	if made || err != nil {
		return err
	}
	return h.reuse(ctx, key)
}

// getObject returns the bytes of an object, verified.
func (h *Hub) getObject(ctx context.Context, sha string) ([]byte, error) {
	return h.objectAt(ctx, h.objectKey(sha))
}

// objectAt is like getObject, but takes the key.
func (h *Hub) objectAt(ctx context.Context, key string) ([]byte, error) {
	data, _, err := h.get(ctx, key)
	if errors.Is(err, object.ErrNotFound) {
		return nil, &Error{Code: NotFound, Key: key, Err: err, Hint: "the hub lost the object, or it was erased; run resilient-write hub verify"}
	}
	if err != nil {
		return nil, err
	}
	if data, err = unpack(key, data); err == nil && h.objectKey(hashOf(data)) != key {
		err = &Error{Code: Damaged, Key: key, Err: errors.New("it does not hold what its name says"), Hint: "run resilient-write hub verify"}
	}
	return data, err
}

// each calls fn for every key with a prefix, in order.
func (h *Hub) each(ctx context.Context, prefix string, fn func(object.Info) error) error {
	for after := ""; ; {
		h.requests++
		list, more, err := h.store.List(ctx, prefix, after)
		if err != nil {
			return failed(ctx, prefix, err)
		}
		for _, info := range list {
			if err := fn(info); err != nil {
				return err
			}
			after = info.Key
		}
		if !more || len(list) == 0 {
			return nil
		}
	}
}

// below lists the segments that follow a prefix, with one request for each.
func (h *Hub) below(ctx context.Context, prefix string) (names []string, err error) {
	for after := ""; ; {
		h.requests++
		list, _, err := h.store.List(ctx, prefix, after)
		if err != nil {
			return nil, failed(ctx, prefix, err)
		}
		if len(list) == 0 {
			return names, nil
		}
		name, _, ok := strings.Cut(strings.TrimPrefix(list[0].Key, prefix), "/")
		if after = list[0].Key; ok {
			names = append(names, name)
			after = prefix + name + "/~" // after every key below it
		}
	}
}

// remove deletes an object.
func (h *Hub) remove(ctx context.Context, key string) error {
	h.requests++
	if err := h.store.Delete(ctx, key); err != nil {
		return failed(ctx, key, err)
	}
	return nil
}
