// Command conformance serves the tools of a store, over HTTP and with the same
// wiring as resilient-write, together with the fixtures that the public
// conformance suite of the Model Context Protocol calls. It is built by tests
// alone.
//
//	conformance -addr 127.0.0.1:8123 -root DIR
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	root := flag.String("root", "", "workspace directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *addr, *root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, addr, root string) (err error) {
	store, err := rw.Open(ctx, root, &rw.Options{Sync: rw.SyncOff, AllowUnsafeRoot: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(context.Background())) }()
	s := mcpserver.New(store, nil)
	s.EnableSampling()
	addTools(s)
	addInputs(s)
	addResources(s)
	addPrompts(s)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", l.Addr())
	h, err := mcpserver.NewHTTP(s, &mcpserver.HTTPOptions{NoAuth: true})
	if err != nil {
		return err
	}
	return h.Serve(ctx, l)
}
