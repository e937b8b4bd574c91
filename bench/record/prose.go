//go:build linux

package main

// What is said about the figures, whatever they are.

const readTotals = `
Data loss is the probability that bytes are lost *when something goes wrong*: **every trial has a fault**. How often faults happen in practice is not in these figures.

Recovery is the time from the first failure until the agent is where it should be. It is the measured time, with the restart of a tool that died, and 0.4 s for each further call, as a model takes to think, and 1 s for each wait that an agent was
told to make and made. It is the mean of the medians of the cells in which any trial recovered, which flatters an arm in which few did. The column beside it takes only the cells in which some trial recovered with every arm. Every scenario weighs
the same. C7 asks about secrets and not about loss, and C10 has no time.

The *guided* agent does what the tool says to do next. Where the tool says nothing, it goes by the words of the answer, as with the two plain arms. The mean of all agents takes in one that goes by words only, and one that reads no answer at all.
All of them are scripts, not models.

The literature is arXiv 2604.10842: the naive and the defensive way to write, and the system of its authors. Figures marked * (data loss and self-correction) are **estimates of its authors**, not measurements. Its tasks, faults and tools are not
ours. The rows are in one table to compare orders of magnitude, not to divide one by the other.
`

const readEquals = `
Made from the same figures, by a rule: every cell in which another arm corrects itself as often (and at all), recovers faster by more than 2 %, loses no more or wastes fewer calls.
`

const readShell = `
A shell command of an agent changes uncommitted work, another person or another session changes a file, and the command is undone. The table counts the files that are again as they were before the command, and the files of others that the undo
changed. There is no agent in these scenarios and nothing random, so each is played once per arm and counts in no total. A shadow repository is what several hosts keep: ` + "`git add .`" + ` before the command, ` + "`git restore` and `git clean`" + ` to go back. What the
checkpoints of the hosts themselves hold after the same commands was seen with each of them driven by a scripted model; [around.md](around.md#what-comes-back) lists it.
`

const method = `
## Method

**Arms.** *naive* writes with open, write, close, and tries once again before it reports an error. *defensive* writes a temporary file, flushes it,
renames it and flushes the directory, removes the temporary file when it fails, appends by writing the file again, and refuses paths that lead out of the workspace; it does not flush the parents of a directory that it makes, and takes no
lock. Both offer write, append and read, as most agents' tools do, and answer with a line of text that holds the error as the system words it. *resilientwrite* is a Store at its default level, full, behind the calls of its tools
(toolbox.Toolbox), whose replies are the JSON that an MCP client gets; calls carry the arguments that the tools document for the purpose: the hash of what was read when a file is replaced, and an idempotency key. The content gate is that of agents.

**Agents.** Scripts, not models. *blind* sends the same bytes again, at most 5 times. *text* acts on words of the answer by a fixed list of rules (exists, too large, no space, permission, denied, secret, changed …, bench/record/agent.go).
*guided* follows next_actions and suggested_action where the answer has them, and is *text* where it has not: with the naive and the defensive arm the two are the same, and their rows agree but for times. What an agent wants to write is the same for all.

**Faults.** A file-size limit of the running process (RLIMIT_FSIZE) cuts writes off at a byte. A filter of seccomp(2) makes every system call with which the
tool changes files wait for the benchmark, which lets it pass, answers an error number in its place, or kills the process (SIGKILL) in front of it; no arm is built
or run differently for it. The tool of C2, C3, C5, C6 and C9 is a process of its own. C10 runs on the simulated file system of the project's tests. All faults, drafts and moments are picked from
the seed and the number of the trial alone: every arm and every agent meets the same ones. The moments of C3 and C6 are shares of the way: which system call it is depends on how many the arm makes, which is counted before.

**Figures.** *Data loss*: in the end bytes are gone that should be there – a draft that is nowhere below the workspace (C1), a file that is neither old nor new (C2, C3, C5, C10), an acknowledged line that is not in
the file (C9), an edit or a note that was overwritten and is kept nowhere (C8). The disk is looked at with plain reads of files, the same for all arms. A draft that the agent gives up while the old file is whole is a loss in C1 only, where it is what is asked for; elsewhere it is a failure of self-correction.
*Broken on disk*: at some moment between two calls, or when the tool is back, the disk held what it must never hold.
*Self-correction*: of the trials in which something went wrong, those that ended right without a human; where nothing but the user can help, asking within three attempts is right. *Wasted calls*: the same bytes sent again
after a refusal and refused again, and pieces sent again that were safe. *Attempts*: calls from the first failure to the end. Intervals are at 95 %: Wilson's for a cell; for a mean over scenarios their distances are added within a scenario, whose agents met the same faults, and
as squares between scenarios.

**Recovery** begins with the first answer that is not a success, in C6 with the death of the session and in C8 when the next agent takes over; it ends when the agent is done or asks. It holds the start of the process and what the tool does when it opens its workspace, and leaves out
the look of the benchmark at the disk. Each cell has the median and the quartiles over the trials that ended right.

**What can be repeated.** With one seed everything is the same again except times, C9, and C3 at random moments, which depend on the scheduler; a test runs all of it twice and compares (go test ./record). Three cells are measured at a time, one of each arm, on the cores that the table names: times are those of a loaded machine.

**Whether it can fail.** A test plants faults in resilientwrite itself – no content gate, no recovery, torn files, lost writes, a forgotten precondition, litter, a touched journal, replies that no program can read, wrong advice – and demands that each scenario sees them; a kill in front of the calls of a commit
leaves half of a change when there is no recovery, and never when there is; a store that flushes nothing loses what it answered when the power goes (TestEveryOracleCanFail, TestACommitIsBrokenOffAnywhere, TestRecordMachineCrash).

## Limits of the method

- Scripted agents show what an answer makes possible, not what a model makes of it. A model may ignore suggested_action, and may read a plain error text better than our list of words does. That every call carries an idempotency key and the hash of what was read is what the tools ask for, not what every model does.
- The agents do not read a file before they repeat an append whose answer was lost, nor before they replace one a second time. One that did would save the plain arms most of what they lose in C3 and in the repetitions of C10.
- A model that reads a file before it goes on may see by itself that a human was there (C8); the scripts see only what a tool reports.
- The faults are synthetic, and each trial has one. How often they happen in practice is not in these figures, and the mean over scenarios gives each the same weight, which no user's life does.
- The scenarios were chosen by the authors of resilientwrite, for the failures that it is built against, and so were the agents, whose words and steps were written beside it. A tool that is not built against them loses here by construction, most of all in C1 and C7.
- The defensive arm is what a careful engineer writes in an afternoon, not the best that can be done without resilientwrite: a lock or a check of the hash would save it in C9, a flush of the parents in a part of C10.
- One machine, one file system, one kernel, one run: the intervals say how far the trials scatter, not how another machine would do.
- Zero of n does not mean never: the interval beside it is the bound.
- C1: whether a draft that its agent gave up is lost depends on where one looks. Here it must be on disk; a model's context does not count.
- C2: a limit that passes rewards a caller that keeps sending the same bytes. resilientwrite counts such a refusal as one that repetition does not repair: its retry budget ends the repetition, and the agent asks. An agent that splits a file into a write and appends replaces the old file by its first piece: that is where the defensive arm loses there.
- C5: after a failed flush a store refuses everything until it is opened again. The benchmark does that between two trials, and counts no time for it.
- C6: what the disk holds while the tool is dead is not judged, only what is found once it is back.
- C9: every update counts as a trial, yet those of one round share a file and a moment: its intervals are narrower than they should be.
- The corpus of C7 is our own, 20 kinds of credentials and 16 kinds of harmless lines, and was known to the authors of the gate; the scanner's benchmark on foreign examples is the better measure of its recall. A generic password without a format of its own is found but not refused by default, which is one kind of the 20, and so it is on disk, and in C1 in the sink.
- Loss of power is simulated; the disk of C10 is a model (docs/durability.md), not a device.
- Wall times of C5, and of the calls that are broken off in C3 and C6, include the wait for the benchmark's leave, which is longer for a tool that makes more system calls.
`
