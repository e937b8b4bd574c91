package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/resilientwrite/resilientwrite/internal/scripted"
)

// chatModel follows a script.
type chatModel struct{ script scripted.Model }

func (m *chatModel) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	list := map[string]json.RawMessage{}
	for _, t := range tools {
		input, err := t.ToJSONSchema()
		if err != nil {
			return nil, err
		}
		if list[t.Name], err = json.Marshal(input); err != nil {
			return nil, err
		}
	}
	return m, scripted.Tools(list)
}

func (m *chatModel) Generate(_ context.Context, messages []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	answer := ""
	if last := messages[len(messages)-1]; last.Role == schema.Tool && last.ToolCallID != "" {
		answer = last.Content
	}
	next, err := m.script.Next(answer)
	if err != nil || next == nil {
		return schema.AssistantMessage(scripted.Done, nil), err
	}
	return schema.AssistantMessage("", []schema.ToolCall{{ID: next.ID, Type: "function", Function: schema.FunctionCall{Name: next.Name, Arguments: next.Arguments}}}), nil
}

func (m *chatModel) Stream(context.Context, []*schema.Message, ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	return nil, errors.New("the script does not stream")
}
