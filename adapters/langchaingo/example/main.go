// Command example lets a model of langchaingo work on a directory. Here it is a
// model of the OpenAI API, or of a compatible server:
//
//	OPENAI_API_KEY=… OPENAI_BASE_URL=… go run ./example WORKSPACE MODEL "a task"
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"

	rw "github.com/resilientwrite/resilientwrite"
	rwlangchain "github.com/resilientwrite/resilientwrite/adapters/langchaingo"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: example WORKSPACE MODEL TASK")
	}
	model, err := openai.New(openai.WithModel(os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	text, err := run(context.Background(), model, os.Args[1], os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}

// run returns the text of the model when it makes no more tool calls.
func run(ctx context.Context, model llms.Model, workspace, task string) (text string, err error) {
	store, err := rw.Open(ctx, workspace, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	box := toolbox.New(store, &toolbox.Options{Caller: "langchaingo"})
	messages := []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, box.Instructions()), llms.TextParts(llms.ChatMessageTypeHuman, task),
	}
	for range 50 {
		r, err := model.GenerateContent(ctx, messages, llms.WithTools(rwlangchain.Tools(box)))
		if err != nil {
			return "", err
		}
		choice := r.Choices[0]
		if len(choice.ToolCalls) == 0 {
			return choice.Content, nil
		}
		messages = append(messages, rwlangchain.Answer(ctx, box, choice)...)
	}
	return "", errors.New("the model does not come to an end")
}
