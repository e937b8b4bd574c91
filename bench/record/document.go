//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// markdown is docs/benchmark-record.md.
func (b *results) markdown() string {
	var out strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	p("<!-- Made by `cd bench && go run ./record`. Do not edit. -->")
	p("# The benchmark of record")
	p("")
	p("Ten ways in which writing goes wrong, three ways to write, three kinds of agents. Measured %s with seed %d, in %.0f seconds, on %s.", time.Now().Format("2006-01-02"), b.seed, b.took.Seconds(), host())
	p("")
	p("`cd bench && go run ./record` measures all of it again and writes this page; `-seed`, `-trials`, `-scenario C3,C6`, `-out` and `-smoke` are there for parts of it. It needs Linux.")
	p("")
	p("## All of it in one table")
	p("")
	p("![The three ways to write, and the figures of the literature](benchmark-record.svg)")
	p("")
	p("%s", strings.TrimSpace(b.summary().markdown()))
	p("")
	p("%s", strings.TrimSpace(readTotals))
	p("")
	p("The other figures of the totals:")
	p("")
	p("%s", strings.TrimSpace(b.totals().markdown()))
	p("")
	p("## By agent")
	p("")
	p("%s", strings.TrimSpace(b.byAgent().markdown()))
	p("")
	p("## Where the others do as well, or better")
	p("")
	p("%s", strings.TrimSpace(readEquals))
	p("")
	p("%s", strings.TrimSpace(b.equals().markdown()))
	p("")
	p("## The scenarios")
	for i := range b.done {
		s := &b.done[i]
		p("\n### %s %s", s.id, s.name)
		p("")
		p("Fault: %s.", s.fault)
		p("")
		p("Must hold: %s.", s.oracle)
		p("")
		p("resilientwrite at level `%s`.%s", s.level, s.remark())
		p("")
		p("%s", strings.TrimSpace(b.one(s).markdown()))
	}
	p("")
	p("%s", strings.TrimSpace(method))
	return out.String()
}

// remark says what is to be known of the figures of a scenario.
func (s *scenario) remark() string {
	out := ""
	if s.unsteady {
		out += " What is found depends on the moment, so it differs from run to run."
	}
	if s.timeless {
		out += " The agents do not differ: what they see is a call without an answer, and all of them send it again. There is no time on that disk, so none is told."
	}
	if s.repeats {
		out += " It asks what another scenario asks, and counts in no total."
	}
	return out
}

// summary sets the arms beside the literature.
func (b *results) summary() *grid {
	g := &grid{head: []string{"", "", "recovery", "data loss", "self-correction", "wasted calls"}}
	for _, view := range views {
		for _, arm := range armNames {
			t := sum(b.of(arm, view.agent))
			g.add(view.name, arm, seconds(t.Modeled), percent(t.Loss), percent(t.Right), percent(t.Wasted))
		}
	}
	for i, name := range []string{"naive", "defensive", "their system"} {
		l := literature[i]
		g.add("literature", name, fmt.Sprintf("%g s", l.recovery), fmt.Sprintf("%g %% *", l.loss), fmt.Sprintf("%g %% *", l.right), fmt.Sprintf("%g %%", l.wasted))
	}
	return g
}

// views are the two ways to look at the arms: with the agent that does what a
// tool tells it, and with all of them.
var views = []struct{ name, agent string }{{"guided agent", string(guided)}, {"mean of all agents", ""}}

// host is what it was measured on.
func host() string {
	var u unix.Utsname
	release := "unknown"
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
		if parts := strings.SplitN(release, ".", 3); len(parts) == 3 {
			release = parts[0] + "." + parts[1]
		}
	}
	load := ""
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = ", load " + strings.Fields(string(data))[0] + " at the end"
	}
	return fmt.Sprintf("%d cores (%s, Linux %s, %s, %s%s)", runtime.NumCPU(), runtime.GOARCH, release, volume(os.TempDir()), runtime.Version(), load)
}

// volume names the file system of a directory.
func volume(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return "unknown file system"
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	}
	return fmt.Sprintf("file system %#x", st.Type)
}

const readTotals = `
The literature is arXiv 2604.10842: the naive and the defensive way to write, and the system of its authors. Figures marked * are
estimates of its authors, not measurements, and its tasks and faults are not ours: the rows stand below each other so that the size of things can be seen,
not so that one is divided by the other.

The *guided* agent does what the tool tells it to do next, and acts on words of the answer where the tool tells nothing, as with the two plain arms. The mean of all agents takes in one that
acts on words only, and one that reads no answer at all. Each figure is the mean over ten scenarios (and three agents), each with the same weight; C3 at random moments repeats C3 and does not count, C7 asks about secrets and does
not count for loss. **Every trial has a fault**: the loss of this table is the probability that bytes are lost *when something goes wrong*, not the
probability that something does. Recovery is the time from the first failure until the agent is where it should be (in C6 and C8, from the moment at which the next agent takes over until its own work is done): the time measured, 0.4 s for
each further call, as a model takes to think, and 1 s for each time that an agent was told to wait and did. It is the mean of the medians of those
cells in which anybody recovered at all, which flatters the arms in which few did: read it beside self-correction.
`

const readEquals = `
Made from the same figures, by a rule: every cell in which another arm corrects itself as often (and at all), recovers faster by more than 2 %, loses no more or wastes fewer calls.
`

const method = `
## Method

**Arms.** *naive* writes with open, write, close, and tries once again before it reports an error. *defensive* writes a temporary file, flushes it and
renames it, without flushing the directory, appends by writing the file anew, and refuses paths that lead out of the workspace. Both offer write, append and read, as most
agents' tools do, and answer with a line of text. *resilientwrite* is a Store behind the calls of its tools (mcpserver.Toolbox), whose replies are the JSON that
an MCP client gets; calls carry the arguments that the tools document for the purpose: the hash of what was read when a file is replaced, and an idempotency key. The content gate is that of agents.

**Agents.** Scripts, not models. *blind* sends the same bytes again, at most 5 times. *text* acts on words of the answer by a fixed list of rules (exists, too large, no space, permission, denied, secret, changed …, bench/record/agent.go).
*guided* follows next_actions and suggested_action where the answer has them, and is *text* where it has not: with the naive and the defensive arm the two are the same, and their rows agree. What an agent wants to write is the same for all.

**Faults.** A file-size limit of the running process (RLIMIT_FSIZE) cuts writes off at a byte. A filter of seccomp(2) has every system call with which the
tool changes files wait for the benchmark, which lets it pass, answers an error number in its place, or kills the process in front of it; no arm is built
or run differently for it. The tool of C2, C3, C5, C6 and C9 is a process of its own. C10 runs on the simulated file system of the project's tests. All faults, drafts and moments are picked from
the seed and the number of the trial alone: every arm and every agent meets the same ones.

**Figures.** *Data loss*: in the end bytes are gone that should be there – a draft that is nowhere, a file that is neither old nor new, an acknowledged line that is not in
the file, a note that was overwritten. *Broken on disk*: at some moment between two calls, or after a restart, the disk held what it must never hold.
*Self-correction*: of the trials in which something went wrong, those that ended right without a human; where nothing but the user can help, asking within three attempts is right. *Wasted calls*: the same bytes sent again
after a refusal and refused again, and pieces sent again that were safe. *Attempts*: calls from the first failure to the end. Intervals are Wilson's, at 95 %; those of the totals are of all trials together, so a scenario with many trials weighs more in them than in the share beside them.

**What can be repeated.** With one seed everything is the same again except times, C9, and C3 at random moments, which depend on the scheduler. Three cells are measured at a time, one of each arm.

## Limits of the method

- Scripted agents show what an answer makes possible, not what a model makes of it. A model may ignore suggested_action, and may read a plain error text better than our list of words does. That every call carries an idempotency key and the hash of what was read is what the tools ask for, not what every model does.
- The faults are synthetic, and each trial has one. How often they happen to anybody is not in these figures.
- The scenarios were chosen by the authors of resilientwrite, for the failures that it is built against. A tool that is not built against them loses here by construction, most of all in C1, C7 and C8.
- The naive and the defensive arm are the common ways to write, not the best that one can do without resilientwrite: a flush of the directory would save the defensive arm in most of C10, a check of the hash in C9.
- C1: whether a draft that its agent gave up is lost depends on where one looks. Here it must be on disk; a model's context does not count.
- The corpus of C7 is our own, 20 kinds of credentials and 16 kinds of harmless lines; the scanner's benchmark on foreign examples is the better measure of its recall. A generic password without a format of its own is found but not refused by default, which is one kind of the 20, and so it is on disk.
- Loss of power is simulated; the disk of C10 is a model (docs/durability.md), not a device.
- C2: a limit that passes rewards whoever goes on sending the same bytes. resilientwrite counts such a refusal as one that repetition does not mend: its retry budget ends the repetition, and the agent asks.
- Wall times of C5, and of the calls that are broken off in C3 and C6, include the wait for the benchmark's leave, which is longer for a tool that makes more system calls.
`
