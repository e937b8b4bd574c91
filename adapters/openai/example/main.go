// Command example lets a model of the OpenAI API, or of a compatible server,
// work on a directory:
//
//	OPENAI_API_KEY=… OPENAI_BASE_URL=… go run ./example WORKSPACE MODEL "a task"
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/openai/openai-go/v3"

	rw "github.com/resilientwrite/resilientwrite"
	rwopenai "github.com/resilientwrite/resilientwrite/adapters/openai"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: example WORKSPACE MODEL TASK")
	}
	text, err := run(context.Background(), openai.NewClient(), os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}

// run returns the text of the model when it makes no more tool calls.
func run(ctx context.Context, client openai.Client, workspace, model, task string) (text string, err error) {
	store, err := rw.Open(ctx, workspace, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	box := toolbox.New(store, &toolbox.Options{Caller: model})
	params := openai.ChatCompletionNewParams{
		Model: model, Tools: rwopenai.Tools(box),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(box.Instructions()), openai.UserMessage(task)},
	}
	for range 50 {
		completion, err := client.Chat.Completions.New(ctx, params)
		if err != nil {
			return "", err
		}
		m := completion.Choices[0].Message
		if len(m.ToolCalls) == 0 {
			return m.Content, nil
		}
		params.Messages = append(append(params.Messages, m.ToParam()), rwopenai.Answer(ctx, box, m)...)
	}
	return "", errors.New("the model does not come to an end")
}
