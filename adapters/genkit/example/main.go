// Command example lets a model of genkit work on a directory. run accepts any
// model that genkit supports; this command uses one that follows a script, so
// it needs no key:
//
//	go run ./example WORKSPACE
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	rw "github.com/resilientwrite/resilientwrite"
	rwgenkit "github.com/resilientwrite/resilientwrite/adapters/genkit"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: example WORKSPACE")
	}
	ctx := context.Background()
	g := genkit.Init(ctx)
	text, err := run(ctx, g, scriptedModel(g), os.Args[1], "write deploy.env")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
}

// run returns the text of the model when it makes no more tool calls.
func run(ctx context.Context, g *genkit.Genkit, m ai.ModelArg, workspace, task string) (text string, err error) {
	store, err := rw.Open(ctx, workspace, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	box := toolbox.New(store, &toolbox.Options{Caller: "genkit"})
	r, err := genkit.Generate(ctx, g, ai.WithModel(m), ai.WithSystem(box.Instructions()), ai.WithPrompt(task),
		ai.WithTools(rwgenkit.Tools(g, box)...), ai.WithMaxTurns(50))
	if err != nil {
		return "", err
	}
	return r.Text(), nil
}
