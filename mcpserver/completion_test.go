package mcpserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func (p *peer) complete(ref map[string]any, name, typed string) (values []string, total float64, more bool) {
	p.t.Helper()
	c := p.must("completion/complete", map[string]any{"ref": ref, "argument": map[string]any{"name": name, "value": typed}})["completion"].(map[string]any)
	for _, v := range c["values"].([]any) {
		values = append(values, v.(string))
	}
	total, _ = c["total"].(float64)
	more, _ = c["hasMore"].(bool)
	return values, total, more
}

func template(uri string) map[string]any { return map[string]any{"type": "ref/resource", "uri": uri} }
func promptRef(name string) map[string]any {
	return map[string]any{"type": "ref/prompt", "name": name}
}

// TestCompletions: names that are there, what begins alike first; over every
// transport.
func TestCompletions(t *testing.T) {
	s, _ := livedIn(t)
	save(t, s, "gone.txt", "x")
	must(s.Delete(ctx, rw.DeleteRequest{Path: "gone.txt"}))(t)
	secret := strings.Join([]string{"AKIA", "Q3EGRT7KPLNXW5ZC"}, "")
	if _, err := s.SafeWrite(rw.WithGate(ctx, rw.GateOfAgents), rw.SafeWriteRequest{Path: "keys.txt", Content: []byte("aws_access_key_id = " + secret)}); err == nil {
		t.Fatal("the gate let a credential pass")
	}
	drafts, err := s.DraftList(ctx, rw.DraftListRequest{})
	if err != nil || len(drafts.Drafts) != 1 {
		t.Fatal(drafts, err)
	}
	ref := drafts.Drafts[0].DraftRef
	srv := mcpserver.New(s, full)
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		p := connect(srv)
		for _, c := range []struct {
			ref         map[string]any
			name, typed string
			want        []string
		}{
			{template("rw://file/{+path}"), "path", "", []string{"HANDOFF.md", "pixel.bin", "data.json", "docs/über uns.md", "a.txt"}},
			{template("rw://history/{+path}"), "path", "G", []string{"gone.txt"}},
			{template("rw://file/{+path}"), "path", "gone", nil},
			{template("rw://file/{+path}"), "path", "D", []string{"data.json", "docs/über uns.md", "HANDOFF.md"}},
			{template("rw://file/{+path}"), "other", "", nil},
			{template("rw://checkpoint/{name}"), "name", "st", []string{"step-1.a"}},
			{template("rw://chunks/{session}"), "session", "", []string{"big"}},
			{template("rw://nothing/{x}"), "x", "", nil},
			{template("rw://journal"), "", "", nil},
			{promptRef("leave_handoff"), "status", "c", []string{"complete", "blocked"}},
			{promptRef("leave_handoff"), "task_id", "", []string{"t-1"}},
			{promptRef("recover_refused_write"), "draft_ref", "draft_", []string{ref}},
			{promptRef("resume_task"), "path", "", []string{"HANDOFF.md"}},
			{promptRef("resume_task"), "other", "", nil},
			{promptRef("nobody"), "path", "", nil},
		} {
			if got, total, more := p.complete(c.ref, c.name, c.typed); !slices.Equal(got, c.want) || int(total) != len(c.want) || more {
				t.Errorf("%v %s %q: %v of %v, more %v", c.ref, c.name, c.typed, got, total, more)
			}
		}
	})
}

// TestCompletionsAreAtMostAHundred: and say that there are more.
func TestCompletionsAreAtMostAHundred(t *testing.T) {
	s, _ := storeIn(t, nil)
	var ops []rw.TxOp
	for i := range 150 {
		ops = append(ops, rw.TxOp{Op: "write", Path: fmt.Sprintf("dir/f%03d.txt", i), Content: []byte("x")})
	}
	must(s.Tx(ctx, rw.TxRequest{Ops: ops}))(t)
	p := &peer{t: t, caps: "{}"}
	p.inProcess(mcpserver.New(s, full))
	p.begin()
	if got, total, more := p.complete(template("rw://file/{+path}"), "path", "dir/"); len(got) != 100 || total != 150 || !more {
		t.Errorf("%d of %v, more %v", len(got), total, more)
	}
	s.Close(ctx)
	if got, _, more := p.complete(template("rw://file/{+path}"), "path", "dir/"); len(got) != 0 || more {
		t.Errorf("of a closed store: %v", got)
	}
}
