package main

import (
	"context"
	"encoding/json"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/resilientwrite/resilientwrite/internal/scripted"
)

// scriptedModel returns a model that follows a script.
func scriptedModel(g *genkit.Genkit) ai.Model {
	var script scripted.Model
	about := &ai.ModelOptions{Supports: &ai.ModelSupports{Multiturn: true, Tools: true, SystemRole: true}}
	return genkit.DefineModel(g, "test/scripted", about, func(_ context.Context, req *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
		list := map[string]json.RawMessage{}
		for _, t := range req.Tools {
			list[t.Name], _ = json.Marshal(t.InputSchema) // it came as JSON
		}
		if err := scripted.Tools(list); err != nil {
			return nil, err
		}
		answer := ""
		if last := req.Messages[len(req.Messages)-1]; last.Role == ai.RoleTool {
			doc, err := json.Marshal(last.Content[0].ToolResponse.Output)
			if err != nil {
				return nil, err
			}
			answer = string(doc)
		}
		next, err := script.Next(answer)
		if err != nil {
			return nil, err
		}
		said := ai.NewTextPart(scripted.Done)
		if next != nil {
			var args map[string]any
			if err := json.Unmarshal([]byte(next.Arguments), &args); err != nil {
				return nil, err
			}
			said = ai.NewToolRequestPart(&ai.ToolRequest{Name: next.Name, Ref: next.ID, Input: args})
		}
		return &ai.ModelResponse{Request: req, Message: ai.NewModelMessage(said), FinishReason: ai.FinishReasonStop}, nil
	})
}
