package mcpserver_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/yosida95/uritemplate/v3"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// storeIn opens a store and says where.
func storeIn(t testing.TB, opts *rw.Options) (*rw.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ws")
	noErr(t, os.Mkdir(dir, 0o755))
	o := rw.Options{}
	if opts != nil {
		o = *opts
	}
	o.Sync = rw.SyncOff
	s := must(rw.Open(ctx, dir, &o))(t)
	t.Cleanup(func() { s.Close(ctx) })
	return s, dir
}

func save(t testing.TB, s *rw.Store, path, content string) {
	t.Helper()
	must(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: rw.ModeOverwrite, AllowShrink: true}))(t)
}

// livedIn is a store with one of everything.
func livedIn(t testing.TB) (*rw.Store, string) {
	t.Helper()
	s, dir := storeIn(t, nil)
	save(t, s, "a.txt", "one\n")
	save(t, s, "a.txt", "two\n")
	save(t, s, "docs/über uns.md", "# title\n")
	save(t, s, "data.json", "{}\n")
	must(s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "pixel.bin", Content: []byte{0xff, 0, 0xfe, 0}}))(t)
	must(s.Checkpoint(ctx, rw.CheckpointRequest{Name: "step-1.a", Data: json.RawMessage(`{"n": 1}`)}))(t)
	for range 2 {
		must(s.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "big", Content: []byte("piece")}))(t)
	}
	must(s.HandoffWrite(ctx, rw.HandoffWriteRequest{Envelope: rw.HandoffEnvelope{
		TaskID: "t-1", Status: rw.HandoffPartial, Agent: "me", Summary: "half done", NextSteps: []string{"the other half"}, LastGoodState: []rw.HandoffFile{},
	}, Body: []byte("Body of the handoff.\n")}))(t)
	return s, dir
}

func read(p *peer, uri string) (text string, content map[string]any) {
	p.t.Helper()
	list, _ := p.must("resources/read", map[string]any{"uri": uri})["contents"].([]any)
	if len(list) != 1 {
		p.t.Fatalf("%s: %v", uri, list)
	}
	content = list[0].(map[string]any)
	if content["uri"] != uri {
		p.t.Errorf("asked for %s, got %v", uri, content["uri"])
	}
	text, _ = content["text"].(string)
	return text, content
}

// TestResources reads one lived-in store in many ways.
func TestResources(t *testing.T) {
	s, dir := livedIn(t)
	t.Run("are the table", func(t *testing.T) { resourcesAreTheTable(t, s) })
	t.Run("hold what the store says", func(t *testing.T) { resourcesHoldWhatTheStoreSays(t, s, dir) })
	t.Run("name tools as the server does", func(t *testing.T) { resourcesNameTools(t, s) })
	t.Run("of a host", func(t *testing.T) { resourcesOfAHost(t, s) })
	t.Run("of a closed store", func(t *testing.T) { resourcesOfAClosedStore(t, s) })
}

// resourcesAreTheTable: what is listed is what the table says, in its order,
// over every transport.
func resourcesAreTheTable(t *testing.T, s *rw.Store) {
	srv := mcpserver.New(s, full)
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		p := connect(srv)
		var got []mcpserver.ResourceInfo
		for _, kind := range []struct{ method, list, uri string }{
			{"resources/list", "resources", "uri"}, {"resources/templates/list", "resourceTemplates", "uriTemplate"},
		} {
			for _, one := range p.must(kind.method, nil)[kind.list].([]any) {
				r := one.(map[string]any)
				mime, _ := r["mimeType"].(string)
				got = append(got, mcpserver.ResourceInfo{
					URI: r[kind.uri].(string), Name: r["name"].(string), Title: r["title"].(string), Description: r["description"].(string),
					MIMEType: mime, Template: kind.uri == "uriTemplate",
				})
			}
		}
		slices.SortFunc(got, func(a, b mcpserver.ResourceInfo) int { return strings.Compare(a.Name, b.Name) })
		want := mcpserver.Resources()
		for i := range want {
			want[i].Updates = false // not listed
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-table +listed):\n%s", diff)
		}
	})
	names := map[string]bool{}
	for _, r := range mcpserver.Resources() {
		if names[r.Name] || r.Description == "" || r.Title == "" {
			t.Errorf("%+v", r)
		}
		names[r.Name] = true
	}
}

// TestNoAddressFitsTwoTemplates: the protocol library takes any one that fits.
func TestNoAddressFitsTwoTemplates(t *testing.T) {
	var uris []string
	for _, r := range mcpserver.Resources() {
		before, _, _ := strings.Cut(r.URI, "{")
		for _, arg := range []string{"", "x", "a/b.txt", "rw://journal", "%2F", "..", "a?b#c"} {
			uris = append(uris, before+arg)
		}
	}
	for _, uri := range uris {
		fits := 0
		for _, r := range mcpserver.Resources() {
			if !r.Template && r.URI == uri || r.Template && uritemplate.MustNew(r.URI).Regexp().MatchString(uri) {
				fits++
			}
		}
		if fits > 1 {
			t.Errorf("%s fits %d", uri, fits)
		}
	}
}

// resourcesHoldWhatTheStoreSays: over every transport.
func resourcesHoldWhatTheStoreSays(t *testing.T, s *rw.Store, dir string) {
	srv := mcpserver.New(s, full)
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		p := connect(srv)
		for uri, want := range map[string]struct{ mime, text string }{
			"rw://file/a.txt":                          {"text/plain", "two\n"},
			"rw://file/docs/%C3%BCber%20uns.md":        {"text/markdown", "# title\n"},
			"rw://file/docs%2F%C3%BCber%20uns.md":      {"text/markdown", "# title\n"},
			"rw://file/data.json":                      {"application/json", "{}\n"},
			"rw://file/./docs/../a.txt":                {"text/plain", "two\n"},
			"rw://file" + filepath.Join(dir, "a.txt"):  {"text/plain", "two\n"}, // absolute, in the workspace
			"rw://file/" + url.PathEscape("data.json"): {"application/json", "{}\n"},
		} {
			if strings.HasPrefix(uri, "rw://file"+dir) {
				uri = "rw://file/" + filepath.Join(dir, "a.txt")
			}
			text, content := read(p, uri)
			if text != want.text || content["mimeType"] != want.mime {
				t.Errorf("%s: %v", uri, content)
			}
		}
		if _, content := read(p, "rw://file/pixel.bin"); content["blob"] != "/wD+AA==" || content["mimeType"] != "application/octet-stream" {
			t.Errorf("a binary: %v", content)
		}
		for uri, want := range map[string]map[string]any{
			"rw://handoff":             {"handoff_path": "HANDOFF.md", "body": "Body of the handoff.\n"},
			"rw://history/a.txt":       {"path": "a.txt", "more": false},
			"rw://checkpoint/step-1.a": {"name": "step-1.a", "data": map[string]any{"n": 1.0}},
			"rw://chunks/big":          {"session": "big", "next_index": 3.0},
			"rw://policy":              {"hash": ""},
			"rw://describe":            {"version": rw.Version},
			"rw://journal":             {"malformed": 0.0},
		} {
			text, content := read(p, uri)
			var doc map[string]any
			if json.Unmarshal([]byte(text), &doc) != nil || content["mimeType"] != "application/json" {
				t.Errorf("%s: %v", uri, content)
			}
			for k, v := range want {
				if !cmp.Equal(doc[k], v) {
					t.Errorf("%s: %s is %v, not %v", uri, k, doc[k], v)
				}
			}
			if strings.Contains(text, dir) {
				t.Errorf("%s shows where the workspace is", uri)
			}
		}
	})
}

// TestResourceThatIsNotThere: is the protocol's own error, with what to do, and
// without anything from outside the workspace; looking often changes nothing.
func TestResourceThatIsNotThere(t *testing.T) {
	s, dir := storeIn(t, nil)
	outside := filepath.Join(filepath.Dir(dir), "stranger.txt")
	noErr(t, os.WriteFile(outside, []byte("theirs"), 0o644))
	for name, target := range map[string]string{"link": outside, "state": ".resilient_write", "loop": "loop"} {
		noErr(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	noErr(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	must(s.ScratchPut(ctx, rw.ScratchPutRequest{Content: []byte("apart"), Label: "raw"}))(t)
	uris := []string{
		"rw://handoff", "rw://history/nope", "rw://history/..", "rw://history/%00", "rw://checkpoint/nope", "rw://checkpoint/..", "rw://checkpoint/a%2Fb",
		"rw://chunks/nope", "rw://chunks/a%20b", "rw://file/nope", "rw://file/sub", "rw://file/..", "rw://file/../stranger.txt", "rw://file/" + outside,
		"rw://file//etc/passwd", "rw://file/link", "rw://file/loop", "rw://file/a%00b", "rw://file/.resilient_write/meta.json", "rw://file/.RESILIENT_WRITE/meta.json",
		"rw://file/.resilient_write/scratch/index.jsonl", "rw://file/state/scratch/index.jsonl", "rw://file/sub/../.resilient_write/scratch/index.jsonl",
		"rw://file/" + strings.Repeat("x", 5000), "rw://scratch/raw", "rw://nonsense", "rw://", "rw://journal/", "rw://journal?x", "rw://file/", "rw://checkpoint/",
		"rw://file/%zz", "rw://file/%ff%fe",
	}
	srv := mcpserver.New(s, full)
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		p := connect(srv)
		code := -32002.0
		if p.modern {
			code = -32602
		}
		for range 2 {
			for _, uri := range uris {
				result, problem := p.ask("resources/read", map[string]any{"uri": uri})
				if result != nil || problem["code"] != code {
					t.Errorf("%.60s: %v %v", uri, result, problem)
					continue
				}
				text := problem["message"].(string)
				if strings.Contains(text, dir) || strings.Contains(text, "/etc") || strings.Contains(text, "stranger") || !strings.Contains(text, "(") {
					t.Errorf("%.60s: %s", uri, text)
				}
			}
		}
	})
	// Whoever looked at the resource has not used up what an agent may try.
	_, err := s.HandoffRead(ctx, rw.HandoffReadRequest{})
	if e := rw.AsError("", err); e.Detail != rw.ErrNotFound {
		t.Errorf("rw_handoff_read after that: %v", e.Detail)
	}
}

// TestResourcesAreBounded: what is too long is cut or refused, and says which
// tool returns all of it.
func TestResourcesAreBounded(t *testing.T) {
	s, _ := storeIn(t, nil)
	save(t, s, "big.txt", strings.Repeat("é", 1<<19)+"!")
	save(t, s, "full.txt", strings.Repeat("x", 1<<20))
	must(s.Checkpoint(ctx, rw.CheckpointRequest{Name: "big", Data: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)}))(t)
	must(s.HandoffWrite(ctx, rw.HandoffWriteRequest{Envelope: rw.HandoffEnvelope{
		TaskID: "t", Status: rw.HandoffPartial, Agent: "a", Summary: "s", NextSteps: []string{}, LastGoodState: []rw.HandoffFile{},
	}, Body: []byte(strings.Repeat("é\n", 1<<16))}))(t)
	for i := range 120 {
		save(t, s, "often.txt", fmt.Sprint(i))
	}
	p := &peer{t: t, caps: "{}"}
	p.inProcess(mcpserver.New(s, full))
	p.begin()
	if _, problem := p.ask("resources/read", map[string]any{"uri": "rw://file/big.txt"}); problem["code"] != -32603.0 || !strings.Contains(fmt.Sprint(problem["message"]), "rw_read") {
		t.Errorf("a long file: %v", problem)
	}
	if text, _ := read(p, "rw://file/full.txt"); len(text) != 1<<20 {
		t.Errorf("a file of just 1 MiB: %d bytes", len(text))
	}
	for uri, tool := range map[string]string{
		"rw://handoff": "rw_handoff_read", "rw://checkpoint/big": "rw_checkpoint_read", "rw://history/often.txt": "rw_history", "rw://journal": "rw_journal_tail",
	} {
		text, _ := read(p, uri)
		var doc map[string]any
		if err := json.Unmarshal([]byte(text), &doc); err != nil || !utf8.ValidString(text) {
			t.Fatalf("%s: %v", uri, err)
		}
		if note, _ := doc["note"].(string); !strings.Contains(note, tool) || len(text) > 200<<10 {
			t.Errorf("%s: %d bytes, note %q", uri, len(text), note)
		}
	}
}

// resourcesNameTools: as the server does, or not at all.
func resourcesNameTools(t *testing.T, s *rw.Store) {
	for _, c := range []struct {
		opts mcpserver.Options
		want string
	}{
		{mcpserver.Options{Tier: mcpserver.Full, DottedNames: true}, "rw.journal_tail"},
		{mcpserver.Options{Tier: mcpserver.Full, Rename: func(n string) string { return "x_" + n }}, "x_rw_journal_tail"},
		{mcpserver.Options{Tier: mcpserver.Full, Filter: func(t mcpserver.ToolInfo) bool { return t.Name != "journal_tail" }}, ""},
	} {
		p := &peer{t: t, caps: "{}"}
		p.inProcess(mcpserver.New(s, &c.opts))
		p.begin()
		text, _ := read(p, "rw://journal")
		if c.want == "" && strings.Contains(text, "journal_tail") || !strings.Contains(text, c.want) {
			t.Errorf("%q: %.200s", c.want, text)
		}
	}
}

// resourcesOfAHost: what the host adds is read and found missing as without
// us.
func resourcesOfAHost(t *testing.T, s *rw.Store) {
	p := &peer{t: t, caps: "{}"}
	p.inProcess(mcpserver.New(s, full))
	p.begin()
	if _, problem := p.ask("resources/read", map[string]any{"uri": "host://x"}); problem["code"] != -32002.0 {
		t.Errorf("%v", problem)
	}
	p.must("resources/subscribe", map[string]any{"uri": "host://x"})
}

// resourcesOfAClosedStore: an error of the server, not of the address.
func resourcesOfAClosedStore(t *testing.T, s *rw.Store) {
	p := &peer{t: t, caps: "{}"}
	p.inProcess(mcpserver.New(s, full))
	p.begin()
	s.Close(ctx)
	for _, uri := range []string{"rw://journal", "rw://handoff", "rw://file/a.txt", "rw://chunks/big", "rw://policy"} {
		if _, problem := p.ask("resources/read", map[string]any{"uri": uri}); problem["code"] != -32603.0 || !strings.Contains(fmt.Sprint(problem["message"]), "store_closed") {
			t.Errorf("%s: %v", uri, problem)
		}
	}
}

// FuzzResourceAddress: any address gives contents or an error, never a panic
// and never what lies outside.
func FuzzResourceAddress(f *testing.F) {
	s, dir := livedIn(f)
	secret := "never-" + "shown"
	noErr(f, os.WriteFile(filepath.Join(filepath.Dir(dir), "stranger.txt"), []byte(secret), 0o600))
	must(s.ScratchPut(ctx, rw.ScratchPutRequest{Content: []byte(secret)}))(f)
	for _, uri := range []string{"rw://journal", "rw://file/a.txt", "rw://file/%2e%2e/stranger.txt", "rw://history/", "rw://checkpoint/\x00", "rw://file/.resilient_write/x"} {
		f.Add(uri)
	}
	srv := mcpserver.New(s, &mcpserver.Options{Tier: mcpserver.Full, CallsPerSecond: -1})
	hidden := base64.StdEncoding.EncodeToString([]byte(secret))
	f.Fuzz(func(t *testing.T, uri string) {
		msg, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": map[string]any{"uri": uri}})
		if err != nil {
			t.Skip()
		}
		out, err := json.Marshal(mcpserver.Handle(ctx, srv, msg))
		if err != nil || strings.Contains(string(out), secret) || strings.Contains(string(out), hidden) || strings.Contains(string(out), "internal error") {
			t.Fatalf("%q: %.300s %v", uri, out, err)
		}
		if strings.HasPrefix(uri, "rw://") && strings.Contains(string(out), filepath.Dir(dir)) && !strings.Contains(uri, filepath.Dir(dir)) {
			t.Fatalf("%q shows where the workspace is: %.300s", uri, out)
		}
	})
}
