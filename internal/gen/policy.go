package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/protect"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

func policySchema() []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, policyfile.Schema(), "", "  "); err != nil {
		panic(err)
	}
	return append(bytes.TrimSpace(b.Bytes()), '\n')
}

const policyText = `# The policy file

A workspace may have a policy: ` + "`.resilient_write/policy.yaml`" + `, or the file that ` + "`--policy-file`" + `, ` + "`RW_POLICY_FILE`" + ` or ` + "`Options.PolicyFile`" + ` names. It defines
what the content gate detects and refuses, what it allows, which paths no tool may change, and how much history is kept. It is read once,
when the store is opened; every row of the journal records its hash. The tools cannot write it or any directory that leads to it.

The file is strict YAML. An unknown key, a value out of range and an expression that does not compile are errors with line,
column and, where a name is close to a known one, a suggestion. Nothing is ignored silently, so a typing error cannot weaken the
gate. Editors can use spec/policy.schema.json. For an invalid file see [below](#a-file-that-is-wrong).

` + "```yaml" + `
version: 1
gate:
  mode: block          # block, advise or off
  reject_at: high      # low, medium or high: the least verdict that is refused
  overrides: reason    # none, reason or any: what accept_risk of a call may do
  inline_markers: false # true lets a line pass that holds "resilientwrite:allow"
allow:
  - path: "testdata/**"
    pattern: jwt_triplet
    reason: tokens of the test suite
protect:
  - "infra/prod/**"
protect_defaults: ask  # ask, warn or off: the strictest answer to a change of a protected default
protect_exceptions:    # repositories that are test data, and protected defaults that agents may change
  - "testdata/repos"
extend_patterns:
  internal:
    - name: badge_number
      regex: 'BADGE-[0-9]{6}'
      weight: 0.5
      keywords: [badge-]
disable_patterns: [email]
thresholds: {high: 0.7, medium: 0.4, low: 0.1}
retry_budget: {default: 3}
history: {max_bytes: 512MiB, max_age: 90d, max_versions: 50, max_object_bytes: 64MiB, keep_head_max: 2MiB}
` + "```" + `

## How a text is judged

The score is the sum over the families of weight × min(1.5, 1 + 0.25 × (findings − 1)), plus what the size adds, kept within 0 and 1. The
verdict is high from 0.70, medium from 0.40, low from 0.10. A *confirmed* finding makes it high by itself: a format that only one vendor
uses, with plausible entropy and, where the vendor publishes one, a correct checksum. A *likely* finding counts by its weight; its shape and
the words around it fit, or a checksum failed. An *info* finding is worth knowing.

A value that only its name makes suspicious is likely. It is confirmed if the name says what it is (a secret, password, token, API, access,
signing, encryption, private or master key), the value is random and of at least 20 characters (32 in hexadecimal), and it is assigned in
quotes, on a line of its own or to a variable of the environment. It stays likely in a comparison or an argument, if the name is that of a
test or an example, and if the value is a UUID. Passwords in statements of SQL, in addresses and in the options of the commands that document
them are confirmed if they are no plain words. The table shows the least confidence of each pattern. Not found are: passwords of words only,
values of fewer than 15 characters that have no name of a password, short options of other commands, and the keys of services that neither
have a format of their own nor follow a name.

The gate uses a separate sum of the confirmed and the likely findings alone. Info findings and size never refuse a write, whatever
the score is; info findings alone give the warning ` + "`risk_low`" + `. ` + "`score`" + ` and ` + "`verdict`" + ` of a refusal are those of the gate.

The gate scans the final bytes of every write, and finds a secret that is split or encoded: across the end of the file and what is appended,
base64 (up to three times, also folded into lines of 16 characters and more), hexadecimal, dumps of xxd -g1 or -g2, hexdump, od -x and od -t x1
(also after comment marks), percent-encoding, quoted-printable and other escapes at any nesting, members of gzip and zip files (one level deep,
1 MiB and 16 damaged members in all), joined string literals, and white space and hidden characters in between. Octal dumps are not decoded. It
refuses what the write introduces; a secret that was in the file before is a warning, so that one of two can be removed.
In a text with more than 786 432 different findings (half as many for info findings) the rest count as introduced.

The paths of ` + "`allow`" + ` are compared letter by letter: a rule for ` + "`testdata/**`" + ` does not hold for ` + "`TESTDATA/x`" + `, which on most file
systems is another directory. Those of ` + "`protect`" + ` are compared in any letter case, so that no spelling bypasses a rule on a file system that folds case.

A caller can always make the gate stricter for one call; weaker only as far as overrides allows. Under ` + "`reason`" + ` a confirmed
credential cannot be accepted at all.

A *placeholder* has the shape of a credential or of personal data and cannot be used: a vendor's example key, one letter repeated,
user@example.com, a number that is never assigned, the header of a key without a body. Under ` + "`placeholders: report`" + `, the default, rw_risk_score lists
them with ` + "`placeholder: true`" + ` and weight 0, and a write does not mention them. ` + "`score`" + ` counts them by the families of the Python implementation, in
the gate too, and rw_redact replaces them; a long run of one letter only informs. ` + "`ignore`" + ` does not look for them. The shapes are those of that
implementation; a placeholder of another service is not listed.

A file has at most 2,000 globs, with the choices in braces written out, 1,000 keywords of patterns, and expressions of 2,000 instructions in all, with
their repeats written out. An expression reads at most 16 bytes for each byte of the text, and at most 512 KiB of a text of up to 32 KiB. A match of
up to 32 KiB is found wherever it begins, if it does not depend on more than the 32 KiB after its start; a longer match may be cut off or
missed. An expression that matches a short text but also looks for a long one, such as ` + "`(?s)a.*z|a`" + `, may reach the bound: the rest of the current
32 KiB of the text is then one finding of that pattern, and rw_redact replaces all of it. All patterns together may compute for 20 seconds in one call;
what a byte costs depends on the expression and the text, from a few nanoseconds to 30 microseconds. A call that needs longer fails with ` + "`bad_policy`" + `,
problem ` + "`too_costly`" + `, and the file and line of the pattern, and nothing is written; under ` + "`advise`" + ` it is written with the warning ` + "`not_scanned`" + `.
Keywords and an expression that begins with fixed characters make a pattern cheap. A canceled call ends within a second.

A refused draft is kept in quarantine, readable by its owner only: at most 7 days, 100 drafts, 64 MiB each, 256 MiB together. ` + "`draft_ref`" + ` of
the refusal names it; rw_redact takes it, so the text need not be sent again. A refused transaction names the families of all its files; the path,
families and draft of up to 20 more files are in ` + "`context.also_refused`" + `.

No refusal of any kind, by the gate, a hook, a precondition, a limit or a wrong syntax, leaves what was sent outside the quarantine, nor in an
error, a receipt or a row of the journal; a dry run, a read-only store and a broken policy file keep nothing at all. What earlier calls stored stays:
pieces of a chunk session until it is composed or reset, operations of a staged transaction until it is committed, rolled back or a day old. They
pass the gate when they are sent, but a secret that spans two pieces is found only when they are composed. The scratchpad keeps what
it is given, unjudged. All this is readable by its owner only. Not claimed: what the rules do not know as a secret may appear in an error, for
example the name of an element in a message about syntax, and a hook may keep what it is shown.

## Which file holds

Each setting is taken from the first that has it: the file that a flag, variable or option names; then flags and options; then the defaults of the MCP server (block at high,
overrides reason) or of the library (advise at high, overrides any).

The file in the state directory is in the workspace, where a repository or an archive may have put it. It therefore never weakens a flag or an
option. With ` + "`-gate`" + ` or ` + "`Options.Gate`" + `, its weaker settings of the gate (the rows marked *gate* below) do not apply. Against a
default, git decides:

| the file in the state directory | against a default |
|---|---|
| git does not track it | it applies in full; the warning ` + "`policy_weakens_default`" + ` names the keys that weaken |
| git tracks it, or this cannot be determined | it only tightens; the warning ` + "`policy_not_trusted`" + ` names the keys that do not apply |
| ` + "`-trust-workspace-policy`" + ` is given, or ` + "`resilient-write trust`" + ` has recorded it | it applies in full |

Whether git tracks it is read from the index, without running git; the index of every repository around the file is read, of worktrees and submodules too. A
damaged index, and a work tree of Mercurial, Subversion, Jujutsu, Sapling or Bazaar without ` + "`.git`" + `, count as tracked. A record of trust is for one
workspace and the exact bytes, and is stored in the user's configuration directory; one that others can write, or in the workspace, does not count.

Not claimed: an archive that is unpacked without git can contain a policy file that applies in full, with the warning. A repository whose git
directory is named only by ` + "`GIT_DIR`" + ` is not found. ` + "`rw_describe`" + ` shows ` + "`policy.source`" + ` and ` + "`policy.ignored`" + `.

What makes a file stricter:

STRICTNESS
## A file that is wrong

The server runs: reads work, and every mutation is refused with ` + "`bad_policy`" + `, file, line, column and problem, and the file is
read again at the next call after it has changed. A valid file applies, and is pinned from then on until the store is closed. In Go ` + "`Open`" + `
fails, unless ` + "`Options.ServeWithBadPolicy`" + ` is set. A file that flag or option names and that does not exist counts as wrong; one that only
` + "`RW_POLICY_FILE`" + ` names is a warning, and the default policy applies.

## Who may write it

On systems with owners and modes, ` + "`Open`" + ` requires that the state directory, its direct entries and the policy file belong to this user or root
(a process of root also accepts the owner of the workspace), and that no one else can write them. Wider modes of this user's files are narrowed, with the
warning ` + "`state_dir_narrowed`" + `; anything else is ` + "`bad_state_dir`" + `, which names owner, mode and the command that mends it. Where ` + "`chmod`" + ` has no
effect the store opens with ` + "`modes_not_enforced`" + `. The directory of a policy file that a flag, variable or option names, and
of a link to it, must belong to the same users and must not be writable by all, unless it is sticky; one that its group can write is accepted, and the
directories above it are not checked. Single objects deeper in the state directory are not checked. On Windows nothing is checked: the
directory has the access control list that it inherits.

## Families

| family | weight |
|---|---|
`

const protectedText = `## What is protected by default

No setting lets a tool write into a directory called .git, .hg, .jj, .svn, .sl or .bzr, in any spelling, into the state directory or to the
policy file.

**Repositories by another name.** Git takes a directory for a repository by its shape, whatever it is called: a HEAD that holds a reference or an
object id beside objects and refs, or beside commondir. A configuration file written there makes the next git command run a program. A
commit that would complete such a directory, or that changes anything in one, is refused with ` + "`protected_path`" + `, judged over all files of the
commit and what is on disk, under locks that only one such commit has at a time; so is a configuration beside objects and refs. The directories that a
.git file and commondir name are protected too, whatever they contain, with the directory that core.hooksPath names and the files that the
configuration includes: those of the repository that the workspace is in, and of every work tree on the way to a path. The configuration is read as git reads
it – system, user, repository, work tree, what they include, whether or not its condition is met, and the files that XDG_CONFIG_HOME,
GIT_CONFIG_GLOBAL and GIT_CONFIG_SYSTEM of the server name – and read again when it changes; git is never run. A workspace that is in a
repository's own directory is not opened without -allow-unsafe-root.

**Files that execute, launch or grant.** The list below applies to agents: over MCP and for the toolbox. *ask* means that the user is asked where
the client can ask (elicitation), and that the change is refused with ` + "`protected_default`" + ` where no user can be asked; the refusal names the reason
and the line of the policy that allows it. The answer *from now on* covers that file for that session until the server ends. *warn* means that the
change is made and the receipt warns. A change of a file that has an execute bit warns as well, whatever it is called. The commands of the
operator only warn; the Go library applies the list only with ` + "`Options.ProtectDefaults`" + ` or ` + "`WithProtectDefaults`" + `. Every path of a commit counts: both ends
of a move, each file of a directory that is moved, of a transaction, of undo and restore, what is composed; under the name that was asked for
and through links. A pattern holds at any depth and in any letter case, and the first row that fits counts.

` + "`protect_defaults`" + ` makes the list weaker, never stronger than the host sets it. ` + "`protect_exceptions`" + ` takes paths out of the list and out of the rule for
the shape of repositories, and of nothing else; a glob of a directory covers what is in it, letter case counts. To make rules stricter, use ` + "`protect`" + `.

Not claimed: the list cannot be complete, and does not cover files that other files make a program run – a Makefile, a source
file, a build script, the file that a link called .envrc leads to, when it is written under its own name. Members of package.json other than
scripts are not compared. The hooks of a repository whose work tree is not on the way to the path are not known, such as those that core.hooksPath of a nested
repository names outside of its work tree; neither are settings that only the environment of another process has. Programs that other keys of the
configuration of git name (core.fsmonitor, core.sshCommand, core.editor, filters, diff and merge drivers, credential helpers, aliases) are ordinary
files here. What another program writes is not seen.

`

// protectedTable lists the protected defaults.
func protectedTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Version %d of the list; *since* is the version with which a row came.\n\n| path | answer | reason | since |\n|---|---|---|---|\n", protect.Version)
	for _, r := range rw.ProtectedFiles() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d |\n", r.Pattern, r.Answer, r.Reason, r.Since)
	}
	return b.String()
}

// policyDoc describes the policy file and lists every rule.
func policyDoc() []byte {
	var b strings.Builder
	before, families, _ := strings.Cut(strings.Replace(policyText, "STRICTNESS", strictnessTable(), 1), "## Families")
	b.WriteString(generated + before + protectedText + protectedTable() + "\n## Families" + families)
	rules := scan.Rules()
	last := ""
	for _, r := range rules {
		if r.Family != last {
			fmt.Fprintf(&b, "| `%s` | %.2f |\n", r.Family, r.Weight)
			last = r.Family
		}
	}
	b.WriteString("\n## Rules\n\nThe examples are templates: what is in braces is random in a real one, `{hex 32}` for 32 hexadecimal digits, `an` letters and digits, " +
		"`url` those of base64url, `b64` of base64.\n\n| family | pattern | what it is | confidence | example |\n|---|---|---|---|---|\n")
	for _, r := range rules {
		example := strings.ReplaceAll(strings.ReplaceAll(r.Example, "\n", "⏎"), "|", "\\|")
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | `` %s `` |\n", r.Family, r.ID, r.What, r.Confidence, example)
	}
	return []byte(b.String())
}

// strictnessTable is the table of package policyfile.
func strictnessTable() string {
	var b strings.Builder
	b.WriteString("| key | stricter | |\n|---|---|---|\n")
	for _, k := range policyfile.Strictnesses {
		of := ""
		if k.Gate {
			of = "gate"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Key, k.Rule, of)
	}
	return b.String()
}
