package resilientwrite

import (
	"context"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// ChunkStatusRequest asks how far a session is.
type ChunkStatusRequest struct {
	// Name of the session.
	Session string `json:"session" required:"true"`
}

// ChunkStatusResult reports how far a session is.
type ChunkStatusResult struct {
	// Name of the session.
	Session string `json:"session"`
	// False when the session does not exist.
	Exists bool `json:"exists"`
	// When the session began, RFC 3339 UTC; absent when that is not known.
	CreatedAt string `json:"created_at,omitempty"`
	// Total number of chunks expected; absent when not given.
	TotalExpected *int `json:"total_expected,omitempty"`
	// Numbers of the stored chunks.
	PresentIndices []int `json:"present_indices"`
	// Missing numbers up to total_expected or below the last chunk; at most 1000.
	Missing []int `json:"missing"`
	// Number of missing chunks.
	MissingCount int `json:"missing_count"`
	// Number following the last chunk; the next append gets it.
	NextIndex int `json:"next_index"`
	// Total size of the chunks in bytes.
	Bytes int64 `json:"bytes"`
	// Path of the chunks in the state directory.
	ChunkDir string `json:"chunk_dir,omitempty"`
	// True once the session was composed; it accepts no more chunks.
	Sealed bool `json:"sealed"`
	// The separator it was composed with.
	Separator string `json:"separator"`
	// The file it was composed into.
	OutputPath string `json:"output_path,omitempty"`
	// SHA-256 of that file when it was composed.
	OutputSHA256 Digest `json:"output_sha256,omitzero"`
}

// ChunkStatus reports which pieces of a session exist and which are missing. A
// second process needs this to continue where a first one died. The pieces are
// not read. Work that a dead writer left half done is completed first; a session
// whose reset was interrupted no longer exists.
//
// Errors: [ErrBadSession], [ErrBadStateDir], [ErrLockTimeout], [ErrRetryExhausted], the
// storage details, [ErrStoreClosed], [ErrCanceled].
func (s *Store) ChunkStatus(ctx context.Context, r ChunkStatusRequest) (ChunkStatusResult, error) {
	a, err := s.begin(ctx, "chunk_status", "", sessionCall{s, r.Session, r})
	if err != nil {
		return ChunkStatusResult{}, err
	}
	sess, err := s.session(ctx, r.Session)
	if err != nil {
		return ChunkStatusResult{}, a.failed(err)
	}
	defer s.engine.Leave()
	out := ChunkStatusResult{
		Session: r.Session, Exists: sess.Found, CreatedAt: sess.Manifest.CreatedAt, TotalExpected: sess.Total(), PresentIndices: sess.Indices(),
		NextIndex: sess.Next(), Bytes: sess.Bytes(), Separator: sess.Manifest.Separator,
	}
	out.Missing, out.MissingCount = sess.Missing()
	if sess.Found {
		out.ChunkDir = engine.StateDirName + "/" + chunks.SessionObject(r.Session)
	}
	if seal := sess.Manifest.Sealed; seal != nil {
		out.Sealed, out.OutputPath, out.OutputSHA256 = true, seal.OutputPath, digest(seal.SHA256)
	}
	return out, nil
}

// sessionCall is a request for the retry budget: when the session changes, the
// count starts again.
type sessionCall struct {
	s       *Store
	session string
	req     any
}

func (c sessionCall) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{c.req, c.s.stateOfSession(c.session)})
}

// session returns a session for a reader.
func (s *Store) session(ctx context.Context, name string) (*chunks.Session, error) {
	if e := chunks.CheckName(name); e != nil {
		return nil, e
	}
	if err := s.chunks.SettleSession(ctx, name); err != nil {
		return nil, err
	}
	sess, err := s.chunks.Read(name)
	if err == nil && sess.Manifest.ResetPending {
		return sess.Gone(), nil
	}
	return sess, err
}

// ChunkPreviewRequest asks for what a compose would write.
type ChunkPreviewRequest struct {
	// Name of the session.
	Session string `json:"session" required:"true"`
	// Text inserted between chunks. Default: none or, for a session that was
	// composed before, the separator used then.
	Separator *string `json:"separator,omitempty"`
	// Maximum bytes of content to return; 0 means 1 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty" min:"0"`
	// Offset of the first byte to return.
	Offset int64 `json:"offset,omitempty" min:"0"`
	// How content is returned. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// Also return the risk score of the whole file, as Store.RiskScore would.
	Classify bool `json:"classify,omitempty"`
	// Also check the syntax of the whole file, as Store.Validate would.
	Validate bool `json:"validate,omitempty"`
	// Intended path of the file. Policy exceptions for that path apply, and its
	// extension selects the format.
	TargetPath string `json:"target_path,omitempty"`
}

// ChunkPreviewResult is what a compose would write.
type ChunkPreviewResult struct {
	// Name of the session.
	Session string `json:"session"`
	// Always true: nothing was written.
	Preview bool `json:"preview"`
	// The requested bytes, as text or base64.
	Content []byte `json:"content"`
	// How content is encoded.
	_ schema.Encoding `wire:"encoding" enum:"utf-8,base64"`
	// Offset of the first byte returned.
	Offset int64 `json:"offset"`
	// True when the file continues after the returned bytes.
	Truncated bool `json:"truncated"`
	// Number of stored chunks.
	ChunkCount int `json:"chunk_count"`
	// SHA-256 of each piece, in order.
	ChunkHashes []Digest `json:"chunk_hashes"`
	// Size of the composed file in bytes.
	TotalBytes int64 `json:"total_bytes"`
	// SHA-256 of the composed file; pass it as expected_sha256 of
	// Store.ChunkCompose.
	SHA256 Digest `json:"sha256"`
	// Missing numbers; a compose would be refused. At most 1000.
	Missing []int `json:"missing"`
	// With classify: the risk of the composed file.
	Risk *RiskScoreResult `json:"risk,omitempty"`
	// With validate: whether the composed file is well formed; absent when it is
	// too large to check.
	Validation *ValidateResult `json:"validation,omitempty"`
}

// ChunkPreview reads what a compose of the stored pieces would write, or a part
// of it, with the hash of each piece and of the whole. Nothing is written. Every
// piece is compared with the hash that was recorded when it was stored.
//
// Errors: [ErrBadSession], [ErrInvalidArgument], [ErrTooLarge], [ErrSessionNotFound],
// [ErrNoChunksFound], [ErrHashDriftOnRead] for a piece that was changed on disk,
// naming its number, the path details for a
// target path that is invalid, [ErrBadStateDir], [ErrLockTimeout], [ErrRetryExhausted],
// the storage details, [ErrStoreClosed], [ErrCanceled].
func (s *Store) ChunkPreview(ctx context.Context, r ChunkPreviewRequest) (ChunkPreviewResult, error) {
	a, err := s.begin(ctx, "chunk_preview", "", sessionCall{s, r.Session, r})
	if err != nil {
		return ChunkPreviewResult{}, err
	}
	if e := r.check(); e != nil {
		return ChunkPreviewResult{}, a.failed(e)
	}
	if r.TargetPath != "" {
		if r.TargetPath, _, err = relpath.Clean(r.TargetPath, s.engine.Tree.Rules); err != nil {
			return ChunkPreviewResult{}, a.failed(err)
		}
	}
	var out ChunkPreviewResult
	for range chunks.MaxAgain { // pieces may be taken away while they are read
		if out, err = s.preview(ctx, r); !engine.IsAbsent(err) {
			break
		}
	}
	if err != nil {
		return ChunkPreviewResult{}, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

func (r *ChunkPreviewRequest) check() *fault.Fault {
	if r.MaxBytes == 0 {
		r.MaxBytes = defaultRead
	}
	switch {
	case r.MaxBytes < 0 || r.Offset < 0:
		return fault.New(fault.InvalidArgument).Hintf("offset and max_bytes must not be negative")
	case r.MaxBytes > maxRead:
		return fault.New(fault.TooLarge).Hintf("read the preview in parts of at most %d bytes, with offset", maxRead)
	case r.Separator != nil && (len(*r.Separator) > maxSeparator || !utf8.ValidString(*r.Separator)):
		return fault.New(fault.InvalidArgument).Hintf("separator must be valid UTF-8 of at most %d bytes", maxSeparator).With("argument", "separator")
	}
	return nil
}

func (s *Store) preview(ctx context.Context, r ChunkPreviewRequest) (ChunkPreviewResult, error) {
	out := ChunkPreviewResult{Session: r.Session, Preview: true, ChunkHashes: digests([]string{}), Offset: r.Offset}
	sess, err := s.session(ctx, r.Session)
	switch {
	case err != nil:
		return out, err
	case !sess.Found:
		return out, fault.New(fault.SessionNotFound).With("session", r.Session)
	case len(sess.Parts) == 0:
		return out, fault.New(fault.NoChunksFound).With("session", r.Session)
	}
	sep := sess.Manifest.Separator
	if r.Separator != nil {
		sep = *r.Separator
	}
	dir, err := s.chunks.OpenDir(r.Session)
	if err != nil {
		return out, err
	}
	if dir == nil { // removed since
		return out, fault.New(fault.SessionNotFound).With("session", r.Session)
	}
	defer dir.Close()
	w := &window{from: r.Offset, left: r.MaxBytes}
	if err := s.readPreview(ctx, &out, w, s.chunks.Join(dir, sess, sep), r); err != nil {
		return out, err
	}
	out.Missing, _ = sess.Missing()
	out.ChunkCount, out.TotalBytes = len(sess.Parts), w.at
	for _, p := range sess.Parts {
		out.ChunkHashes = append(out.ChunkHashes, digest(p.SHA256))
	}
	out.Offset = min(out.Offset, w.at)
	out.Truncated, out.Content = out.Offset+int64(len(w.got)) < w.at, w.got
	return out, nil
}

// readPreview reads the whole once and passes it to everything that needs it.
func (s *Store) readPreview(ctx context.Context, out *ChunkPreviewResult, w *window, src *chunks.Joined, r ChunkPreviewRequest) error {
	defer src.Close()
	sum := engine.NewDigest()
	sinks := []io.Writer{sum, w}
	opt := s.policy().options(r.TargetPath)
	ctx = s.bounded(ctx)
	opt.Context = ctx
	stream := s.policy().scanner.NewStream(opt)
	if r.Classify {
		sinks = append(sinks, stream)
	}
	whole := &window{left: maxValidated}
	if r.Validate {
		sinks = append(sinks, whole)
	}
	if _, err := engine.Move(io.MultiWriter(sinks...), engine.NewStoppable(ctx, src)); err != nil {
		return err
	}
	out.SHA256 = digest(sum.Hex())
	if r.Classify {
		report := stream.Report()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		risk := riskOf(report)
		out.Risk = &risk
	}
	if r.Validate && whole.at == int64(len(whole.got)) {
		v, err := s.checkSyntax(ctx, "", r.TargetPath, whole.got)
		if err != nil {
			return err
		}
		out.Validation = &v
	}
	return nil
}

// window keeps a part of what is written to it.
type window struct {
	from, left int64
	at         int64
	got        []byte
}

func (w *window) Write(p []byte) (int, error) {
	begin := min(max(w.from-w.at, 0), int64(len(p)))
	end := min(begin+w.left, int64(len(p)))
	w.got = append(w.got, p[begin:end]...)
	w.left -= end - begin
	w.at += int64(len(p))
	return len(p), nil
}

// ChunkListRequest asks which sessions there are.
type ChunkListRequest struct{}

// ChunkListResult lists the sessions.
type ChunkListResult struct {
	// The sessions, sorted by name.
	Sessions []ChunkSession `json:"sessions"`
	// Number of sessions.
	Count int `json:"count"`
}

// ChunkSession is one session of the list.
type ChunkSession struct {
	// Name of the session.
	Session string `json:"session"`
	// Total number of chunks expected; absent when not given.
	TotalExpected *int `json:"total_expected,omitempty"`
	// Number of stored chunks.
	ChunkCount int `json:"chunk_count"`
	// Number of missing chunks.
	MissingCount int `json:"missing_count"`
	// Number following the last chunk.
	NextIndex int `json:"next_index"`
	// Total size of the chunks in bytes.
	Bytes int64 `json:"bytes"`
	// True once the session was composed; it accepts no more chunks.
	Sealed bool `json:"sealed"`
	// True when the session cannot be read; Store.ChunkStatus says why.
	Unreadable bool `json:"unreadable,omitempty"`
}

// ChunkList lists the kept sessions, including those that were composed and not
// cleaned up. One that cannot be read is marked and does not hide the others. The
// pieces are not read and nothing is changed on disk. Errors:
// [ErrBadStateDir], [ErrRetryExhausted], the storage details, [ErrStoreClosed],
// [ErrCanceled].
func (s *Store) ChunkList(ctx context.Context, r ChunkListRequest) (ChunkListResult, error) {
	a, err := s.begin(ctx, "chunk_list", "", r)
	if err != nil {
		return ChunkListResult{}, err
	}
	out := ChunkListResult{Sessions: []ChunkSession{}}
	if err := s.listSessions(ctx, &out); err != nil {
		return ChunkListResult{}, a.failed(err)
	}
	defer s.engine.Leave()
	out.Count = len(out.Sessions)
	return out, nil
}

func (s *Store) listSessions(ctx context.Context, out *ChunkListResult) error {
	dir, err := s.chunks.OpenAll()
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if st, err := dir.Lstat(name); chunks.CheckName(name) != nil || err == nil && st.Kind != fsx.Directory {
			continue
		}
		sess, err := s.chunks.Read(name)
		if err != nil {
			out.Sessions = append(out.Sessions, ChunkSession{Session: name, Unreadable: true})
			continue
		}
		if !sess.Found || sess.Manifest.ResetPending {
			continue
		}
		entry := ChunkSession{
			Session: name, TotalExpected: sess.Total(), ChunkCount: len(sess.Parts),
			NextIndex: sess.Next(), Bytes: sess.Bytes(), Sealed: sess.Manifest.Sealed != nil,
		}
		_, entry.MissingCount = sess.Missing()
		out.Sessions = append(out.Sessions, entry)
	}
	return nil
}
