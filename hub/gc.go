package hub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/hub/object"
)

const markKey = "gc/marked.json"

// marked lists what a collection found unreferenced.
type marked struct {
	At   string   `json:"at"`
	Keys []string `json:"keys"`
	// Keys that a collection is deleting. No upload may rely on these.
	Deleting []string `json:"deleting,omitempty"`
	Nonce    string   `json:"nonce"` // no two contents are equal
}

// Collected reports what [Hub.GC] did.
type Collected struct {
	Referenced int64 `json:"referenced"`
	// Objects and slices that no head leads to: how many exist, and how many of them
	// were deleted because an earlier call had found them too.
	Unreferenced int64 `json:"unreferenced"`
	Deleted      int64 `json:"deleted"`
	Bytes        int64 `json:"bytes"` // deleted
}

// GC deletes slices and objects that no head leads to: those of abandoned uploads,
// and packs of replaced manifests. It deletes those that an earlier call, at least
// grace ago, found unreferenced and that still are; the first call only records them.
// An upload that needs an existing object first removes it from that record, and
// fails with [Unreachable] while the object is being deleted. grace must be longer
// than any upload: the slice or manifest that names an object must follow within that
// time. The clocks of the machines that collect must agree within it. Only one GC may
// run at a time; one that died is completed by the next. Errors: [Damaged], [Unreachable], also if an upload changed the record meanwhile;
// nothing is deleted then.
func (h *Hub) GC(ctx context.Context, now time.Time, grace time.Duration) (Collected, error) {
	out := Collected{}
	var before marked
	etag, err := h.getJSON(ctx, markKey, &before)
	if err != nil {
		return out, err
	}
	at, _ := time.Parse(time.RFC3339Nano, before.At)
	if at.After(now) { // of a clock that was ahead; the grace begins again
		at = now
	}
	due := map[string]bool{}
	if !at.IsZero() && now.Sub(at) >= grace {
		for _, key := range before.Keys {
			due[key] = true
		}
	}
	used, err := h.referenced(ctx, strict)
	if err != nil {
		return out, err
	}
	next := marked{At: stamp(now), Keys: []string{}, Nonce: newID()}
	for _, key := range before.Deleting {
		due[key] = true
	}
	var gone []object.Info
	for _, prefix := range []string{"objects/", "stores/", "probe/"} {
		err := h.each(ctx, prefix, func(info object.Info) error {
			switch {
			case used[info.Key] || strings.HasSuffix(info.Key, "/head.json"):
				out.Referenced++
			case due[info.Key]:
				out.Unreferenced++
				gone = append(gone, info)
			default:
				out.Unreferenced++
				next.Keys = append(next.Keys, info.Key)
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	if now.Sub(at) < grace && len(before.Keys) > 0 { // the time of the first find counts
		next.At = stamp(at)
		next.Keys = keep(before.Keys, next.Keys)
	}
	if len(gone) > 0 {
		for _, info := range gone {
			next.Deleting = append(next.Deleting, info.Key)
		}
		if etag, err = h.swap(ctx, markKey, etag, next); err != nil {
			return out, failed(ctx, markKey, err)
		}
		next.Deleting, next.Nonce = nil, newID()
	}
	for _, info := range gone {
		if err := h.remove(ctx, info.Key); err != nil {
			return out, err
		}
		out.Deleted++
		out.Bytes += info.Size
	}
	if _, err := h.swap(ctx, markKey, etag, next); err != nil && (len(gone) > 0 || !errors.Is(err, errLost)) {
		return out, err
	}
	return out, nil
}

// reuse prevents a collection that found existing objects unreferenced from
// deleting them. The error wraps [object.ErrNotFound] if one was deleted before.
func (h *Hub) reuse(ctx context.Context, keys ...string) error {
	if err := h.unmark(ctx, keys); err != nil {
		return err
	}
	for _, key := range keys {
		h.requests++
		list, _, err := h.store.List(ctx, key, "")
		if err != nil {
			return failed(ctx, key, err)
		}
		if len(list) == 0 || list[0].Key != key {
			return &Error{Code: Unreachable, Key: key, Err: object.ErrNotFound, Hint: "it was deleted meanwhile; try again"}
		}
	}
	return nil
}

// unmark removes keys from the record of collections.
func (h *Hub) unmark(ctx context.Context, keys []string) error {
	for range tries {
		var m marked
		etag, err := h.getJSON(ctx, markKey, &m)
		if err != nil || etag == "" {
			return err
		}
		in := func(key string) bool { return slices.Contains(keys, key) }
		if slices.ContainsFunc(m.Deleting, in) {
			return &Error{Code: Unreachable, Key: markKey, Err: errors.New("a collection is deleting an object that is needed again"),
				Hint: "try again when resilient-write hub gc has ended; if it was killed, run it again"}
		}
		if !slices.ContainsFunc(m.Keys, in) {
			return nil
		}
		m.Keys, m.Nonce = slices.DeleteFunc(m.Keys, in), newID()
		if _, err = h.swap(ctx, markKey, etag, m); !errors.Is(err, errLost) {
			return err
		}
	}
	return failed(ctx, markKey, errLost)
}

// keep returns the keys that are in both lists.
func keep(a, b []string) []string {
	in, out := map[string]bool{}, []string{}
	for _, key := range b {
		in[key] = true
	}
	for _, key := range a {
		if in[key] {
			out = append(out, key)
		}
	}
	return out
}

// referenced returns the keys that heads lead to. It continues after the errors that note
// accepts.
func (h *Hub) referenced(ctx context.Context, note func(error) error) (map[string]bool, error) {
	used := map[string]bool{}
	st, err := h.status(ctx, note)
	if err != nil {
		return nil, err
	}
	for _, head := range st.Stores {
		err := h.walk(ctx, head.Slice, func(key string, head sliceHead, _ []byte) error {
			for _, key := range append(h.objectKeys(head), key) {
				used[key] = true
			}
			return nil
		})
		if err := note(err); err != nil {
			return nil, err
		}
	}
	for _, head := range st.Tasks {
		if head.Handoff != nil {
			used[h.objectKey(head.Handoff.SHA256)] = true
		}
		if head.Manifest == "" {
			continue
		}
		used[h.objectKey(head.Manifest)] = true
		m, err := h.manifest(ctx, head)
		if err := note(err); err != nil {
			return nil, err
		}
		for _, f := range m.Files {
			if f.Object {
				used[h.objectKey(f.SHA256.String())] = true
			} else if f.Pack != "" {
				used[h.objectKey(f.Pack)] = true
			}
		}
	}
	return used, nil
}
