// Command resilient-write-hub ships the journal and the versions of a store to an
// object store that machines share, and resumes tasks of other machines. docs/hub.md
// describes it; "resilient-write hub" and "resilient-write resume" run it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/hub"
	"github.com/resilientwrite/resilientwrite/internal/endsignal"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

func main() {
	os.Exit(int(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)))
}

// app is one run of the command.
type app struct {
	env      func(string) string
	in       io.Reader
	out      io.Writer
	errs     io.Writer
	url      string
	root     string
	stateDir string
	label    string
	identity string
	to       []string // additional recipients
	json     bool
	drawn    bool
	replied  bool // the reply was printed
}

// misuse is an error of the command line: code 2.
type misuse struct{ what, hint string }

func (u *misuse) Error() string { return u.what }

func run(args []string, env func(string) string, in io.Reader, out, errs io.Writer) rw.Code {
	a := &app{env: env, in: in, out: out, errs: errs}
	ctx, stop := endsignal.Context()
	defer stop()
	root := a.command()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.wipe()
	return a.end(err, !a.replied)
}

// end reports an error: as a sentence for people, and, if doc is set, as an object
// for programs.
func (a *app) end(err error, doc bool) rw.Code {
	if err == nil {
		return rw.CodeOK
	}
	code, name, hint := rw.CodeInternal, "internal", ""
	var u *misuse
	var h *hub.Error
	var e *rw.Error
	switch {
	case errors.As(err, &u):
		code, name, hint = rw.CodeUsage, "usage", u.hint
	case errors.As(err, &h):
		code, name, hint = h.Exit(), h.Code, h.Hint
	case errors.As(err, &e):
		code, name, hint = e.Code(), e.Detail.Error(), e.Hint
	case errors.Is(err, hub.ErrSecret):
		code, name, hint = rw.CodeInvalid, "bad_secret", "give at least 8 bytes that are not all the same"
	case errors.Is(err, context.Canceled):
		name, hint = "canceled", "completed steps remain, and calling again continues"
	}
	if doc && a.forPrograms() {
		a.document(map[string]any{"ok": false, "error": name, "message": visible.Line(err.Error(), '?'), "hint": hint, "code": code})
	}
	fmt.Fprintf(a.errs, "resilient-write-hub: %s\n", visible.Line(strings.TrimSuffix(err.Error()+"; "+hint, "; "), '?'))
	return code
}

func (a *app) forPrograms() bool { return a.json || !isTerminal(a.out) }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) document(v any) error {
	data, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(a.out, "%s\n", data)
	}
	return err
}

// reply prints v as JSON for a program, or calls show to print text for a
// person.
func (a *app) reply(v any, show func()) error {
	a.wipe()
	a.replied = true
	if a.forPrograms() {
		return a.document(v)
	}
	show()
	return nil
}

func (a *app) line(format string, args ...any) {
	fmt.Fprintln(a.out, visible.Line(fmt.Sprintf(format, args...), '?'))
}

// count formats a number with the noun of what is counted.
func count[N int | int64 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// progress draws a line that the next one overwrites, on a terminal.
func (a *app) progress(what string, done, total int64) {
	if a.json || !isTerminal(a.errs) {
		return
	}
	a.drawn = true
	if total > 0 {
		fmt.Fprintf(a.errs, "\r\x1b[K%d of %d %s", done, total, what)
	} else {
		fmt.Fprintf(a.errs, "\r\x1b[K%d %s", done, what)
	}
}

func (a *app) wipe() {
	if a.drawn {
		a.drawn = false
		fmt.Fprint(a.errs, "\r\x1b[K")
	}
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use: "resilient-write-hub", Short: "Ship stores to an object store that machines share, and resume tasks of other machines",
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &misuse{"there is no command " + args[0], "resilient-write-hub --help lists them"}
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.url, "hub", a.env("RW_HUB"), "the object store: a local `directory`, or s3://bucket/prefix (RW_HUB)")
	f.StringVar(&a.root, "root", cmp.Or(a.env("RW_WORKSPACE"), "."), "workspace `directory` (RW_WORKSPACE)")
	f.StringVar(&a.stateDir, "state-dir", a.env("RW_STATE_DIR"), "state `directory` (RW_STATE_DIR)")
	f.StringVar(&a.identity, "identity", a.env("RW_HUB_IDENTITY"), "`file` with the age identities of an encrypted hub (RW_HUB_IDENTITY)")
	f.StringSliceVar(&a.to, "recipient", strings.Fields(strings.ReplaceAll(a.env("RW_HUB_RECIPIENTS"), ",", " ")), "age `recipient` that can decrypt, too (RW_HUB_RECIPIENTS)")
	f.StringVar(&a.label, "label", "", "what people call this store; default: the name of its directory")
	f.BoolVar(&a.json, "json", false, "print JSON even on a terminal")
	root.SetOut(a.out)
	root.SetErr(a.errs)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &misuse{err.Error(), "see " + cmd.CommandPath() + " --help"}
	})
	root.AddCommand(a.status(), a.ship(), a.resume(), a.verify(), a.gc(), a.erase(), a.keygen())
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// withHub opens the hub.
func (a *app) withHub(ctx context.Context, work func(*hub.Hub) error) error {
	if a.url == "" {
		return &misuse{"no hub is named", "give --hub, or set RW_HUB: a local directory, or s3://bucket/prefix"}
	}
	keys, err := a.keys()
	if err != nil {
		return err
	}
	h, err := hub.Open(ctx, a.url, keys)
	if err != nil {
		return err
	}
	return errors.Join(work(h), h.Close())
}

// keys reads the identities of an encrypted hub. It returns nil if none are
// named.
func (a *app) keys() (*hub.Keys, error) {
	if a.identity == "" && len(a.to) > 0 {
		return nil, &misuse{"recipients are named, and no identity", "give --identity, too: every machine reads what the others wrote"}
	}
	if a.identity == "" {
		return nil, nil
	}
	f, err := os.Open(a.identity)
	if err != nil {
		return nil, &misuse{"the identity file cannot be opened", "name a file that resilient-write hub keygen or age-keygen made"}
	}
	defer f.Close()
	keys, err := hub.ParseKeys(f, a.to...)
	if err != nil {
		return nil, &misuse{err.Error(), "name a file that resilient-write hub keygen or age-keygen made, and recipients as it prints them"}
	}
	return keys, nil
}

// withShipper opens the store of the workspace as well.
func (a *app) withShipper(ctx context.Context, work func(*hub.Shipper) error) error {
	return a.withHub(ctx, func(h *hub.Hub) error {
		return a.withStore(ctx, false, func(s *rw.Store) error {
			abs, err := filepath.Abs(a.root)
			if err != nil {
				return err
			}
			return work(&hub.Shipper{Hub: h, Store: s, Label: cmp.Or(a.label, filepath.Base(abs)), Progress: a.progress})
		})
	})
}

func (a *app) withStore(ctx context.Context, readOnly bool, work func(*rw.Store) error) error {
	s, err := rw.Open(ctx, a.root, &rw.Options{StateDir: a.stateDir, ReadOnly: readOnly, Caller: "hub", AllowUnsafeRoot: a.env("RW_ALLOW_UNSAFE_ROOT") == "1", ProtectDefaults: rw.ProtectWarn})
	if err != nil {
		return err
	}
	return errors.Join(work(s), s.Close(context.WithoutCancel(ctx)))
}

func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &misuse{cmd.Name() + " takes no arguments", "see " + cmd.CommandPath() + " --help"}
	}
	return nil
}

type statusReply struct {
	Local *hub.Local `json:"local"` // null if there is no store
	hub.Status
}

func (a *app) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the stores and tasks in the hub, and how far this store is behind", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.withHub(ctx, func(h *hub.Hub) error {
				var out statusReply
				var err error
				if out.Status, err = h.Status(ctx); err != nil {
					return err
				}
				err = a.withStore(ctx, true, func(s *rw.Store) error {
					l, err := (&hub.Shipper{Hub: h, Store: s}).Local(ctx)
					if l.Store != "" {
						out.Local = &l
					}
					return err
				})
				return errors.Join(a.reply(out, func() { a.showStatus(out) }), damaged(out.Problems), err)
			})
		},
	}
}

func (a *app) showStatus(out statusReply) {
	if l := out.Local; l != nil {
		a.line("this store, %s: the hub has row %d and lacks %s; %s withheld, %d lost before shipping", l.Store, l.Seq, count(l.Waiting, "row"), count(l.Withheld, "content"), l.NotShipped)
		switch {
		case l.Forked:
			a.line("it is FORKED: see resilient-write hub ship")
		case l.Task != "":
			a.line("it works on task %s, epoch %d", l.Task, l.Epoch)
		case l.LostTask != "":
			a.line("it has lost task %s to another machine", l.LostTask)
		}
	}
	if len(out.Stores) == 0 && len(out.Tasks) == 0 {
		a.line("the hub has no stores and no tasks")
	}
	for _, s := range out.Stores {
		at, _, _ := strings.Cut(s.At, ".")
		a.line("store %s  %s  %s  %s", s.Store, s.Label, count(s.Seq, "row"), strings.TrimSuffix(at, "Z")+"Z")
	}
	for _, t := range out.Tasks {
		handoff := "no handoff"
		if t.Handoff != nil {
			handoff = "handoff " + t.Handoff.Status + " of " + t.Handoff.Agent
		}
		a.line("task %s  epoch %d  held by %s %s until %s  %s", t.Task, t.Lease.Epoch, t.Lease.Holder, t.Lease.Label, t.Lease.Until.Format(time.RFC3339), handoff)
	}
	a.showProblems(out.Problems)
}

func (a *app) showProblems(list []hub.Problem) {
	for _, p := range list {
		a.line("%s %s: %s", p.Code, p.Key, p.Text)
	}
}

// damaged returns the error of a reply that lists problems.
func damaged(list []hub.Problem) error {
	if len(list) == 0 {
		return nil
	}
	return &hub.Error{Code: hub.Damaged, Err: errors.New(count(len(list), "problem")), Hint: "delete what is damaged; then run resilient-write hub erase on the machine of the store, which ships again what is lost, and publish the task again"}
}

// atLeast refuses a duration that is too short.
func atLeast(flag string, given, least time.Duration) error {
	if given < least {
		return &misuse{flag + " is too short", "give at least " + least.String()}
	}
	return nil
}

func (a *app) ship() *cobra.Command {
	var r hub.PublishRequest
	var follow, restart bool
	var every, lease time.Duration
	cmd := &cobra.Command{
		Use: "ship", Short: "Ship what is new; with --task also the state of the workspace", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := cmp.Or(atLeast("--every", every, 100*time.Millisecond), atLeast("--lease", lease, time.Second)); err != nil {
				return err
			}
			return a.withShipper(ctx, func(s *hub.Shipper) error {
				s.Lease, r.Root = lease, a.root
				if restart {
					if err := s.Restart(ctx); err != nil {
						return err
					}
				}
				if follow {
					var p *hub.PublishRequest
					if r.Task != "" {
						p = &r
					}
					return s.Follow(ctx, every, p, a.shipped)
				}
				var out hub.Shipped
				var err error
				if r.Task != "" {
					out, err = s.Publish(ctx, r)
				} else {
					out, err = s.Ship(ctx)
				}
				if err != nil {
					return err
				}
				a.shipped(out, nil)
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Task, "task", "", "publish the workspace and its handoff as the state of this `task`")
	f.BoolVar(&r.WithBase, "with-base", false, "with --task: also upload bytes that git has, so that a resume needs no checkout")
	f.StringVar(&r.Handoff, "handoff", handoff.DefaultPath, "with --task: `path` of the handoff")
	f.BoolVar(&follow, "follow", false, "go on until interrupted")
	f.DurationVar(&every, "every", time.Minute, "with --follow: ship at least this often when there is something")
	f.DurationVar(&lease, "lease", 15*time.Minute, "with --task: how long the task is held without being renewed")
	f.BoolVar(&restart, "restart", false, "make this copy a store of its own and ship all of it")
	return cmd
}

// shipped prints one shipment. With --follow it also prints failures.
func (a *app) shipped(out hub.Shipped, err error) {
	if err != nil {
		a.end(err, true)
		return
	}
	a.reply(out, func() {
		if out.Rows == 0 {
			a.line("nothing new to ship; the hub has row %d", out.Seq)
		} else {
			a.line("shipped %s and %s of %s; the hub has row %d", count(out.Rows, "row"), count(out.Contents, "content"), count(out.Bytes, "byte"), out.Seq)
		}
		for _, w := range append(out.Withheld, out.NotShipped...) {
			a.line("not shipped: %s (%s)", w.Path, strings.Join(append([]string{w.Reason}, w.Kinds...), ", "))
		}
		if p := out.Published; p != nil {
			a.line("task %s, epoch %d, held until %s: %s, %d uploaded, %d in git only", p.Task, p.Epoch, p.Until.Format(time.RFC3339), count(p.Files, "file"), p.Uploaded, p.FromBase)
			if p.Base != "" {
				a.line("a resume needs a checkout of %s", p.Base)
			}
			a.withheld(p.Withheld)
		}
	})
}

func (a *app) withheld(list []hub.Withheld) {
	for _, w := range list {
		a.line("withheld: %s (%s)", w.Path, strings.Join(append([]string{w.Reason}, w.Kinds...), ", "))
	}
}

func (a *app) resume() *cobra.Command {
	var r hub.ResumeRequest
	var into string
	var lease time.Duration
	cmd := &cobra.Command{
		Use: "resume TASK", Short: "Continue a task of another machine, with the same files",
		Long: `Take the lease of a task, and make the directory what its last holder published:
an empty directory, or a clean checkout of the commit that the files rest on.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &misuse{"resume takes one task", "resilient-write hub status lists them"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := atLeast("--lease", lease, time.Second); err != nil {
				return err
			}
			ctx := cmd.Context()
			r.Task = args[0]
			if into != "" {
				if a.root = into; os.MkdirAll(into, 0o755) != nil {
					return &misuse{"--into is no directory and cannot be made", "name another directory"}
				}
			}
			return a.withShipper(ctx, func(s *hub.Shipper) error {
				s.Lease = lease
				out, err := s.Resume(ctx, r)
				if err != nil {
					return err
				}
				return a.reply(out, func() { a.showResumed(out) })
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&into, "into", "", "resume into this `directory`; default: the workspace")
	f.BoolVar(&r.Force, "force", false, "take the task although another machine holds it")
	f.DurationVar(&lease, "lease", 15*time.Minute, "how long the task is held without being renewed")
	f.StringVar(&r.Caller, "caller", "hub", "who asks, recorded in the journal")
	return cmd
}

func (a *app) showResumed(out hub.Resumed) {
	a.line("task %s, epoch %d, held until %s: %s, %d written, %d deleted", out.Task, out.Epoch, out.Until.Format(time.RFC3339), count(out.Files, "file"), out.Written, out.Deleted)
	a.withheld(out.Withheld)
	for _, w := range out.Warnings {
		a.line("warning: %s: %s", w.Reason, w.Hint)
	}
	if h := out.Handoff; h != nil {
		a.line("handoff of %s (%s): %s", h.Agent, h.Status, h.Summary)
		for _, step := range h.NextSteps {
			a.line("next: %s", step)
		}
		for _, d := range h.Drift {
			a.line("not as the handoff says: %s", d.Path)
		}
	}
}

func (a *app) verify() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Read everything in the hub and verify it", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withHub(cmd.Context(), func(h *hub.Hub) error {
				out, err := h.Verify(cmd.Context(), a.progress)
				if err != nil {
					return err
				}
				return errors.Join(a.reply(out, func() {
					a.line("%s, %s, %s, %s of %s; %s", count(out.Stores, "store"), count(out.Tasks, "task"), count(out.Rows, "row"), count(out.Objects, "object"), count(out.Bytes, "byte"), count(len(out.Problems), "problem"))
					a.showProblems(out.Problems)
				}), damaged(out.Problems))
			})
		},
	}
}

func (a *app) gc() *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use: "gc", Short: "Delete what nothing leads to, when an earlier gc has found it too", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withHub(cmd.Context(), func(h *hub.Hub) error {
				out, err := h.GC(cmd.Context(), time.Now(), grace)
				if err != nil {
					return err
				}
				return a.reply(out, func() {
					a.line("%s in use; %s deleted, %s", count(out.Referenced, "object"), count(out.Deleted, "object"), count(out.Bytes, "byte"))
					if left := out.Unreferenced - out.Deleted; left > 0 {
						a.line("%s not in use: a gc that runs %s after this one, or later, deletes what is still unused", count(left, "object"), grace)
					}
				})
			})
		},
	}
	cmd.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long ago the earlier gc must be")
	return cmd
}

func (a *app) keygen() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make an identity for an encrypted hub; copy the file to each of its machines",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &misuse{"keygen takes one file", "name a file that does not exist, outside of every workspace"}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			text, recipient, err := hub.NewIdentity(time.Now())
			if err != nil {
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return &misuse{"the file cannot be created, or exists", "name a file that does not exist"}
			}
			_, err = f.WriteString(text)
			if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
				return err
			}
			return a.reply(map[string]string{"recipient": recipient}, func() { a.line("the recipient is %s", recipient) })
		},
	}
}

func (a *app) erase() *cobra.Command {
	var fromInput bool
	cmd := &cobra.Command{
		Use: "erase", Short: "Carry erasures to the hub; with --secret-stdin, search all contents in it", Args: none,
		Long: `Carry the erasures of this store to the hub: the log is rewritten, and what was
erased is deleted. Run resilient-write erase first. With --secret-stdin every
content in the hub is searched for the secret, too.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var secret []byte
			if fromInput {
				data, err := io.ReadAll(io.LimitReader(a.in, 64<<10))
				if err != nil {
					return err
				}
				secret = bytes.TrimSuffix(data, []byte("\n"))
				if len(secret) == 0 {
					return &misuse{"standard input holds no secret", "write the secret to standard input"}
				}
			}
			return a.withShipper(cmd.Context(), func(s *hub.Shipper) error {
				out, err := s.Erase(cmd.Context(), secret)
				if err != nil {
					return err
				}
				return a.reply(out, func() {
					a.line("%s deleted, %s rewritten", count(out.Deleted, "object"), count(len(out.Tasks), "task"))
					for _, key := range out.Left {
						a.line("another store's: %s", key)
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&fromInput, "secret-stdin", false, "read the secret from standard input")
	return cmd
}
