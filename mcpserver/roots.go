package mcpserver

import (
	"context"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
)

// The workspace is chosen when the server is started and never changes. A
// client may name directories that it works in, its roots; they serve to
// notice a server that was started for another workspace, and count as further
// workspaces inside the directories that the operator allowed. The protocol has
// deprecated them, and since 2026-07-28 a server cannot ask for them.

const (
	rootsTime = 10 * time.Second // for the client to answer
	maxRoots  = 100              // of a client that are used
)

// offerRoots requests the roots of each client once, and again when they change.
func (l *live) offerRoots(s *server.MCPServer, hooks *server.Hooks) {
	s.AddNotificationHandler("notifications/initialized", func(ctx context.Context, _ mcp.JSONRPCNotification) { l.askRoots(ctx, false) })
	s.AddNotificationHandler(mcp.MethodNotificationRootsListChanged, func(ctx context.Context, _ mcp.JSONRPCNotification) { l.askRoots(ctx, true) })
	hooks.AddOnUnregisterSession(func(_ context.Context, session server.ClientSession) {
		l.roots.Delete(session.SessionID())
		l.host.opts.Workspaces.declare(session.SessionID(), nil)
	})
}

// askRoots requests the roots of the client in the background: once, unless it said
// that they have changed.
func (l *live) askRoots(ctx context.Context, again bool) {
	s, session := server.ServerFromContext(ctx), server.ClientSessionFromContext(ctx)
	info, ok := session.(server.SessionWithClientInfo)
	if !ok || s == nil || session.SessionID() == "" || server.IsModernRequest(ctx) || info.GetClientCapabilities().Roots == nil {
		return
	}
	if _, ok := session.(server.SessionWithRoots); !ok {
		return
	}
	if _, asked := l.roots.LoadOrStore(session.SessionID(), false); asked && !again {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rootsTime)
	go func() {
		defer cancel()
		defer func() { recover() }() // the host's own code may be what answers
		res, err := s.RequestRoots(ctx, mcp.ListRootsRequest{})
		if err != nil || res == nil {
			return // it is a nicety
		}
		dirs := localDirs(res.Roots)
		l.host.opts.Workspaces.declare(session.SessionID(), dirs)
		// Roots that are no local directories prove nothing.
		outside := len(dirs) > 0 && len(res.Roots) <= maxRoots && !slices.ContainsFunc(dirs, l.host.store.Within)
		l.roots.CompareAndSwap(session.SessionID(), !outside, outside) // unless the client has left meanwhile
		if outside {
			l.host.log.Warn("the workspace is outside the client's roots", "roots", len(res.Roots))
			l.greet(ctx)
		}
	}()
}

// localDirs are the local directories among roots.
func localDirs(roots []mcp.Root) (list []string) {
	for _, root := range roots[:min(len(roots), maxRoots)] {
		if dir, ok := directoryOf(root.URI); ok {
			list = append(list, dir)
		}
	}
	return list
}

// directoryOf is the directory that a file URI names.
func directoryOf(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Opaque != "" {
		return "", false
	}
	dir := u.Path
	if runtime.GOOS == "windows" {
		dir = strings.TrimPrefix(dir, "/") // of /C:/work
	}
	dir = filepath.FromSlash(dir)
	return dir, filepath.IsAbs(dir)
}

// outsideWarning returns the warning that the workspace is outside the client's roots.
func outsideWarning() rw.Warning {
	list := call.Warnings()
	return list[slices.IndexFunc(list, func(w rw.Warning) bool { return w.Reason == call.WarnOutsideRoots })]
}

// warnings say that the workspace is outside the roots of some client, where it is.
func (h *host) warnings() (list []rw.Warning) {
	if h.live != nil {
		h.live.roots.Range(func(_, outside any) bool {
			if outside == true {
				list = []rw.Warning{outsideWarning()}
			}
			return list == nil
		})
	}
	return list
}
