// Package rwgenkit gives the tools of a store to models of genkit.
package rwgenkit

import (
	"encoding/json"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Tools registers the tools of the box and returns them for ai.WithTools.
func Tools(g *genkit.Genkit, box *toolbox.Toolbox) (list []ai.ToolRef) {
	for _, t := range box.Tools() {
		list = append(list, genkit.DefineTool(g, t.Name, t.Description, func(ctx *ai.ToolContext, in any) (json.RawMessage, error) {
			args, err := json.Marshal(in)
			if err != nil {
				return nil, err
			}
			return json.RawMessage(box.Call(ctx, t.Name, args, nil).Text), nil
		}, ai.WithInputSchema(t.InputMap())))
	}
	return list
}
