package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// maxWorkspaces bounds the roots that one server serves.
const maxWorkspaces = 32

// Workspaces are the roots that a server serves besides that of its store. Each
// has a store of its own, which is opened by the first call that goes there. A
// call goes to the root that contains its absolute path, the innermost one, or
// that its argument "workspace" names; while there are several, one with a
// relative path and without that argument is refused. No call touches two.
type Workspaces struct {
	// Root is the root of the store of the server.
	Root string
	// Allow are directories that are roots. Those that a client declares as its
	// own count only inside them.
	Allow []string
	// Worktrees adds the other work trees of the repository of Root.
	Worktrees bool
	// Open opens the store of a root. [Workspaces.Close] closes it.
	Open func(ctx context.Context, root string) (*rw.Store, error)

	mu       sync.Mutex
	opened   map[string]workspace
	declared map[string][]string // by session
}

// workspace is a root that was opened.
type workspace struct {
	dir   fs.FileInfo // to notice another directory in its place
	store *rw.Store
	box   *toolbox.Toolbox
}

// Close closes the stores that were opened.
func (w *Workspaces) Close(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, at := range w.opened {
		errs = append(errs, at.store.Close(ctx))
	}
	w.opened = nil
	return errors.Join(errs...)
}

// declare keeps the directories that a client named as its roots; nil forgets them.
func (w *Workspaces) declare(session string, dirs []string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.declared == nil {
		w.declared = map[string][]string{}
	}
	if w.declared[session] = dirs; dirs == nil {
		delete(w.declared, session)
	}
}

// roots lists the roots for a session, that of the server first, even if it is gone.
func (w *Workspaces) roots(session string) []string {
	list := []string{relpath.Resolved(w.Root)}
	add := func(dir string) {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) && !slices.Contains(list, real) && len(list) < maxWorkspaces {
			list = append(list, real)
		}
	}
	for _, dir := range w.Allow {
		add(dir)
	}
	if w.Worktrees {
		for _, dir := range place.Worktrees(list[0]) {
			add(dir)
		}
	}
	allowed := list[1:]
	w.mu.Lock()
	declared := w.declared[session]
	w.mu.Unlock()
	for _, dir := range declared {
		if real, err := filepath.EvalSymlinks(dir); err == nil && slices.ContainsFunc(allowed, func(in string) bool { return relpath.Contains(in, real) }) {
			add(real)
		}
	}
	return list
}

// box is the tools of a root.
func (w *Workspaces) box(ctx context.Context, h *host, root string) (*toolbox.Toolbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dir, _ := os.Stat(root) // opening it reports the error
	if at, ok := w.opened[root]; ok {
		if os.SameFile(at.dir, dir) {
			return at.box, nil
		}
		at.store.Close(ctx) // its directory was removed or moved
		delete(w.opened, root)
	}
	s, err := w.Open(context.WithoutCancel(ctx), root)
	if err != nil {
		return nil, err
	}
	if w.opened == nil {
		w.opened = map[string]workspace{}
	}
	w.opened[root] = workspace{dir, s, toolbox.New(s, h.boxOptions())}
	return w.opened[root].box, nil
}

// names returns short names of roots, by which a call can name them: the name of the
// directory, preceded by as many parent directories as needed.
func names(roots []string) []string {
	list := make([]string, len(roots))
	for i, root := range roots {
		parts := strings.Split(filepath.ToSlash(root), "/")
		for n := 1; n <= len(parts); n++ {
			list[i] = strings.Join(parts[len(parts)-n:], "/")
			if !slices.ContainsFunc(roots, func(o string) bool { return o != root && strings.HasSuffix("/"+filepath.ToSlash(o), "/"+list[i]) }) {
				break
			}
		}
	}
	return list
}

// workspaceArg is the argument that names a root.
const workspaceArg = "workspace"

// target returns the toolbox that a call goes to, and its arguments without the name of
// the root.
func (h *host) target(ctx context.Context, t ToolInfo, args json.RawMessage) (*toolbox.Toolbox, json.RawMessage, *rw.Error) {
	w := h.opts.Workspaces
	if w == nil {
		return h.box, args, nil
	}
	session := ""
	if s := server.ClientSessionFromContext(ctx); s != nil {
		session = s.SessionID()
	}
	roots := w.roots(session)
	var all map[string]json.RawMessage
	if len(args) > 0 && json.Unmarshal(args, &all) != nil {
		return h.box, args, nil // the decoder of the tool reports the error
	}
	at, err := chosen(t, roots, all)
	if err != nil {
		return nil, nil, err
	}
	if _, ok := all[workspaceArg]; ok {
		delete(all, workspaceArg)
		args, _ = json.Marshal(all)
	}
	if at == roots[0] {
		return h.box, args, nil
	}
	box, oerr := w.box(ctx, h, at)
	if oerr != nil {
		return nil, nil, rw.AsError(t.Stem, oerr)
	}
	return box, args, nil
}

// chosen returns the root that a call goes to.
func chosen(t ToolInfo, roots []string, args map[string]json.RawMessage) (string, *rw.Error) {
	list := names(roots)
	refuse := func(why string) *rw.Error {
		return rw.NewError(t.Stem, rw.ErrAmbiguousWorkspace, fmt.Sprintf("%s; the values of workspace are %q", why, list), nil)
	}
	at := ""
	if given, ok := args[workspaceArg]; ok {
		var name string
		if json.Unmarshal(given, &name) != nil {
			return "", refuse("workspace is not a string")
		}
		i := slices.Index(list, name)
		if i < 0 {
			i = slices.Index(roots, relpath.Resolved(name))
		}
		if i < 0 {
			return "", refuse("there is no such workspace")
		}
		at = roots[i]
	}
	relative := false
	for _, p := range pathsOf(t.Stem, args) {
		if !filepath.IsAbs(p) {
			relative = true
			continue
		}
		in := innermost(roots, p)
		switch {
		case in == "": // outside of all: a store refuses it
		case at == "":
			at = in
		case at != in:
			return "", refuse("the call names paths of two workspaces; make one call for each")
		}
	}
	if _, given := args[workspaceArg]; !given && relative && at != "" && len(roots) > 1 {
		return "", refuse("some paths of the call are relative; pass workspace, or absolute paths only")
	}
	if at != "" {
		return at, nil
	}
	if len(roots) > 1 && (relative || !t.ReadOnly) {
		return "", refuse("this server serves several workspaces; pass workspace, or an absolute path")
	}
	return roots[0], nil
}

// innermost is the root that contains a path and is in no other one that does.
func innermost(roots []string, p string) (in string) {
	for _, way := range []string{relpath.Resolved(p), filepath.Clean(p)} {
		for _, root := range roots {
			if relpath.Contains(root, way) && len(root) > len(in) {
				in = root
			}
		}
		if in != "" {
			return in
		}
	}
	return ""
}

// pathsOf lists the paths of a call.
func pathsOf(stem string, args map[string]json.RawMessage) (list []string) {
	add := func(of map[string]json.RawMessage, keys ...string) {
		for _, key := range keys {
			var p string
			if json.Unmarshal(of[key], &p) == nil && p != "" {
				list = append(list, p)
			}
		}
	}
	add(args, "path", "file_path", "output_path", "target_path", "filter_path")
	if stem == "move" {
		add(args, "to")
	}
	var ops []map[string]json.RawMessage
	for _, key := range []string{"ops", "op"} {
		raw := schema.Unquoted(args[key], '[')
		if key == "op" && len(raw) > 0 {
			raw = slices.Concat([]byte("["), schema.Unquoted(raw, '{'), []byte("]"))
		}
		if json.Unmarshal(raw, &ops) == nil {
			for _, op := range ops {
				add(op, "path", "file_path", "to")
			}
		}
	}
	return list
}

// withWorkspace adds the argument to the schema of a tool.
func withWorkspace(schema json.RawMessage) json.RawMessage {
	head, rest, ok := bytes.Cut(schema, []byte(`"properties":{`))
	if !ok {
		return schema
	}
	more := []byte(`"workspace":{"type":"string"}`)
	if !bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		more = append(more, ',')
	}
	return slices.Concat(head, []byte(`"properties":{`), more, rest)
}
