// Command example is an MCP server of the official Go SDK with the tools of a
// store, over stdio:
//
//	go run ./example WORKSPACE
package main

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	rw "github.com/resilientwrite/resilientwrite"
	rwgosdk "github.com/resilientwrite/resilientwrite/adapters/gosdk"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: example WORKSPACE")
	}
	if err := serve(context.Background(), os.Args[1], &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, workspace string, t mcp.Transport) error {
	store, err := rw.Open(ctx, workspace, nil)
	if err != nil {
		return err
	}
	box := toolbox.New(store, &toolbox.Options{Caller: "example"})
	s := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, &mcp.ServerOptions{Instructions: box.Instructions()})
	rwgosdk.AddTools(s, box)
	return errors.Join(s.Run(ctx, t), store.Close(context.WithoutCancel(ctx)))
}
