package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/visible"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Prompts lists the prompts, by name.
func Prompts() []mcp.Prompt {
	var list []mcp.Prompt
	for _, p := range prompts {
		p.Arguments = slices.Clone(p.Arguments)
		list = append(list, p.Prompt)
	}
	return list
}

// prompt is one line of the table.
type prompt struct {
	mcp.Prompt
	tool  string // without which the prompt is not offered
	write func(p *page, args map[string]string) error
}

// prompts are by name, as clients list them.
var prompts = []prompt{
	{mcp.Prompt{Name: "leave_handoff", Title: "Leave a handoff",
		Description: "Asks the agent to write a handoff: lists what changed since the last one and what is still open, and says what it should contain.",
		Arguments: []mcp.PromptArgument{
			{Name: "task_id", Description: "Identifier of the task, the same in all of its handoffs.", Required: true},
			{Name: "status", Description: "complete, partial, blocked or handed_off; default partial."},
		}}, "handoff_write", leaveHandoff},
	{mcp.Prompt{Name: "recover_refused_write", Title: "Recover a refused write",
		Description: "Shows what the content gate refused, without the secrets, and asks the agent to write it in a form that passes. Without a draft it shows the most recent refusals.",
		Arguments:   []mcp.PromptArgument{{Name: "draft_ref", Description: "The refused draft; default: the newest one."}}}, "", recoverWrite},
	{mcp.Prompt{Name: "resume_task", Title: "Resume a task",
		Description: "Asks the agent to continue earlier work: shows the handoff, the files that changed since, checkpoints, open chunk sessions and transactions, and says how to continue.",
		Arguments:   []mcp.PromptArgument{{Name: "path", Description: "Path of the handoff; default HANDOFF.md."}}}, "", resumeTask},
}

const (
	maxPromptArgument = 4096     // bytes
	maxPrompt         = 48 << 10 // bytes of one message
)

// badArgument is why a prompt cannot be written.
type badArgument struct{ text string }

func (b badArgument) Error() string { return b.text }

// offerPrompts adds the prompts to the server. A prompt is written before the
// protocol library looks for its handler: only one that it does not find gets
// the protocol's own error for wrong arguments.
func (l *live) offerPrompts(s *server.MCPServer, hooks *server.Hooks) {
	server.WithPromptCapabilities(false)(s)
	for i := range prompts {
		p := &prompts[i]
		if p.tool != "" && !l.host.lists(p.tool) {
			continue
		}
		s.AddPrompt(p.Prompt, func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			got, ok := attached(req.Params.Meta, prepared).(promptOutcome)
			if !ok || got.err != nil {
				return nil, cmp.Or(got.err, errPanicked)
			}
			return mcp.NewGetPromptResult(p.Description, []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(got.text))}), nil
		})
	}
	hooks.AddBeforeGetPrompt(func(ctx context.Context, _ any, req *mcp.GetPromptRequest) {
		i := slices.IndexFunc(prompts, func(p prompt) bool { return p.Name == req.Params.Name })
		if i < 0 {
			return // of the host, or unknown
		}
		text, err := l.writePrompt(ctx, &prompts[i], req.Params.Arguments)
		var bad badArgument
		if errors.As(err, &bad) {
			req.Params.Name += " (" + bad.text + ")"
			return
		}
		attach(&req.Params.Meta, prepared, promptOutcome{text, err})
	})
}

// promptOutcome is the result of writing a prompt.
type promptOutcome struct {
	text string
	err  error
}

// writePrompt writes the text of a prompt.
func (l *live) writePrompt(ctx context.Context, p *prompt, args map[string]string) (text string, err error) {
	defer func() {
		if recover() != nil {
			l.host.logPanic("prompts/get")
			text, err = "", errPanicked
		}
	}()
	if err := p.check(args); err != nil {
		return "", err
	}
	if !l.host.box.Allow() {
		return "", l.host.clientError(rw.NewError("prompt", rw.ErrRateLimited, "", nil))
	}
	out := &page{host: l.host, ctx: toolbox.ForAgents(ctx)}
	if err := p.write(out, args); err != nil {
		return "", err
	}
	return visible.Prefix(out.b.String(), maxPrompt), nil
}

// check judges the arguments, which the protocol library does not.
func (p *prompt) check(args map[string]string) error {
	for _, a := range p.Arguments {
		if a.Required && strings.TrimSpace(args[a.Name]) == "" {
			return badArgument{fmt.Sprintf("the argument %s is required", a.Name)}
		}
	}
	for name, value := range args {
		if !slices.ContainsFunc(p.Arguments, func(a mcp.PromptArgument) bool { return a.Name == name }) {
			return badArgument{"unknown argument; see prompts/list"}
		}
		if len(value) > maxPromptArgument || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return badArgument{fmt.Sprintf("the argument %s is too long or not valid text", name)}
		}
	}
	return nil
}

func resumeTask(p *page, args map[string]string) error {
	p.say("Continue the work in this workspace.")
	p.rules()
	found, changed, err := p.showHandoff(args["path"])
	if err != nil {
		return err
	}
	open := p.showOpen()
	p.showLately("Recent writes, newest first:", 10)
	p.say("How to continue:")
	if found {
		p.step("handoff_read", "Call %s with acknowledge_as set to your name: it records that the handoff was read and returns all of it.")
	} else {
		p.step("journal_tail", "%s shows more of what was done; ask the user what the task is.")
	}
	if changed > 0 {
		p.step("read", "Read each file that changed since the handoff, with %s, before you build on it.")
	}
	if open.checkpoints > 0 {
		p.step("checkpoint_read", "%s loads a checkpoint that belongs to the task.")
	}
	if open.sessions > 0 {
		p.step("chunk_status", "An open chunk session is an incomplete file: %s reports which chunks are missing. Send those, then compose.")
	}
	if open.transactions > 0 {
		p.step("tx_commit", "A staged transaction may be incomplete: %s applies it. Ask the user whether to commit it or roll it back.")
	}
	p.step("", "Then do the first of the ready or next steps. They must agree with what the user wants; ask when they do not.")
	p.step("checkpoint", "Save your progress with %s after each step, and write a handoff when you stop.")
	return nil
}

func leaveHandoff(p *page, args map[string]string) error {
	status := cmp.Or(args["status"], string(handoff.Partial))
	if !slices.Contains(handoffStates(), status) {
		return badArgument{"status must be complete, partial, blocked or handed_off"}
	}
	p.say("Write a handoff for the next agent, who has no prior knowledge.")
	p.rules()
	p.show("The task and its status:", "task_id: "+args["task_id"]+"\nstatus: "+status, 8<<10)
	p.showChanged()
	p.showOpen()
	p.say("What to do:")
	p.step("handoff_write", "Call %s with an envelope: task_id and status as above, your name as agent, a summary of what was done and the current state, and next_steps in order, each clear enough to be done without asking you.")
	p.step("", "auto_state set to true fills in the hashes of the files; list only files that are correct as they are. Put what is broken into blockers, what only a person can decide into open_questions, and what cannot be seen in the files into context_hints.")
	p.step("", "Do not include secrets; say where they are kept instead.")
	p.step("", "If the call archived a handoff that was never read, tell the user.")
	return nil
}

func handoffStates() []string {
	return []string{string(handoff.Complete), string(handoff.Partial), string(handoff.Blocked), string(handoff.HandedOff)}
}

func recoverWrite(p *page, args map[string]string) error {
	list, err := p.host.store.DraftList(p.ctx, rw.DraftListRequest{})
	if err != nil {
		return p.host.clientError(rw.AsError("prompt", err))
	}
	i := 0
	if ref := args["draft_ref"]; ref != "" {
		if i = slices.IndexFunc(list.Drafts, func(d rw.Draft) bool { return d.DraftRef == ref }); i < 0 {
			return badArgument{"there is no refused draft with that draft_ref; it may have expired or been deleted"}
		}
	}
	p.say("A write was refused. Find out why, and write what was meant in a form that passes.")
	p.rules()
	if len(list.Drafts) == 0 {
		p.say("No refused draft is kept.")
		p.showRefused()
		p.say("What to do:")
		p.step("", "Read the reason and follow its hint. Repeating the same call is refused after a few attempts.")
		p.step("read", "If a file was not as expected, read it with %s and pass its sha256 as expected_prev_sha256.")
		p.step("operation", "If a reply was lost, %s reports whether the call was carried out.")
		return nil
	}
	d := list.Drafts[i]
	p.showDraft(d)
	p.say("What to do:")
	p.step("redact", "Call %s with this draft_ref and its path as target_path: it returns the draft with a placeholder for each secret.")
	p.step("", "Where the text needs the value, read it from the environment or a secret store at run time; never write it in another encoding or in parts.")
	p.step("safe_write", "Write the result with %s to the path of the draft.")
	p.step("draft_delete", "Delete the draft with %s once its content is written.")
	p.step("", "If a finding is not a secret, ask the user: only they may accept a risk or change the policy.")
	return nil
}
