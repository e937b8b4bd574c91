package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// asker is the user behind a client.
type asker struct {
	mu     sync.Mutex
	times  int
	answer mcp.ElicitationResponse
	err    error
}

func (a *asker) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times++
	if a.err != nil {
		return nil, a.err
	}
	return &mcp.ElicitationResult{ElicitationResponse: a.answer}, nil
}

// eras are the ways in which a client of the library may speak with us.
func eras(t *testing.T, s *server.MCPServer, user *asker) map[string]*client.Client {
	t.Helper()
	out := map[string]*client.Client{}
	with := client.WithElicitationHandler(user)
	web := httptest.NewServer(server.NewStreamableHTTPServer(s, server.WithStateful(true)))
	t.Cleanup(web.Close)
	//lint:ignore SA1019 clients of the earlier versions of the protocol are supported
	for name, opts := range map[string][]client.ClientOption{"modern": {with}, "legacy": {with, client.WithLegacyProtocolOnly()}} {
		c := must(client.NewInProcessClientWithOptions(s, opts...))(t)
		out[name+" in process"] = c
		link := must(transport.NewStreamableHTTP(web.URL + "/mcp"))(t)
		out[name+" over http"] = client.NewClient(link, opts...)
	}
	for name, c := range out {
		noErr(t, c.Start(ctx), name)
		t.Cleanup(func() { c.Close() })
		res := must(c.Initialize(ctx, mcp.InitializeRequest{}))(t, name)
		if modern := res.ProtocolVersion == "2026-07-28"; modern != (name[0] == 'm') {
			t.Fatalf("%s speaks %s", name, res.ProtocolVersion)
		}
	}
	return out
}

// TestAToolboxAsksThroughItsContext: a host without a protocol puts the
// questions itself, and may answer later.
func TestAToolboxAsksThroughItsContext(t *testing.T) {
	t.Parallel()
	hook := &counts{}
	store, err := rw.Open(ctx, t.TempDir(), &rw.Options{Sync: rw.SyncOff, Hooks: roles(hook)})
	noErr(t, err)
	defer store.Close(ctx)
	box := newInProcess(store)
	for i, step := range []struct {
		answer rw.Answer
		err    error
		want   string
	}{
		{err: rw.ErrInputRequired, want: "input_required"}, {err: errors.New("no screen"), want: "denied"}, {want: "denied"},
		{answer: rw.Answer{Allow: true}, want: "ok"},
	} {
		asking := rw.WithAsk(ctx, func(context.Context, rw.HookCall, string) (rw.Answer, error) { return step.answer, step.err })
		raw, ok := box.Call(asking, "rw_safe_write", []byte(`{"path":"a.txt","content":"x"}`))
		var doc map[string]any
		noErr(t, json.Unmarshal(raw, &doc))
		if got := reasonOf(t, map[string]any{"structuredContent": doc}); got != step.want || ok != (got == "ok") {
			t.Errorf("step %d: %s", i, raw)
		}
		if hook.told != i {
			t.Errorf("step %d: observers were told %d times", i, hook.told)
		}
	}
}

// TestAUserIsAskedOnceInEachEra: with the clients of the library, in process
// and over HTTP, one call is one question, whatever the answer; observers and
// the journal hear of the call once.
func TestAUserIsAskedOnceInEachEra(t *testing.T) {
	t.Parallel()
	user, hook := &asker{}, &counts{}
	store := must(rw.Open(ctx, t.TempDir(), &rw.Options{Sync: rw.SyncOff, Hooks: roles(hook)}))(t)
	defer store.Close(ctx)
	accept := func(content any) mcp.ElicitationResponse {
		return mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: content}
	}
	for name, c := range eras(t, mcpserver.New(store, full), user) {
		for i, step := range []struct {
			answer mcp.ElicitationResponse
			want   string
		}{
			{accept(map[string]any{"allow": true}), "ok"},
			{accept(struct {
				Allow bool `json:"allow"`
			}{true}), "ok"},
			{accept(map[string]any{"allow": "yes"}), "denied"},
			{accept(nil), "denied"},
			{mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}, "denied"},
			{mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionCancel}, "denied"},
		} {
			user.answer, user.times, user.err = step.answer, 0, nil
			*hook = counts{}
			path := fmt.Sprintf("%s %d", name, i)
			var call mcp.CallToolRequest
			call.Params.Name, call.Params.Arguments = "rw_safe_write", map[string]any{"path": path, "content": "x"}
			res := must(c.CallTool(ctx, call))(t, path)
			doc, _ := res.StructuredContent.(map[string]any)
			got := reasonOf(t, map[string]any{"structuredContent": doc})
			if got != step.want || user.times != 1 || hook.told != 1 || hook.asked != 2 {
				t.Errorf("%s: %s, asked %d times, hooks %d and %d", path, got, user.times, hook.asked, hook.told)
			}
		}
		// A client that fails to ask gets a refusal in the older protocol; in
		// the newer one it never comes back, and nothing was begun.
		user.err, *hook = errors.New("no screen"), counts{}
		var call mcp.CallToolRequest
		call.Params.Name, call.Params.Arguments = "rw_safe_write", map[string]any{"path": name, "content": "x"}
		res, err := c.CallTool(ctx, call)
		switch {
		case name[0] == 'm' && (err == nil || hook.told != 0):
			t.Errorf("%s: %v %v, told %d", name, res, err, hook.told)
		case name[0] == 'l' && (err != nil || !res.IsError || hook.told != 1):
			t.Errorf("%s: %v %v, told %d", name, res, err, hook.told)
		}
	}
	if r, err := store.Check(ctx, rw.CheckRequest{Deep: true}); err != nil || len(r.Problems) > 0 {
		t.Errorf("%v %v", r, err)
	}
}
