package hub

import (
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/hub/object"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/needle"
)

// An erasure in a store ([admin.Operator.Erase]) changes rows and removes versions. Its note
// in the journal makes the shipper write the log again, as a new incarnation. The new
// log has the current rows, and the contents that are still in the store or, if not
// there, in the hub, except those that were erased. The head moves when the new log is
// as long as the old one was. Then the old slices, packs and objects are deleted.

// rewrite starts a new incarnation. If no upload was begun yet, there is nothing to
// rewrite.
func (s *Shipper) rewrite(ctx context.Context, st *state) error {
	newest, err := s.erasure(ctx, st)
	if err != nil {
		return err
	}
	st.Erased = max(st.Erased, newest)
	switch {
	case st.Slice == "" && st.Old == "" && st.Pending == nil:
		return s.keep(st)
	case st.Old == "": // otherwise the new incarnation, which no head names, is abandoned
		st.Old, st.OldSlice, st.Hold = st.Incarnation, st.Slice, st.Seq
	}
	st.Incarnation, st.Seq, st.Chain, st.Slice, st.Pending = newID(), 0, "", "", nil
	st.Withheld, st.NotShipped = 0, 0
	return s.keep(st)
}

// stillThere reports whether the hub has all slices up to the last one, and their objects.
// While no head names the slices of a new incarnation, a collection may delete some of
// them if the erasure is interrupted for a long time.
func (s *Shipper) stillThere(ctx context.Context, last string) (bool, error) {
	var keys []string
	err := s.Hub.walk(ctx, last, func(key string, head sliceHead, _ []byte) error {
		keys = append(keys, key)
		keys = append(keys, s.Hub.objectKeys(head)...)
		return nil
	})
	if err == nil {
		err = s.Hub.reuse(ctx, keys...)
	}
	if lost(err) || errors.Is(err, object.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// objectKeys returns the keys of the objects that a slice refers to.
func (h *Hub) objectKeys(head sliceHead) (keys []string) {
	for _, sha := range slices.Concat(head.Packs, head.Objects) {
		keys = append(keys, h.objectKey(sha))
	}
	return keys
}

// finishRewrite deletes the old incarnation when the head has moved to the new one.
// It may be repeated: the object that names the others is deleted last.
func (s *Shipper) finishRewrite(ctx context.Context, st *state) error {
	if st.Old == "" || st.Seq < st.Hold {
		return nil
	}
	gone, err := s.erasedHere(ctx)
	if err != nil {
		return err
	}
	if err := s.scrub(ctx, func(sha string, _ []byte) bool { return gone[sha] }); err != nil {
		return err
	}
	own := "stores/" + st.Store + "/"
	err = s.Hub.each(ctx, own, func(info object.Info) error {
		if info.Key == headKey(st.Store) || strings.HasPrefix(info.Key, own+st.Incarnation+"/") {
			return nil
		}
		s.removed++
		return s.Hub.remove(ctx, info.Key)
	})
	if err != nil {
		return err
	}
	st.Old, st.OldSlice, st.Hold = "", "", 0
	s.old = nil
	return nil
}

// erasedHere returns the versions that erasures have removed from the store.
func (s *Shipper) erasedHere(ctx context.Context) (map[string]bool, error) {
	gone := map[string]bool{}
	err := s.scanRows(ctx, 0, func(rec *journal.Record) {
		if rec.Note == nil || rec.Note.What != journal.NoteErased {
			return
		}
		for _, c := range rec.Note.Changed {
			if strings.Contains(c.Path, "history/") && c.Now == "" {
				gone[path.Base(c.Path)] = true
			}
		}
	})
	return gone, err
}

// oldObjects finds contents of the replaced incarnation that the store no longer
// has.
type oldObjects struct {
	packReader
	single map[string]bool
	in     map[string]string // pack of a content
	erased map[string]bool
}

// openOld reads the list of contents of the replaced incarnation, once.
func (s *Shipper) openOld(ctx context.Context, st *state) error {
	if st.Old == "" || s.old != nil {
		return nil
	}
	erased, err := s.erasedHere(ctx)
	if err != nil {
		return err
	}
	o := &oldObjects{packReader: packReader{h: s.Hub}, single: map[string]bool{}, in: map[string]string{}, erased: erased}
	var packs []string
	err = s.Hub.each(ctx, path.Dir(sliceKey(st.Store, st.Old, 0, 0))+"/", func(info object.Info) error {
		head, _, _, err := s.Hub.getSlice(ctx, info.Key)
		packs = append(packs, head.Packs...)
		for _, sha := range head.Objects {
			o.single[sha] = true
		}
		return unlessLost(err)
	})
	for _, sha := range packs {
		if err != nil {
			return err
		}
		var items map[string][]byte
		items, err = s.Hub.readPack(ctx, sha)
		err = unlessLost(err)
		for name := range items {
			o.in[name] = sha
		}
	}
	if err == nil {
		s.old = o
	}
	return err
}

// content returns nil for a content that the old incarnation does not have any more or
// that was erased.
func (o *oldObjects) content(ctx context.Context, sha string) (data []byte, err error) {
	switch {
	case o == nil || o.erased[sha]:
		return nil, nil
	case o.single[sha]:
		if data, err = o.h.getObject(ctx, sha); lost(err) {
			return nil, nil
		}
		return data, err
	case o.in[sha] == "":
		return nil, nil
	}
	data, _, err = o.packReader.content(ctx, o.in[sha], sha)
	return data, err
}

// Erased reports what an erasure removed from a hub.
type Erased struct {
	// Slices, packs, objects and manifests that were deleted.
	Deleted int `json:"deleted"`
	// Tasks whose manifest was rewritten without the erased contents.
	Tasks []string `json:"tasks"`
	// Slices and objects of other stores that hold the secret, or that are damaged or
	// lost: their machines must erase it. At most 1000.
	Left []string `json:"left"`
}

// Erase applies the erasures of this store to the hub, as every [Shipper.Ship] does.
// With a secret it also searches the contents in the hub for it, in the encodings that
// [admin.Operator.Erase] knows. It deletes those that hold the secret from the log of this
// store and from the manifests of all tasks. Erase the secret from the store first:
// rows are shipped as the journal has them. Logs of other stores that hold it are
// reported, and copies that other machines have fetched are out of reach. What the hub has
// lost does not keep the rest from being erased; if slices of this store are lost or damaged,
// or objects are lost, its log is written again; if objects of its task are, the task has to be
// published again. Errors: those of [Shipper.Ship];
// [ErrSecret].
func (s *Shipper) Erase(ctx context.Context, secret []byte) (Erased, error) {
	out := Erased{Tasks: []string{}, Left: []string{}}
	s.removed, s.rewritten = 0, nil
	if len(secret) > 0 {
		n, err := needle.New(secret)
		if err != nil {
			return out, ErrSecret
		}
		s.bad = n.Within
		defer func() { s.bad = nil }()
	}
	if _, err := s.Ship(ctx); err != nil && !IsCode(err, Fenced) {
		return out, err
	}
	st, err := loadState(s.Store)
	if err != nil {
		return out, err
	}
	if whole, err := s.stillThere(ctx, st.Slice); err != nil {
		return out, err
	} else if !whole {
		if err := s.rewriteFor(ctx); err != nil {
			return out, err
		}
	}
	if err := s.holding(ctx, func() error { return s.forgetLost(ctx) }); err != nil {
		return out, err
	}
	if s.bad != nil {
		if err := s.eraseContents(ctx, st.Store, &out); err != nil {
			return out, err
		}
	}
	out.Deleted, out.Tasks = s.removed, append(out.Tasks, s.rewritten...)
	return out, nil
}

// forgetLost takes the manifest from the task of this store if the hub has lost objects of it:
// the next one does not rely on them.
func (s *Shipper) forgetLost(ctx context.Context) error {
	st, err := loadState(s.Store)
	if err != nil {
		return err
	}
	head, etag, err := s.held(ctx, st)
	if IsCode(err, Fenced) {
		return nil
	}
	v := &verifier{h: s.Hub, out: &Verified{}, packs: map[string]map[string]bool{}}
	if err == nil {
		err = v.note(v.task(ctx, head))
	}
	if err != nil || len(v.out.Problems) == 0 {
		return unlessLost(err)
	}
	head.Manifest = ""
	if _, err = s.swapTask(ctx, etag, &head); errors.Is(err, errLost) {
		err = failed(ctx, s.Hub.taskKey(head.Task), err)
	}
	return err
}

// eraseContents rewrites the log of this store if it holds the secret.
func (s *Shipper) eraseContents(ctx context.Context, store string, out *Erased) error {
	held, err := s.Hub.holders(ctx, s.bad)
	if err != nil {
		return err
	}
	if len(held[store]) > 0 {
		if err := s.rewriteFor(ctx); err != nil {
			return err
		}
		if held, err = s.Hub.holders(ctx, s.bad); err != nil {
			return err
		}
	}
	err = s.scrub(ctx, func(_ string, data []byte) bool { return s.bad(data) })
	for _, keys := range held {
		out.Left = append(out.Left, keys...)
	}
	slices.Sort(out.Left)
	out.Left = out.Left[:min(len(out.Left), maxListed)]
	return err
}

// rewriteFor is rewrite without a note in the journal, and the shipment of the new log.
func (s *Shipper) rewriteFor(ctx context.Context) error {
	err := s.holding(ctx, func() error {
		st, err := loadState(s.Store)
		if err != nil {
			return err
		}
		return s.rewrite(ctx, st)
	})
	if err == nil {
		_, err = s.Ship(ctx)
	}
	if IsCode(err, Fenced) {
		return nil
	}
	return err
}

// ErrSecret is returned for a secret that is too short, or too uniform, to be
// searched for.
var ErrSecret = errors.New("the secret is too short or too uniform to be searched for")

// holders returns the slices, packs and objects of logs that hold bad content, by
// store.
func (h *Hub) holders(ctx context.Context, bad func([]byte) bool) (map[string][]string, error) {
	out := map[string][]string{}
	status, err := h.status(ctx, unlessLost)
	if err != nil {
		return nil, err
	}
	for _, head := range status.Stores {
		held := func(key string, data []byte, err error) error {
			if lost(err) || err == nil && bad(data) {
				out[head.Store] = append(out[head.Store], key)
			}
			return unlessLost(err)
		}
		err := h.walk(ctx, head.Slice, func(key string, slice sliceHead, raw []byte) error {
			data, err := unpack(key, raw)
			err = held(key, data, err)
			for _, sha := range slices.Concat(slice.Packs, slice.Objects) {
				if err == nil {
					data, err = h.getObject(ctx, sha)
					err = held(h.objectKey(sha), data, err)
				}
			}
			return err
		})
		if err := held(head.Slice, nil, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scrub removes bad contents from the manifests of all tasks.
func (s *Shipper) scrub(ctx context.Context, bad func(sha string, data []byte) bool) error {
	status, err := s.Hub.status(ctx, unlessLost)
	if err != nil {
		return err
	}
	for _, head := range status.Tasks {
		for range tries {
			var done bool
			if done, err = s.Hub.scrubTask(ctx, head.Task, bad); !errors.Is(err, errLost) {
				if done && !slices.Contains(s.rewritten, head.Task) {
					s.rewritten = append(s.rewritten, head.Task)
				}
				break
			}
		}
		if err != nil {
			return err
		}
	}
	// Bad objects that are no longer referenced are deleted now, not by the next GC.
	used, err := s.Hub.referenced(ctx, unlessLost)
	if err != nil {
		return err
	}
	return s.Hub.each(ctx, "objects/", func(info object.Info) error {
		if used[info.Key] {
			return nil
		}
		data, err := s.Hub.objectAt(ctx, info.Key)
		items := map[string][]byte{}
		if err == nil {
			if items, err = parsePack(info.Key, data); err != nil {
				items, err = map[string][]byte{hashOf(data): data}, nil
			}
		}
		for name, data := range items {
			if err == nil && bad(name, data) {
				s.removed++
				return s.Hub.remove(ctx, info.Key)
			}
		}
		return unlessLost(err)
	})
}

// scrubTask writes the manifest of a task without bad contents. done is false if
// it has none.
func (h *Hub) scrubTask(ctx context.Context, task string, bad func(sha string, data []byte) bool) (done bool, err error) {
	head, etag, err := h.taskHead(ctx, h.taskKey(task))
	if err != nil || etag == "" || head.Manifest == "" {
		return false, err
	}
	m, err := h.manifest(ctx, head)
	if err != nil {
		return false, unlessLost(err)
	}
	seen, hit := map[string]bool{}, map[string]bool{} // packs; bad contents
	var gone []string
	for _, f := range m.Files {
		sha := f.SHA256.String()
		items := map[string][]byte{}
		key := h.objectKey(f.Pack)
		switch {
		case f.Object:
			key = h.objectKey(sha)
			items[sha], err = h.getObject(ctx, sha)
		case f.Pack != "" && !seen[f.Pack]:
			items, err = h.readPack(ctx, f.Pack)
			seen[f.Pack] = true
		}
		if unlessLost(err) != nil {
			return false, err
		}
		for name, data := range items {
			if err == nil && bad(name, data) {
				hit[name] = true
				gone = append(gone, key)
			}
		}
		if bad("", []byte(f.Path)) {
			hit[f.Path] = true
		}
	}
	if held, err := h.scrubHandoff(ctx, head.Handoff, bad); err != nil {
		return false, err
	} else if held != "" {
		gone = append(gone, held)
	}
	names := len(m.Withheld) + len(m.Dirs)
	m.Dirs = slices.DeleteFunc(m.Dirs, func(d admin.TreeDir) bool { return bad("", []byte(d.Path)) })
	m.Withheld = slices.DeleteFunc(m.Withheld, func(w Withheld) bool { return bad("", []byte(w.Path)) })
	if len(gone)+len(hit) == 0 && len(m.Withheld)+len(m.Dirs) == names {
		return false, nil
	}
	gone = append(gone, h.objectKey(head.Manifest))
	if err := h.repack(ctx, &m, hit, gone); err != nil {
		return false, err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return false, err
	}
	if head.Manifest, err = h.putObject(ctx, data); err != nil {
		return false, err
	}
	head.Nonce = newID()
	_, err = h.swap(ctx, h.taskKey(task), etag, head)
	return err == nil, err
}

// scrubHandoff withholds a bad handoff, and returns its key in that case.
func (h *Hub) scrubHandoff(ctx context.Context, ref *HandoffRef, bad func(sha string, data []byte) bool) (key string, err error) {
	if ref == nil || ref.SHA256 == "" {
		return "", nil
	}
	data, err := h.getObject(ctx, ref.SHA256)
	if err != nil || !bad(ref.SHA256, data) {
		return "", unlessLost(err)
	}
	key = h.objectKey(ref.SHA256)
	ref.SHA256, ref.Withheld = "", true
	return key, nil
}

// repack moves the files of a manifest that are not bad out of the packs that
// will be deleted.
func (h *Hub) repack(ctx context.Context, m *Manifest, hit map[string]bool, gone []string) error {
	p, r := &packer{h: h}, packReader{h: h}
	files := make([]ManifestFile, 0, len(m.Files))
	for _, f := range m.Files {
		sha := f.SHA256.String()
		if hit[f.Path] {
			continue
		}
		if hit[sha] {
			m.Withheld = append(m.Withheld, Withheld{Path: f.Path, Reason: "erased"})
			continue
		}
		files = append(files, f)
		if f.Pack == "" || !slices.Contains(gone, h.objectKey(f.Pack)) {
			continue
		}
		data, _, err := r.content(ctx, f.Pack, sha)
		if err != nil {
			return err
		}
		to := &files[len(files)-1]
		if err := p.add(ctx, sha, data, func(pack string) { to.Pack = pack }); err != nil {
			return err
		}
	}
	m.Files = files
	return p.flush(ctx)
}
