// Package checkpoint keeps named states: checkpoints/<name>.json, a document of
// the fields below and data. Data over 1 MiB is in
// checkpoints/<name>.<sha256>.data, which the document names by its hash, so a
// reader never mixes the two halves of different saves. Documents that another
// program wrote have fewer fields and no hash.
package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/isoduration"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Layer keeps the checkpoints of a store.
type Layer struct{ *engine.Engine }

const (
	Dir           = "checkpoints"
	FileSuffix    = ".json"
	BlobSuffix    = ".data" // follows the name and the hash of the data
	MaxInlineData = 1 << 20 // bytes of data stored in the document itself
	TTLSession    = "session"
	TTLPermanent  = "permanent"
	Kind          = "checkpoint"
	Version       = 1 // version of the stored document

	maxName = 128 // bytes
)

// Head is the document but for data.
type Head struct {
	Version   int    `json:"format_version"`
	Name      string `json:"name"`
	Format    string `json:"format"`
	TTL       string `json:"ttl"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Session   string `json:"session"`
	Caller    string `json:"caller"`
	SHA256    string `json:"sha256"` // of the data
	Bytes     int64  `json:"bytes"`  // of the data
	Chunked   bool   `json:"chunked"`
	Raw       bool   `json:"raw,omitempty"`     // data is a JSON value although the format is yaml
	KeptOf    string `json:"kept_of,omitempty"` // name of the checkpoint that another session replaced
}

// Document is the whole text; data is put in to the letter. nil data is stored in a
// file of its own.
func (h *Head) Document(data []byte) []byte {
	doc, _ := jsontext.Encode(h, "") // strings, numbers and a flag: that cannot fail
	if data == nil {
		return doc
	}
	doc = append(bytes.TrimSuffix(doc, []byte("}\n")), `,"data":`...)
	return append(append(doc, data...), "}\n"...)
}

// Stored is a checkpoint as it was read.
type Stored struct {
	Head
	Stem    string          // its name by its file
	Data    json.RawMessage // if requested
	Corrupt string          // the defect; "" when it is sound
	Unread  error           // why it cannot be read; it may be sound
	Blobs   []string        // files that contain its data, including earlier saves
	file    bool            // the document exists, of any kind
}

// OtherName reports whether the checkpoint is another one, which a file system
// that ignores case took for this.
func (c *Stored) OtherName(name string) bool {
	return c.Name != name && strings.EqualFold(c.Name, name)
}

func (c *Stored) Expired(now time.Time) bool {
	until := engine.ParseTime(c.ExpiresAt)
	return !until.IsZero() && !until.After(now)
}

// Read reads one checkpoint and its data. Damage is not an error; a missing checkpoint
// is fs.ErrNotExist. One that cannot be read is returned with its error. Its blobs are listed only on request, or when the document is
// missing or damaged.
func (s *Layer) Read(name string, blobs bool) (*Stored, error) {
	dir, err := s.StatePart(Dir)
	if err != nil {
		return nil, err
	}
	if dir == nil {
		return nil, fs.ErrNotExist
	}
	defer dir.Close()
	c := &Stored{Stem: name}
	for range readTries {
		was := c.SHA256
		if c, err = s.readDocument(dir, name); err != nil || c.Corrupt != corruptData || c.SHA256 == was {
			break
		}
		// The data it names is gone: another process may be saving it again.
	}
	if err != nil && !engine.IsAbsent(err) {
		return nil, err
	}
	if blobs || c.Corrupt != "" || !c.file {
		names, nerr := dir.Names()
		if nerr != nil {
			return nil, nerr
		}
		for _, file := range names {
			if of, isData := NameOf(file); isData && of == name {
				c.Blobs = append(c.Blobs, file)
			}
		}
	}
	if !c.file && len(c.Blobs) > 0 {
		c.Corrupt, err = "its document is missing", nil
	}
	return c, cmp.Or(err, c.Unread)
}

// each reads checkpoints, also those that cannot be read. Those that were removed
// meanwhile are left out.
func (s *Layer) each(names []string, blobs bool, fn func(name string, c *Stored) error) error {
	for _, name := range names {
		c, err := s.Read(name, blobs)
		if engine.IsAbsent(err) {
			continue
		}
		if err == nil || c != nil && c.Unread != nil {
			err = fn(name, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Get reads one checkpoint, which must be sound, with its data.
func (s *Layer) Get(name string) (*Stored, error) {
	if e := CheckName(name); e != nil {
		return nil, e
	}
	c, err := s.Read(name, false)
	if engine.IsAbsent(err) || err == nil && c.OtherName(name) {
		return nil, fault.New(fault.CheckpointNotFound).With("name", name)
	}
	if err == nil && c.Corrupt != "" {
		err = fault.New(fault.HashDriftOnRead).With("name", name).With("problem", c.Corrupt).
			Hintf("the stored checkpoint is damaged: %s; save it again, or let Store.CheckpointCleanup move it to quarantine", c.Corrupt)
	}
	return c, err
}

// All reads all checkpoints, sorted by name.
func (s *Layer) All(ctx context.Context) (list []*Stored, err error) {
	names, err := s.List()
	if err != nil {
		return nil, err
	}
	err = s.each(names, false, func(_ string, c *Stored) error {
		list = append(list, c)
		return ctx.Err()
	})
	return list, err
}

// readTries is the number of times that a document is read again if its data is
// missing.
const readTries = 4

const corruptData = "its data is missing or damaged"

// readDocument reads and judges one document.
func (s *Layer) readDocument(dir fsx.Dir, name string) (*Stored, error) {
	c := &Stored{Stem: name}
	text, err := durable.ReadFile(dir, name+FileSuffix, s.MaxDocument())
	var kind *fsx.TypeError
	switch {
	case engine.IsAbsent(err):
		return c, err
	case errors.As(err, &kind):
		c.file, c.Corrupt = true, "it is not a file"
		return c, nil
	case errors.Is(err, durable.ErrTooLong):
		c.file, c.Corrupt = true, "it is too long"
		return c, nil
	case err != nil:
		return c.unread(err), nil
	}
	c.file = true
	content, problem := c.Parse(text)
	if problem == "" && c.Chunked {
		content, err = durable.ReadFile(dir, BlobName(name, c.SHA256), s.MaxDocument())
		switch {
		case engine.IsAbsent(err), engine.IsOdd(err):
			problem = corruptData
		case err != nil:
			return c.unread(err), nil
		}
	}
	if problem == "" && c.Version > 0 && engine.HashOf(content) != c.SHA256 {
		problem = corruptData
	}
	if c.Corrupt = problem; problem == "" {
		c.take(content)
	}
	return c, nil
}

// unread marks a checkpoint as one that cannot be read. It affects only itself.
func (c *Stored) unread(err error) *Stored {
	c.file, c.Corrupt, c.Unread = true, "it cannot be read", err
	return c
}

// MaxDocument is the size up to which a stored document is read. The escapes
// of a string may make it six times longer.
func (s *Layer) MaxDocument() int64 {
	return 6*MaxInlineData + s.Opts.MaxContentBytes + engine.MetaLimit
}

// Parse reads a document and returns its data: the JSON text, or the string of
// a text format. It is lenient where another program wrote it.
func (c *Stored) Parse(text []byte) (content []byte, problem string) {
	doc := struct {
		*Head
		Data json.RawMessage `json:"data"`
	}{Head: &c.Head}
	var odd *json.UnmarshalTypeError // of a field, which keeps its zero value
	if err := json.Unmarshal(text, &doc); err != nil && !errors.As(err, &odd) || !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return nil, "it is not a JSON object"
	}
	c.Name = cmp.Or(c.Name, c.Stem)
	if problem := c.complete(); problem != "" {
		return nil, problem
	}
	if c.Chunked && c.Version > 0 {
		return nil, ""
	}
	c.Chunked = false
	if doc.Data == nil {
		return nil, "it has no data"
	}
	if c.Raw {
		return doc.Data, ""
	}
	if plain, ok := StringIn(doc.Data); ok && c.Format != "json" {
		return []byte(plain), ""
	}
	if c.Format != "json" && c.Version > 0 {
		return nil, "its data is not a string"
	}
	c.Format = "json"
	return doc.Data, ""
}

// complete fills in what another program leaves out, and finds what we would
// not have written.
func (c *Stored) complete() (problem string) {
	known := c.Format == "json" || c.Format == "yaml" || c.Format == "markdown"
	if c.Version > 0 {
		if !known || !engine.ValidSHA256(c.SHA256) || engine.ParseTime(c.UpdatedAt).IsZero() {
			return "its fields are damaged"
		}
		return ""
	}
	if !known {
		c.Format = "json"
	}
	c.TTL = cmp.Or(c.TTL, TTLSession)
	if saved := engine.ParseTime(c.UpdatedAt); c.ExpiresAt == "" && !saved.IsZero() {
		c.ExpiresAt, _ = Expiry(c.TTL, saved)
	}
	return ""
}

// take keeps the data that was found sound.
func (c *Stored) take(content []byte) {
	c.SHA256, c.Bytes = engine.HashOf(content), int64(len(content))
	if c.Data = content; c.Format != "json" && !c.Raw {
		c.Data, _ = jsontext.Encode(string(content), "") // of a string: that cannot fail
		c.Data = bytes.TrimSuffix(c.Data, []byte("\n"))
	}
}

// NameOf returns the checkpoint that a file is a part of, "" if it is none, and whether the
// file contains data.
func NameOf(file string) (name string, isData bool) {
	if name, ok := strings.CutSuffix(file, FileSuffix); ok {
		return name, false
	}
	rest, ok := strings.CutSuffix(file, BlobSuffix)
	if at := len(rest) - 65; ok && at > 0 && rest[at] == '.' && engine.ValidSHA256(rest[at+1:]) {
		return rest[:at], true
	}
	return "", false
}

// List lists the checkpoints by their files, sorted.
func (s *Layer) List() ([]string, error) {
	files, err := s.PartNames(Dir)
	if err != nil {
		return nil, err
	}
	list := []string{}
	for _, file := range files {
		if name, _ := NameOf(file); CheckName(name) == nil {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// Quarantine copies what there is of a damaged checkpoint, and
// returns the files that are still there to be removed.
func (s *Layer) Quarantine(c *Stored, dryRun bool) (files []string, err error) {
	files = append(files, c.Blobs...)
	if c.file {
		files = append([]string{c.Stem + FileSuffix}, files...)
	}
	if c.Corrupt == "" || dryRun {
		return files, nil
	}
	left := files[:0]
	for _, file := range files {
		moved, err := s.QuarantineObject(Dir, file)
		if err != nil {
			return nil, err
		}
		if !moved {
			left = append(left, file)
		}
	}
	return left, nil
}

// KeptName is the name under which the checkpoint of another session is kept when
// one of this name replaces it. A name that is too long for that is cut and has a piece
// of its hash.
func KeptName(name string) string {
	const suffix = ".replaced"
	if most := maxName - len(suffix); len(name) > most {
		name = name[:most-9] + "-" + engine.HashOf([]byte(name))[:8]
	}
	return name + suffix
}

// CheckName refuses what is no name of a checkpoint.
func CheckName(name string) *fault.Fault {
	switch {
	case len(name) > maxName, !namePattern.MatchString(name), name == ".", name == "..", strings.HasSuffix(name, "."):
		return fault.New(fault.InvalidArgument).With("argument", "name").
			Hintf("a checkpoint name has 1 to 128 letters, digits, dots, underscores or hyphens, is not . or .., and does not end with a dot")
	}
	return nil
}

// Expiry is when a checkpoint saved now expires; "" for never.
func Expiry(ttl string, now time.Time) (string, *fault.Fault) {
	if ttl == TTLSession || ttl == TTLPermanent {
		return "", nil
	}
	d, err := isoduration.Parse(ttl)
	if err != nil {
		return "", fault.New(fault.InvalidArgument).With("argument", "ttl").Hintf("ttl must be a positive ISO 8601 duration, such as P1W or PT1.5H, or session, or permanent")
	}
	return stamp.Text(d.After(now)), nil
}

// StringIn is the text of a JSON string.
func StringIn(raw json.RawMessage) (text string, ok bool) {
	ok = bytes.HasPrefix(raw, []byte(`"`)) && json.Unmarshal(raw, &text) == nil
	return text, ok
}

func BlobName(name, sha string) string { return name + "." + sha + BlobSuffix }

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._-]+\z`)

func Path(name string) string {
	return engine.StateDirName + "/" + Dir + "/" + name + FileSuffix
}

func Object(name string, op engine.WriteOp) *engine.Mutation {
	m := engine.NewObject(Dir+"/"+name, Kind, op)
	m.AbsentOK = op == engine.OpDelete
	return m
}

// Names lists the checkpoints. A handoff does not fail if they cannot be listed.
func (s *Layer) Names() ([]string, error) {
	list, err := s.List()
	if s.IsNoPart(err) {
		return []string{}, nil
	}
	return list, err
}
