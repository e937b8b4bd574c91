package resilientwrite_test

import (
	"context"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestACostlyPatternFailsTheCall: where a pattern of the policy takes too long on
// a text, every call that scans the text fails with the file and the line of the
// pattern, nothing is written, and other texts are; advice warns.
func TestACostlyPatternFailsTheCall(t *testing.T) {
	t.Parallel()
	const policy = "gate: {mode: block}\nextend_patterns:\n  own:\n  - name: slow\n    regex: '[ab]{1,990}c'\n"
	dir := ramspace(t)
	s := openWith(t, dir, policy, nil)
	passes(t, s, put("old.txt", "an old text\n", rw.ModeCreate))
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte(strings.Repeat("ab", 20<<10))}))(t)
	s.LetPatternsTake(1)
	text := strings.Repeat("ab", 20<<10)
	before := everyFile(t, dir)
	for name, call := range map[string]func() error{
		"write": func() error { _, err := s.SafeWrite(background, put("a.txt", text, rw.ModeCreate)); return err },
		"dry run": func() error {
			r := put("a.txt", text, rw.ModeCreate)
			r.DryRun = true
			_, err := s.SafeWrite(background, r)
			return err
		},
		"append": func() error { _, err := s.SafeWrite(background, put("old.txt", text, rw.ModeAppend)); return err },
		"replace": func() error {
			_, err := s.SafeWrite(background, put("old.txt", text, rw.ModeOverwrite))
			return err
		},
		"compose": func() error {
			_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "a.txt"})
			return err
		},
		"preview": func() error {
			_, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s", Classify: true})
			return err
		},
		"score": func() error {
			_, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(text)})
			return err
		},
		"redact": func() error { _, err := s.Redact(background, rw.RedactRequest{Content: []byte(text)}); return err },
		"tx": func() error {
			_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "x.txt", Content: []byte("x")}, {Op: "write", Path: "y.txt", Content: []byte(text)}}})
			return err
		},
	} {
		err := call()
		e := rw.AsError("", err)
		if err == nil || e.Detail != rw.ErrBadPolicy || e.Context["problem"] != "too_costly" || e.Context["line"] != 4 || e.Context["pattern"] != "slow" || e.Context["file"] != ".resilient_write/policy.yaml" || !strings.Contains(e.Hint, "line 4") {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for path := range everyFile(t, dir) {
		if _, was := before[path]; !was && !strings.Contains(path, rw.StateDirName) {
			t.Errorf("%s was made", path)
		}
	}
	passes(t, s, put("b.txt", "a short text\n", rw.ModeCreate))
	s.LetPatternsTake(time.Hour)
	passes(t, s, put("a.txt", text[:2<<10], rw.ModeCreate))

	advised := openWith(t, ramspace(t), strings.Replace(policy, "block", "advise", 1), nil)
	advised.LetPatternsTake(1)
	for _, n := range []int{len(text), 200 << 10} { // judged before and during the write
		r, err := advised.SafeWrite(context.Background(), put("a.txt", strings.Repeat("ab", n/2), rw.ModeOverwrite))
		if err != nil || reasons(r.Warnings) != rw.WarnNotScanned {
			t.Errorf("%d bytes under advise: %v %v", n, err, r.Warnings)
		}
	}
}
