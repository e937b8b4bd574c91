// Package drafts keeps the content that the gate refused.
//
// A draft is two files in quarantine/: its bytes, and the facts about it. The
// bytes are written first and the facts name their hash. Bytes without facts
// are not a draft; the next Open sweeps them.
package drafts

import (
	"encoding/json"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Layer is the drafts of one store.
type Layer struct{ *engine.Engine }

const (
	Prefix      = "draft_"
	BytesSuffix = ".bin"
	FactsSuffix = ".json"
	MaxAge      = 7 * 24 * time.Hour
	MaxCount    = 100
	MaxTotal    = 256 << 20 // of all drafts
	MaxBytes    = 64 << 20
	factsLimit  = 64 << 10
)

// Facts describe a draft, as its .json file stores them.
type Facts struct {
	DraftRef  string   `json:"draft_ref"`
	Path      string   `json:"path"`
	Op        string   `json:"op"`
	Mode      string   `json:"mode"`
	SHA256    string   `json:"sha256"`
	Bytes     int64    `json:"bytes"`
	Patterns  []string `json:"patterns"`
	Caller    string   `json:"caller"`
	CreatedAt string   `json:"created_at"`
	ExpiresAt string   `json:"expires_at"`
}

// Keep saves the content of a refused mutation and returns its name. The
// same content for the same path has one name, so that a caller who tries
// again does not fill the disk.
func (l *Layer) Keep(c *engine.Commit, m *engine.Mutation, patterns []string) (string, error) {
	if m.Content.Size() > MaxBytes {
		return "", fault.New(fault.TooLarge)
	}
	d, _, err := m.MeasureBody()
	if err != nil {
		return "", err
	}
	sum := d.Hex()
	ref := Prefix + engine.HashOf([]byte(m.Path + "\x00" + sum))[:32]
	now := l.Now().UTC()
	facts := Facts{
		DraftRef: ref, Path: m.Path, Op: c.Req.Op, Mode: string(m.Op), SHA256: sum, Bytes: m.Content.Size(),
		Patterns: patterns, Caller: c.Req.Caller,
		CreatedAt: stamp.Text(now), ExpiresAt: stamp.Text(now.Add(MaxAge)),
	}
	return ref, l.Alone("quarantine", func() error {
		if err := l.trim(ref, facts.Bytes); err != nil {
			return err
		}
		return l.write(facts, m.Content.Reader())
	})
}

func (l *Layer) write(d Facts, src io.Reader) error {
	dir, err := l.OpenPart("quarantine")
	if err != nil {
		return err
	}
	defer dir.Close()
	// A crash may have left a part of these bytes.
	if err := durable.WriteStream(dir, d.DraftRef+BytesSuffix, src); err != nil {
		return err
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return durable.WriteFile(dir, d.DraftRef+FactsSuffix, data, 0o600)
}

// List returns the drafts that are whole, oldest first.
func (l *Layer) List() (list []Facts, err error) {
	err = l.EachIn("quarantine", func(dir fsx.Dir, name string) error {
		ref, ok := strings.CutSuffix(name, FactsSuffix)
		if !ok || !strings.HasPrefix(ref, Prefix) {
			return nil
		}
		d, err := ReadFacts(dir, ref)
		if err == nil {
			list = append(list, d)
		} else if engine.IsUnread(err) && l.ErrorOf(err).Code != fault.HashDriftOnRead {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].CreatedAt < list[j].CreatedAt })
	return list, nil
}

// OpenDir opens quarantine/; nil if there is none.
func (l *Layer) OpenDir() (fsx.Dir, error) {
	return l.StatePart("quarantine")
}

// ReadFacts reads the facts about a draft from quarantine/.
func ReadFacts(dir fsx.Dir, ref string) (Facts, error) {
	var d Facts
	data, err := durable.ReadFile(dir, ref+FactsSuffix, factsLimit)
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

// trim removes expired drafts, and then the oldest ones until there is space for the
// draft incoming; "" for none.
func (l *Layer) trim(incoming string, room int64) error {
	list, err := l.List()
	if err != nil || len(list) == 0 {
		return err
	}
	dir, err := l.OpenPart("quarantine")
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
	now := stamp.Text(l.Now())
	for _, d := range list {
		l.correct(dir, &d)
		if d.DraftRef == incoming || d.ExpiresAt > now && sum <= MaxTotal && left <= MaxCount {
			continue
		}
		if err := Remove(dir, d.DraftRef); err != nil {
			return err
		}
		sum -= d.Bytes
		left--
	}
	return nil
}

// correct has a draft that a wrong clock lets expire too late expire as if it were kept
// now. If that cannot be written, the next call does.
func (l *Layer) correct(dir fsx.Dir, d *Facts) {
	now := l.Now().UTC()
	if d.ExpiresAt <= stamp.Text(now.Add(MaxAge)) {
		return
	}
	d.CreatedAt, d.ExpiresAt = stamp.Text(now), stamp.Text(now.Add(MaxAge))
	if data, err := json.Marshal(d); err == nil {
		durable.WriteFile(dir, d.DraftRef+FactsSuffix, data, 0o600)
	}
}

// Remove removes a draft, its facts first: Sweep removes bytes without facts.
func Remove(dir fsx.Dir, ref string) error {
	for _, name := range []string{ref + FactsSuffix, ref + BytesSuffix} {
		if err := dir.Remove(name); err != nil && !engine.IsAbsent(err) {
			return err
		}
	}
	return dir.Sync()
}

// Sweep removes expired drafts and those that a crash left incomplete.
func (l *Layer) Sweep() error {
	if err := l.trim("", 0); err != nil {
		return err
	}
	return l.EachIn("quarantine", func(dir fsx.Dir, name string) (err error) {
		if !strings.HasPrefix(name, Prefix) {
			return nil
		}
		ref, ok := strings.CutSuffix(name, BytesSuffix)
		if strings.HasSuffix(name, durable.TempSuffix) {
			err = dir.Remove(name)
		} else if st, lerr := dir.Lstat(ref + FactsSuffix); ok && (engine.IsAbsent(lerr) || l.unreadable(dir, ref, st)) {
			err = Remove(dir, ref)
		}
		if err != nil && !engine.IsAbsent(err) {
			return err
		}
		return nil
	})
}

// unreadable reports whether the facts of a draft cannot be read and are older
// than a draft can be.
func (l *Layer) unreadable(dir fsx.Dir, ref string, st fsx.Stat) bool {
	_, err := ReadFacts(dir, ref)
	return err != nil && l.Now().Sub(time.Unix(0, st.Mtime)) > MaxAge
}

// Find opens quarantine/ and reads the facts about a draft.
func (l *Layer) Find(ref string) (dir fsx.Dir, d Facts, err error) {
	if dir, err = l.OpenDir(); err != nil {
		return nil, d, err
	}
	if dir == nil || !ValidRef(ref) {
		return nil, d, fault.New(fault.DraftNotFound)
	}
	if d, err = ReadFacts(dir, ref); engine.IsAbsent(err) {
		err = fault.New(fault.DraftNotFound)
	}
	if err != nil {
		dir.Close()
	}
	return dir, d, err
}

// Read reads a draft and compares it with its hash.
func (l *Layer) Read(ref string) (Facts, []byte, error) {
	dir, d, err := l.Find(ref)
	if err != nil {
		return d, nil, err
	}
	defer dir.Close()
	if d.ExpiresAt <= stamp.Text(l.Now()) {
		return d, nil, fault.New(fault.DraftNotFound)
	}
	content, err := durable.ReadFile(dir, ref+BytesSuffix, MaxBytes+1)
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

// Live returns the drafts that have not expired, newest first.
func (l *Layer) Live() ([]Facts, error) {
	list, err := l.List()
	now := stamp.Text(l.Now())
	list = slices.DeleteFunc(list, func(d Facts) bool { return d.ExpiresAt <= now })
	slices.Reverse(list)
	return list, err
}

// Path returns the path of the facts about a draft.
func Path(ref string) string { return engine.StateDirName + "/quarantine/" + ref + FactsSuffix }

// ValidRef reports whether ref has the form of a name that Keep returns.
func ValidRef(ref string) bool {
	sum, ok := strings.CutPrefix(ref, Prefix)
	return ok && len(sum) == 32 && engine.ValidSHA256(sum+sum)
}

// Delete removes a draft and reports whether it existed.
func (l *Layer) Delete(ref string, dryRun bool) (removed bool, err error) {
	dir, err := l.OpenDir()
	if err != nil || dir == nil || !ValidRef(ref) {
		return false, err
	}
	defer dir.Close()
	err = l.Alone("quarantine", func() error {
		_, err := dir.Lstat(ref + FactsSuffix)
		if engine.IsAbsent(err) {
			return nil
		}
		if removed = err == nil; err != nil || dryRun {
			return err
		}
		return Remove(dir, ref)
	})
	return removed, err
}
