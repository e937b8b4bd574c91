package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/trust"
)

// trust records that the policy file in the state directory is trusted. It
// opens no store: it must work before anything in the workspace is trusted.
func (a *app) trust() *cobra.Command {
	var list, remove bool
	cmd := &cobra.Command{
		Use: "trust", Short: "Let the policy file of the workspace weaken the defaults", GroupID: "upkeep", Args: noArguments,
		Long: `Record that you have read the policy file in the state directory and that it
applies in full, even where it weakens the defaults. The record is kept in your
configuration directory and is valid for this workspace and this content. Run
trust again after any change of the file.

Without a record, a policy file that git tracks can only make the rules
stricter, and a file that git does not track applies in full, with a warning.
Neither weakens a flag. A file named with --policy-file needs no record.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case list && remove:
				return &misuse{"--list and --remove cannot be used together", "drop one"}
			case list:
				return a.trustList()
			case remove:
				return a.trustRemove()
			}
			return a.trustPolicy()
		},
	}
	f := cmd.Flags()
	f.BoolVar(&list, "list", false, "list the trusted policy files of all workspaces")
	f.BoolVar(&remove, "remove", false, "remove the trust in every policy file of this workspace")
	return cmd
}

// trustReply reports what was recorded.
type trustReply struct {
	SHA256  string   `json:"sha256"`
	Weakens []string `json:"weakens"` // keys
}

func (a *app) trustPolicy() error {
	root, err := a.realRoot()
	if err != nil {
		return err
	}
	data, err := a.workspacePolicy()
	if err != nil {
		return err
	}
	if _, err := rw.ParsePolicy(data); err != nil {
		return err
	}
	file, _ := policyfile.Parse(data)
	base := policyfile.Default()
	base.Gate.Setting = policyfile.Setting{Mode: string(rw.GateOfAgents.Mode), RejectAt: string(rw.GateOfAgents.RejectAt), Overrides: string(rw.GateOfAgents.Overrides)}
	sum := sha256.Sum256(data)
	out := trustReply{SHA256: hex.EncodeToString(sum[:]), Weakens: append([]string{}, file.Weaker(base)...)}
	if err := trust.Add(trust.Record{Root: root, SHA256: out.SHA256, At: time.Now().UTC().Truncate(time.Second)}); err != nil {
		return a.trustError(err)
	}
	return present(a, out, func(p *printer, out trustReply) {
		what := "nothing weaker than the default"
		if len(out.Weakens) > 0 {
			what = strings.Join(out.Weakens, ", ")
		}
		p.line("trusted policy %s", p.paint(faint, short(out.SHA256)))
		p.line("weaker than the default: %s", what)
	})
}

// workspacePolicy reads the policy file in the state directory.
func (a *app) workspacePolicy() ([]byte, error) {
	dir, err := a.set.findState()
	if err != nil {
		return nil, err
	}
	place := filepath.Join(dir, "policy.yaml")
	st, err := os.Lstat(place)
	if errors.Is(err, fs.ErrNotExist) && a.set.stateDir == "" {
		place = filepath.Join(a.set.root, ".resilient_write", "policy.yaml")
		st, err = os.Lstat(place)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, rw.NewError(a.command, rw.ErrNotFound, "there is no policy file in the state directory of this workspace; write one first, or name another workspace with --root", nil)
	case err == nil && !st.Mode().IsRegular():
		return nil, rw.NewError(a.command, rw.ErrBadPolicy, "the policy file is not a regular file", nil)
	}
	var data []byte
	if err == nil {
		data, err = durable.ReadRegular(place, policyfile.MaxBytes)
	}
	if err != nil && !errors.Is(err, durable.ErrTooLong) { // a file that is too large does not parse
		return nil, streamError(a.command, "the policy file", err)
	}
	return data, nil
}

func (a *app) trustList() error {
	list, err := trust.List()
	if err != nil {
		return a.trustError(err)
	}
	out := map[string][]trust.Record{"trusted": append([]trust.Record{}, list...)}
	return present(a, out, func(p *printer, _ map[string][]trust.Record) {
		for _, one := range list {
			p.line("%s  %s  %s", whenAt(one.At), p.paint(faint, short(one.SHA256)), printable(one.Root))
		}
		if len(list) == 0 {
			p.line("no policy file is trusted")
		}
	})
}

func (a *app) trustRemove() error {
	root, err := a.realRoot()
	if err != nil {
		return err
	}
	n, err := trust.Remove(root)
	if err != nil {
		return a.trustError(err)
	}
	return present(a, map[string]int{"removed": n}, func(p *printer, _ map[string]int) { p.line("removed %d", n) })
}

// realRoot returns the path of the workspace as a store knows it.
func (a *app) realRoot() (string, error) {
	root, err := filepath.Abs(a.set.root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return "", rw.NewError(a.command, rw.ErrNotFound, "the workspace directory does not exist; name another one with --root", nil)
	}
	return root, nil
}

func (a *app) trustError(err error) error {
	for _, known := range []error{trust.ErrNoHome, trust.ErrInside, trust.ErrOthers} {
		if errors.Is(err, known) {
			return rw.NewError(a.command, rw.ErrPermission, known.Error()+"; set XDG_CONFIG_HOME or HOME to a directory of yours outside the workspace", nil)
		}
	}
	return streamError(a.command, "the record", err)
}
