// Command example lets a model of the Anthropic API work on a directory:
//
//	ANTHROPIC_API_KEY=… go run ./example WORKSPACE MODEL "a task"
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/anthropics/anthropic-sdk-go"

	rw "github.com/resilientwrite/resilientwrite"
	rwanthropic "github.com/resilientwrite/resilientwrite/adapters/anthropic"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: example WORKSPACE MODEL TASK")
	}
	text, err := run(context.Background(), anthropic.NewClient(), os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}

// run returns the text of the model when it makes no more tool calls.
func run(ctx context.Context, client anthropic.Client, workspace, model, task string) (text string, err error) {
	store, err := rw.Open(ctx, workspace, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	box := toolbox.New(store, &toolbox.Options{Caller: model})
	params := anthropic.MessageNewParams{
		Model: anthropic.Model(model), MaxTokens: 4096, Tools: rwanthropic.Tools(box),
		System:   []anthropic.TextBlockParam{{Text: box.Instructions()}},
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(task))},
	}
	for range 50 {
		m, err := client.Messages.New(ctx, params)
		if err != nil {
			return "", err
		}
		answers := rwanthropic.Answer(ctx, box, m)
		if len(answers) == 0 {
			for _, block := range m.Content {
				text += block.Text
			}
			return text, nil
		}
		params.Messages = append(params.Messages, m.ToParam(), anthropic.NewUserMessage(answers...))
	}
	return "", errors.New("the model does not come to an end")
}
