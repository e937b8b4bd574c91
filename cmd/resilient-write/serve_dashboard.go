package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// listenDashboard listens on the address of --dashboard, before the store is
// opened.
func (s *settings) listenDashboard() error {
	if s.dashboard == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.dashboard)
	if err != nil {
		return &misuse{"--dashboard is no address", "give host and port, such as 127.0.0.1:8010"}
	}
	if !isLoopback(host) {
		return &misuse{"--dashboard is served on a loopback address only", "use 127.0.0.1, and a tunnel from another machine"}
	}
	if s.board, err = net.Listen("tcp", s.dashboard); err != nil {
		return fmt.Errorf("the dashboard cannot listen: %w", pathless(err))
	}
	return nil
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// besideDashboard does the work, and serves the dashboard at the same time if
// there is one.
func (s *settings) besideDashboard(ctx context.Context, env func(string) string, logs *slog.Logger, errs io.Writer, store *rw.Store, work func() error) error {
	if s.board == nil {
		return work()
	}
	d := mcpserver.Dashboard{
		Open: func(ctx context.Context) (*rw.Store, error) {
			o := s.options(env, operator)
			o.ReadOnly = true
			return rw.Open(rw.WithGate(ctx, rw.GateOfAgents), s.root, o)
		},
		Undo: store, State: s.stateDirectory(),
	}
	if s.readOnly {
		d.Undo = nil
	}
	h, err := mcpserver.NewDashboard(d, &mcpserver.HTTPOptions{Logger: logs})
	if err != nil {
		s.board.Close()
		return err
	}
	fmt.Fprintf(errs, "resilient-write dashboard: http://%s/#%s\n", s.board.Addr(), h.Token())
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, s.board) }()
	err = work()
	stop()
	return errors.Join(err, <-ended)
}
