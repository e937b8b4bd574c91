package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
)

// claimsReply has the form of the tool's reply.
type claimsReply struct {
	Claims []around.Claim `json:"claims"`
}

// claim claims paths for one session, as the tool does.
func (a *app) claim() *cobra.Command {
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "claim PATH...", Short: "Keep other sessions from changing paths for a while", GroupID: "work",
		Long: `Keep the tools of other sessions from changing files or directories until the
claim ends or is released: they are refused, and so are the edits of hosts with
hooks. What a shell command changes anyway is reported to its model. Claims
do not bind an operator, that is, the commands of this program.

The claim belongs to --session, or else to the session "operator". The paths are
relative to the workspace.`,
		Args: takes(1, -1, "claim takes the paths to keep", "resilient-write claim src/parser docs/parser.md; resilient-write claim list shows the claims"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClaims(cmd.Context(), a.withStore, false, func(ctx context.Context, s *rw.Store) ([]around.Claim, error) {
				c, err := s.Claim(ctx, args, ttl)
				return []around.Claim{c}, err
			})
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", around.MaxClaim, "how long the claim holds, at most 10m")
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List the claims that hold", Args: noArguments, RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClaims(cmd.Context(), a.withOldStore, true, func(ctx context.Context, s *rw.Store) ([]around.Claim, error) { return s.Claims(ctx) })
		}},
		&cobra.Command{Use: "release NUMBER...", Short: "End claims, of whichever session", Args: takes(1, -1, "release takes the numbers of claims", "resilient-write claim list shows them"), RunE: func(cmd *cobra.Command, args []string) error {
			var numbers []uint64
			for _, text := range args {
				n, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					return &misuse{"a claim is named by its number", "resilient-write claim list shows the numbers"}
				}
				numbers = append(numbers, n)
			}
			return a.withClaims(cmd.Context(), a.withStore, false, func(ctx context.Context, s *rw.Store) ([]around.Claim, error) {
				for _, n := range numbers {
					if err := s.Release(ctx, n); err != nil {
						return nil, err
					}
				}
				return s.Claims(ctx)
			})
		}},
	)
	return cmd
}

// withClaims lists or changes claims in the session of the command.
func (a *app) withClaims(ctx context.Context, open opener, looks bool, work func(context.Context, *rw.Store) ([]around.Claim, error)) error {
	return do(ctx, a, open, looks, func(s *rw.Store, ctx context.Context, session string) (claimsReply, error) {
		list, err := work(rw.WithCaller(ctx, "", session), s)
		return claimsReply{list}, err
	}, cmp.Or(a.session, operator), func(p *printer, r claimsReply) {
		if len(r.Claims) == 0 {
			p.line("nothing is claimed")
		}
		rows(p, []string{"claim", "session", "until", "paths"}, r.Claims, func(c around.Claim) []string {
			return []string{fmt.Sprint(c.Fence), c.Session, c.Until.Local().Format(time.TimeOnly), strings.Join(c.Paths, ", ")}
		})
	})
}
