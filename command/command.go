// Package command defines the request and the result of a command that is run
// over a private view of the workspace.
package command

import (
	"io"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/sandbox"
)

// Request asks for a command to be run, and its changes to be committed.
type Request struct {
	call.Call

	// The command and its arguments. No shell interprets them.
	Argv []string `json:"argv" required:"true"`
	Dir  string   `json:"dir,omitempty"` // Working directory, relative to the workspace.
	// Seconds after which the command is ended. 0: no limit; 600 over the tool.
	TimeoutSeconds int `json:"timeout_seconds,omitempty" min:"0" max:"86400"`
	// Commit what a command with another exit code than 0 has changed too.
	KeepFailed bool `json:"keep_failed,omitempty"`
	// Allow a plain copy of a workspace of at most 1 GiB where nothing better is
	// available.
	Copy bool `json:"copy,omitempty"`

	// Env is the environment. nil: that of this process, without variables whose
	// names begin with RW_.
	Env []string `json:"-"`
	// Stdin is read by the command; nil: nothing. Stdout and Stderr get what it
	// writes; nil: the end of it is in the result, without secrets.
	Stdin  io.Reader `json:"-"`
	Stdout io.Writer `json:"-"`
	Stderr io.Writer `json:"-"`
	// Views is the directory, outside of the workspace, where views are stored. "":
	// resilientwrite/exec in $XDG_STATE_HOME or ~/.local/state.
	Views string `json:"-"`
	// Helper is a program whose main calls [Main] first of all, such as
	// resilient-write. "": this one, whose main does.
	Helper string `json:"-"`
}

// Result is what a command did.
type Result struct {
	// Exit code of the command; 128 and the signal where one ended it.
	ExitCode int  `json:"exit_code"`
	TimedOut bool `json:"timed_out,omitempty"` // True when the time limit ended it.
	// How the command was isolated from the workspace.
	Isolation string `json:"isolation,omitempty" enum:"overlayfs,fuse-overlayfs,reflink,copy"`
	// True when the changes were discarded: after a failed command, and of a dry
	// run.
	Discarded bool `json:"discarded,omitempty"`
	// The files that were changed, each as one operation.
	Results []call.FileResult `json:"results"`
	// Files that git ignores and that were changed too, without versions.
	Ignored int `json:"ignored,omitempty"`
	// Ignored files, directories and links that could not be brought into the workspace.
	NotApplied []string `json:"not_applied,omitempty"`
	// The end of the output, unless it went elsewhere. Secrets are replaced.
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// True when the beginning of the output is left out.
	OutputCut bool `json:"output_cut,omitempty"`
	// Journal row of the commit; 0 when nothing was committed.
	Seq     uint64    `json:"seq"`
	Diff    string    `json:"diff,omitempty"` // Unified diff, truncated when long; dry run only.
	WroteAt time.Time `json:"wrote_at"`       // When, RFC 3339 UTC.
	// Outcome of the call.
	Status call.Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded, for all files.
	Warnings []call.Warning `json:"warnings"`
	// The full record of the call, with the facts of the first file.
	Receipt *call.Receipt `json:"receipt,omitempty"`

	// KeptIn is the directory in which the changes are kept after a refusal, for
	// seven days.
	KeptIn string `json:"-"`
}

// Main must be called first by the main function of a program that runs commands
// ([resilientwrite.Store.Exec]). Exec starts the program again as the helper that
// makes the view; in that helper Main does not return. In every other case it
// returns at once.
func Main() {
	sandbox.Main()
	IsReady = true
}

// IsReady reports that main has called [Main], so that this program can be its own
// helper.
var IsReady bool
