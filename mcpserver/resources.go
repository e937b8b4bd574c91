package mcpserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/visible"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// ResourceInfo describes a resource, or a template of some: to documents and
// to tests.
type ResourceInfo struct {
	URI         string // address, or the template of one
	Name        string
	Title       string
	Description string
	MIMEType    string // empty when it depends on the file
	Template    bool
	Updates     bool // subscribers hear of changes
}

// Resources lists what can be read by address, by name.
func Resources() []ResourceInfo {
	var list []ResourceInfo
	for _, r := range resources {
		list = append(list, r.ResourceInfo)
	}
	return list
}

// resource is one line of the table. The scratchpad and refused drafts are kept
// apart from the workspace and are not resources.
type resource struct {
	ResourceInfo
	read    func(h *host, ctx context.Context, arg string) (v any, note string, err error)
	choices func(h *host, ctx context.Context) []string // for the variable of a template
}

// resources lists the resources by name, as clients list them. The part before a
// variable differs in each, so that no address matches two of them.
var resources = []resource{
	{ResourceInfo{"rw://checkpoint/{name}", "checkpoint", "A checkpoint",
		"A saved state of the work with its data, verified against its hash.", jsonType, true, true}, (*host).readCheckpoint, (*host).checkpointNames},
	{ResourceInfo{"rw://chunks/{session}", "chunks", "A chunk session",
		"Which chunks of a large file are stored, which are missing, and whether it was composed.", jsonType, true, true}, (*host).readChunks, (*host).sessionNames},
	{ResourceInfo{"rw://describe", "describe", "The store",
		"Version, limits, durability, policy, tools, and what recovery did when the store was opened.", jsonType, false, false}, (*host).readDescribe, nil},
	{ResourceInfo{"rw://file/{+path}", "file", "A file",
		"A whole file of the workspace, up to 1 MiB: as text, or as a blob when it is not UTF-8.", "", true, true}, (*host).readFile, paths(false)},
	{ResourceInfo{"rw://handoff", "handoff", "The handoff",
		"The handoff of the previous agent in HANDOFF.md, with the files that changed since, the steps that are ready, and who has read it.", jsonType, false, true}, (*host).readHandoff, nil},
	{ResourceInfo{"rw://history/{+path}", "history", "Versions of a file",
		"The newest versions of a file, across deletions and moves, with hash, time and caller.", jsonType, true, true}, (*host).readHistory, paths(true)},
	{ResourceInfo{"rw://journal", "journal", "The journal",
		"The newest rows of the journal, oldest first: what was written or refused, when, by whom.", jsonType, false, true}, (*host).readJournal, nil},
	{ResourceInfo{"rw://policy", "policy", "The policy",
		"The policy in force: the content gate, protected paths, the retry budget, and the files that are protected by default.", jsonType, false, false}, (*host).readPolicy, nil},
	{ResourceInfo{"rw://schema/{tool}", "schema", "Schemas of a tool",
		"All arguments of a tool and the fields of its full reply, as JSON Schemas, also where the list leaves them out.", jsonType, true, false}, (*host).readSchema, func(h *host, _ context.Context) []string { return slices.Sorted(maps.Keys(h.tools)) }},
}

const (
	scheme   = "rw://"
	jsonType = "application/json"

	shownRows     = 50       // of journal and history
	shownBytes    = 1 << 20  // of a file, or of the data of a checkpoint
	shownBody     = 64 << 10 // bytes of the body of a handoff
	readerSession = "resource"
)

// findResource returns the resource at an address, and the value of its
// template's variable.
func findResource(uri string) (r *resource, arg string, ok bool) {
	for i := range resources {
		r := &resources[i]
		if uri == r.URI && !r.Template {
			return r, "", true
		}
		prefix, _, _ := strings.Cut(r.URI, "{")
		rest, ok := strings.CutPrefix(uri, prefix)
		if !ok || rest == "" || !r.Template {
			continue
		}
		arg, err := url.PathUnescape(rest)
		if err != nil || !strings.Contains(r.URI, "{+") && strings.Contains(rest, "/") {
			return nil, "", false
		}
		return r, arg, true
	}
	return nil, "", false
}

// offerResources adds the resources to the server. A resource is read before the
// protocol library looks for its handler: only a missing resource gets the protocol's
// own error.
func (l *live) offerResources(s *server.MCPServer, hooks *server.Hooks) {
	server.WithResourceCapabilities(true, false)(s)
	answer := func(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		got, _ := attached(req.Params.Meta, prepared).(readOutcome)
		if got.contents == nil {
			return nil, cmp.Or(got.err, errPanicked)
		}
		return []mcp.ResourceContents{got.contents}, nil
	}
	for i := range resources {
		r := &resources[i]
		if r.Template {
			s.AddResourceTemplate(mcp.NewResourceTemplate(r.URI, r.Name, mcp.WithTemplateTitle(r.Title),
				mcp.WithTemplateDescription(r.Description), mcp.WithTemplateMIMEType(r.MIMEType)), answer)
			continue
		}
		s.AddResource(mcp.Resource{URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType}, answer)
	}
	hooks.AddBeforeReadResource(func(ctx context.Context, _ any, req *mcp.ReadResourceRequest) {
		if !strings.HasPrefix(req.Params.URI, scheme) {
			return // of the host
		}
		got := l.readResource(ctx, req.Params.URI)
		if got.absent != "" {
			req.Params.URI = got.absent
			return
		}
		attach(&req.Params.Meta, prepared, got)
	})
}

// readOutcome is the result of reading a resource.
type readOutcome struct {
	contents mcp.ResourceContents
	absent   string // the message for a missing resource, in place of its address
	err      error
}

// readResource reads the resource at an address.
func (l *live) readResource(ctx context.Context, uri string) (out readOutcome) {
	defer func() {
		if recover() != nil {
			l.host.logPanic("resources/read")
			out = readOutcome{err: errPanicked}
		}
	}()
	r, arg, ok := findResource(uri)
	if !ok {
		return readOutcome{absent: scheme + " (there is no resource with this address; see resources/list and resources/templates/list)"}
	}
	if !l.host.box.Allow() {
		return readOutcome{err: l.host.clientError(rw.NewError("read", rw.ErrRateLimited, "", nil))}
	}
	v, note, err := r.read(l.host, toolbox.ForAgents(ctx), arg)
	if err == nil {
		out.contents, err = contentsOf(uri, v, note)
	}
	if err == nil {
		return out
	}
	e := rw.AsError("read", err)
	if isAbsent(e, r.Template) {
		return readOutcome{absent: fmt.Sprintf("%s (%s)", r.URI, l.host.clientError(e))}
	}
	return readOutcome{err: l.host.clientError(e)}
}

// isAbsent reports whether there is no such resource, or none that may be
// read.
func isAbsent(e *rw.Error, template bool) bool {
	d := e.Detail
	if d == rw.ErrRetryExhausted { // repeated reads of a missing resource report why they fail
		d = lastDetail(e)
	}
	_, _, _, code, _ := d.Describe()
	switch {
	case code == rw.CodeNotFound:
		return true
	case d == rw.ErrTooLarge:
		return false
	}
	switch code {
	case rw.CodePermission, rw.CodeInvalid, rw.CodePolicy: // the variable names nothing of the kind
		return template
	}
	return false
}

// lastDetail returns the reason of the last failure of a call whose budget is used up.
func lastDetail(e *rw.Error) rw.Detail {
	last, _ := e.Context["last_error"].(map[string]any)
	d, _ := last["reason"].(rw.Detail)
	return d
}

// clientError is an error as text for a client: what, where, and what to do. It
// contains no content and no path from outside the workspace.
func clientError(e *rw.Error) error {
	hint := e.Hint
	d := e.Detail
	if last := lastDetail(e); last != "" {
		d = last
		_, _, _, _, hint = d.Describe()
	}
	text := string(d)
	if e.Path != "" {
		text += ": " + e.Path
	}
	if hint != "" {
		text += ": " + hint
	}
	return errors.New(text)
}

// clientError is an error as text for a client of this server.
func (h *host) clientError(e *rw.Error) error { return errors.New(h.box.Words(clientError(e).Error())) }

// contentsOf is what a resource at an address shows of a value: the value if it has its
// own form, otherwise its JSON with a note in front.
func contentsOf(uri string, v any, note string) (mcp.ResourceContents, error) {
	switch v := v.(type) {
	case mcp.TextResourceContents:
		v.URI = uri
		return v, nil
	case mcp.BlobResourceContents:
		v.URI = uri
		return v, nil
	}
	doc, err := schema.Reply(v, "")
	if err != nil {
		return nil, err
	}
	if note != "" {
		text, err := json.Marshal(note)
		if err != nil {
			return nil, err
		}
		sep := ","
		if len(doc) == 2 {
			sep = ""
		}
		doc = append([]byte(`{"note":`+string(text)+sep), doc[1:]...)
	}
	return mcp.TextResourceContents{URI: uri, MIMEType: jsonType, Text: string(doc)}, nil
}

func (h *host) readJournal(ctx context.Context, _ string) (any, string, error) {
	r, err := h.store.JournalTail(ctx, rw.JournalTailRequest{N: shownRows, IncludeRefused: true})
	return r, h.box.Mention("journal_tail", fmt.Sprintf("the newest %d rows; %%s returns more, by path, caller or operation", shownRows)), err
}

func (h *host) readHistory(ctx context.Context, arg string) (v any, note string, err error) {
	r, err := h.store.History(ctx, rw.HistoryRequest{Path: arg, N: shownRows})
	if r.More {
		note = h.box.Mention("history", fmt.Sprintf("the newest %d versions; %%s returns more", shownRows))
	}
	return r, note, err
}

func (h *host) readHandoff(ctx context.Context, _ string) (v any, note string, err error) {
	// The session distinguishes this read from one by an agent, so that each
	// has a retry budget of its own.
	r, err := h.store.HandoffRead(ctx, handoff.ReadRequest{Session: readerSession})
	if short := visible.Prefix(string(r.Body), shownBody); len(short) < len(r.Body) {
		r.Body = []byte(short)
		note = h.box.Mention("handoff_read", fmt.Sprintf("the first %d bytes of the body; %%s returns all of it", len(short)))
	}
	return toolbox.HandoffReply(r), note, err
}

func (h *host) readCheckpoint(ctx context.Context, arg string) (v any, note string, err error) {
	r, err := h.store.CheckpointRead(ctx, rw.CheckpointReadRequest{Name: arg})
	if len(r.Data) > shownBytes {
		r.Data = json.RawMessage("null")
		note = h.box.Mention("checkpoint_read", "the data is too long for a resource; %s returns it")
	}
	return r, note, err
}

func (h *host) readChunks(ctx context.Context, arg string) (any, string, error) {
	r, err := h.store.ChunkStatus(ctx, rw.ChunkStatusRequest{Session: arg})
	if err == nil && !r.Exists {
		err = rw.NewError("read", rw.ErrSessionNotFound, "there is no session with this name", nil)
	}
	return r, "", err
}

func (h *host) readPolicy(ctx context.Context, _ string) (any, string, error) {
	r, err := h.store.Describe(ctx, rw.DescribeRequest{})
	r.Policy.ProtectedFiles = rw.ProtectedFiles()
	return r.Policy, "", err
}

func (h *host) readSchema(_ context.Context, arg string) (any, string, error) {
	t, ok := h.box.Find(arg)
	if !ok {
		return nil, "", rw.NewError("read", rw.ErrNotFound, "there is no tool with this name; see rw://describe", nil)
	}
	return map[string]any{"name": t.Name, "description": t.Description, "inputSchema": t.Input, "outputSchema": t.Output}, "", nil
}

func (h *host) readDescribe(ctx context.Context, _ string) (any, string, error) {
	doc, err := h.box.Describe(ctx)
	return mcp.TextResourceContents{MIMEType: jsonType, Text: string(doc)}, "", err
}

func (h *host) readFile(ctx context.Context, arg string) (any, string, error) {
	r, err := h.store.Read(ctx, rw.ReadRequest{Path: arg, MaxBytes: shownBytes})
	switch {
	case err != nil:
		return nil, "", err
	case r.Truncated:
		return nil, "", rw.NewError("read", rw.ErrTooLarge, h.box.Mention("read", fmt.Sprintf("a resource holds at most %d bytes; %%s returns the file in parts", shownBytes)),
			map[string]any{"bytes": r.Bytes})
	case !utf8.Valid(r.Content):
		return mcp.BlobResourceContents{MIMEType: "application/octet-stream", Blob: base64.StdEncoding.EncodeToString(r.Content)}, "", nil
	}
	return mcp.TextResourceContents{MIMEType: textType(r.Path), Text: string(r.Content)}, "", nil
}

// textType returns the media type of a text file by its name. It does not query the
// system, whose answer would differ between machines.
func textType(name string) string {
	return cmp.Or(textTypes[strings.ToLower(path.Ext(name))], "text/plain")
}

var textTypes = map[string]string{
	".json": jsonType, ".md": "text/markdown", ".markdown": "text/markdown", ".html": "text/html", ".htm": "text/html",
	".csv": "text/csv", ".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml",
}
