package toolbox

import "strings"

// Instructions tell an agent when to use the tools, where all of them are
// listed. A server whose list is shorter says so with those that it lists.
const Instructions = useTools + readFirstOf + longText + lostReply + refusals + rawMaterial + handoffs

const (
	useTools    = "Durable file writes. Use rw_safe_write, rw_edit, rw_delete, rw_move and rw_tx instead of any built-in way to change files: a crash leaves the old content or the new one, versions are kept (rw_history, rw_undo), and concurrent writers cannot silently overwrite each other.\n"
	readFirstOf = "Before replacing a file call rw_read and pass its sha256 as expected_prev_sha256."
	longText    = " For long text use rw_chunk_append, then rw_chunk_compose."
	lostReply   = " After a lost reply send the same call again with the same idempotency_key, or ask rw_operation.\n"
	refusals    = "Every refusal is JSON with error, suggested_action and context.hint; follow the hint. Repeating the same call is refused after a few attempts. suggested_action redact: call rw_redact with context.draft_ref and write the result. context.effect says whether the disk was changed.\n"
	rawMaterial = "Keep raw material with rw_scratch_put and progress with rw_checkpoint."
	handoffs    = " Call rw_handoff_read first, and rw_handoff_write when you stop."
	briefly     = "fix_call: correct the call and send it. read_again: look at the file, then make the call again. ask_user: only then ask a person.\n"
)

// Instructions are [Instructions] without the tools that are not listed.
func (b *Toolbox) Instructions() string {
	text := ""
	for _, one := range []struct{ say, or string }{
		{useTools, "Durable file writes. Use rw_safe_write, rw_edit and rw_tx, which also deletes, moves and renames, instead of any built-in way to change files: a crash leaves the old content or the new one, versions are kept (rw_history, rw_undo), and concurrent writers cannot silently overwrite each other.\n"},
		{readFirstOf, readFirstOf},
		{longText, " For long text create the file with the first part and append the others."},
		{lostReply, " After a lost reply look at rw_history before you send the call again.\n"},
		{refusals, refusals},
		{rawMaterial, ""},
		{handoffs, ""},
	} {
		switch {
		case b.set.listsAll(one.say):
			text += one.say
		default:
			text += one.or
		}
		if one.say == refusals && b.brief {
			text += briefly
		}
	}
	return strings.ReplaceAll(b.set.words(text), "\n ", "\n")
}
