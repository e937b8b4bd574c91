package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
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
		// Nobody answers that, so only the server knows when it has noticed.
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
	if got := p.updates(); !slices.Equal(got, uris) {
		p.t.Errorf("heard of %v instead of %v", got, uris)
	}
	p.forget()
}

// TestSubscribersHearOfOtherProcesses: within the second in which the journal
// is looked at.
func TestSubscribersHearOfOtherProcesses(t *testing.T) {
	s, dir := storeIn(t, nil)
	other := must(rw.Open(ctx, dir, &rw.Options{Sync: rw.SyncOff}))(t)
	defer other.Close(ctx)
	p := &peer{t: t, caps: "{}"}
	p.stdio(mcpserver.New(s, full))
	p.begin()
	p.subscribe("rw://file/a.txt", "rw://chunks/new", "rw://checkpoint/new")
	save(t, other, "a.txt", "theirs")
	must(other.ChunkWrite(ctx, rw.ChunkWriteRequest{Session: "new", Index: 1, Content: []byte("x")}))(t)
	p.wait("both updates", func() bool { return len(p.updates()) == 2 })
	p.hears("rw://chunks/new", "rw://file/a.txt")
}

// TestSubscribersHearOfWhatChanged: of that and of nothing else, over every
// transport and in both eras.
func TestSubscribersHearOfWhatChanged(t *testing.T) {
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
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
		if _, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: "moved.txt", Content: []byte(fmt.Sprint("refused ", n))}); err == nil {
			t.Fatal("created twice")
		}
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
	s, _ := storeIn(t, nil)
	t.Run("are gathered", func(t *testing.T) { updatesAreGathered(t, s) })
	t.Run("are tagged", func(t *testing.T) { streamsAreTagged(t, s) })
	t.Run("of nothing", func(t *testing.T) { subscriptionsToNothing(t, s) })
	t.Run("do not wait for those who do not listen", func(t *testing.T) { deafSubscriber(t, s) })
}

// updatesAreGathered: a burst of writes is told in a few updates, at least
// 100 ms apart, the last of them after the last write.
func updatesAreGathered(t *testing.T, s *rw.Store) {
	p := &peer{t: t, caps: "{}"}
	p.stdio(mcpserver.New(s, full))
	p.begin()
	p.subscribe("rw://file/a.txt", "rw://journal")
	began := time.Now()
	var last time.Time // when the last write began
	for i := range 100 {
		last = time.Now()
		save(t, s, "a.txt", fmt.Sprint(i))
	}
	p.wait("an update of each behind the last write", func() bool {
		n := 0
		for _, u := range p.got(updated) {
			if u.At.After(last) {
				n++
			}
		}
		return n >= 2
	})
	byURI := map[string][]time.Time{}
	for _, n := range p.got(updated) {
		byURI[n.Params["uri"].(string)] = append(byURI[n.Params["uri"].(string)], n.At)
	}
	for uri, at := range byURI {
		if most := int(time.Since(began)/(100*time.Millisecond)) + 1; len(at) > most {
			t.Errorf("%s: %d updates in %v", uri, len(at), time.Since(began))
		}
	}
	if len(byURI) != 2 {
		t.Errorf("updates of %v", byURI)
	}
}

// streamsAreTagged: every update carries the id of the stream that asked
// for it, behind the acknowledgment.
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
		if got := tags(); !slices.Equal(got, want) {
			t.Errorf("%v instead of %v", got, want)
		}
		if first := p.sequence()[0]; first != "notifications/subscriptions/acknowledged" {
			t.Errorf("the stream begins with %s", first)
		}
		stopOne()
		p.forget()
		save(t, s, "a.txt", fmt.Sprint(time.Now()))
		p.wait("updates of the other stream", func() bool { return len(tags()) >= 2 })
		if got := tags(); !slices.Equal(got, want[1:]) {
			t.Errorf("after one ended: %v", got)
		}
		stopTwo()
	}
}

// subscriptionsToNothing: are refused, as are too many.
func subscriptionsToNothing(t *testing.T, s *rw.Store) {
	srv := mcpserver.New(s, full)
	eachPeer(t, func(t *testing.T, connect func(*server.MCPServer) *peer) {
		p := connect(srv)
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
			if problem := ask("rw://journal", uri); problem == nil || !strings.Contains(fmt.Sprint(problem["message"]), "address") {
				t.Errorf("%s: %v", uri, problem)
			}
		}
		var many []string
		for i := range 1001 {
			many = append(many, fmt.Sprint("rw://file/", i))
		}
		if problem := ask(many...); problem == nil || !strings.Contains(fmt.Sprint(problem["message"]), "1000") {
			t.Errorf("1001 subscriptions: %v", problem)
		}
	})
}

// feeding reports whether somebody follows the journal for subscribers.
func feeding() bool {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size { // all of it
			return strings.Contains(string(buf[:n]), "(*subscriptions).feed")
		}
	}
}

// TestNobodyFollowsWithoutSubscribers: the journal is read as long as there
// are subscribers, and no longer than the store is open.
func TestNobodyFollowsWithoutSubscribers(t *testing.T) {
	p := &peer{t: t}
	p.wait("the subscribers of other tests are gone", func() bool { return !feeding() })
	for _, end := range []string{"unsubscribe", "client", "store"} {
		s, _ := storeIn(t, nil)
		t.Run(end, func(t *testing.T) {
			p := &peer{t: t, caps: "{}"}
			p.inProcess(mcpserver.New(s, full))
			p.begin()
			if feeding() {
				t.Fatal("it is read although nobody is subscribed")
			}
			stop := p.subscribe("rw://journal", "rw://handoff")
			p.wait("somebody reads it", feeding)
			switch end {
			case "unsubscribe":
				stop()
			case "store":
				s.Close(ctx)
			case "client":
				return // and its cleanup
			}
			p.wait("nobody reads it", func() bool { return !feeding() })
		})
		p.wait("nobody reads it after "+end, func() bool { return !feeding() })
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
	p := &peer{t: t, caps: "{}"}
	p.inProcess(srv)
	p.begin()
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
