package handoff

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Doc is the bytes of a handoff of the workspace, or of an archive.
type Doc struct {
	Path   string
	Real   string // after symbolic links are resolved
	SHA256 string
	Data   []byte
}

// Load reads a handoff. The path is known even if that fails.
func (l *Layer) Load(raw string) (d Doc, err error) {
	if name, ok := strings.CutPrefix(raw, engine.StateDirName+"/"+Dir+"/"); ok {
		err = l.loadArchive(name, &d)
	} else {
		err = l.loadFile(raw, &d)
	}
	d.SHA256 = engine.HashOf(d.Data)
	return d, err
}

func (l *Layer) loadFile(raw string, d *Doc) error {
	rel, _, err := relpath.Clean(raw, l.Tree.Rules)
	if err != nil {
		return err
	}
	d.Path = rel
	target, err := l.Tree.Resolve(rel)
	if err != nil {
		return err
	}
	defer target.Close()
	return d.read(target)
}

func (d *Doc) read(target *relpath.Target) error {
	if d.Real = target.Path; !target.Exists() {
		return notFound()
	}
	f, err := target.Parent.Open(target.Name, fsx.Read, 0)
	if engine.IsAbsent(err) {
		return notFound()
	}
	if err != nil {
		return err
	}
	defer f.Close()
	d.Data, err = io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(d.Data) > maxBytes {
		return fault.New(fault.TooLarge).Hintf("a handoff has at most %d bytes", maxBytes)
	}
	return err
}

func notFound() *fault.Fault {
	return fault.New(fault.NotFound).Hintf("there is no handoff at that path; read the journal to see what was done, or ask the user")
}

// loadArchive reads an archive. An archive that was changed goes to quarantine.
func (l *Layer) loadArchive(name string, d *Doc) error {
	if name == "" || strings.ContainsAny(name, "/\\\x00") || !strings.HasSuffix(name, ".md") || !utf8.ValidString(name) {
		return notFound()
	}
	d.Path = engine.StateDirName + "/" + Dir + "/" + name
	if l.Disk.State == nil {
		return notFound()
	}
	target, err := l.LocateObject(Dir + "/" + name)
	if err != nil {
		return err
	}
	defer target.Close()
	if err := d.read(target); err != nil || l.Log == nil {
		return err
	}
	last, err := l.LastRow(d.Path)
	if err != nil || last.Seq == 0 { // of the Python implementation: nothing is known of it
		return err
	}
	rec, err := l.Log.Find(last.Seq)
	if errors.Is(err, journal.ErrNotFound) { // the journal's archive was taken away
		return nil
	}
	if err != nil {
		return err
	}
	for i := range rec.Muts {
		if m := &rec.Muts[i]; m.Identity() != d.Path || m.SHA256 == engine.HashOf(d.Data) {
			continue
		}
		if l.Opts.ReadOnly {
			return fault.New(fault.HashDriftOnRead).Hintf("the archive was changed since it was written")
		}
		to, err := l.quarantine(name)
		if err != nil {
			return err
		}
		return fault.New(fault.HashDriftOnRead).With("quarantined", to).Hintf("the archive was changed since it was written; it is kept in quarantine")
	}
	return nil
}

// maxListed is how many archives a reply lists.
const maxListed = 20

// Read returns a handoff, compared with the workspace and the records, without
// the checkpoints. Damage of the records does not prevent reading it. The path of
// the document is known even if that fails.
func (l *Layer) Read(ctx context.Context, r handoff.ReadRequest) (out handoff.ReadResult, d Doc, err error) {
	if d, err = l.Load(r.Path); err != nil {
		return out, d, err
	}
	out.HandoffPath, out.SHA256, out.Bytes, out.Warnings = d.Path, call.DigestOf(d.Data), int64(len(d.Data)), []call.Warning{}
	body, e := parse(d.Data, &out.Envelope)
	if e != nil {
		return out, d, e
	}
	out.Body, out.MissingFields = body, out.Envelope.Missing()
	fill(&out.Envelope)
	if out.DriftWarnings, err = l.drift(ctx, out.Envelope.LastGoodState, nil); err != nil {
		return out, d, err
	}
	if r.Strict && len(out.DriftWarnings) > 0 {
		return out, d, l.drifted(out.DriftWarnings)
	}
	out.DriftWarnings, out.ReadySteps = append([]handoff.Drift{}, out.DriftWarnings...), ready(out.Envelope.DependencyGraph)
	if e := checkSteps(out.Envelope.DependencyGraph); e != nil {
		out.Warnings = append(out.Warnings, call.Warning{Reason: string(e.Code), Hint: e.Hint})
	}
	records, whole, err := l.Records()
	if err != nil && !l.IsNoPart(err) {
		return out, d, err
	}
	if !whole {
		out.Warnings = append(out.Warnings, call.WarningOf(call.WarnHandoffRecords))
	}
	out.ReadBy = records.ReadBy(d.Real, d.SHA256)
	if out.Archives, out.ArchiveCount, err = l.archives(maxListed); l.IsNoPart(err) {
		err = nil
	}
	return out, d, err
}

// fill gives the absent required fields a value.
func fill(e *handoff.Envelope) {
	e.Status = cmp.Or(e.Status, handoff.Partial)
	if e.NextSteps == nil {
		e.NextSteps = []string{}
	}
	if e.LastGoodState == nil {
		e.LastGoodState = []handoff.File{}
	}
}

// Acknowledgment is the recording of a reader in progress.
type Acknowledgment struct {
	Readers []handoff.Reader // once it is recorded

	l    *Layer
	c    *engine.Commit
	doc  Doc
	name string
}

// NewAcknowledgment makes c record that an agent has read a handoff.
func (l *Layer) NewAcknowledgment(c *engine.Commit, d Doc, name string) (*Acknowledgment, error) {
	a := &Acknowledgment{l: l, c: c, doc: d, name: name}
	m := engine.NewObject(Dir+"/"+ReadName, KindRead, engine.OpOverwrite)
	c.Req.Hash = engine.HashOf([]byte(strings.Join([]string{"handoff_read", d.Real, d.SHA256, name}, "\x00")))
	c.Muts, c.ExtraLocks, c.Plan = []*engine.Mutation{m}, []string{Lock}, a.plan
	_, err := l.PartNames(Dir) // there must be no other entry in its place
	return a, err
}

func (a *Acknowledgment) plan(context.Context) error {
	records, whole, err := a.l.Records()
	if err != nil {
		return err
	}
	if !whole {
		if _, err := a.l.quarantine(ReadName); err != nil {
			return err
		}
	}
	records.add(a.doc.Real, a.doc.SHA256, a.name, call.Timestamp{Time: stamp.Of(a.c.Began)})
	a.Readers = records.ReadBy(a.doc.Real, a.doc.SHA256)
	data, err := records.Encode()
	if err != nil {
		return err
	}
	a.c.First().Hold(data)
	return nil
}

// drift compares files with the current content, and reads each once. sure holds the
// hashes of files that were hashed a moment ago.
func (l *Layer) drift(ctx context.Context, files []handoff.File, sure map[string]string) ([]handoff.Drift, error) {
	var list []handoff.Drift
	read := map[string]string{}
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return list, err
		}
		want := strings.ToLower(f.SHA256)
		if sure[f.Path] == want && want != "" {
			continue
		}
		d := handoff.Drift{Path: f.Path, Index: i, ExpectedSHA256: want}
		rel, _, err := relpath.Clean(f.Path, l.Tree.Rules) // any user may have written it
		have, known := read[rel]
		if err == nil && !known {
			if have, err = l.HashPath(rel); err == nil {
				read[rel] = have
			}
		}
		switch {
		case err != nil && l.ErrorOf(err).Code.Class().Exit == fault.CodeStorage:
			return list, err // the disk failed, which says nothing of the file
		case err != nil:
			d.Reason = "invalid_path"
		case have == "":
			d.Reason = "missing"
		case have != want:
			d.Reason, d.ActualSHA256 = "hash_mismatch", have
		default:
			continue
		}
		list = append(list, d)
	}
	return list, nil
}

const maxShown = 100 // entries that an error lists

// drifted refuses to continue from a state that no longer exists. The error shows
// no path that leads out of the workspace.
func (l *Layer) drifted(list []handoff.Drift) *fault.Fault {
	sent := append([]handoff.Drift{}, list[:min(len(list), maxShown)]...)
	for i := range sent {
		if _, _, err := relpath.Clean(sent[i].Path, l.Tree.Rules); err != nil {
			sent[i].Path = ""
		}
	}
	e := fault.New(fault.StateDrift).With("drift_warnings", sent)
	if n := len(list) - maxShown; n > 0 {
		e.With("drift_omitted", n)
	}
	return e
}
