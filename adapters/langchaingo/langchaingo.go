// Package rwlangchain gives the tools of a store to models of langchaingo.
package rwlangchain

import (
	"context"
	"encoding/json"

	"github.com/tmc/langchaingo/llms"

	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Tools returns the tools of the box for llms.WithTools.
func Tools(box *toolbox.Toolbox) (list []llms.Tool) {
	for _, t := range box.Tools() {
		list = append(list, llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: t.Name, Description: t.Description, Parameters: t.InputMap(),
		}})
	}
	return list
}

// Answer carries out the tool calls of a choice, one after the other, and
// returns the model's message and those that answer it.
func Answer(ctx context.Context, box *toolbox.Toolbox, c *llms.ContentChoice) []llms.MessageContent {
	said, answers := llms.TextParts(llms.ChatMessageTypeAI, c.Content), []llms.MessageContent{}
	for _, call := range c.ToolCalls {
		f := call.FunctionCall
		a := box.Call(ctx, f.Name, json.RawMessage(f.Arguments), &toolbox.CallOpts{CallID: call.ID})
		said.Parts = append(said.Parts, call)
		answers = append(answers, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			llms.ToolCallResponse{ToolCallID: call.ID, Name: f.Name, Content: a.Text},
		}})
	}
	return append([]llms.MessageContent{said}, answers...)
}
