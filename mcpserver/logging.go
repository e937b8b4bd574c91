package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Clients receive messages about events outside of replies: what opening the store
// found, rows that cannot be read, tools that go away, a store that accepts no more
// writes. Each message has an event, a hint in words and numbers, never content. The
// records of the operator go to the logger of the options, independently of the level
// that the client has set.

const loggerName = "resilientwrite"

// maxGreeted is how many clients without a session are remembered.
const maxGreeted = 1000

// onceMessages remembers which one-time messages each client has received.
type onceMessages struct {
	mu   sync.Mutex
	done map[string]bool // by client and event
}

// first reports whether a client has not received a message yet.
func (t *onceMessages) first(client, event string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client + "\x00" + event
	if t.done[key] {
		return false
	}
	if t.done == nil || len(t.done) >= 2*maxGreeted {
		t.done = map[string]bool{} // some are sent again
	}
	t.done[key] = true
	return true
}

func (t *onceMessages) forget(client string, events ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range events {
		delete(t.done, client+"\x00"+e)
	}
}

// offerLogging lets clients hear messages, from the level on that they set.
func (l *live) offerLogging(s *server.MCPServer, hooks *server.Hooks) {
	server.WithLogging()(s)
	hooks.AddAfterSetLevel(func(ctx context.Context, _ any, _ *mcp.SetLevelRequest, _ *mcp.EmptyResult) { l.greet(ctx) })
	hooks.AddOnUnregisterSession(func(_ context.Context, session server.ClientSession) {
		l.sent.forget(session.SessionID(), eventRecovery, eventRoots, eventMalformed, eventPoisoned)
	})
}

// The events of messages.
const (
	eventRecovery  = "recovery"
	eventMalformed = "journal_malformed"
	eventPoisoned  = "store_poisoned"
	eventRoots     = call.WarnOutsideRoots
)

// hears reports whether the client has requested messages of a level.
func hears(ctx context.Context, level mcp.LoggingLevel) bool {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		return info.LogLevel != "" && level.ShouldSendTo(info.LogLevel)
	}
	session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithLogging)
	return ok && session.Initialized() && level.ShouldSendTo(session.GetLogLevel())
}

// once reports whether a client should receive a one-time message that it has
// not received yet.
func (l *live) once(ctx context.Context, level mcp.LoggingLevel, event string) bool {
	return hears(ctx, level) && l.sent.first(clientOf(ctx), event)
}

// say sends a message to the client.
func (l *live) say(ctx context.Context, level mcp.LoggingLevel, event, hint string, facts map[string]any) {
	s := server.ServerFromContext(ctx)
	if s == nil || !hears(ctx, level) {
		return
	}
	data := map[string]any{"event": event, "hint": l.host.box.Words(hint)}
	maps.Copy(data, facts)
	s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(level, loggerName, data))
}

// clientOf identifies the client of a request: by its session or, if the protocol has
// none, by the name it gives itself.
func clientOf(ctx context.Context) string {
	if session := server.ClientSessionFromContext(ctx); session != nil && session.SessionID() != "" {
		return session.SessionID()
	}
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientInfo != nil {
		return visible.Prefix(info.ClientInfo.Name, 100) + "/" + visible.Prefix(info.ClientInfo.Version, 100)
	}
	return ""
}

// greet sends a client, once, the messages that it needs at the start.
func (l *live) greet(ctx context.Context) {
	if !hears(ctx, mcp.LoggingLevelWarning) {
		return
	}
	r := l.host.store.Recovery()
	if facts := notable(r); len(facts) > 0 && l.once(ctx, mcp.LoggingLevelWarning, eventRecovery) {
		hint := "the store was opened with warnings"
		if len(facts) > 1 || facts["warnings"] == nil {
			hint = "opening the store found an unfinished or damaged state" + l.host.box.Mention("describe", "; %s lists the files")
		}
		l.say(ctx, mcp.LoggingLevelWarning, eventRecovery, hint, facts)
	}
	if outside, _ := l.roots.Load(clientOf(ctx)); outside == true && l.once(ctx, mcp.LoggingLevelWarning, eventRoots) {
		l.say(ctx, mcp.LoggingLevelWarning, eventRoots, outsideWarning().Hint, nil)
	}
}

// notable is what of a recovery a client should hear of, in numbers.
func notable(r rw.RecoveryReport) map[string]any {
	facts := map[string]any{}
	for name, n := range map[string]int{
		"finished": len(r.Finished), "aborted": len(r.Aborted), "conflicts": len(r.Conflicts),
		"malformed": r.Malformed, "torn_bytes": int(r.TornBytes), "import_skipped": int(r.ImportSkipped),
	} {
		if n > 0 {
			facts[name] = n
		}
	}
	if r.Poisoned {
		facts["poisoned"] = true
	}
	var reasons []string
	for _, w := range r.Warnings {
		reasons = append(reasons, w.Reason)
	}
	if len(reasons) > 0 {
		facts["warnings"] = reasons
	}
	return facts
}

// remark sends messages about parts of a reply that are easily overlooked.
func (l *live) remark(ctx context.Context, tool string, res *mcp.CallToolResult) {
	of, ours := l.host.tool(tool)
	if !ours || res == nil || !hears(ctx, mcp.LoggingLevelError) {
		return
	}
	var doc []byte
	if len(res.Content) > 0 {
		doc = []byte(mcp.GetTextFromContent(res.Content[0]))
	}
	switch {
	case res.IsError:
		var e struct {
			Context struct{ Reason rw.Detail } `json:"context"`
		}
		if json.Unmarshal(doc, &e) == nil && e.Context.Reason == rw.ErrStorePoisoned && l.once(ctx, mcp.LoggingLevelError, eventPoisoned) {
			_, _, _, _, hint := rw.ErrStorePoisoned.Describe()
			l.say(ctx, mcp.LoggingLevelError, eventPoisoned, hint, nil)
		}
	case of.Stem == "journal_tail" || of.Stem == "journal_since":
		var r struct{ Malformed int }
		if json.Unmarshal(doc, &r) == nil && r.Malformed > 0 && l.once(ctx, mcp.LoggingLevelWarning, eventMalformed) {
			l.say(ctx, mcp.LoggingLevelWarning, eventMalformed, "some lines of the journal cannot be read and were skipped; the others are not affected", map[string]any{"malformed": r.Malformed})
		}
	}
}
