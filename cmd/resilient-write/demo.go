package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// demoReply describes what the demonstration did.
type demoReply struct {
	Refused  string   `json:"refused"`  // the reason
	Patterns []string `json:"patterns"` // what was found
	Hint     string   `json:"hint"`
	DraftRef string   `json:"draft_ref"`
	Written  string   `json:"written"` // content written after the repair
}

// demo shows a refusal of the gate and its repair, in a temporary workspace
// that is removed afterwards.
func (a *app) demo() *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "Show a refusal of the gate and its repair", GroupID: "look", Args: noArguments,
		Long: `Show a refusal of the content gate and its repair.

It makes up a token with a valid checksum and writes it into a workspace in the
temporary directory. The gate refuses it, as it does for agents; rw_redact
removes the token from the draft, and the result is written. The workspace is
then removed. Nothing else is read or changed.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := demonstrate(cmd.Context())
			if err != nil {
				return err
			}
			return present(a, out, showDemo)
		},
	}
}

func demonstrate(ctx context.Context) (out demoReply, err error) {
	dir, err := os.MkdirTemp("", "resilient-write-demo")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	s, err := rw.Open(ctx, dir, &rw.Options{Gate: rw.GateOfAgents, Sync: rw.SyncOff, StateDir: ".resilient_write"})
	if err != nil {
		return out, err
	}
	defer s.Close(ctx)
	const path = "config.env"
	_, err = s.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: []byte("GITHUB_TOKEN=" + madeUpToken() + "\n")})
	var e *rw.Error
	if !errors.As(err, &e) || e.Detail != rw.ErrRiskBlocked {
		return out, errors.Join(errors.New("the gate did not refuse the token"), err)
	}
	out.Refused, out.Patterns, out.Hint = string(e.Detail), e.Patterns, toolbox.NameTools(e.Hint)
	out.DraftRef, _ = e.Context["draft_ref"].(string)
	clean, err := s.Redact(ctx, rw.RedactRequest{DraftRef: out.DraftRef})
	if err == nil {
		_, err = s.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: clean.Content})
	}
	out.Written = string(clean.Content)
	return out, err
}

// madeUpToken returns a token that was never issued, in the format of a GitHub
// token: 30 random characters and their CRC-32 in base 62.
func madeUpToken() string {
	body := (rand.Text() + rand.Text())[:30]
	return "ghp_" + body + scan.Checksum(body)
}

func showDemo(p *printer, r demoReply) {
	p.line("%s config.env with a made-up token: %s (%s)", p.paint(red, "refused"), r.Refused, strings.Join(r.Patterns, ", "))
	p.line("%s", r.Hint)
	p.line("%s the draft after rw_redact:", p.paint(green, "written"))
	p.line("%s", strings.TrimSuffix(r.Written, "\n"))
}
