package toolbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/command"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Some tools are more than a method of the Store: what brief replies need, and
// two tools that do the work of another one.

type onCallKey struct{}

// onCall is what the parts of the adapter know of one call.
type onCall struct {
	box     *Toolbox
	opts    CallOpts
	aliases []string // names that the call used in place of ours

	encoding string // of the content in the reply, "" for text
}

// callOf is the call that a context belongs to.
func callOf(ctx context.Context) *onCall {
	if c, ok := ctx.Value(onCallKey{}).(*onCall); ok {
		return c
	}
	return &onCall{}
}

// isBrief reports whether the reply to a call is brief.
func (c *onCall) isBrief() bool { return c.box != nil && c.box.brief }

// undoArgs are those of Undo, or of Restore.
type undoArgs struct {
	// Number of commits, newest first. A transaction counts as one.
	N int `json:"n,omitempty" default:"1" min:"1" max:"50"`
	// Restore this file to version instead. Not with n.
	Path string `json:"path,omitempty"`
	// The version to restore, from rw_history.
	Version uint64 `json:"version,omitempty" min:"0"`
	// Undo this group of changes that other programs made, such as a shell
	// command: its identifier, or that of the tool call. Not with n.
	Group string `json:"group,omitempty" maxlen:"200"`
	// Check everything and return a diff, but change nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Idempotency key. Send the same key again after a lost reply: the call is
	// carried out once.
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200"`
	// Only commits of this caller. Default: your own.
	Caller string `json:"caller,omitempty" maxlen:"200"`
	// Only commits of this session. Default: your own; if caller is given, any
	// session of it.
	Session string `json:"session,omitempty" maxlen:"200"`
}

// undo undoes commits, or restores a version of one file.
func undo(s *rw.Store, ctx context.Context, in undoArgs) (rw.UndoResult, error) {
	if in.Path == "" && in.Version == 0 {
		return s.Undo(ctx, rw.UndoRequest{N: in.N, Group: in.Group, Call: rw.Call{DryRun: in.DryRun, IdempotencyKey: in.IdempotencyKey, Caller: in.Caller, Session: in.Session}})
	}
	if in.N != 0 || in.Group != "" || in.Path == "" || in.Version == 0 {
		e := rw.NewError("undo", rw.ErrInvalidArgument, "give n to undo commits, or path and version to restore one file; rw_history lists the versions", map[string]any{"argument": "version"})
		return rw.UndoResult{}, count(s, "undo", plain(in), e)
	}
	r, err := s.Restore(ctx, rw.RestoreRequest{
		Path: in.Path, Version: in.Version, Call: rw.Call{DryRun: in.DryRun, IdempotencyKey: in.IdempotencyKey, Caller: in.Caller, Session: in.Session},
	})
	if err != nil {
		if e := rw.AsError("undo", err); e.Detail == rw.ErrChangedOutside { // this tool has no force
			e.Hint = "the file was changed outside this store, so nothing was restored; to discard that change, " + discard
			err = e
		}
		return rw.UndoResult{}, err
	}
	op := "write"
	if r.SHA256.String() == "" {
		op = "delete"
	}
	return rw.UndoResult{
		Undone: []uint64{}, Seq: r.JournalSeq, Diff: r.Diff, Warnings: r.Warnings, Receipt: r.Receipt,
		Results: []call.FileResult{{Op: op, Path: r.Path, SHA256: r.SHA256, PrevSHA256: r.PrevSHA256, Bytes: r.Bytes, JournalID: r.JournalID}},
	}, nil
}

// commandSeconds is how long a command of a tool may take at most unless the call
// says more.
const commandSeconds = 600

// runCommand runs a command and answers with the end of its output.
func runCommand(s *rw.Store, ctx context.Context, r command.Request) (command.Result, error) {
	r.TimeoutSeconds = cmp.Or(r.TimeoutSeconds, commandSeconds)
	out, err := s.Exec(ctx, r)
	return *out, err
}

// claimArgs are those of Claim, Renew and Release.
type claimArgs struct {
	// What to do: claim paths, renew or release a claim, or list those that hold.
	Action string `json:"action,omitempty" enum:"claim,renew,release,list" default:"claim"`
	// Files and directories, with everything below; they need not exist.
	Paths []string `json:"paths,omitempty"`
	// Number of the claim to renew or release.
	Fence uint64 `json:"fence,omitempty" min:"0"`
	// Seconds for which the claim holds.
	TTLSeconds int `json:"ttl_seconds,omitempty" default:"600" min:"1" max:"600"`
	// Name of the working session that claims. Default: your own.
	Session string `json:"session,omitempty" maxlen:"200"`
}

// claimReply is the claims that a call was about.
type claimReply struct {
	// The claim that was made or renewed; of list, all that hold.
	Claims []around.Claim `json:"claims"`
}

// claim makes, renews, releases or lists claims.
func claim(s *rw.Store, ctx context.Context, in claimArgs) (out claimReply, err error) {
	if o := callOf(ctx).opts; o.Session == "" && in.Session != "" {
		ctx = rw.WithVia(ctx, rw.Via{Client: o.Client, Thread: in.Session})
	}
	var one around.Claim
	switch ttl := time.Duration(cmp.Or(in.TTLSeconds, 600)) * time.Second; in.Action {
	case "list":
		out.Claims, err = s.Claims(ctx)
		return out, err
	case "release":
		return claimReply{[]around.Claim{}}, s.Release(ctx, in.Fence)
	case "renew":
		one, err = s.Renew(ctx, in.Fence, ttl)
	default:
		one, err = s.Claim(ctx, in.Paths, ttl)
	}
	return claimReply{[]around.Claim{one}}, err
}

// historyArgs are those of History, and a version whose change to show.
type historyArgs struct {
	// Path of the file, relative to the workspace. The file need not exist any
	// more.
	Path string `json:"path" required:"true"`
	// Maximum number of versions.
	N int `json:"n,omitempty" default:"20" min:"1" max:"1000"`
	// Also show what this version changed.
	Diff uint64 `json:"diff,omitempty" min:"0"`
}

// historyReply is the versions of a file, and the change of one of them.
type historyReply struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path"`
	// The versions, newest first.
	Versions []rw.FileVersion `json:"versions"`
	// True when there are older versions.
	More bool `json:"more"`
	// What the version changed, as a unified diff of at most 32 KiB.
	Diff string `json:"diff,omitempty"`
	// Why there is no diff.
	Omitted string `json:"omitted,omitempty" enum:"binary,too_large,identical"`
}

// history lists versions.
func history(s *rw.Store, ctx context.Context, in historyArgs) (historyReply, error) {
	r, err := s.History(ctx, rw.HistoryRequest{Path: in.Path, N: in.N})
	if err != nil {
		return historyReply{}, err
	}
	out := historyReply{Path: r.Path, Versions: r.Versions, More: r.More}
	if in.Diff == 0 {
		return out, nil
	}
	d, err := s.Diff(ctx, rw.DiffRequest{Path: in.Path, To: in.Diff})
	if err != nil {
		return historyReply{}, err
	}
	out.Diff, out.Omitted = d.Diff, d.Omitted
	if d.Diff == "" && d.Omitted == "" {
		out.Omitted = "identical"
	}
	return out, nil
}

// writeHandoff records the state of the files where a brief call says nothing
// of it.
func writeHandoff(s *rw.Store, ctx context.Context, in handoff.WriteRequest) (handoffWritten, error) {
	if callOf(ctx).isBrief() && in.Envelope.LastGoodState == nil && in.AutoState == "" {
		in.AutoState = handoff.AutoStateSession
	}
	r, err := s.HandoffWrite(ctx, in)
	return handoffWritten{r, refsOf(r.CheckpointRefs)}, err
}

// checkpointRef names a checkpoint that a handoff leads to.
type checkpointRef struct {
	// Name of the checkpoint.
	Name string `json:"name"`
}

func refsOf(names []string) (list []checkpointRef) {
	for _, name := range names {
		list = append(list, checkpointRef{name})
	}
	return list
}

// The replies about handoffs have checkpoints as objects, as in the Python
// implementation.
type (
	handoffWritten struct {
		handoff.WriteResult
		// The existing checkpoints; absent when there are none.
		CheckpointRefs []checkpointRef `json:"checkpoint_refs,omitempty"`
	}
	handoffFound struct {
		handoff.ReadResult
		// The existing checkpoints; absent when there are none.
		CheckpointRefs []checkpointRef `json:"checkpoint_refs,omitempty"`
	}
)

// readHandoff has an empty result where a brief call finds no handoff: that is
// no failure at the start of a task.
func readHandoff(s *rw.Store, ctx context.Context, in handoff.ReadRequest) (handoffFound, error) {
	in.Optional = in.Path == "" && callOf(ctx).isBrief()
	r, err := s.HandoffRead(ctx, in)
	return handoffFound{r, refsOf(r.CheckpointRefs)}, err
}

// HandoffReply is a handoff as the tool replies it.
func HandoffReply(r handoff.ReadResult) any {
	return handoffFound{r, refsOf(r.CheckpointRefs)}
}

// previewChunks refuses where a compose would: what there is of a session with
// gaps is not the file.
func previewChunks(s *rw.Store, ctx context.Context, in rw.ChunkPreviewRequest) (rw.ChunkPreviewResult, error) {
	r, err := s.ChunkPreview(ctx, in)
	if err != nil {
		return r, err
	}
	st, err := s.ChunkStatus(ctx, rw.ChunkStatusRequest{Session: in.Session})
	if err != nil || !st.Exists {
		return r, err
	}
	have := st.PresentIndices
	about := map[string]any{"session": in.Session, "have": have[:min(len(have), 100)]}
	detail := rw.ErrNonContiguous
	switch n := len(have); {
	case n == 0 || have[n-1] != n:
		about["missing"] = st.Missing
	case st.TotalExpected != nil && n != *st.TotalExpected:
		detail = rw.ErrChunkCountMismatch
		about["have"], about["total_expected"] = n, *st.TotalExpected
	default:
		return r, nil
	}
	return rw.ChunkPreviewResult{}, count(s, "chunk_preview", plain(in), rw.NewError("chunk_preview", detail, "", about))
}

// minCallID is how long the id of a call must be that is used as a key: some
// providers number the calls of each turn.
const minCallID = 20

// key gives a request an idempotency key, unless it has one: the key of the
// options, or one that follows from the id by which the host knows the call.
// The request is part of the latter: another request under the same id is
// another call.
func (o CallOpts) key(in any, args []byte) {
	f := reflect.ValueOf(in).Elem().FieldByName("IdempotencyKey")
	switch {
	case !f.IsValid() || f.String() != "":
	case o.IdempotencyKey != "":
		f.SetString(o.IdempotencyKey)
	case len(o.CallID) >= minCallID:
		sum := sha256.New()
		for _, part := range []string{o.Client, o.Session, o.CallID} {
			sum.Write(plain(part))
		}
		sum.Write(args)
		f.SetString("call-" + hex.EncodeToString(sum.Sum(nil)[:16]))
	}
}

// aliasWords are in every call that canonical changes.
var aliasWords = func() (words [][]byte) {
	for name := range editAliases {
		words = append(words, []byte(`"`+name+`"`))
	}
	return append(words, []byte(`"file_path"`), []byte(`"edits"`), []byte(`"op"`), []byte(`"ops"`))
}()

// editAliases are the names that other tools have for the members of an edit.
var editAliases = map[string]string{
	"old_string": "old", "old_str": "old", "oldText": "old",
	"new_string": "new", "new_str": "new", "newText": "new", "replace_all": "count",
}

// canonical gives arguments the names that the tool has for them, where a
// model uses those of another tool by habit: file_path for path; [editAliases]
// for one edit, or within one; and a string of JSON for the list edits. The same
// holds for the operations of a transaction. What it cannot read it leaves to the
// strict decoder.
func canonical(t reflect.Type, args []byte) (out []byte, used []string, err error) {
	ms, ok := members(args)
	if !ok {
		return args, nil, nil
	}
	takes := map[string]bool{}
	for _, a := range schema.Arguments(t, nil) {
		takes[a.Name] = true
	}
	var o, one object
	values := map[string][]byte{}
	rename := func(alias, name string, value []byte) error {
		used = append(used, alias)
		if was, ok := values[name]; ok && !bytes.Equal(was, value) {
			return &schema.Problem{Argument: alias, Code: schema.Type, Want: "the same as " + name}
		} else if !ok {
			o.raw(name, value)
			values[name] = value
		}
		return nil
	}
	for _, m := range ms { // those of ours first, so that an alias is compared with them
		switch name, value := m.Name, m.Value; {
		case name == "file_path" && takes["path"] && !takes[name], isEditAlias(name) && takes["edits"]:
		default:
			if takes[name] {
				fixed, alias, err := canonicalWithin(name, value)
				if err != nil {
					return args, used, err
				}
				value, used = fixed, append(used, alias...)
			}
			o.raw(name, value)
			values[name] = value
		}
	}
	for _, m := range ms {
		switch {
		case m.Name == "file_path" && takes["path"] && !takes[m.Name]:
			if err := rename(m.Name, "path", m.Value); err != nil {
				return args, used, err
			}
		case isEditAlias(m.Name) && takes["edits"]:
			one.raw(m.Name, m.Value)
		}
	}
	if one.Len() > 0 {
		edits, alias := canonicalEdits(append(append([]byte{'['}, one.end()...), ']'))
		if err := rename(alias[0], "edits", edits); err != nil {
			return args, used, err
		}
		used = append(used, alias[1:]...)
	}
	if len(used) == 0 {
		return args, nil, nil
	}
	return o.end(), used, nil
}

func isEditAlias(name string) bool { return editAliases[name] != "" }

// canonicalWithin is an argument with our names in what it holds: edits, op, which is one
// operation of a transaction, or ops, a list of them.
func canonicalWithin(name string, value []byte) (out []byte, used []string, err error) {
	op := func(at string, one []byte) ([]byte, error) {
		one, alias, err := canonical(reflect.TypeFor[rw.TxOp](), one)
		if p := (*schema.Problem)(nil); errors.As(err, &p) {
			p.Argument = at + "." + p.Argument
		}
		for _, name := range alias {
			if !slices.Contains(used, name) {
				used = append(used, name)
			}
		}
		return one, err
	}
	switch name {
	case "edits":
		out, used = canonicalEdits(value)
		return out, used, nil
	case "op":
		out, err = op(name, schema.Unquoted(value, '{'))
		return out, used, err
	case "ops":
	default:
		return value, nil, nil
	}
	list := schema.Unquoted(value, '[')
	if !bytes.Equal(list, value) {
		used = append(used, name)
	}
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil {
		return value, nil, nil
	}
	for i := range items {
		if items[i], err = op(fmt.Sprintf("%s[%d]", name, i), items[i]); err != nil {
			return value, used, err
		}
	}
	return plain(items), used, nil
}

// canonicalEdits is a list of edits with our names.
func canonicalEdits(list []byte) (out []byte, used []string) {
	sent := list
	if list = schema.Unquoted(list, '['); !bytes.Equal(list, sent) {
		used = append(used, "edits")
	}
	var items []json.RawMessage
	if json.Unmarshal(list, &items) != nil {
		return sent, nil
	}
	for i, item := range items {
		ms, ok := members(item)
		if !ok {
			continue
		}
		var o object
		for _, m := range ms {
			if isEditAlias(m.Name) {
				used = append(used, m.Name)
			}
			switch {
			case m.Name == "replace_all" && (string(m.Value) == "true" || string(m.Value) == `"true"`):
				o.raw("count", []byte("-1"))
			case m.Name == "replace_all" && slices.Contains([]string{"false", `"false"`, "null"}, string(m.Value)):
			case isEditAlias(m.Name) && m.Name != "replace_all":
				o.raw(editAliases[m.Name], m.Value)
			default:
				o.raw(m.Name, m.Value)
			}
		}
		items[i] = o.end()
	}
	if len(used) == 0 {
		return list, nil
	}
	return plain(items), used
}

// members are those of an object in which there may be an alias, in order.
func members(args []byte) (list []jsontext.Member, ok bool) {
	if !slices.ContainsFunc(aliasWords, func(word []byte) bool { return bytes.Contains(args, word) }) {
		return nil, false
	}
	list, err := jsontext.Members(args)
	return list, err == nil && len(list) <= schema.MaxMembers
}
