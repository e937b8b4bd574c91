// Package rwanthropic gives the tools of a store to a model of the Anthropic
// API.
package rwanthropic

import (
	"context"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Tools returns the tools of the box for MessageNewParams.Tools.
func Tools(box *toolbox.Toolbox) (list []anthropic.ToolUnionParam) {
	for _, t := range box.Tools() {
		schema := anthropic.ToolInputSchemaParam{ExtraFields: t.InputMap()}
		delete(schema.ExtraFields, "type") // the API adds it
		list = append(list, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: t.Name, Description: anthropic.String(t.Description), InputSchema: schema,
		}})
	}
	return list
}

// Answer carries out the tool calls of a message, one after the other, and
// returns the blocks of the user's message that answers them.
func Answer(ctx context.Context, box *toolbox.Toolbox, m *anthropic.Message) (list []anthropic.ContentBlockParamUnion) {
	for _, block := range m.Content {
		if c, ok := block.AsAny().(anthropic.ToolUseBlock); ok {
			a := box.Call(ctx, c.Name, c.Input, &toolbox.CallOpts{CallID: c.ID})
			list = append(list, anthropic.NewToolResultBlock(c.ID, a.Text, !a.OK))
		}
	}
	return list
}
