package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// RiskScoreRequest asks how risky a text is.
type RiskScoreRequest struct {
	// The text to scan, or base64 when encoding is base64.
	Content []byte `json:"content" required:"true"`
	// How content is encoded.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// Format of the text. Reserved; it has no effect yet.
	LanguageHint string `json:"language_hint,omitempty" maxlen:"200"`
	// Intended path of the text. Policy exceptions for that path apply.
	TargetPath string `json:"target_path,omitempty"`
}

// RiskScoreResult is what was found in a text.
type RiskScoreResult struct {
	// 0 to 1, four decimals: for each family its weight times 1 plus a quarter
	// for each further finding, at most 1.5, plus a share for size.
	Score float64 `json:"score"`
	// high from 0.70 or with a confirmed credential, medium from 0.40, low from
	// 0.10, unless the policy sets other thresholds.
	Verdict   Verdict `json:"verdict" enum:"safe,low,medium,high"`
	Bytes     int     `json:"bytes"`      // Size of the text in bytes.
	LineCount int     `json:"line_count"` // Number of lines.
	// Length of the longest line in characters.
	MaxLineLen int `json:"max_line_len"`
	// The findings in order of position, then exceeded size limits; at most 1000.
	DetectedPatterns []RiskFinding `json:"detected_patterns"`
	SuggestedActions []RiskAction  `json:"suggested_actions"` // Recommended action.
	// Number of findings that count but are not listed.
	Omitted int `json:"omitted"`
	Allowed int `json:"allowed"` // Number of findings that the policy allows.
}

// RiskAction is one thing to do about what was found.
type RiskAction struct {
	Action string `json:"action" enum:"redact,split,escape"` // What to do.
	// redact: the families that contain secrets, sorted.
	Targets []string `json:"targets,omitempty"`
	Reason  string   `json:"reason,omitempty"` // Reason, for the other actions.
}

// ScoreContent returns how risky content is by a policy; nil means the default
// policy. It depends only on its arguments, and takes time linear in the content
// and constant memory.
func ScoreContent(content []byte, p *Policy) RiskScoreResult {
	if p == nil {
		p = DefaultPolicy()
	}
	report, _ := p.p.Score(context.Background(), content, "") // which is never done
	return riskOf(report)
}

// RiskScore returns how risky a text is by the policy of the store: its score,
// the findings with their positions, and suggested actions. Nothing is changed on
// disk, and the text is not stored.
//
// Errors: the common ones, [ErrTooLarge], and the path details for an invalid
// target path.
func (s *Store) RiskScore(ctx context.Context, r RiskScoreRequest) (RiskScoreResult, error) {
	return reading(ctx, s, "risk_score", r.TargetPath, r, func() (RiskScoreResult, error) {
		path, err := s.scanned(ctx, r.Content, r.TargetPath)
		if err != nil {
			return RiskScoreResult{}, err
		}
		report, err := s.gate.Policy().Score(s.gate.Bounded(ctx), r.Content, path)
		return riskOf(report), err
	})
}

// riskOf converts a report to its wire form.
func riskOf(r scan.Report) RiskScoreResult {
	out := RiskScoreResult{
		Score: r.Score, Verdict: Verdict(r.Verdict), Bytes: r.Bytes, LineCount: r.LineCount, MaxLineLen: r.MaxLineLen,
		DetectedPatterns: riskFindings(r.Findings), SuggestedActions: []RiskAction{}, Omitted: r.Omitted, Allowed: r.Allowed,
	}
	for _, h := range r.Size {
		out.DetectedPatterns = append(out.DetectedPatterns, RiskFinding{Kind: "size", Pattern: h.Pattern, Value: h.Value, Threshold: h.Threshold})
	}
	for _, a := range r.Actions() {
		out.SuggestedActions = append(out.SuggestedActions, RiskAction{Action: a.Action, Targets: a.Targets, Reason: a.Reason})
	}
	return out
}

// RedactRequest asks for a text, or a refused draft, without its secrets.
type RedactRequest struct {
	Content []byte `json:"content,omitempty"` // The text to redact. Give this or draft_ref.
	// Encoding of content in the request and the reply.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// The draft to redact instead of content: draft_ref of a refusal. The text
	// need not be sent again.
	DraftRef string `json:"draft_ref,omitempty" maxlen:"200"`
	// Intended path of the text. Policy exceptions for that path apply.
	TargetPath string `json:"target_path,omitempty"`
}

// RedactResult is the text with a marker in place of each secret.
type RedactResult struct {
	// The text with {KIND-REDACTED} in place of each secret, in the encoding of
	// the request. Line numbers do not change.
	Content []byte          `json:"content"`
	_       schema.Encoding `wire:"encoding" enum:"utf-8,base64"` // How content is encoded.
	// The replacements in order of position; at most 1000.
	Spans   []RedactSpan `json:"spans"`
	Omitted int          `json:"omitted"` // Number of replacements that are not listed.
	// Verdict on the remaining content, leaving out its size.
	Verdict Verdict `json:"verdict" enum:"safe,low,medium,high"`
	SHA256  Digest  `json:"sha256"` // SHA-256 of the redacted bytes.
}

// RedactSpan is one place of the original text that was replaced.
type RedactSpan struct {
	Kind    string `json:"kind"`    // Family of the finding.
	Pattern string `json:"pattern"` // The rule that found it.
	Line    int    `json:"line"`    // Line in the original text, from 1.
	Column  int    `json:"column"`  // Column in the original text in characters, from 1.
	Length  int    `json:"length"`  // Number of bytes replaced.
}

// Redact returns a text with a marker in place of each secret and each piece
// of personal data. Lines stay where they are, and redacting twice changes
// nothing more. All places are replaced; the first 1000 are listed. A refused draft can be redacted by its reference, under the
// same rule as [Store.DraftGet].
//
// Errors: the common ones, [ErrInvalidArgument] for both or neither of content
// and draft_ref, [ErrTooLarge], [ErrDraftNotFound], [ErrScratchGetDisabled],
// [ErrHashDriftOnRead].
func (s *Store) Redact(ctx context.Context, r RedactRequest) (RedactResult, error) {
	about := r.TargetPath
	if r.DraftRef != "" {
		about = drafts.Path(r.DraftRef)
	}
	return reading(ctx, s, "redact", about, r, func() (RedactResult, error) { return s.redact(ctx, r) })
}

func (s *Store) redact(ctx context.Context, r RedactRequest) (RedactResult, error) {
	content := r.Content
	if (len(content) == 0) == (r.DraftRef == "") {
		return RedactResult{}, fault.New(fault.InvalidArgument).Hintf("give either content or draft_ref").With("argument", "content")
	}
	path, err := s.scanned(ctx, content, r.TargetPath)
	if err != nil {
		return RedactResult{}, err
	}
	if r.DraftRef != "" {
		d, draft, err := s.readDraft(r.DraftRef)
		if err != nil {
			return RedactResult{}, err
		}
		if content = draft; path == "" {
			path = d.Path
		}
	}
	out := RedactResult{Spans: []RedactSpan{}}
	clean, verdict, err := s.gate.Policy().Redact(s.gate.Bounded(ctx), content, path, out.list)
	if err != nil {
		return RedactResult{}, err
	}
	out.Content, out.SHA256, out.Verdict = clean, digest(engine.HashOf(clean)), Verdict(verdict)
	return out, nil
}

// maxSpans is how many places a redaction lists.
const maxSpans = 1000

func (r *RedactResult) list(x scan.Span) {
	if len(r.Spans) == maxSpans {
		r.Omitted++
		return
	}
	r.Spans = append(r.Spans, RedactSpan{Kind: x.Family, Pattern: x.Pattern, Line: x.Line, Column: x.Column, Length: x.Length})
}

// Draft is a draft that the gate refused.
type Draft struct {
	DraftRef  string    `json:"draft_ref"`  // Identifier of the draft.
	Path      string    `json:"path"`       // Intended path, relative to the workspace.
	Op        string    `json:"op"`         // The verb that was refused.
	Mode      string    `json:"mode"`       // The intended mode of the write.
	SHA256    Digest    `json:"sha256"`     // SHA-256 of the draft.
	Bytes     int64     `json:"bytes"`      // Size of the draft in bytes.
	Patterns  []string  `json:"patterns"`   // Families of the findings, sorted.
	Caller    string    `json:"caller"`     // Caller whose draft it is.
	CreatedAt time.Time `json:"created_at"` // When it was last refused, RFC 3339 UTC.
	ExpiresAt time.Time `json:"expires_at"` // When it expires, RFC 3339 UTC.
}

func draftOf(f drafts.Facts) Draft {
	return Draft{
		DraftRef: f.DraftRef, Path: f.Path, Op: f.Op, Mode: f.Mode, SHA256: digest(f.SHA256), Bytes: f.Bytes,
		Patterns: f.Patterns, Caller: f.Caller, CreatedAt: stamp.Parse(f.CreatedAt), ExpiresAt: stamp.Parse(f.ExpiresAt),
	}
}

// DraftListRequest asks which refused drafts are kept.
type DraftListRequest struct{}

// DraftListResult lists refused drafts.
type DraftListResult struct {
	Drafts []Draft `json:"drafts"` // The drafts, newest first, without their content.
	Count  int     `json:"count"`  // Number of drafts.
}

// DraftList lists the drafts that the gate refused and that are still kept: for
// seven days, at most 100, at most 256 MiB together. Errors: the common ones.
func (s *Store) DraftList(ctx context.Context, r DraftListRequest) (DraftListResult, error) {
	return reading(ctx, s, "draft_list", "", r, func() (DraftListResult, error) {
		list, err := s.drafts.Live()
		out := DraftListResult{Drafts: make([]Draft, len(list)), Count: len(list)}
		for i, f := range list {
			out.Drafts[i] = draftOf(f)
		}
		return out, err
	})
}

// DraftGetRequest asks for a refused draft.
type DraftGetRequest struct {
	DraftRef string `json:"draft_ref" required:"true" maxlen:"200"` // draft_ref of a refusal.
	// How content is returned. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
}

// DraftGetResult is a refused draft.
type DraftGetResult struct {
	Draft Draft `json:"draft"` // Facts about the draft.
	// The draft as sent. It contains the secrets for which it was refused.
	Content []byte          `json:"content"`
	_       schema.Encoding `wire:"encoding" enum:"utf-8,base64"` // How content is encoded.
}

// DraftGet returns a refused draft as it was sent, secrets included.
// [Options.DisableScratchGet] forbids it, as for the scratchpad.
//
// Errors: the common ones, [ErrDraftNotFound], [ErrScratchGetDisabled],
// [ErrHashDriftOnRead] for a draft that was changed on disk.
func (s *Store) DraftGet(ctx context.Context, r DraftGetRequest) (DraftGetResult, error) {
	return reading(ctx, s, "draft_get", drafts.Path(r.DraftRef), r, func() (DraftGetResult, error) {
		d, content, err := s.readDraft(r.DraftRef)
		return DraftGetResult{Draft: draftOf(d), Content: content}, err
	})
}

// readDraft reads a draft, unless the options forbid it.
func (s *Store) readDraft(ref string) (drafts.Facts, []byte, error) {
	if s.opts.DisableScratchGet {
		return drafts.Facts{}, nil, fault.New(fault.ScratchGetDisabled)
	}
	return s.drafts.Read(ref)
}

// DraftDeleteRequest asks for a refused draft to be removed.
type DraftDeleteRequest struct {
	DraftRef string `json:"draft_ref" required:"true" maxlen:"200"` // draft_ref of a refusal.
	// Report what would be removed, but change nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// DraftDeleteResult reports what was removed.
type DraftDeleteResult struct {
	DraftRef string `json:"draft_ref"` // The draft.
	Removed  bool   `json:"removed"`   // False when it did not exist.
}

// DraftDelete removes a refused draft for good. A draft that does not exist is no
// error: the call can be repeated after a lost reply without an idempotency key,
// and only removed distinguishes the second call from the first. It is not a
// commit and has no row in the journal.
//
// Errors: the storage details, [ErrStoreClosed], [ErrStoreReadOnly]. After an
// error, what is left of the draft is removed by the next Open, or can be removed
// again.
func (s *Store) DraftDelete(ctx context.Context, r DraftDeleteRequest) (DraftDeleteResult, error) {
	a, e := s.budgets.Begin(ctx, "draft_delete", "", r)
	if e != nil {
		return DraftDeleteResult{}, errorFrom(e)
	}
	out := DraftDeleteResult{DraftRef: s.gate.HideName(r.DraftRef)}
	var err error
	if s.opts.ReadOnly {
		err = fault.New(fault.StoreReadOnly)
	} else {
		out.Removed, err = s.drafts.Delete(r.DraftRef, r.DryRun)
	}
	if err != nil && !r.DryRun {
		return DraftDeleteResult{}, errorFrom(a.Fail(err))
	}
	s.engine.Leave()
	if err != nil { // dry runs do not count
		return DraftDeleteResult{}, s.verbError("draft_delete", err)
	}
	return out, nil
}
