package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/handoff"
)

// ResumeRequest asks for a task to be continued in the workspace of the shipper.
type ResumeRequest struct {
	Task string
	// Force takes a task whose lease has not expired. What its holder writes from then
	// on is not part of the task.
	Force bool
	// Caller is recorded with the commit.
	Caller string
}

// Resumed reports what a resume did.
type Resumed struct {
	Task  string    `json:"task"`
	Epoch uint64    `json:"epoch"`
	Until time.Time `json:"until"`
	// The store that held the task before, and its newest row at that time.
	FromStore string `json:"from_store,omitempty"`
	FromSeq   uint64 `json:"from_seq,omitempty"`
	// Number of files of the task, and of those that were written and deleted here.
	Files   int `json:"files"`
	Written int `json:"written"`
	Deleted int `json:"deleted"`
	// Number of directories that were created or removed, or whose mode was changed.
	Dirs int `json:"dirs"`
	// Journal row of the commit; 0 if nothing differed.
	Seq  uint64 `json:"seq,omitempty"`
	Base string `json:"base,omitempty"`
	// Files of the other machine that are missing here.
	Withheld []Withheld `json:"withheld"`
	// What is remarkable about the files, such as that one of them runs programs.
	Warnings []call.Warning `json:"warnings"`
	// The handoff in this workspace; nil if there is none.
	Handoff *HandoffFacts `json:"handoff,omitempty"`
}

// HandoffFacts is the content of a handoff, and which files differ from it.
type HandoffFacts struct {
	Path      string          `json:"path"`
	Status    string          `json:"status"`
	Agent     string          `json:"agent"`
	Summary   string          `json:"summary"`
	NextSteps []string        `json:"next_steps"`
	Drift     []handoff.Drift `json:"drift"`
}

// Resume takes the lease of a task and makes the workspace equal to what the task's
// last holder published, in one commit of the journal, which [rw.Store.Undo] reverts.
// The workspace must be an empty directory, or a clean checkout of the base commit if
// the manifest names one. Everything is verified before the commit. From then on the
// rows of this store belong to the task.
//
// If a call was interrupted at any point, the next one completes it. Errors:
// [NotFound] for a task that the hub does not know or for which nothing was published,
// [Leased] while another machine holds it, [NeedsBase], [Damaged], [Unreachable],
// those of [admin.Operator.Materialize]. After an error other than [Leased] or [NotFound]
// the lease may be held; calling again continues.
func (s *Shipper) Resume(ctx context.Context, r ResumeRequest) (Resumed, error) {
	out := Resumed{Task: r.Task, Withheld: []Withheld{}, Warnings: []call.Warning{}}
	err := s.holding(ctx, func() error { return s.resume(ctx, r, &out) })
	return out, err
}

func (s *Shipper) resume(ctx context.Context, r ResumeRequest, out *Resumed) error {
	if r.Task == "" {
		return errNoTask
	}
	st, err := loadState(s.Store)
	if err != nil {
		return err
	}
	head, etag, err := s.task(ctx, r.Task)
	switch {
	case err != nil:
		return err
	case etag == "":
		return &Error{Code: NotFound, Key: s.Hub.taskKey(r.Task), Err: fmt.Errorf("the hub has no task %s", r.Task), Hint: "resilient-write hub status lists the tasks"}
	case head.Manifest == "":
		return &Error{Code: NotFound, Key: s.Hub.taskKey(r.Task), Err: fmt.Errorf("nothing was published for task %s", r.Task), Hint: "publish it first: resilient-write hub ship --task " + r.Task}
	}
	m, err := s.Hub.manifest(ctx, head)
	if err != nil {
		return err
	}
	out.FromStore, out.FromSeq = m.Store, m.Seq
	if head.continues(st, r.Task) {
		st.Task, st.Epoch, st.LostTask = r.Task, head.Lease.Epoch, ""
		err = s.keep(st)
	} else if now := s.clock(); head.Lease.Holder != st.Store && now.Before(head.Lease.Until) && !r.Force {
		return &Error{Code: Leased, Key: s.Hub.taskKey(r.Task), Err: fmt.Errorf("store %s (%s) holds task %s until %s", head.Lease.Holder, head.Lease.Label, r.Task, head.Lease.Until.Format(time.RFC3339)),
			Hint: "wait until then, or take it with --force if that machine is gone"}
	} else {
		st.Resuming = r.Task
		head, err = s.take(ctx, st, head, etag)
	}
	if err != nil {
		return err
	}
	out.Epoch, out.Until, out.Base = head.Lease.Epoch, head.Lease.Until, m.Base
	if err := s.materialize(ctx, r, m, out); err != nil {
		return err
	}
	st.Resuming = ""
	if err := s.keep(st); err != nil {
		return err
	}
	out.Handoff, err = s.handoffHere(ctx, head.Handoff)
	return err
}

func (s *Shipper) materialize(ctx context.Context, r ResumeRequest, m Manifest, out *Resumed) error {
	req := admin.MaterializeRequest{Base: m.Base, Tree: admin.Tree{Dirs: m.Dirs}}
	req.Caller = r.Caller
	from := map[string]ManifestFile{}
	for _, f := range m.Files {
		req.Files = append(req.Files, f.TreeFile)
		from[f.Path] = f
	}
	for _, w := range m.Withheld {
		req.Keep = append(req.Keep, w.Path)
	}
	packs, done := packReader{h: s.Hub}, int64(0)
	req.Open = func(f admin.TreeFile) (io.ReadCloser, error) {
		at, sha := from[f.Path], f.SHA256.String()
		var data []byte
		var err error
		switch {
		case at.Object:
			data, err = s.Hub.getObject(ctx, sha)
		case at.Pack == "":
			err = needsBase(m.Base, f.Path)
		default:
			ok := false
			if data, ok, err = packs.content(ctx, at.Pack, sha); err == nil && !ok {
				err = &Error{Code: Damaged, Key: s.Hub.objectKey(at.Pack), Err: errors.New("the pack lacks a file of the manifest"), Hint: "run resilient-write hub verify"}
			}
		}
		if err != nil {
			return nil, err
		}
		if done++; done%256 == 0 {
			s.progress("files", done, int64(len(m.Files)))
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	res, err := s.Store.Admin().Materialize(ctx, req)
	var own *Error
	if errors.As(err, &own) {
		err = own
	}
	var e *rw.Error
	if errors.As(err, &e) && e.Context["head"] != nil {
		err = needsBase(m.Base, "")
	}
	out.Files, out.Written, out.Deleted, out.Dirs, out.Seq, out.Withheld = len(m.Files), res.Written, res.Deleted, res.Dirs, res.Seq, m.Withheld
	out.Warnings = append(out.Warnings, res.Warnings...)
	return err
}

func needsBase(base, path string) error {
	what := "the directory is no checkout of commit " + base
	if path != "" {
		what = path + " is not as in commit " + base + ", which alone has its bytes"
	}
	return &Error{Code: NeedsBase, Err: errors.New(what), Hint: "clone the repository, check out " + base + " and resume into it, or publish with --with-base"}
}

// handoffHere reads the handoff of the resumed workspace.
func (s *Shipper) handoffHere(ctx context.Context, ref *HandoffRef) (*HandoffFacts, error) {
	if ref == nil || ref.Withheld {
		return nil, nil
	}
	h, err := s.Store.HandoffRead(ctx, handoff.ReadRequest{Path: ref.Path, Optional: true})
	if err != nil || h.HandoffPath == "" {
		return nil, err
	}
	return &HandoffFacts{
		Path: h.HandoffPath, Status: string(h.Envelope.Status), Agent: h.Envelope.Agent, Summary: h.Envelope.Summary,
		NextSteps: h.Envelope.NextSteps, Drift: h.DriftWarnings,
	}, nil
}
