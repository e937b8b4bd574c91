package mcpserver

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
)

const (
	maxCompletions = 100  // the protocol's limit
	searchedRows   = 1000 // of the journal, for paths
)

// offerCompletions completes the arguments of prompts and the variables of
// templates.
func (l *live) offerCompletions(s *server.MCPServer) {
	server.WithCompletions()(s)
	server.WithPromptCompletionProvider(completions{l})(s)
	server.WithResourceCompletionProvider(completions{l})(s)
}

// completions are the server's side of it. What cannot be listed completes to
// nothing: a completion is a help, and its failure no news.
type completions struct{ live *live }

func (c completions) CompletePromptArgument(ctx context.Context, name string, arg mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	return c.complete(ctx, promptChoices[name+" "+arg.Name], arg.Value), nil
}

func (c completions) CompleteResourceArgument(ctx context.Context, uri string, arg mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	i := slices.IndexFunc(resources, func(r resource) bool { return r.URI == uri })
	if i < 0 || !strings.Contains(uri, arg.Name+"}") {
		return &mcp.Completion{}, nil
	}
	return c.complete(ctx, resources[i].choices, arg.Value), nil
}

// complete returns the choices that match the typed text: first those that begin with
// it, then those that contain it, each in the order of the source.
func (c completions) complete(ctx context.Context, choices func(*host, context.Context) []string, typed string) (out *mcp.Completion) {
	out = &mcp.Completion{Values: []string{}}
	defer func() {
		if recover() != nil {
			c.live.host.logPanic("completion/complete")
			out = &mcp.Completion{Values: []string{}}
		}
	}()
	if choices == nil || !c.live.host.box.Allow() {
		return out
	}
	typed = strings.ToLower(typed)
	var begin, hold []string
	for _, choice := range choices(c.live.host, ctx) {
		switch low := strings.ToLower(choice); {
		case strings.HasPrefix(low, typed):
			begin = append(begin, choice)
		case strings.Contains(low, typed):
			hold = append(hold, choice)
		}
	}
	all := append(begin, hold...)
	out.Total, out.HasMore = len(all), len(all) > maxCompletions
	out.Values = append(out.Values, all[:min(len(all), maxCompletions)]...)
	return out
}

// promptChoices are the choices for arguments of prompts, by both names.
var promptChoices = map[string]func(*host, context.Context) []string{
	"leave_handoff status":            func(*host, context.Context) []string { return handoffStates() },
	"leave_handoff task_id":           (*host).taskNames,
	"recover_refused_write draft_ref": (*host).draftNames,
	"resume_task path":                (*host).handoffPaths,
}

func (h *host) checkpointNames(ctx context.Context) []string {
	r, _ := h.store.CheckpointList(ctx, rw.CheckpointListRequest{})
	return mapped(r.Checkpoints, func(c rw.CheckpointInfo) string { return c.Name })
}

func (h *host) sessionNames(ctx context.Context) []string {
	r, _ := h.store.ChunkList(ctx, rw.ChunkListRequest{})
	return mapped(r.Sessions, func(s rw.ChunkSession) string { return s.Session })
}

func (h *host) draftNames(ctx context.Context) []string {
	r, _ := h.store.DraftList(ctx, rw.DraftListRequest{})
	return mapped(r.Drafts, func(d rw.Draft) string { return d.DraftRef })
}

func (h *host) taskNames(ctx context.Context) []string {
	r, err := h.store.HandoffRead(ctx, handoff.ReadRequest{Session: readerSession})
	if err != nil || r.Envelope.TaskID == "" {
		return nil
	}
	return []string{inLine(r.Envelope.TaskID)}
}

// handoffPaths are the handoff, those that were written elsewhere, and the
// archived ones.
func (h *host) handoffPaths(ctx context.Context) []string {
	paths := []string{handoff.DefaultPath}
	r, _ := h.store.JournalTail(ctx, rw.JournalTailRequest{N: 200, FilterMode: "handoff"})
	for _, e := range slices.Backward(r.Entries) {
		if p := e.Path; inWorkspace(p) && path.Ext(p) == ".md" && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	if h, err := h.store.HandoffRead(ctx, handoff.ReadRequest{Session: readerSession}); err == nil {
		paths = append(paths, h.Archives...)
	}
	return paths
}

// paths finds the files in the newest rows, newest first: those that are there, or all.
func paths(all bool) func(*host, context.Context) []string {
	return func(h *host, ctx context.Context) (paths []string) {
		r, _ := h.store.JournalTail(ctx, rw.JournalTailRequest{N: searchedRows})
		seen := map[string]bool{}
		for _, e := range slices.Backward(r.Entries) {
			if !inWorkspace(e.Path) || seen[e.Path] {
				continue
			}
			if seen[e.Path] = true; all || e.SHA256.String() != "" {
				paths = append(paths, e.Path)
			}
		}
		return paths
	}
}
