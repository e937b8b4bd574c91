package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/gitcmd"
)

// TaskHead is the content of tasks/<task>/head.json. It is changed only by
// compare-and-swap, and the epoch of the lease is the fencing number: a machine
// that does not hold the current one can change nothing.
type TaskHead struct {
	Version  int         `json:"version"`
	Task     string      `json:"task"`
	Lease    Lease       `json:"lease"`
	Manifest string      `json:"manifest,omitempty"` // object of the newest Manifest
	Base     string      `json:"base,omitempty"`     // commit that the manifest is based on
	Handoff  *HandoffRef `json:"handoff,omitempty"`
	Epochs   []Epoch     `json:"epochs"` // oldest first
	At       string      `json:"at"`
	Nonce    string      `json:"nonce"` // no two contents are equal
}

// Lease records which machine works on a task.
type Lease struct {
	Holder string    `json:"holder"` // store
	Label  string    `json:"label,omitempty"`
	Epoch  uint64    `json:"epoch"`
	Until  time.Time `json:"until"`
}

// Epoch is the range of rows that one holder added to a task: those after From,
// up to Seq.
type Epoch struct {
	Epoch uint64 `json:"epoch"`
	Store string `json:"store"`
	From  uint64 `json:"from"`
	Seq   uint64 `json:"seq"`
}

// HandoffRef is the handoff of a task, for people and other agents.
type HandoffRef struct {
	Path     string `json:"path"`
	SHA256   string `json:"sha256,omitempty"` // object; empty when it was withheld
	Status   string `json:"status,omitempty"`
	Agent    string `json:"agent,omitempty"`
	Withheld bool   `json:"withheld,omitempty"`
}

// Manifest is the state of a workspace.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Task    string `json:"task"`
	Store   string `json:"store"`
	Seq     uint64 `json:"seq"` // newest row of the store at that time
	At      string `json:"at"`
	Base    string `json:"base,omitempty"`
	// The files, ordered so that those of one pack are adjacent.
	Files []ManifestFile `json:"files"`
	// The directories, empty ones too.
	Dirs     []admin.TreeDir `json:"dirs"`
	Withheld []Withheld      `json:"withheld"`
}

// ManifestFile is a file of a manifest and the place of its bytes: in a pack,
// in a separate object, or, if neither is given, only in the base commit.
type ManifestFile struct {
	admin.TreeFile
	Pack   string `json:"pack,omitempty"`
	Object bool   `json:"object,omitempty"`
}

// Published reports what was published for a task.
type Published struct {
	Task     string    `json:"task"`
	Epoch    uint64    `json:"epoch"`
	Until    time.Time `json:"until"`
	Manifest string    `json:"manifest"`
	// Number of files of the workspace, of those whose bytes only the base commit has,
	// and of those that had to be uploaded.
	Files    int `json:"files"`
	FromBase int `json:"from_base"`
	Uploaded int `json:"uploaded"`
	// Commit that a resume needs for the files whose bytes only the commit has.
	Base     string      `json:"base,omitempty"`
	Withheld []Withheld  `json:"withheld"`
	Handoff  *HandoffRef `json:"handoff,omitempty"`
}

// PublishRequest asks for the state of the workspace to be published for a task.
type PublishRequest struct {
	// Identifier of the task, as in the handoff.
	Task string
	// Root is the directory of the workspace.
	Root string
	// WithBase also uploads bytes that git has, so that a resume needs no checkout.
	WithBase bool
	// Path of the handoff. Default: HANDOFF.md. An absent file is left out.
	Handoff string
}

const (
	defaultLease = 15 * time.Minute
	maxPacks     = 32 // that a manifest refers to; beyond that, everything is packed again
)

func (s *Shipper) until() time.Time {
	return s.clock().Add(cmp.Or(s.Lease, defaultLease)).UTC().Truncate(time.Second)
}

// Publish ships, records a snapshot of the workspace, and makes it, with the handoff, the
// state of the task in the hub. If the hub does not know the task, it is created, with the
// lease of this store. Contents that the hub has are not uploaded again. Files that git
// ignores, files with findings and files whose bytes are not kept are not uploaded and are
// listed.
//
// Errors: [Leased] for a task of another store, whether its lease has expired or not, and for
// one whose resume did not end: resume it first. [Fenced] if another machine has taken the task over. Otherwise those of
// [Shipper.Ship] and of the store.
func (s *Shipper) Publish(ctx context.Context, r PublishRequest) (Shipped, error) {
	return s.shipping(ctx, func(out *Shipped) (err error) {
		out.Published, err = s.publish(ctx, r, out)
		return err
	})
}

var errNoTask = &Error{Code: NotFound, Err: errors.New("no task is named"), Hint: "name the task, as in the handoff"}

func (s *Shipper) publish(ctx context.Context, r PublishRequest, out *Shipped) (*Published, error) {
	if r.Task == "" {
		return nil, errNoTask
	}
	st, err := loadState(s.Store)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, st, r.Task); err != nil {
		return nil, err
	}
	snap, err := s.Store.Snapshot(ctx, around.SnapshotRequest{Label: "hub " + r.Task})
	if err != nil {
		return nil, err
	}
	if err := s.ship(ctx, out); err != nil {
		return nil, err
	}
	if st, err = loadState(s.Store); err != nil {
		return nil, err
	}
	head, etag, err := s.held(ctx, st)
	if err != nil {
		return nil, err
	}
	pub, err := s.manifest(ctx, r, st, snap, &head)
	if err != nil {
		return nil, err
	}
	if head.Handoff, err = s.handoff(ctx, cmp.Or(r.Handoff, handoff.DefaultPath)); err != nil {
		return nil, err
	}
	head.Lease.Until, head.Lease.Label = s.until(), s.Label
	if _, err = s.swapTask(ctx, etag, &head); errors.Is(err, errLost) {
		if _, _, err = s.held(ctx, st); err == nil { // an erasure rewrote the manifest
			err = failed(ctx, s.Hub.taskKey(r.Task), errLost)
		}
	}
	if err != nil {
		return nil, err
	}
	pub.Handoff, pub.Epoch, pub.Until = head.Handoff, head.Lease.Epoch, head.Lease.Until
	return pub, nil
}

// begin makes the task that of the store, if the hub does not know it or the
// store already holds it.
func (s *Shipper) begin(ctx context.Context, st *state, task string) error {
	var head TaskHead
	var etag string
	var err error
	if st.Task == task {
		head, etag, err = s.held(ctx, st)
	} else {
		head, etag, err = s.task(ctx, task)
	}
	switch {
	case err != nil:
		return err
	case etag == "":
		st.Resuming = ""
	case head.Lease.Holder == st.Store && st.Resuming == task:
		return &Error{Code: Leased, Key: s.Hub.taskKey(task), Err: fmt.Errorf("the resume of task %s did not end: its files are not here", task),
			Hint: "resume it again, here or in another directory with --force: resilient-write resume " + task}
	case head.continues(st, task):
		st.Task, st.Epoch, st.LostTask = task, head.Lease.Epoch, ""
		return s.keep(st)
	case head.Lease.Holder == st.Store: // it shipped rows of other tasks meanwhile
		_, err = s.take(ctx, st, head, etag)
		return err
	default:
		return &Error{Code: Leased, Key: s.Hub.taskKey(task), Err: fmt.Errorf("task %s belongs to store %s (%s), epoch %d", task, head.Lease.Holder, head.Lease.Label, head.Lease.Epoch),
			Hint: "resume the task to continue it: resilient-write resume " + task}
	}
	_, err = s.take(ctx, st, TaskHead{Version: version, Task: task}, "")
	return err
}

// continues reports whether the store holds the task, and has shipped no rows that
// belong to none or to another one since.
func (head *TaskHead) continues(st *state, task string) bool {
	return head.Lease.Holder == st.Store && (st.Task == task || st.Seq <= head.Epochs[len(head.Epochs)-1].Seq)
}

// take makes this store the holder of a task, under the next epoch. The state,
// which names the holder, is durable before the request, so another holder can
// only have a higher epoch.
func (s *Shipper) take(ctx context.Context, st *state, head TaskHead, etag string) (TaskHead, error) {
	if err := s.keep(st); err != nil {
		return head, err
	}
	facts, err := s.Store.Describe(ctx, rw.DescribeRequest{})
	if err != nil {
		return head, err
	}
	head.Lease = Lease{Holder: st.Store, Label: s.Label, Epoch: head.Lease.Epoch + 1, Until: s.until()}
	from := facts.HeadSeq
	if st.Resuming != head.Task { // rows that wait to be shipped belong to the task
		from = st.Seq
	}
	head.Epochs = append(head.Epochs, Epoch{Epoch: head.Lease.Epoch, Store: st.Store, From: from, Seq: from})
	_, err = s.swapTask(ctx, etag, &head)
	if errors.Is(err, errLost) { // unless by a late request of an earlier call
		task, was := head.Task, etag
		if head, etag, err = s.task(ctx, task); err == nil && etag == was {
			err = failed(ctx, s.Hub.taskKey(task), errLost)
		} else if err == nil && head.Lease.Holder != st.Store {
			err = &Error{Code: Leased, Key: s.Hub.taskKey(task), Err: fmt.Errorf("another machine was faster to take task %s", task), Hint: "look again with resilient-write hub status"}
		}
	}
	if err != nil {
		return head, err
	}
	st.Task, st.Epoch, st.LostTask = head.Task, head.Lease.Epoch, ""
	return head, s.keep(st)
}

func (s *Shipper) task(ctx context.Context, task string) (head TaskHead, etag string, err error) {
	return s.Hub.taskHead(ctx, s.Hub.taskKey(task))
}

func (s *Shipper) swapTask(ctx context.Context, etag string, head *TaskHead) (string, error) {
	head.At, head.Nonce = stamp(s.clock()), newID()
	return s.Hub.swap(ctx, s.Hub.taskKey(head.Task), etag, head)
}

// held returns the head of the task of this store, if the store still holds it.
func (s *Shipper) held(ctx context.Context, st *state) (TaskHead, string, error) {
	if st.Task == "" {
		return TaskHead{}, "", s.fenced(st.LostTask)
	}
	head, etag, err := s.task(ctx, st.Task)
	if err == nil && (head.Lease.Holder != st.Store || head.Lease.Epoch != st.Epoch) {
		err = s.lose(st)
	}
	return head, etag, err
}

// lose records that another machine has taken the task over.
func (s *Shipper) lose(st *state) error {
	st.LostTask, st.Task, st.Epoch = st.Task, "", 0
	if err := s.keep(st); err != nil {
		return err
	}
	return s.fenced(st.LostTask)
}

// advance adds the rows up to seq to the task, and renews the lease. A store that
// has lost the task continues without it; the caller reports the loss.
func (s *Shipper) advance(ctx context.Context, st *state, seq uint64) error {
	for range tries {
		if st.Task == "" {
			return nil
		}
		head, etag, err := s.held(ctx, st)
		if IsCode(err, Fenced) {
			return nil
		}
		if err != nil {
			return err
		}
		last := &head.Epochs[len(head.Epochs)-1]
		last.Seq = max(last.Seq, seq)
		head.Lease.Until, head.Lease.Label = s.until(), s.Label
		if _, err = s.swapTask(ctx, etag, &head); !errors.Is(err, errLost) {
			return err
		}
	}
	return failed(ctx, s.Hub.taskKey(st.Task), errLost)
}

// manifest uploads the files of a snapshot and their list, and makes the list
// the manifest of the task.
func (s *Shipper) manifest(ctx context.Context, r PublishRequest, st *state, snap around.Snapshot, head *TaskHead) (*Published, error) {
	tree, err := s.Store.Admin().SnapshotTree(ctx, snap.ID)
	if err != nil {
		return nil, err
	}
	m := Manifest{Format: manifestFormat, Version: version, Task: r.Task, Store: st.Store, Seq: snap.Seq, At: stamp(s.clock()), Base: snap.BaseCommit, Dirs: tree.Dirs, Withheld: []Withheld{}}
	base := map[string]string{}
	if !r.WithBase && m.Base != "" {
		base = baseObjects(ctx, r.Root, m.Base)
	}
	was, err := s.Hub.places(ctx, *head)
	if err != nil && !IsCode(err, NotFound) {
		return nil, err
	}
	pub := &Published{Task: r.Task, Withheld: []Withheld{}}
	p := &packer{h: s.Hub}
	m.Files = make([]ManifestFile, 0, len(tree.Files)) // a file that is placed later must keep its address
	for i, f := range tree.Files {
		if i%256 == 255 {
			s.progress("files", int64(i+1), int64(len(tree.Files)))
		}
		if err := s.manifestFile(ctx, f, &m, p, was, base, pub); err != nil {
			return nil, err
		}
	}
	if err := p.flush(ctx); err != nil {
		return nil, err
	}
	if pub.FromBase == 0 {
		m.Base = ""
	}
	slices.SortStableFunc(m.Files, func(a, b ManifestFile) int { return strings.Compare(a.Pack, b.Pack) })
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if pub.Manifest, err = s.Hub.putObject(ctx, data); err != nil {
		return nil, err
	}
	pub.Files, pub.Withheld, pub.Base = len(m.Files), m.Withheld, m.Base
	head.Manifest, head.Base = pub.Manifest, m.Base
	return pub, nil
}

// manifestFile decides where the bytes of one file are stored, and uploads them
// if the hub does not have them.
func (s *Shipper) manifestFile(ctx context.Context, f admin.TreeFile, m *Manifest, p *packer, was map[string]ManifestFile, base map[string]string, pub *Published) error {
	sha := f.SHA256.String()
	withhold := func(reason string, kinds ...string) {
		m.Withheld = append(m.Withheld, Withheld{Path: f.Path, SHA256: sha, Reason: reason, Kinds: kinds})
	}
	m.Files = append(m.Files, ManifestFile{TreeFile: f})
	at := &m.Files[len(m.Files)-1]
	drop := func() { m.Files = m.Files[:len(m.Files)-1] }
	old, known := was[sha]
	switch {
	case f.Ignored:
		drop()
		withhold("ignored")
		return nil
	case f.Git != "" && base[f.Path] == f.Git:
		pub.FromBase++
		return nil
	case known:
		at.Pack, at.Object = old.Pack, old.Object
		return nil
	}
	data, why, err := s.content(ctx, wanted{f.Path, sha, f.Bytes, 0, f.Git})
	if err != nil {
		return err
	}
	if why != nil {
		drop()
		m.Withheld = append(m.Withheld, *why)
		return nil
	}
	pub.Uploaded++
	return p.add(ctx, sha, data, func(pack string) { at.Pack, at.Object = pack, pack == "" })
}

// places returns where the hub has the contents of the manifest of a task, by their
// hashes. If there are too many packs, it returns none: the next manifest packs everything
// again.
func (h *Hub) places(ctx context.Context, head TaskHead) (map[string]ManifestFile, error) {
	if head.Manifest == "" {
		return nil, nil
	}
	m, err := h.manifest(ctx, head)
	if err != nil {
		return nil, err
	}
	files, packs := map[string]ManifestFile{}, map[string]bool{}
	for _, f := range m.Files {
		if f.Pack != "" || f.Object {
			files[f.SHA256.String()] = f
			packs[f.Pack] = true
		}
	}
	if len(packs) > maxPacks {
		return nil, nil
	}
	return files, nil
}

// manifest reads the manifest of a task.
func (h *Hub) manifest(ctx context.Context, head TaskHead) (m Manifest, err error) {
	data, err := h.getObject(ctx, head.Manifest)
	if err != nil {
		return m, err
	}
	if json.Unmarshal(data, &m) != nil || m.Format != manifestFormat || m.Version != version || m.Task != head.Task {
		err = &Error{Code: Damaged, Key: h.objectKey(head.Manifest), Err: errors.New("it is no manifest of this task"), Hint: "run resilient-write hub verify"}
	}
	return m, err
}

// baseObjects are the git objects of a commit by the paths of the workspace; none
// where git does not say.
func baseObjects(ctx context.Context, root, commit string) map[string]string {
	out, err := gitcmd.New(ctx, root, "ls-tree", "-r", "-z", commit).Output()
	if err != nil {
		return nil
	}
	list := map[string]string{}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		facts, path, ok := bytes.Cut(entry, []byte{'\t'})
		if parts := strings.Fields(string(facts)); ok && len(parts) == 3 && parts[1] == "blob" {
			list[string(path)] = parts[2]
		}
	}
	return list
}

// handoff uploads the handoff. It returns nil if there is none.
func (s *Shipper) handoff(ctx context.Context, path string) (*HandoffRef, error) {
	h, err := s.Store.HandoffRead(ctx, handoff.ReadRequest{Path: path, Optional: true})
	if e := (*rw.Error)(nil); ctx.Err() != nil || errors.As(err, &e) && e.Code() == rw.CodeStorage {
		return nil, err
	}
	if err != nil || h.HandoffPath == "" { // a handoff that cannot be parsed is shipped as a file
		return nil, nil
	}
	ref := &HandoffRef{Path: h.HandoffPath, Status: string(h.Envelope.Status), Agent: h.Envelope.Agent}
	data, why, err := s.content(ctx, wanted{h.HandoffPath, h.SHA256.String(), h.Bytes, 0, ""})
	if err != nil {
		return nil, err
	}
	if why != nil {
		ref.Withheld = true
		return ref, nil
	}
	ref.SHA256, err = s.Hub.putObject(ctx, data)
	return ref, err
}
