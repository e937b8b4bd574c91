// Package rwopenai gives the tools of a store to a model of the OpenAI API.
package rwopenai

import (
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3"

	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Tools returns the tools of the box for ChatCompletionNewParams.Tools.
func Tools(box *toolbox.Toolbox) (list []openai.ChatCompletionToolUnionParam) {
	for _, t := range box.Tools() {
		list = append(list, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: t.Name, Description: openai.String(t.Description), Parameters: t.InputMap(),
		}))
	}
	return list
}

// Answer carries out the tool calls of a message, one after the other, and
// returns the messages that answer them.
func Answer(ctx context.Context, box *toolbox.Toolbox, m openai.ChatCompletionMessage) (list []openai.ChatCompletionMessageParamUnion) {
	for _, c := range m.ToolCalls {
		a := box.Call(ctx, c.Function.Name, json.RawMessage(c.Function.Arguments), &toolbox.CallOpts{CallID: c.ID})
		list = append(list, openai.ToolMessage(a.Text, c.ID))
	}
	return list
}
