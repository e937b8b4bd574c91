package scratch

import (
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// checkRef validates the two ways to name an object.
func checkRef(sha, label string) *fault.Fault {
	if sha == "" && label == "" {
		return fault.New(fault.MustProvideRef)
	}
	return fault.CheckText("label", label, maxLabel)
}

func notFound() *fault.Fault {
	return fault.New(fault.NotFound).Hintf("the scratchpad has no such object; Store.ScratchList lists the objects")
}

// Ref returns the newest entry with a hash, a label or both, and the number of such
// entries.
func (s *Layer) Ref(sha, label string) (newest Entry, aliases int, err error) {
	if e := checkRef(sha, label); e != nil {
		return newest, 0, e
	}
	pad, err := s.Open()
	if err != nil {
		return newest, 0, err
	}
	for e := range pad.matching(sha, label) {
		if aliases++; aliases == 1 {
			newest = e
		}
	}
	if aliases == 0 {
		return newest, 0, notFound()
	}
	return newest, aliases, nil
}

// maxRead exceeds the limit of a put, because another program may have stored the
// object.
const maxRead = 4 * MaxObject

// Get returns the bytes of an object, after comparing them with their hash, and its
// newest entry.
func (s *Layer) Get(sha string) (Entry, []byte, error) {
	if sha == "" {
		return Entry{}, nil, fault.New(fault.BadSHA256).With("argument", "sha256")
	}
	pad, err := s.Open()
	if err != nil {
		return Entry{}, nil, err
	}
	entry, ok := pad.Find(sha, "")
	if !ok || !entry.BinExists {
		return entry, nil, notFound()
	}
	content, err := s.ReadPart(Dir, BinName(sha), maxRead)
	if engine.IsAbsent(err) {
		return entry, nil, notFound()
	}
	if err == nil && engine.HashOf(content) != sha {
		err = fault.New(fault.HashDriftOnRead).With("sha256", sha).Hintf("the stored bytes were changed on disk; store the original bytes again to repair the object, or delete it")
	}
	return entry, content, err
}

// DefaultList is the number of entries that a list has if the caller sets no limit.
const DefaultList = 100

// Listing is a part of the entries, newest first, and what is known of all.
type Listing struct {
	*Pad
	Entries []Entry
	Count   int // entries that match
	Removed int // expired objects that were removed
}

// List lists the entries with a label, or all. expire removes expired objects and
// returns their number.
func (s *Layer) List(label string, limit, offset int, expire func() int) (Listing, error) {
	var out Listing
	if e := fault.CheckText("label", label, maxLabel); e != nil {
		return out, e
	}
	if limit < 0 || offset < 0 || limit > 10*DefaultList {
		return out, fault.New(fault.InvalidArgument).Hintf("limit must be 0 to %d and offset must not be negative", 10*DefaultList)
	}
	pad, err := s.Open()
	if err != nil {
		return out, err
	}
	malformed, rebuilt := pad.Malformed, pad.Rebuilt
	if len(pad.Over("")) > 0 && !s.Opts.ReadOnly && !s.Poisoned.Load() {
		out.Removed = expire()
		if pad, err = s.Open(); err != nil {
			return out, err
		}
		pad.Malformed, pad.Rebuilt = malformed, rebuilt
	}
	if out.Pad = pad; limit == 0 {
		limit = DefaultList
	}
	for e := range pad.matching("", label) {
		if out.Count++; out.Count > offset && len(out.Entries) < limit {
			out.Entries = append(out.Entries, e)
		}
	}
	return out, nil
}
