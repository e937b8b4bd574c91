// Command example is a ReAct agent of eino that works on a directory. run
// accepts any chat model of eino; this command uses one that follows a script,
// so it needs no key:
//
//	go run ./example WORKSPACE
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	rw "github.com/resilientwrite/resilientwrite"
	rweino "github.com/resilientwrite/resilientwrite/adapters/eino"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: example WORKSPACE")
	}
	text, err := run(context.Background(), &chatModel{}, os.Args[1], "write deploy.env")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}

// run returns the text of the model when it makes no more tool calls.
func run(ctx context.Context, m model.ToolCallingChatModel, workspace, task string) (text string, err error) {
	store, err := rw.Open(ctx, workspace, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	box := toolbox.New(store, &toolbox.Options{Caller: "eino"})
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: m, ToolsConfig: compose.ToolsNodeConfig{Tools: rweino.Tools(box)},
	})
	if err != nil {
		return "", err
	}
	said, err := agent.Generate(ctx, []*schema.Message{schema.SystemMessage(box.Instructions()), schema.UserMessage(task)})
	if err != nil {
		return "", err
	}
	return said.Content, nil
}
