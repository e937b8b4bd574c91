package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

const updated = "notifications/resources/updated"

// updates are the addresses that a client heard of, each once, sorted.
func (p *peer) updates() []string {
	var list []string
	for _, n := range p.got(updated) {
		list = append(list, fmt.Sprint(n.Params["uri"]))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// subscribe subscribes in the way of the era; stop ends it.
func (p *peer) subscribe(uris ...string) (stop func()) {
	p.t.Helper()
	if !p.modern {
		for _, uri := range uris {
			p.must("resources/subscribe", map[string]any{"uri": uri})
		}
		return func() {
			for _, uri := range uris {
				p.must("resources/unsubscribe", map[string]any{"uri": uri})
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	before := len(p.got("notifications/subscriptions/acknowledged"))
	id, raw := p.message("subscriptions/listen", map[string]any{"notifications": map[string]any{"resourceSubscriptions": uris}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.send(ctx, id, raw)
	}()
	p.wait("the stream is acknowledged", func() bool { return len(p.got("notifications/subscriptions/acknowledged")) > before })
	return func() {
		open := mcpserver.Subscribers(p.srv)
		msg, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id}})
		p.post(msg)
		cancel()
		<-done
		// That has no answer, so only the server knows when it has noticed.
		p.wait("the stream has ended", func() bool { return mcpserver.Subscribers(p.srv) < open })
	}
}

// sequence is what came so far.
func (p *peer) sequence() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}

func (p *peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard, p.order = nil, nil
}

func (p *peer) hears(uris ...string) {
	p.t.Helper()
	slices.Sort(uris)
	p.wait(fmt.Sprint("updates of ", uris), func() bool {
		got := p.updates()
		return !slices.ContainsFunc(uris, func(uri string) bool { return !slices.Contains(got, uri) })
	})
	got := p.updates()
	expect(p.t, slices.Equal(got, uris), "heard of %v instead of %v", got, uris)
	p.forget()
}

// TestSubscribersHearOfOtherProcesses: within the second in which the journal
// is looked at.
func TestSubscribersHearOfOtherProcesses(t *testing.T) {
	t.Parallel()
	s, dir := storeIn(t, nil)
	other := must(rw.Open(ctx, dir, &rw.Options{Sync: rw.SyncOff}))(t)
	defer other.Close(ctx)
	p := join(t, (*peer).stdio, mcpserver.New(s, full))
	p.subscribe("rw://file/a.txt", "rw://chunks/new", "rw://checkpoint/new")
	save(t, other, "a.txt", "theirs")
	must(other.ChunkWrite(ctx, rw.ChunkWriteRequest{Session: "new", Index: 1, Content: []byte("x")}))(t)
	p.wait("both updates", func() bool { return len(p.updates()) == 2 })
	p.hears("rw://chunks/new", "rw://file/a.txt")
}

// TestSubscribersHearOfWhatChanged: of that and of nothing else, over every
// transport and in both eras.
func TestSubscribersHearOfWhatChanged(t *testing.T) {
	eachWay(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		t.Parallel() // it waits most of the time
		s, _ := livedIn(t)
		const n = 1
		p := connect(mcpserver.New(s, full))
		stop := p.subscribe("rw://handoff", "rw://history/a.txt", "rw://file/docs%2F.%2Fx.md", "rw://checkpoint/cp", "rw://chunks/new", "rw://policy", "rw://history/moved.txt")
		save(t, s, "unwatched.txt", fmt.Sprint(n))
		save(t, s, "a.txt", fmt.Sprint(n))
		p.hears("rw://history/a.txt")
		save(t, s, "docs/x.md", fmt.Sprint(n))
		p.hears("rw://file/docs%2F.%2Fx.md")
		must(s.Checkpoint(ctx, rw.CheckpointRequest{Name: "cp", Data: json.RawMessage(fmt.Sprint(n))}))(t)
		p.hears("rw://checkpoint/cp")
		must(s.ChunkWrite(ctx, rw.ChunkWriteRequest{Session: "new", Index: 1, Content: []byte(fmt.Sprint(n))}))(t)
		p.hears("rw://chunks/new")
		save(t, s, "HANDOFF.md", fmt.Sprintf("---\ntask_id: %d\n---\n", n))
		p.hears("rw://handoff")
		// One commit, both names: all of it is heard of.
		must(s.Move(ctx, rw.MoveRequest{Path: "a.txt", To: "moved.txt", Overwrite: true}))(t)
		p.hears("rw://history/a.txt", "rw://history/moved.txt")
		stop()
		journal := p.subscribe("rw://journal")
		_, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "moved.txt", Content: []byte(fmt.Sprint("refused ", n))})
		require(t, err != nil, "created twice")
		p.hears("rw://journal")
		journal()
		save(t, s, "a.txt", fmt.Sprint(n, " again"))
		again := p.subscribe("rw://chunks/new")
		must(s.ChunkReset(ctx, rw.ChunkResetRequest{Session: "new"}))(t)
		p.hears("rw://chunks/new") // and not of what it no longer subscribes to
		again()
	})
}

// TestUpdates uses one store for what does not mind the others.
func TestUpdates(t *testing.T) {
	t.Parallel()
	s, _ := storeIn(t, nil)
	t.Run("are gathered", func(t *testing.T) { updatesAreGathered(t, s) })
	t.Run("are tagged", func(t *testing.T) { streamsAreTagged(t, s) })
	t.Run("of nothing", func(t *testing.T) { subscriptionsToNothing(t, s) })
	t.Run("do not wait for those who do not listen", func(t *testing.T) { deafSubscriber(t, s) })
}

// updatesAreGathered: a burst of writes is reported in a few updates, at least
// 100 ms apart, the last of them after the last write.
func updatesAreGathered(t *testing.T, s *rw.Store) {
	p := join(t, (*peer).stdio, mcpserver.New(s, full))
	p.subscribe("rw://file/a.txt", "rw://journal")
	began := time.Now()
	var last time.Time // when the last write began
	for i := range 100 {
		last = time.Now()
		save(t, s, "a.txt", fmt.Sprint(i))
	}
	p.wait("an update of each after the last write", func() bool {
		return testbed.Count(p.got(updated), func(u note) bool { return u.At.After(last) }) >= 2
	})
	byURI := map[string][]time.Time{}
	for _, n := range p.got(updated) {
		byURI[n.Params["uri"].(string)] = append(byURI[n.Params["uri"].(string)], n.At)
	}
	for uri, at := range byURI {
		most := int(time.Since(began)/(100*time.Millisecond)) + 1
		expect(t, len(at) <= most, "%s: %d updates in %v", uri, len(at), time.Since(began))
	}
	equal(t, len(byURI), 2, "updates of")
}

// streamsAreTagged: every update carries the id of the stream that asked
// for it, after the acknowledgment.
func streamsAreTagged(t *testing.T, s *rw.Store) {
	srv := mcpserver.New(s, full)
	for _, join := range []func(*peer, *server.MCPServer){(*peer).stdio, (*peer).http, (*peer).inProcess} {
		p := &peer{t: t, modern: true, caps: "{}"}
		join(p, srv)
		stopOne := p.subscribe("rw://journal")
		one := p.id
		stopTwo := p.subscribe("rw://journal", "rw://file/a.txt")
		two := p.id
		save(t, s, "a.txt", fmt.Sprint(time.Now()))
		want := []string{fmt.Sprint(one, " rw://journal"), fmt.Sprint(two, " rw://file/a.txt"), fmt.Sprint(two, " rw://journal")}
		tags := func() (list []string) {
			for _, n := range p.got(updated) {
				meta, _ := n.Params["_meta"].(map[string]any)
				list = append(list, fmt.Sprint(meta["io.modelcontextprotocol/subscriptionId"], " ", n.Params["uri"]))
			}
			slices.Sort(list)
			return slices.Compact(list)
		}
		p.wait("three tagged updates", func() bool { return len(tags()) >= 3 })
		got := tags()
		expect(t, slices.Equal(got, want), "%v instead of %v", got, want)
		equal(t, p.sequence()[0], "notifications/subscriptions/acknowledged", "the stream begins with")
		stopOne()
		p.forget()
		save(t, s, "a.txt", fmt.Sprint(time.Now()))
		p.wait("updates of the other stream", func() bool { return len(tags()) >= 2 })
		got = tags()
		expect(t, slices.Equal(got, want[1:]), "after one ended: %v", got)
		stopTwo()
	}
}

// subscriptionsToNothing: are refused, as are too many.
func subscriptionsToNothing(t *testing.T, s *rw.Store) {
	eachPeer(t, s, func(t *testing.T, p *peer) {
		ask := func(uris ...string) map[string]any {
			if p.modern {
				_, problem := p.ask("subscriptions/listen", map[string]any{"notifications": map[string]any{"resourceSubscriptions": uris}})
				return problem
			}
			var problem map[string]any
			for _, uri := range uris {
				if _, problem = p.ask("resources/subscribe", map[string]any{"uri": uri}); problem != nil {
					break
				}
			}
			return problem
		}
		for _, uri := range []string{"rw://scratch/x", "rw://file/", "rw://nonsense", "rw://file/%zz"} {
			problem := ask("rw://journal", uri)
			expect(t, problem != nil && strings.Contains(fmt.Sprint(problem["message"]), "address"), "%s: %v", uri, problem)
		}
		var many []string
		for i := range 1001 {
			many = append(many, fmt.Sprint("rw://file/", i))
		}
		problem := ask(many...)
		expect(t, problem != nil && strings.Contains(fmt.Sprint(problem["message"]), "1000"), "1001 subscriptions: %v", problem)
	})
}

// feeding reports whether anything follows the journal for subscribers.
func feeding() bool {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size { // all of it
			return strings.Contains(string(buf[:n]), "(*subscriptions).feed")
		}
	}
}

// TestNothingFollowsWithoutSubscribers: the journal is read as long as there
// are subscribers, and no longer than the store is open.
func TestNothingFollowsWithoutSubscribers(t *testing.T) {
	p := &peer{t: t}
	p.wait("the subscribers of other tests are gone", func() bool { return !feeding() })
	for _, end := range []string{"unsubscribe", "client", "store"} {
		s, _ := storeIn(t, nil)
		t.Run(end, func(t *testing.T) {
			p := join(t, (*peer).inProcess, mcpserver.New(s, full))
			require(t, !feeding(), "it is read although no client is subscribed")
			stop := p.subscribe("rw://journal", "rw://handoff")
			p.wait("it is read", feeding)
			switch end {
			case "unsubscribe":
				stop()
			case "store":
				s.Close(ctx)
			case "client":
				return // and its cleanup
			}
			p.wait("it is not read", func() bool { return !feeding() })
		})
		p.wait("it is not read after "+end, func() bool { return !feeding() })
	}
}

// deafSubscriber: one that does not listen holds up neither writers nor others,
// and hears of all when it listens again.
func deafSubscriber(t *testing.T, s *rw.Store) {
	srv := mcpserver.New(s, full)
	deaf := server.NewInProcessSession("deaf", nil)
	noErr(t, srv.RegisterSession(ctx, deaf))
	deaf.Initialize()
	for i := range 150 { // more than its channel takes
		msg := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"rw://file/%03d"}}`, i, i)
		srv.HandleMessage(srv.WithContext(ctx, deaf), json.RawMessage(msg))
	}
	p := join(t, (*peer).inProcess, srv)
	p.subscribe("rw://file/149")
	var ops []rw.TxOp
	for i := range 150 {
		ops = append(ops, rw.TxOp{Op: "write", Path: fmt.Sprintf("%03d", i), Content: []byte("x")})
	}
	must(s.Tx(ctx, rw.TxRequest{Ops: ops}))(t)
	p.hears("rw://file/149")
	heard := map[string]bool{}
	p.wait("it hears of all in the end", func() bool {
		for {
			select {
			case n := <-deaf.ClientNotifications():
				heard[fmt.Sprint(n.Params.AdditionalFields["uri"])] = true
			default:
				return len(heard) == 150
			}
		}
	})
	srv.UnregisterSession(ctx, "deaf")
}

// damaged is a store whose journal holds an invalid line, so that opening
// it found something and reading it passes something over.
func damaged(t testing.TB, line string) *rw.Store {
	t.Helper()
	s, dir := storeIn(t, nil)
	save(t, s, "a.txt", "x")
	save(t, s, "a.txt", "y")
	noErr(t, s.Close(ctx))
	segments, err := filepath.Glob(filepath.Join(must(place.At(dir))(t), "journal", "*.jsonl"))
	require(t, err == nil && len(segments) == 1, "%v %v", segments, err)
	data := must(os.ReadFile(segments[0]))(t)
	at := strings.Index(string(data), "}\n") + 2 // after the first row
	data = slices.Insert(data, at, []byte(line+"\n")...)
	noErr(t, os.WriteFile(segments[0], data, 0o600))
	// Without its cache the whole journal is read.
	noErr(t, os.RemoveAll(filepath.Join(must(place.At(dir))(t), "index")))
	again := must(rw.Open(ctx, dir, &rw.Options{Sync: rw.SyncOff}))(t)
	t.Cleanup(func() { again.Close(ctx) })
	save(t, again, "b.txt", "x")
	return again
}

// TestMessagesRespectTheLevel: a client hears what it wants to hear, once, in
// numbers and our words.
func TestMessagesRespectTheLevel(t *testing.T) {
	t.Parallel()
	s := damaged(t, "a-line-that-nobody-may-see")
	r := s.Recovery()
	require(t, r.Malformed != 0 || r.TornBytes != 0, "nothing was found: %+v", r)
	srv := mcpserver.New(s, full)
	eachWay(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		p := connect(srv)
		events := func() (list []string) {
			for _, n := range p.got("notifications/message") {
				data, _ := n.Params["data"].(map[string]any)
				list = append(list, fmt.Sprint(n.Params["level"], " ", data["event"]))
				expect(t, !strings.Contains(fmt.Sprint(n.Params), "nobody-may-see") && n.Params["logger"] != "" && data["hint"] != "", "%v", n.Params)
			}
			return list
		}
		level := func(l string) {
			if p.level = l; !p.modern && l != "" {
				p.must("logging/setLevel", map[string]any{"level": l})
			}
		}
		tail := func() { p.tool("rw_journal_tail", map[string]any{"n": 50}, nil) }
		tail()
		level("error")
		tail()
		got := events()
		expect(t, len(got) == 0, "not requested: %v", got)
		for _, l := range []string{"warning", "debug"} {
			level(l)
			tail()
			tail()
			p.wait("both messages", func() bool { return len(events()) >= 2 })
			// Over HTTP they may come on two streams, in either order.
			got := slices.Sorted(slices.Values(events()))
			expect(t, strings.Join(got, ", ") == "warning journal_malformed, warning recovery", "%s: %s", l, got)
		}
	})
	// Each client hears of it, and one that comes again hears of it again.
	for range 3 {
		p := join(t, (*peer).http, srv)
		p.must("logging/setLevel", map[string]any{"level": "info"})
		p.wait("a message", func() bool { return len(p.got("notifications/message")) == 1 })
	}
}

// TestNoMessagesAboutASoundStore: silence is the rule, and a warning is no damage.
func TestNoMessagesAboutASoundStore(t *testing.T) {
	s, _ := storeIn(t, nil)
	p := join(t, (*peer).stdio, mcpserver.New(s, full))
	p.must("logging/setLevel", map[string]any{"level": "debug"})
	p.tool("rw_safe_write", map[string]any{"path": "a", "content": "x"}, nil)
	p.tool("rw_safe_write", map[string]any{"path": "a", "content": "y"}, nil)
	p.tool("rw_journal_tail", map[string]any{}, nil)
	p.tool("rw_nonsense", map[string]any{}, nil)
	got := p.got("notifications/message")
	expect(t, len(got) == 0, "%v", got)

	if runtime.GOOS == "windows" { // has no modes
		return
	}
	state := filepath.Join(t.TempDir(), "state")
	noErr(t, os.Mkdir(state, 0o700))
	noErr(t, os.Chmod(state, 0o770))
	s, _ = storeIn(t, &rw.Options{StateDir: state})
	p = join(t, (*peer).stdio, mcpserver.New(s, full))
	p.must("logging/setLevel", map[string]any{"level": "debug"})
	p.wait("the warning", func() bool { return len(p.got("notifications/message")) == 1 })
	said := fmt.Sprint(p.got("notifications/message")[0].Params["data"])
	expect(t, strings.Contains(said, call.WarnStateNarrowed) && !strings.Contains(said, "damaged"), "%s", said)
}

// unhurried is a hook that holds every call up, in front of its writes and
// after them, until its client has heard of it once and once more: a report
// comes when a call takes long, and how long is for the test to say, not for
// the machine.
type unhurried struct {
	mu    sync.Mutex
	heard map[string]func(reports int) // by path; waits until so many came
}

func (u *unhurried) hold(path string, heard func(int)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.heard == nil {
		u.heard = map[string]func(int){}
	}
	u.heard[path] = heard
}

func (u *unhurried) wait(op hook.Call, reports int) {
	u.mu.Lock()
	heard := u.heard[op.Changes[0].Path]
	u.mu.Unlock()
	if heard != nil {
		heard(reports)
	}
}

func (u *unhurried) Authorize(_ context.Context, op hook.Call) (hook.Decision, error) {
	u.wait(op, 1)
	return hook.Allow(), nil
}

func (u *unhurried) Verify(_ context.Context, c hook.Staged) error {
	u.wait(c.Call, 2)
	return nil
}

// composable is a store with a session of three pieces.
func composable(t testing.TB, hooks ...any) *rw.Store {
	t.Helper()
	s, _ := storeIn(t, &rw.Options{Hooks: roles(hooks...)})
	for i := range 3 {
		must(s.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "s", Content: []byte(strings.Repeat(fmt.Sprint(i), 1<<20))}))(t)
	}
	return s
}

// reports are those of one call so far.
func (p *peer) reports(token any) (list []note) {
	for _, n := range p.got("notifications/progress") {
		if n.Params["progressToken"] == token {
			list = append(list, n)
		}
	}
	return list
}

// reportsAre checks the reports of one call.
func (p *peer) reportsAre(token any, least int) {
	p.t.Helper()
	list := p.reports(token)
	expect(p.t, len(list) >= least, "%d reports: %v", len(list), p.got("notifications/progress"))
	last := -1.0
	for _, n := range list {
		at, _ := n.Params["progress"].(float64)
		total, ok := n.Params["total"].(float64)
		expect(p.t, at > last && (!ok || total >= at) && n.Params["message"] != "", "after %v: %v", last, n.Params)
		last = at
	}
}

// TestProgressReachesTheClient: with the token of the call, growing, before
// the reply, over every transport; and only when it is asked for.
func TestProgressReachesTheClient(t *testing.T) {
	hook := &unhurried{}
	s := composable(t, hook)
	eachPeer(t, s, func(t *testing.T, p *peer) {
		t.Parallel()
		ordered := !strings.Contains(t.Name(), "inprocess") // there, reports are delivered beside the reply
		name := strings.ReplaceAll(t.Name(), "/", "-") + ".txt"
		for i, token := range []any{"a token", 7.0} {
			path := fmt.Sprint(i, name) // a file of its own, or there would be nothing to write
			hook.hold(path, func(n int) {
				for late := time.Now().Add(patience); len(p.reports(token)) < n && time.Now().Before(late); {
					time.Sleep(2 * time.Millisecond)
				}
			})
			res := p.tool("rw_chunk_compose", map[string]any{"session": "s", "output_path": path, "mode": "overwrite", "validate": token == 7.0}, map[string]any{"progressToken": token})
			require(t, res["isError"] != true, "%v", res)
			p.reportsAre(token, 2)
			order := p.sequence()
			expect(t, !ordered || order[len(order)-1] == fmt.Sprint("reply ", p.id), "the reply does not come last: %v", order)
		}
		if ordered {
			p.forget()
		}
		p.tool("rw_chunk_compose", map[string]any{"session": "s", "output_path": "quiet-" + name}, nil)
		p.tool("rw_check", map[string]any{"deep": true}, nil)
		got := p.got("notifications/progress")
		expect(t, len(got) <= len(p.reports("a token"))+len(p.reports(7.0)) && (!ordered || len(got) == 0), "not requested: %v", got)
	})
}

// TestProgressGrowsThroughARepeatedCall: the protocol wants the number to grow
// even when the call starts again, as it does after a question to the user.
func TestProgressGrowsThroughARepeatedCall(t *testing.T) {
	t.Parallel()
	s := composable(t)
	srv := mcpserver.New(s, full)
	twice := mcp.NewTool("twice")
	srv.AddTool(twice, func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for range 2 {
			if _, err := s.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: "s", OutputPath: "twice.txt"}); err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("done"), nil
	})
	p := join(t, (*peer).stdio, srv)
	p.tool("twice", map[string]any{}, map[string]any{"progressToken": 1})
	p.reportsAre(1.0, 2)
}

// TestProgressOverTheLibrarysTransport: a host may serve us with the HTTP
// transport of the protocol library, in which a reply overtakes earlier messages
// before it, unless the call rests for a moment. How long that must be is up to
// the machine, so here it rests until the client has heard.
func TestProgressOverTheLibrarysTransport(t *testing.T) {
	heard := make(chan bool, 1)
	mcpserver.Rest(t, func() {
		select {
		case <-heard:
		case <-time.After(patience):
		}
	})
	s, _ := storeIn(t, nil)
	srv := mcpserver.New(s, full)
	srv.AddTool(mcp.NewTool("last_words"), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": "p", "progress": 1})
		return mcp.NewToolResultText(`"ok":true`), err
	})
	site := httptest.NewServer(server.NewStreamableHTTPServer(srv, server.WithStateful(true)))
	defer site.Close()
	session := ""
	post := func(body string) (text string) {
		r := must(http.NewRequest("POST", site.URL+"/mcp", strings.NewReader(body)))(t)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Session-Id", session)
		res := must(site.Client().Do(r))(t)
		defer res.Body.Close()
		session = res.Header.Get("Mcp-Session-Id") + session
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			text += lines.Text() + "\n"
			if strings.Contains(lines.Text(), "notifications/progress") {
				select {
				case heard <- true:
				default: // the call did not wait for it
				}
			}
		}
		noErr(t, lines.Err())
		return text
	}
	post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"t","version":"1"},"capabilities":{}}}`)
	for i := range 40 {
		got := post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":{"progressToken":"p"},"name":"last_words","arguments":{}}}`, i+1))
		require(t, strings.Contains(got, "notifications/progress") && strings.Contains(got, "result"), "call %d: %.300s", i, got)
	}
}

// stopping is a hook that stops at a place until its context ends or it is let
// go. Only paths that begin with "stop" stop it.
type stopping struct {
	at      string // authorize or verify
	inside  chan string
	goOn    chan struct{}
	entered atomic.Int32
}

func newStopping(at string) *stopping {
	return &stopping{at: at, inside: make(chan string, 100), goOn: make(chan struct{})}
}

func (s *stopping) stop(ctx context.Context, at string, op hook.Call) error {
	path := op.Changes[0].Path
	if at != s.at || !strings.HasPrefix(path, "stop") {
		return nil
	}
	s.entered.Add(1)
	s.inside <- path
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.goOn:
		return nil
	}
}

func (s *stopping) Authorize(ctx context.Context, op hook.Call) (hook.Decision, error) {
	return hook.Allow(), s.stop(ctx, "authorize", op)
}

func (s *stopping) Verify(ctx context.Context, c hook.Staged) error {
	return s.stop(ctx, "verify", c.Call)
}

func soon[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing happens", what)
	}
	panic("unreachable")
}

// each runs a test with a client of either protocol.
func each(t *testing.T, opts func() *rw.Options, test func(t *testing.T, w *wire)) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			w := connect(t, opts())
			if era == "modern" {
				w.modern(`{"elicitation":{}}`)
			} else {
				w.initialize(`{"elicitation":{}}`)
			}
			test(t, w)
		})
	}
}

func (w *wire) cancel(id any) {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%v,"reason":"changed my mind"}}`, id)
}

// operation asks what became of a call.
func (w *wire) operation(key string) (happened, refused bool) {
	w.t.Helper()
	res := w.result(w.call("rw_operation", map[string]any{"idempotency_key": key}))
	doc, _ := res["structuredContent"].(map[string]any)
	require(w.t, doc["ok"] == true, "%v", res)
	return doc["happened"] == true, doc["refused"] == true
}

// TestACanceledCallChangesNothingAndIsNotAnswered: wherever it is in front of
// the commit point, it ends there, its context with it, and the later calls
// it go on.
func TestACanceledCallChangesNothingAndIsNotAnswered(t *testing.T) {
	for _, at := range []string{"authorize", "verify"} {
		hook := newStopping(at)
		each(t, func() *rw.Options { return &rw.Options{Hooks: roles(hook)} }, func(t *testing.T, w *wire) {
			r := create("stop.txt", "x")
			r.IdempotencyKey = "k"
			id := w.call("rw_safe_write", r)
			soon(t, hook.inside, at)
			later := w.call("rw_safe_write", create("later.txt", "x"))
			w.cancel(id)
			if got := reasonOf(t, w.result(later)); got != "ok" { // the very next reply
				t.Errorf("the next call: %s", got)
			}
			equal(t, w.file("stop.txt"), "none", "it was written")
			w.nothingStaged(t)
			happened, _ := w.operation("k")
			expect(t, !happened, "the key says that it happened")
			// The key is free, and the call can come again.
			hook.at = "nowhere"
			equal(t, reasonOf(t, w.result(w.call("rw_safe_write", r))), "ok", "the same call again")
			hook.at = at
		})
	}
}

// TestTheCommitPointDecides: a call that is canceled at the beginning of any
// stage happens as a whole, with a row, or not at all. In either
// case it is not answered.
func TestTheCommitPointDecides(t *testing.T) { // alone: every call of the process comes by its points
	later := false
	for _, at := range []rw.Stage{
		rw.StageResolve, rw.StageAuthorize, rw.StageLock, rw.StagePrecondition, rw.StageCompose, rw.StageClassify, rw.StageStage,
		rw.StageRecord, rw.StagePublish, rw.StageSettle,
	} {
		later = later || at == rw.StageRecord
		t.Run(string(at), func(t *testing.T) {
			w := connect(t, nil).initialize(`{}`)
			inside, goOn := make(chan string, 1), make(chan struct{})
			var once atomic.Bool
			disarm := failpoint.Arm(func(point string) {
				if point == string(at) && !once.Swap(true) {
					inside <- point
					<-goOn
				}
			})
			defer disarm()
			r := create("a.txt", "whole")
			r.IdempotencyKey = "k"
			id := w.call("rw_safe_write", r)
			soon(t, inside, string(at))
			next := w.call("rw_safe_write", create("next.txt", "x"))
			w.cancel(id)
			w.result(w.call("rw_describe", map[string]any{})) // the cancellation was read
			close(goOn)
			equal(t, reasonOf(t, w.result(next)), "ok", "the next call")
			happened, _ := w.operation("k")
			written := w.file("a.txt") == "whole"
			expect(t, written == later && happened == later, "%q, happened: %v", w.file("a.txt"), happened)
			w.nothingStaged(t)
		})
	}
}

// TestAWaitingCallThatIsCanceledNeverBegins: no hook hears of it.
func TestAWaitingCallThatIsCanceledNeverBegins(t *testing.T) {
	hook := newStopping("authorize")
	each(t, func() *rw.Options { return &rw.Options{Hooks: roles(hook)} }, func(t *testing.T, w *wire) {
		hook.entered.Store(0)
		first := w.call("rw_safe_write", create("stop1.txt", "x"))
		soon(t, hook.inside, "the first call")
		second := w.call("rw_safe_write", create("stop2.txt", "x"))
		third := w.call("rw_safe_write", create("third.txt", "x"))
		w.cancel(second)
		w.cancel(first)
		equal(t, reasonOf(t, w.result(third)), "ok")
		expect(t, hook.entered.Load() == 1 && w.file("stop1.txt") == "none" && w.file("stop2.txt") == "none", "%d calls began", hook.entered.Load())
		if rows := w.rows(); rows != 2 { // the first, refused, and the third
			t.Errorf("%d rows", rows)
		}
	})
}

// TestOnlyTheCallThatIsMeantIsCanceled: the number 1, the text "1" and ids
// that does not exist are different things.
func TestOnlyTheCallThatIsMeantIsCanceled(t *testing.T) {
	hook := newStopping("verify")
	each(t, func() *rw.Options { return &rw.Options{Hooks: roles(hook)} }, func(t *testing.T, w *wire) {
		for i, c := range []struct {
			id, cancel string
			meant      bool
		}{
			{`1`, `1`, true}, {`1`, `"1"`, false}, {`"1"`, `1`, false}, {`"1"`, `"1"`, true}, {`7`, `7.0`, true}, {`100`, `1e2`, true},
			{`"é"`, `"\u00e9"`, true}, {`9007199254740993`, `9007199254740992`, false}, {`5`, `null`, false}, {`5`, `[5]`, false}, {`5`, `{"a":5}`, false}, {`5`, `6`, false},
		} {
			path := fmt.Sprintf("stop%d.txt", i)
			w.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"rw_safe_write","arguments":{"path":%q,"content":"x","mode":"create"}%s}}`, c.id, path, w.meta)
			soon(t, hook.inside, path)
			w.cancel(c.cancel)
			w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`)
			w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
			if !c.meant {
				w.result(w.call("rw_describe", map[string]any{})) // it was read, and had no effect
				hook.goOn <- struct{}{}
				m := w.read()
				expect(t, m["result"] != nil, "%s canceled by %s: %v", c.id, c.cancel, m)
			}
			last := w.call("rw_safe_write", create(fmt.Sprintf("last%d.txt", i), "x"))
			w.result(last)
			written := w.file(path) == "x"
			expect(t, written != c.meant, "%s canceled by %s: written %v", c.id, c.cancel, written)
			w.cancel(last) // it is over
		}
	})
}

// TestACanceledQuestionIsWithdrawn: the user need not answer any more, the
// call is not answered either, and a late answer has no effect.
func TestACanceledQuestionIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(hook.Permission{AutoApprove: []string{"docs"}})}).initialize(`{"elicitation":{}}`)
	id := w.call("rw_safe_write", create("a.txt", "x"))
	q := w.message()
	mustEqual(t, q["method"], "elicitation/create", q)
	w.cancel(id)
	m := w.message()
	params, _ := m["params"].(map[string]any)
	expect(t, m["method"] == "notifications/cancelled" && params["requestId"] == q["id"], "%v", m)
	w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"allow":true,"always":true}}}`, q["id"])
	got := reasonOf(t, w.result(w.call("rw_safe_write", create("docs/b.txt", "x"))))
	expect(t, got == "ok" && w.file("a.txt") == "none", "%s", got)
	// A modern client cancels by not coming back.
	w = connect(t, &rw.Options{Hooks: roles(hook.Permission{})}).modern(`{"elicitation":{}}`)
	pending(t, w.result(w.call("rw_safe_write", create("a.txt", "x"))))
	equal(t, w.rows(), 0, "rows")
}

// TestAStreamBlocksNoCall: a request that stays open until the client ends it
// keeps no other from being answered, nor the server from ending.
func TestAStreamBlocksNoCall(t *testing.T) {
	t.Parallel()
	w := connect(t, nil).modern(`{}`)
	listen := func(id int) {
		w.send(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["rw://journal"]}%s}}`, id, w.meta)
	}
	listen(900)
	listen(901)
	call := func() (others []any) {
		id := w.call("rw_safe_write", create(fmt.Sprint("f", w.next), "x"))
		for m := w.read(); m["id"] != float64(id); m = w.read() {
			others = append(others, m["id"])
		}
		return others
	}
	early := call()
	require(t, len(early) == 0, "nothing can be subscribed to: %v", early)
	w.cancel(900)
	late := call()
	expect(t, len(late) == 0, "a canceled stream was answered: %v", late)
	// The other one is open when the input ends.
}

// nothingStaged fails the test when a slot holds something.
func (w *wire) nothingStaged(t *testing.T) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(must(place.At(w.dir))(t), "staging", "*"))
	for _, p := range left {
		st, err := os.Stat(p)
		expect(t, err != nil || st.Size() <= 0, "left in staging: %s", p)
	}
}
