package resilientwrite_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
)

func TestDigestText(t *testing.T) {
	of := call.DigestOf([]byte("x"))
	for text, want := range map[string]rw.Digest{of.String(): of, strings.ToUpper(of.String()): of, "": {}} {
		equal(t, must(call.ParseDigest(text))(t), want, text)
	}
	for _, text := range []string{"abc", of.String() + "\n", of.String()[1:], strings.Repeat("z", 64), " " + of.String()} {
		d, err := call.ParseDigest(text)
		expect(t, err != nil && d.IsZero(), "%q: %v %v", text, d, err)
	}
	d := must(call.ParseDigest(strings.Repeat("0", 64)))(t)
	expect(t, !d.IsZero(), "64 zeros are taken for no digest: %v", d)
	expect(t, (rw.Digest{}).String() == "" && rw.Exactly(rw.Digest{}) == rw.Absent && rw.AnyVersion == (rw.Expect{}) && rw.Exactly(of) != rw.Absent,
		"the zero values")
	for _, e := range []rw.Expect{rw.Absent, rw.Exactly(of)} {
		var back rw.Expect
		text := must(json.Marshal(e))(t)
		expect(t, json.Unmarshal(text, &back) == nil && back == e, "%v came back as %v", e, back)
	}
}

// TestMalformedArguments: the verb refuses arguments that an adapter could not decode,
// and nothing is written.
func TestMalformedArguments(t *testing.T) {
	dir := ramspace(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "a", rw.ModeCreate)
	put := keep(t, s, rw.ScratchPutRequest{Content: []byte("kept"), Label: "l"})
	begun := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	op := rw.TxOp{Op: "write", Path: "n.txt", Content: []byte("n")}
	for i, c := range []struct {
		argument string
		call     func(ctx context.Context) error
	}{
		{"content", func(ctx context.Context) error { return errorOf(s.SafeWrite(ctx, put1("n.txt"))) }},
		{"expected_prev_sha256", func(ctx context.Context) error { return errorOf(s.SafeWrite(ctx, put1("n.txt"))) }},
		{"content_sha256", func(ctx context.Context) error { return errorOf(s.SafeWrite(ctx, put1("n.txt"))) }},
		{"expected_prev_sha256", func(ctx context.Context) error {
			return errorOf(s.Edit(ctx, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "a", New: "b"}}}))
		}},
		{"expected_prev_sha256", func(ctx context.Context) error { return errorOf(s.Delete(ctx, rw.DeleteRequest{Path: "a.txt"})) }},
		{"expected_prev_sha256", func(ctx context.Context) error {
			return errorOf(s.Move(ctx, rw.MoveRequest{Path: "a.txt", To: "b.txt"}))
		}},
		{"expected_prev_sha256", func(ctx context.Context) error {
			return errorOf(s.HandoffWrite(ctx, handoff.WriteRequest{Envelope: anEnvelope("t")}))
		}},
		{"sha256", func(ctx context.Context) error {
			return errorOf(s.Restore(ctx, rw.RestoreRequest{Path: "a.txt", Version: 1}))
		}},
		{"content", func(ctx context.Context) error {
			return errorOf(s.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")}))
		}},
		{"expected_sha256", func(ctx context.Context) error {
			return errorOf(s.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: "s", OutputPath: "n.txt"}))
		}},
		{"content", func(ctx context.Context) error {
			return errorOf(s.ScratchPut(ctx, rw.ScratchPutRequest{Content: []byte("x")}))
		}},
		{"sha256", func(ctx context.Context) error {
			return errorOf(s.ScratchDelete(ctx, rw.ScratchDeleteRequest{Label: "l"}))
		}},
		{"sha256", func(ctx context.Context) error { return errorOf(s.ScratchRef(ctx, rw.ScratchRefRequest{Label: "l"})) }},
		{"sha256", func(ctx context.Context) error { return errorOf(s.ScratchGet(ctx, rw.ScratchGetRequest{})) }},
		{"content", func(ctx context.Context) error {
			return errorOf(s.RiskScore(ctx, rw.RiskScoreRequest{Content: []byte("x")}))
		}},
		{"content", func(ctx context.Context) error { return errorOf(s.Redact(ctx, rw.RedactRequest{Content: []byte("x")})) }},
		{"content", func(ctx context.Context) error {
			return errorOf(s.Validate(ctx, rw.ValidateRequest{Content: []byte("x")}))
		}},
		{"ops[1].content", func(ctx context.Context) error { return transactIn(ctx, s, rw.TxOp{Op: "delete", Path: "a.txt"}, op) }},
		{"ops[1].expected_prev_sha256", func(ctx context.Context) error { return transactIn(ctx, s, rw.TxOp{Op: "delete", Path: "a.txt"}, op) }},
		{"op.content", func(ctx context.Context) error {
			return errorOf(s.TxStage(ctx, rw.TxStageRequest{TxID: begun.TxID, Op: op}))
		}},
		{"op.expected_prev_sha256", func(ctx context.Context) error {
			return errorOf(s.TxStage(ctx, rw.TxStageRequest{TxID: begun.TxID, Op: op}))
		}},
	} {
		want := rw.ErrBadBase64
		if strings.HasSuffix(c.argument, "sha256") {
			want = rw.ErrBadSHA256
		}
		err := c.call(adapter.WithMalformed(background, []string{c.argument}))
		isErr(t, err, want, i, ": ", c.argument)
		if strings.Contains(c.argument, "ops") && rw.AsError("", err).Context["op_index"] != 1 {
			t.Errorf("%s: %v", c.argument, rw.AsError("", err).Context)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 2 { // the file and the state directory
			t.Errorf("%d: %s changed the files: %q", i, c.argument, names)
		}
		fileIs(t, dir, "a.txt", "a")
	}
	gotBack(t, s, put.SHA256.String(), "kept")
}

func put1(path string) rw.SafeWriteRequest {
	return rw.SafeWriteRequest{Path: path, Content: []byte("x"), Mode: rw.ModeOverwrite}
}

func transactIn(ctx context.Context, s *rw.Store, ops ...rw.TxOp) error {
	return errorOf(s.Tx(ctx, rw.TxRequest{Ops: ops}))
}
