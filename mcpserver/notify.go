package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
)

// Subscribers hear of what changed from the journal: that way they hear of
// every file of a commit, and of the commits of other processes as well. The
// receipts of this process only say when to look; otherwise the journal is
// polled once a second while there are subscribers.

const (
	pollEvery    = time.Second
	updateEvery  = 100 * time.Millisecond // least time between two updates of one resource
	maxTopics    = 1000                   // resources that one client subscribes to
	maxAddresses = 256 << 10              // bytes of their addresses together
	rowsAtOnce   = 1000
	rowsFollowed = 10 // times rowsAtOnce; a journal that ran further ahead is not read row by row
)

// stateDir begins the paths of the state directory in the journal.
const stateDir = ".resilient_write/"

func inWorkspace(path string) bool { return path != "" && !strings.HasPrefix(path, stateDir) }

// topic is a resource, independent of the spelling of its address.
type topic struct{ name, arg string }

func (t topic) compare(other topic) int {
	return cmp.Or(strings.Compare(t.name, other.name), strings.Compare(t.arg, other.arg))
}

var (
	journalTopic = topic{"journal", ""}
	handoffTopic = topic{"handoff", ""}
)

// topicOf is the topic of an address; ok is false when it is not one of ours.
func topicOf(uri string) (t topic, ok bool) {
	r, arg, ok := findResource(uri)
	if !ok {
		return topic{}, false
	}
	if strings.Contains(r.URI, "{+path}") {
		arg = path.Clean(arg)
	}
	return topic{r.Name, arg}, true
}

// topicsOf are the resources that a row changes.
func topicsOf(e rw.JournalEntry) (list []topic) {
	for _, p := range []string{e.Path, e.RealPath} {
		object, private := strings.CutPrefix(p, stateDir)
		dir, name, _ := strings.Cut(object, "/")
		switch {
		case p == "":
		case !private:
			list = append(list, topic{"file", p}, topic{"history", p})
			if p == handoff.DefaultPath {
				list = append(list, handoffTopic)
			}
		case dir == "chunks":
			session, _, _ := strings.Cut(name, "/")
			list = append(list, topic{"chunks", session})
		case dir == "checkpoints":
			list = append(list, topic{"checkpoint", strings.TrimSuffix(name, ".json")})
		case dir == "handoffs": // archives, and who has read what
			list = append(list, handoffTopic)
		}
	}
	return list
}

// subscriptions are those of all clients of one server.
type subscriptions struct {
	host *host
	srv  *server.MCPServer
	wake chan struct{}

	mu      sync.Mutex
	all     map[any]*subscriber // by session id, or by the stream itself
	feeding bool
}

// subscriber is one client, or one stream of a client.
type subscriber struct {
	topics map[topic]string // with the address as the client wrote it
	due    map[topic]bool   // changed, and not sent yet
	after  time.Time        // nothing is sent before
	send   func(uri string) error
}

var (
	errGone  = errors.New("the client has disconnected")
	errFull  = errors.New("the client does not read notifications")
	errEarly = errors.New("the client is not ready for notifications")
)

// offerUpdates lets clients subscribe, in both eras of the protocol.
func (l *live) offerUpdates(s *server.MCPServer, hooks *server.Hooks) {
	subs := &subscriptions{host: l.host, srv: s, wake: make(chan struct{}, 1), all: map[any]*subscriber{}}
	l.subs = subs
	hooks.AddOnRequestInitialization(func(ctx context.Context, _ any, message any) error {
		raw, _ := message.(json.RawMessage)
		if !bytes.Contains(raw, []byte(mcp.MethodResourcesSubscribe)) && !bytes.Contains(raw, []byte(mcp.MethodSubscriptionsListen)) {
			return nil
		}
		return subs.check(ctx, raw)
	})
	hooks.AddAfterSubscribe(func(ctx context.Context, _ any, req *mcp.SubscribeRequest, _ *mcp.EmptyResult) {
		if session := server.ClientSessionFromContext(ctx); session != nil {
			subs.add(session.SessionID(), subs.toSession(session.SessionID()), time.Time{}, req.Params.URI)
		}
	})
	hooks.AddAfterUnsubscribe(func(ctx context.Context, _ any, req *mcp.UnsubscribeRequest, _ *mcp.EmptyResult) {
		if session := server.ClientSessionFromContext(ctx); session != nil {
			subs.drop(session.SessionID(), req.Params.URI)
		}
	})
	hooks.AddOnUnregisterSession(func(_ context.Context, session server.ClientSession) { subs.remove(session.SessionID()) })
	hooks.AddBeforeSubscriptionsListen(func(ctx context.Context, id any, req *mcp.SubscriptionsListenRequest) {
		session := server.ClientSessionFromContext(ctx)
		if session == nil || id == nil {
			return
		}
		stream := new(byte) // identifies this stream
		// The library acknowledges the stream before anything else is sent on
		// it, which takes next to no time.
		subs.add(stream, toStream(session, id), time.Now().Add(updateEvery), req.Params.Notifications.ResourceSubscriptions...)
		context.AfterFunc(ctx, func() { subs.remove(stream) })
	})
}

// check refuses a subscription to a topic that never changes. The library
// acknowledges every subscription.
func (s *subscriptions) check(ctx context.Context, raw json.RawMessage) error {
	var m struct {
		Method string `json:"method"`
		Params struct {
			URI           string                 `json:"uri"`
			Notifications mcp.SubscriptionFilter `json:"notifications"`
		} `json:"params"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return nil // reported by the library
	}
	var uris []string
	kept := 0
	switch mcp.MCPMethod(m.Method) {
	case mcp.MethodResourcesSubscribe:
		uris = []string{m.Params.URI}
		if session := server.ClientSessionFromContext(ctx); session != nil {
			var topics int
			if topics, kept = s.count(session.SessionID()); topics >= maxTopics {
				return fmt.Errorf("a client can subscribe to at most %d resources", maxTopics)
			}
		}
	case mcp.MethodSubscriptionsListen:
		uris = m.Params.Notifications.ResourceSubscriptions
		if len(uris) > maxTopics {
			return fmt.Errorf("a client can subscribe to at most %d resources", maxTopics)
		}
	}
	for _, uri := range uris {
		if kept += len(uri); kept > maxAddresses {
			return fmt.Errorf("the addresses that a client subscribes to may have at most %d bytes in total", maxAddresses)
		}
		if _, ok := topicOf(uri); !ok && strings.HasPrefix(uri, scheme) {
			return errors.New("there is no resource with this address; see resources/list and resources/templates/list")
		}
	}
	return nil
}

// toSession notifies a client of the versions that have sessions.
func (s *subscriptions) toSession(id string) func(string) error {
	return func(uri string) error {
		err := s.srv.SendNotificationToSpecificClient(id, mcp.MethodNotificationResourceUpdated, map[string]any{"uri": uri})
		switch {
		case errors.Is(err, server.ErrSessionNotFound):
			return errGone
		case err != nil:
			return errFull
		}
		return nil
	}
}

// toStream notifies a client of the other versions, on the stream that it
// opened.
func toStream(session server.ClientSession, id any) func(string) error {
	return func(uri string) error {
		n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
			Method: mcp.MethodNotificationResourceUpdated,
			Params: mcp.NotificationParams{Meta: map[string]any{mcp.MetaKeySubscriptionID: id}, AdditionalFields: map[string]any{"uri": uri}},
		}}
		if upgrade, ok := session.(server.SessionWithStreamableHTTPConfig); ok {
			upgrade.UpgradeToSSEWhenReceiveNotification()
		}
		select {
		case session.NotificationChannel() <- n:
			return nil
		default:
			return errFull
		}
	}
}

// add subscribes a client to those of the addresses that are ours.
func (s *subscriptions) add(client any, send func(string) error, after time.Time, uris ...string) {
	topics := map[topic]string{}
	for _, uri := range uris {
		if t, ok := topicOf(uri); ok {
			topics[t] = uri
		}
	}
	if len(topics) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[client]
	if one == nil {
		one = &subscriber{topics: map[topic]string{}, due: map[topic]bool{}, after: after, send: send}
		s.all[client] = one
	}
	maps.Copy(one.topics, topics)
	if !s.feeding {
		s.feeding = true
		// From here on nothing is missed: a row that is not durable yet follows
		// the newest durable one.
		go s.feed(s.newest())
	}
}

func (s *subscriptions) drop(client any, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := topicOf(uri)
	one := s.all[client]
	if !ok || one == nil {
		return
	}
	delete(one.topics, t)
	delete(one.due, t)
	if len(one.topics) == 0 {
		delete(s.all, client)
		s.rouse()
	}
}

func (s *subscriptions) remove(client any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, client)
	s.rouse()
}

// count is how much a client subscribes to: resources, and bytes of their
// addresses.
func (s *subscriptions) count(client any) (topics, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[client]; one != nil {
		for _, uri := range one.topics {
			size += len(uri)
		}
		topics = len(one.topics)
	}
	return topics, size
}

func (s *subscriptions) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// newest is the newest row that readers see.
func (s *subscriptions) newest() uint64 {
	r, err := s.host.store.JournalTail(context.Background(), rw.JournalTailRequest{N: 1, IncludeRefused: true})
	if err != nil || len(r.Entries) == 0 {
		return 0
	}
	return r.Entries[len(r.Entries)-1].Seq
}

// feed notifies the subscribers of the rows after one, until there are no
// subscribers or the store is closed.
func (s *subscriptions) feed(after uint64) {
	defer s.host.store.Watch(func(rw.Receipt) { s.rouse() })()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-s.wake:
		case <-poll.C:
		}
		changed, all, next, err := s.since(after)
		after = next
		if !s.spread(changed, all, err) {
			return
		}
		time.Sleep(updateEvery) // changes in between are sent together
	}
}

// since reads what changed after a row. all means that there are too many
// changes, or that they are unknown.
func (s *subscriptions) since(after uint64) (changed map[topic]bool, all bool, next uint64, err error) {
	changed = map[topic]bool{}
	for range rowsFollowed {
		r, err := s.host.store.JournalSince(context.Background(), rw.JournalSinceRequest{AfterSeq: &after, Limit: rowsAtOnce})
		if err != nil {
			return changed, all, after, err
		}
		if r.Gap || r.NextSeq != after {
			changed[journalTopic] = true
		}
		all = all || r.Gap
		for _, e := range r.Entries {
			for _, t := range topicsOf(e) {
				changed[t] = true
			}
		}
		if r.NextSeq == after {
			return changed, all, after, nil
		}
		after = r.NextSeq
	}
	return changed, true, max(after, s.newest()), nil
}

// spread notifies every subscriber of the changes. It reports whether any
// subscriber is left.
func (s *subscriptions) spread(changed map[topic]bool, all bool, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, rw.ErrStoreClosed) {
		clear(s.all)
	}
	for client, one := range s.all {
		one.note(changed, all)
		switch one.flush() {
		case errGone:
			delete(s.all, client)
		case errEarly:
			s.rouse()
		} // with a client that does not take it, the next poll tries again
	}
	s.feeding = len(s.all) > 0
	return s.feeding
}

// note records the changes that the subscriber is interested in.
func (one *subscriber) note(changed map[topic]bool, all bool) {
	for t := range one.topics {
		if all || changed[t] {
			one.due[t] = true
		}
	}
}

// flush sends the notifications that are due. A notification that the client does not
// accept now stays due.
func (one *subscriber) flush() error {
	if len(one.due) > 0 && time.Now().Before(one.after) {
		return errEarly
	}
	for _, t := range slices.SortedFunc(maps.Keys(one.due), topic.compare) {
		if err := one.send(one.topics[t]); err != nil {
			return err
		}
		delete(one.due, t)
	}
	return nil
}
