package toolbox_test

import (
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// TestOnlyBriefEditsAreMerged: what a tool does with a call that is stale and
// says nothing of it.
func TestOnlyBriefEditsAreMerged(t *testing.T) {
	for _, form := range []toolbox.Replies{toolbox.BriefReplies, toolbox.FullReplies} {
		store := open(t, nil)
		box := toolbox.New(store, &toolbox.Options{Replies: form})
		first := testbed.Must(store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("one\ntwo\nthree\n")}))(t)
		testbed.Must(store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("ONE\ntwo\nthree\n"), Mode: rw.ModeOverwrite}))(t)
		for _, c := range []struct {
			tool, args string
			merged     bool
		}{
			{"rw_safe_write", `"content":"one\ntwo\nthree\nfour\n","mode":"overwrite"`, false},
			{"rw_tx", "", false},
			{"rw_edit", `"edits":[{"old":"three","new":"3"}],"merge":"off"`, false},
			{"rw_edit", `"edits":[{"old":"three","new":"3"}]`, form == toolbox.BriefReplies},
		} {
			args := fmt.Sprintf(`{"path":"a.txt","expected_prev_sha256":"%s",%s}`, first.SHA256, c.args)
			if c.tool == "rw_tx" {
				args = fmt.Sprintf(`{"ops":[{"op":"edit","path":"a.txt","expected_prev_sha256":"%s","edits":[{"old":"three","new":"3"}]}]}`, first.SHA256)
			}
			got := box.Call(ctx, c.tool, raw(args), nil).Text
			if merged := strings.Contains(got, `"merged":true`) && strings.Contains(got, `+ONE`); merged != c.merged {
				t.Errorf("%s %s %s: %s", form, c.tool, c.args, got)
			}
			if !c.merged && !(strings.Contains(got, "hash_mismatch") && strings.Contains(got, "read_again")) {
				t.Errorf("%s %s %s: %s", form, c.tool, c.args, got)
			}
		}
	}
}
