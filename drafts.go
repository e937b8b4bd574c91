package resilientwrite

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Drafts that the gate refused lie in quarantine/, each as two files: the
// bytes, and what is known of them. The bytes come first and the facts name
// their hash, so a draft that a crash cut off is none and is swept.

const (
	draftPrefix   = "draft_"
	draftBytes    = ".bin"
	draftFacts    = ".json"
	draftAge      = 7 * 24 * time.Hour
	maxDrafts     = 100
	maxDraftBytes = 256 << 20 // of all drafts
	maxOneDraft   = 64 << 20
	factsLimit    = 64 << 10
)

// Draft is a draft that the gate refused.
type Draft struct {
	DraftRef  string   `json:"draft_ref" desc:"Identifier of the draft."`
	Path      string   `json:"path" desc:"Intended path, relative to the workspace."`
	Op        string   `json:"op" desc:"The verb that was refused."`
	Mode      string   `json:"mode" desc:"The intended mode of the write."`
	SHA256    string   `json:"sha256" desc:"SHA-256 of the draft."`
	Bytes     int64    `json:"bytes" desc:"Size of the draft in bytes."`
	Patterns  []string `json:"patterns" desc:"Families of the findings, sorted."`
	Caller    string   `json:"caller" desc:"Caller whose draft it is."`
	CreatedAt string   `json:"created_at" desc:"When it was last refused, RFC 3339 UTC."`
	ExpiresAt string   `json:"expires_at" desc:"When it expires, RFC 3339 UTC."`
}

// keepDraft saves the content of a refused mutation and returns its name. The
// same content for the same path has one name, so that a caller who tries
// again does not fill the disk.
func (s *Store) keepDraft(c *commit, m *engine.Mutation, patterns []string) (string, error) {
	if m.Content.Size() > maxOneDraft {
		return "", fault.New(fault.TooLarge)
	}
	d, _, err := m.MeasureBody()
	if err != nil {
		return "", err
	}
	sum := d.Hex()
	ref := draftPrefix + engine.HashOf([]byte(m.Path + "\x00" + sum))[:32]
	now := c.s.engine.Now().UTC()
	facts := Draft{
		DraftRef: ref, Path: m.Path, Op: c.Req.Op, Mode: string(m.Op), SHA256: sum, Bytes: m.Content.Size(),
		Patterns: patterns, Caller: c.Req.Caller,
		CreatedAt: now.Format(engine.TimeFormat), ExpiresAt: now.Add(draftAge).Format(engine.TimeFormat),
	}
	return ref, s.engine.Alone("quarantine", func() error {
		if err := s.trimDrafts(ref, facts.Bytes); err != nil {
			return err
		}
		return s.writeDraft(facts, m.Content.Reader())
	})
}

func (s *Store) writeDraft(d Draft, src io.Reader) error {
	dir, err := s.engine.OpenPart("quarantine")
	if err != nil {
		return err
	}
	defer dir.Close()
	// Bytes that are there already may be what a crash left of them.
	if err := durable.WriteStream(dir, d.DraftRef+draftBytes, src); err != nil {
		return err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return durable.WriteFile(dir, d.DraftRef+draftFacts, data, 0o600)
}

// drafts lists the drafts that are whole, oldest first.
func (s *Store) drafts() ([]Draft, error) {
	dir, err := s.draftDir()
	if dir == nil || err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	var list []Draft
	for _, name := range names {
		ref, ok := strings.CutSuffix(name, draftFacts)
		if !ok || !strings.HasPrefix(ref, draftPrefix) {
			continue
		}
		if d, err := readFacts(dir, ref); err == nil {
			list = append(list, d)
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].CreatedAt < list[j].CreatedAt })
	return list, nil
}

// draftDir opens quarantine/; nil when there is none.
func (s *Store) draftDir() (fsx.Dir, error) {
	if s.engine.Disk.State == nil {
		return nil, nil
	}
	dir, err := s.engine.Disk.State.OpenDir("quarantine")
	if engine.IsAbsent(err) {
		return nil, nil
	}
	return dir, err
}

func readFacts(dir fsx.Dir, ref string) (Draft, error) {
	var d Draft
	data, err := durable.ReadFile(dir, ref+draftFacts, factsLimit)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(data, &d); err != nil || d.DraftRef != ref {
		return d, fault.New(fault.HashDriftOnRead)
	}
	if d.Patterns == nil {
		d.Patterns = []string{}
	}
	return d, nil
}

// trimDrafts removes what is too old, and the oldest until there is room for
// the draft incoming; "" for none.
func (s *Store) trimDrafts(incoming string, room int64) error {
	list, err := s.drafts()
	if err != nil || len(list) == 0 {
		return err
	}
	dir, err := s.draftDir()
	if err != nil {
		return err
	}
	defer dir.Close()
	sum, left := room, 0
	if incoming != "" {
		left = 1
	}
	for _, d := range list {
		if d.DraftRef != incoming {
			sum += d.Bytes
			left++
		}
	}
	now := s.engine.Now().UTC().Format(engine.TimeFormat)
	for _, d := range list {
		if d.DraftRef == incoming || d.ExpiresAt > now && sum <= maxDraftBytes && left <= maxDrafts {
			continue
		}
		if err := removeDraft(dir, d.DraftRef); err != nil {
			return err
		}
		sum -= d.Bytes
		left--
	}
	return nil
}

// removeDraft takes the facts away first: what is left without them is swept.
func removeDraft(dir fsx.Dir, ref string) error {
	for _, name := range []string{ref + draftFacts, ref + draftBytes} {
		if err := dir.Remove(name); err != nil && !engine.IsAbsent(err) {
			return err
		}
	}
	return dir.Sync()
}

// sweepDrafts removes what expired and what a crash left half.
func (s *Store) sweepDrafts() error {
	dir, err := s.draftDir()
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	if err := s.trimDrafts("", 0); err != nil {
		return err
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, draftPrefix) {
			continue
		}
		ref, ok := strings.CutSuffix(name, draftBytes)
		if strings.HasSuffix(name, durable.TempSuffix) {
			err = dir.Remove(name)
		} else if st, lerr := dir.Lstat(ref + draftFacts); ok && (engine.IsAbsent(lerr) || s.unreadable(dir, ref, st)) {
			err = removeDraft(dir, ref)
		}
		if err != nil && !engine.IsAbsent(err) {
			return err
		}
	}
	return nil
}

// unreadable reports whether the facts of a draft cannot be read and are older
// than a draft can be.
func (s *Store) unreadable(dir fsx.Dir, ref string, st fsx.Stat) bool {
	_, err := readFacts(dir, ref)
	return err != nil && s.engine.Now().Sub(time.Unix(0, st.Mtime)) > draftAge
}

// DraftListRequest asks which refused drafts are kept.
type DraftListRequest struct{}

// DraftListResult lists refused drafts.
type DraftListResult struct {
	Drafts []Draft `json:"drafts" desc:"The drafts, newest first, without their content."`
	Count  int     `json:"count" desc:"Number of checkpoints."`
}

// DraftList lists the drafts that the gate refused and that are still kept:
// for seven days, at most 100, at most 256 MiB together. Errors: the storage
// details, [StoreClosed].
func (s *Store) DraftList(ctx context.Context, r DraftListRequest) (DraftListResult, error) {
	t, err := s.begin(ctx, "draft_list", "", r)
	if err != nil {
		return DraftListResult{}, err
	}
	list, err := s.drafts()
	if err != nil {
		return DraftListResult{}, t.failed(err)
	}
	defer s.engine.Leave()
	out := DraftListResult{Drafts: []Draft{}}
	now := s.engine.Now().UTC().Format(engine.TimeFormat)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].ExpiresAt > now {
			out.Drafts = append(out.Drafts, list[i])
		}
	}
	out.Count = len(out.Drafts)
	return out, nil
}

// DraftGetRequest asks for a refused draft.
type DraftGetRequest struct {
	DraftRef string `json:"draft_ref" required:"true" maxlen:"200" desc:"draft_ref of a refusal."`
	Encoding string `json:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8" desc:"How content is returned. Use base64 for bytes that are not UTF-8 text."`
}

// DraftGetResult is a refused draft.
type DraftGetResult struct {
	Draft    Draft  `json:"draft" desc:"Facts about the draft."`
	Content  string `json:"content" desc:"The draft as sent. It contains the secrets for which it was refused."`
	Encoding string `json:"encoding" enum:"utf-8,base64" desc:"How content is encoded."`
}

// DraftGet returns a refused draft as it was sent, secrets included. The rule
// of the scratchpad holds: [Options.DisableScratchGet] forbids it.
//
// Errors: [DraftNotFound], [ScratchGetDisabled], [HashDriftOnRead] for a draft
// that was changed on disk, [NotValidUTF8] (ask for base64), the storage
// details, [StoreClosed]. Nothing is changed on disk.
func (s *Store) DraftGet(ctx context.Context, r DraftGetRequest) (DraftGetResult, error) {
	t, err := s.begin(ctx, "draft_get", draftState+r.DraftRef, r)
	if err != nil {
		return DraftGetResult{}, err
	}
	if e := checkEncoding(r.Encoding); e != nil {
		return DraftGetResult{}, t.failed(e)
	}
	d, content, err := s.readDraft(r.DraftRef)
	if err == nil && r.Encoding != "base64" && !utf8.Valid(content) {
		err = fault.New(fault.NotValidUTF8).Hintf("retry_with_encoding_base64: the draft is not valid UTF-8")
	}
	if err != nil {
		return DraftGetResult{}, t.failed(err)
	}
	defer s.engine.Leave()
	out := DraftGetResult{Draft: d}
	out.Content, out.Encoding = encodeContent(content, r.Encoding)
	return out, nil
}

func checkEncoding(encoding string) *fault.Fault {
	switch encoding {
	case "", "utf-8", "base64":
		return nil
	}
	return badChoice("encoding", "utf-8", "base64")
}

// encodeContent is content in the encoding that was asked for.
func encodeContent(content []byte, encoding string) (text, applied string) {
	if encoding == "base64" {
		return base64.StdEncoding.EncodeToString(content), encoding
	}
	return string(content), "utf-8"
}

// readDraft reads a draft and compares it with its hash.
func (s *Store) readDraft(ref string) (Draft, []byte, error) {
	if s.opts.DisableScratchGet {
		return Draft{}, nil, fault.New(fault.ScratchGetDisabled)
	}
	dir, err := s.draftDir()
	if err != nil {
		return Draft{}, nil, err
	}
	if dir == nil || !validDraftRef(ref) {
		return Draft{}, nil, fault.New(fault.DraftNotFound)
	}
	defer dir.Close()
	d, err := readFacts(dir, ref)
	if engine.IsAbsent(err) || err == nil && d.ExpiresAt <= s.engine.Now().UTC().Format(engine.TimeFormat) {
		return d, nil, fault.New(fault.DraftNotFound)
	}
	if err != nil {
		return d, nil, err
	}
	content, err := durable.ReadFile(dir, ref+draftBytes, maxOneDraft+1)
	if engine.IsAbsent(err) {
		return d, nil, fault.New(fault.DraftNotFound)
	}
	if err != nil {
		return d, nil, err
	}
	if engine.HashOf(content) != d.SHA256 {
		return d, nil, fault.New(fault.HashDriftOnRead)
	}
	return d, content, nil
}

func validDraftRef(ref string) bool {
	sum, ok := strings.CutPrefix(ref, draftPrefix)
	return ok && len(sum) == 32 && engine.ValidSHA256(sum+sum)
}

// DraftDeleteRequest asks for a refused draft to be removed.
type DraftDeleteRequest struct {
	DraftRef string `json:"draft_ref" required:"true" maxlen:"200" desc:"draft_ref of a refusal."`
	DryRun   bool   `json:"dry_run,omitempty" desc:"Report what would be removed, but change nothing."`
}

// DraftDeleteResult tells what was removed.
type DraftDeleteResult struct {
	DraftRef string `json:"draft_ref" desc:"The draft."`
	Removed  bool   `json:"removed" desc:"False when it did not exist."`
}

// DraftDelete removes a refused draft for good. A draft that is not there is
// no error: the call can be repeated after a lost reply without an idempotency
// key, and only removed tells the second call from the first. It is no commit
// and has no row in the journal.
//
// Errors: the storage details, [StoreClosed], [StoreReadOnly]. What is left of
// a draft then is swept by the next Open, or can be removed again.
func (s *Store) DraftDelete(ctx context.Context, r DraftDeleteRequest) (DraftDeleteResult, error) {
	t, err := s.begin(ctx, "draft_delete", "", r)
	if err != nil {
		return DraftDeleteResult{}, err
	}
	out := DraftDeleteResult{DraftRef: s.hideName(r.DraftRef)}
	err = s.deleteDraft(r.DraftRef, r.DryRun, &out.Removed)
	if err != nil && !r.DryRun {
		return DraftDeleteResult{}, t.failed(err)
	}
	s.engine.Leave()
	if err != nil { // dry runs do not count
		return DraftDeleteResult{}, s.verbError("draft_delete", err)
	}
	return out, nil
}

func (s *Store) deleteDraft(ref string, dryRun bool, removed *bool) error {
	if s.opts.ReadOnly {
		return fault.New(fault.StoreReadOnly)
	}
	dir, err := s.draftDir()
	if err != nil || dir == nil || !validDraftRef(ref) {
		return err
	}
	defer dir.Close()
	return s.engine.Alone("quarantine", func() error {
		if _, err := dir.Lstat(ref + draftFacts); err != nil {
			if engine.IsAbsent(err) {
				return nil
			}
			return err
		}
		if *removed = true; dryRun {
			return nil
		}
		return removeDraft(dir, ref)
	})
}
