package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
)

// aroundTools wraps every call of a tool: it reports progress when the call asks for
// it, and sends notes for the client in addition to the reply.
func (l *live) aroundTools(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		defer settled(ctx)
		l.askRoots(ctx, false)
		l.greet(ctx)
		if req.Params.Meta != nil && req.Params.Meta.ProgressToken != nil {
			ctx = rw.WithProgress(ctx, reporter(ctx, req.Params.Meta.ProgressToken))
		}
		res, err := next(ctx, req)
		l.remark(ctx, req.Params.Name, res)
		return res, err
	}
}

// reporter turns reports into notifications. The protocol requires the number
// to grow with every notification; the Store only promises that it does not
// fall, and a call that asks the user starts again after the answer.
func reporter(ctx context.Context, token mcp.ProgressToken) func(rw.Progress) {
	s := server.ServerFromContext(ctx)
	var mu sync.Mutex
	last := int64(-1)
	return func(p rw.Progress) {
		mu.Lock()
		defer mu.Unlock()
		last = max(p.Done, last+1)
		params := map[string]any{"progressToken": token, "progress": last, "message": reportText(p)}
		if p.Total > 0 {
			params["total"] = max(p.Total, last)
		}
		// A client that does not take it misses a report, and the call continues.
		s.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), params)
	}
}

func reportText(p rw.Progress) string {
	if p.Message == "" {
		return string(p.Stage)
	}
	return string(p.Stage) + ": " + p.Message
}

const (
	deliverStep = time.Millisecond
	deliverMost = 100 // steps
)

// rest waits until messages taken off the channel are written. A test knows how long
// that takes.
var rest = func() { time.Sleep(2 * deliverStep) }

// settled waits until the messages of a call are sent. The sessions of this
// package send them before the reply. With the HTTP transport of the protocol
// library the reply overtakes the last messages, which are then lost; since it
// cannot be known whether there were any, every call waits for a moment.
func settled(ctx context.Context) {
	session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithStreamableHTTPConfig)
	if !ok {
		return
	}
	for range deliverMost {
		time.Sleep(deliverStep)
		if len(session.NotificationChannel()) == 0 {
			break
		}
	}
	rest() // messages taken off the channel may not be written yet
}
