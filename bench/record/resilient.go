//go:build linux

package main

import (
	"context"
	"encoding/json"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// resilient is a Store with its tools, without a protocol: the replies are the
// JSON that a client of the server sees. Calls have the arguments that the
// tools document for their purpose: the hash of the content that was read if a
// file is replaced, and an idempotency key.
type resilient struct {
	store *rw.Store
	box   *toolbox.Toolbox
}

// openResilient opens the workspace. Unless the options say otherwise, the gate
// is that of agents, as over MCP.
func openResilient(dir string, opts rw.Options) (*resilient, error) {
	opts.StateDir = stateName // its files are examined
	store, err := rw.Open(context.Background(), dir, &opts)
	if err != nil {
		return nil, err
	}
	return &resilient{store, toolbox.New(store, &toolbox.Options{Caller: "agent", Replies: toolbox.FullReplies, CallsPerSecond: -1})}, nil
}

func (r *resilient) Close() error { return r.store.Close(context.Background()) }

// checked returns the store for an inspection.
func (r *resilient) checked() *rw.Store { return r.store }

func (r *resilient) Has(verb) bool { return true }

// answer is what an agent uses of a success.
type answer struct {
	Content  string   `json:"content"`
	SHA256   string   `json:"sha256"`
	TxID     string   `json:"tx_id"`
	Missing  []int    `json:"missing"`
	Exists   bool     `json:"exists"`
	Happened bool     `json:"happened"`
	Open     []string `json:"open_transactions"`
	Drafts   []struct {
		DraftRef string `json:"draft_ref"`
	} `json:"drafts"`
	Drift []struct {
		Path   string `json:"path"`
		Reason string `json:"reason"`
	} `json:"drift_warnings"`
	Envelope struct {
		State []struct {
			Path   string `json:"path"`
			SHA256 string `json:"sha256"`
		} `json:"last_good_state"`
	} `json:"envelope"`
}

func (r *resilient) Call(ctx context.Context, c call) reply {
	name, args := arguments(c)
	raw := json.RawMessage(c.Raw)
	if c.Raw == "" {
		var err error
		if raw, err = json.Marshal(args); err != nil {
			return failed(err)
		}
	}
	got := r.box.Call(ctx, name, raw, nil)
	out := reply{OK: got.OK, Text: got.Text}
	if !got.OK {
		return out
	}
	var a answer
	if err := json.Unmarshal([]byte(got.Text), &a); err != nil {
		return failed(err)
	}
	out.Body, out.Hash, out.Ref = a.Content, a.SHA256, a.TxID
	out.Known = a.Exists || a.Happened
	out.List = a.Missing
	if c.Verb == pending && len(a.Open) > 0 {
		out.Ref = a.Open[0]
	}
	if len(a.Drafts) > 0 {
		out.Ref = a.Drafts[0].DraftRef
	}
	for _, d := range a.Drift {
		out.Drift = append(out.Drift, file{Path: d.Path, Hash: d.Reason})
	}
	for _, f := range a.Envelope.State {
		out.Files = append(out.Files, file{Path: f.Path, Hash: f.SHA256})
	}
	return out
}

// arguments returns the name of the tool for a call and its arguments.
func arguments(c call) (name string, args map[string]any) {
	args = map[string]any{}
	if c.Key != "" {
		args["idempotency_key"] = hashOf(c.Key)[:32] // at most 200 bytes
	}
	switch c.Verb {
	case write:
		args["path"], args["content"] = c.Path, c.Text
		if c.Replace {
			args["mode"], args["allow_shrink"] = "overwrite", true
		}
		if c.Prev != "" {
			args["expected_prev_sha256"] = c.Prev
		}
		return "rw_safe_write", args
	case appendTo:
		args["path"], args["content"], args["mode"] = c.Path, c.Text, "append"
		return "rw_safe_write", args
	case read:
		return "rw_read", map[string]any{"path": c.Path, "max_bytes": 8 << 20}
	case piece:
		args["session"], args["index"], args["content"], args["total_expected"] = c.Session, c.Index, c.Text, c.Total
		return "rw_chunk_write", args
	case join:
		args["session"], args["output_path"], args["allow_shrink"] = c.Session, c.Path, true
		return "rw_chunk_compose", args
	case progress:
		return "rw_chunk_status", map[string]any{"session": c.Session}
	case begin:
		return "rw_tx_begin", args
	case stage:
		args["tx_id"] = c.Session
		args["op"] = map[string]any{"op": "write", "path": c.Path, "content": c.Text, "mode": "overwrite", "allow_shrink": true}
		return "rw_tx_stage", args
	case staged:
		return "rw_operation", args
	case pending:
		return "rw_describe", map[string]any{}
	case commit:
		return "rw_tx_commit", map[string]any{"tx_id": c.Session}
	case rollback:
		return "rw_tx_rollback", map[string]any{"tx_id": c.Session}
	case redact:
		if c.Ref != "" {
			return "rw_redact", map[string]any{"draft_ref": c.Ref, "target_path": c.Path}
		}
		return "rw_redact", map[string]any{"content": c.Text, "target_path": c.Path}
	case drafts:
		if c.Ref != "" {
			return "rw_draft_get", map[string]any{"draft_ref": c.Ref}
		}
		return "rw_draft_list", map[string]any{}
	case handoff:
		return "rw_handoff_write", handoffArguments(c, args)
	case takeover:
		return "rw_handoff_read", map[string]any{"path": c.Path, "acknowledge_as": c.Task}
	}
	return "rw_" + string(c.Verb), args
}

func handoffArguments(c call, args map[string]any) map[string]any {
	state := []map[string]any{}
	for _, f := range c.Files {
		state = append(state, map[string]any{"path": f.Path, "sha256": f.Hash, "bytes": f.Size})
	}
	args["path"] = c.Path
	args["envelope"] = map[string]any{
		"task_id": c.Task, "status": "partial", "agent": "agent " + c.Task, "summary": c.Text,
		"next_steps": []string{"go on with the files"}, "last_good_state": state,
	}
	if c.Prev != "" {
		args["expected_prev_sha256"] = c.Prev
	}
	return args
}
