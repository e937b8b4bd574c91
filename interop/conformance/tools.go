package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// png is one red pixel, wav a sound without samples.
const (
	png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
	wav = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
)

// fixture answers a call of a tool that the suite expects.
type fixture func(ctx context.Context, s *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error)

func addTools(s *server.MCPServer) {
	none := `{"type":"object","additionalProperties":false}`
	for _, t := range []struct {
		name, schema string
		run          fixture
	}{
		{"test_simple_text", none, content(mcp.NewTextContent("This is a simple text response for testing."))},
		{"test_image_content", none, content(mcp.NewImageContent(png, "image/png"))},
		{"test_audio_content", none, content(mcp.NewAudioContent(wav, "audio/wav"))},
		{"test_embedded_resource", none, content(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))},
		{"test_multiple_content_types", none, content(
			mcp.NewTextContent("Multiple content types test:"), mcp.NewImageContent(png, "image/png"),
			embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`))},
		{"test_tool_with_logging", none, logs},
		{"test_tool_with_progress", none, progresses},
		{"test_error_handling", none, func(context.Context, *server.MCPServer, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultError("This tool intentionally returns an error for testing"), nil
		}},
		{"test_sampling", `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"],"additionalProperties":false}`, samples},
		{"test_elicitation", `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"],"additionalProperties":false}`, elicits},
		{"test_elicitation_sep1034_defaults", none, asks(defaultsForm)},
		{"test_elicitation_sep1330_enums", none, asks(enumsForm)},
		{"test_reconnection", none, content(mcp.NewTextContent("Reconnection test completed successfully"))},
		{"json_schema_2020_12_tool", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
			"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
			"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
				"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
			"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
			"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
			"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`,
			content(mcp.NewTextContent("ok"))},
	} {
		s.AddTool(mcp.NewToolWithRawSchema(t.name, "A fixture of the conformance suite.", json.RawMessage(t.schema)),
			func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return t.run(ctx, s, req)
			})
	}
}

func content(list ...mcp.Content) fixture {
	return func(context.Context, *server.MCPServer, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: list}, nil
	}
}

func embedded(uri, mime, text string) mcp.Content {
	return mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: text})
}

const pause = 50 * time.Millisecond

func logs(ctx context.Context, s *server.MCPServer, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for i, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if i > 0 {
			time.Sleep(pause)
		}
		if err := s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "conformance", text)); err != nil {
			return nil, err
		}
	}
	time.Sleep(pause)
	return mcp.NewToolResultText("logged"), nil
}

func progresses(ctx context.Context, s *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, done := range []int{0, 50, 100} {
		if m := req.Params.Meta; m != nil && m.ProgressToken != nil {
			err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": m.ProgressToken, "progress": done, "total": 100})
			if err != nil {
				return nil, err
			}
		}
		time.Sleep(pause)
	}
	return mcp.NewToolResultText("done"), nil
}

// questionID names the one question of a call.
const questionID = "answer"

func samples(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if r := server.SamplingResponse(req.Params.InputResponses, questionID); r != nil {
		text, err := json.Marshal(r.Content)
		return mcp.NewToolResultText("LLM response: " + string(text)), err
	}
	var params mcp.CreateMessageParams
	params.Messages = []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(req.GetString("prompt", ""))}}
	params.MaxTokens = 100
	return server.NewInputRequestBuilder("sampling").Sample(questionID, params).ToolResult(), nil
}

func elicits(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return ask(req, req.GetString("message", ""), map[string]any{
		"type": "object",
		"properties": map[string]any{
			"username": map[string]any{"type": "string", "description": "User's response"},
			"email":    map[string]any{"type": "string", "description": "User's email address"},
		},
		"required": []string{"username", "email"},
	}, "User response: ")
}

func asks(form map[string]any) fixture {
	return func(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return ask(req, "Please fill in the form.", form, "Elicitation completed: ")
	}
}

// ask asks on the first pass and returns the answer on the second one.
func ask(req mcp.CallToolRequest, message string, form map[string]any, prefix string) (*mcp.CallToolResult, error) {
	if r := server.ElicitationResponse(req.Params.InputResponses, questionID); r != nil {
		text, err := json.Marshal(r.Content)
		return mcp.NewToolResultText(fmt.Sprintf("%saction=%s, content=%s", prefix, r.Action, text)), err
	}
	var params mcp.ElicitationParams
	params.Message, params.RequestedSchema = message, form
	return server.NewInputRequestBuilder("elicitation").Elicit(questionID, params).ToolResult(), nil
}

var defaultsForm = map[string]any{
	"type": "object",
	"properties": map[string]any{
		"name":     map[string]any{"type": "string", "default": "John Doe"},
		"age":      map[string]any{"type": "integer", "default": 30},
		"score":    map[string]any{"type": "number", "default": 95.5},
		"status":   map[string]any{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
		"verified": map[string]any{"type": "boolean", "default": true},
	},
}

var enumsForm = map[string]any{
	"type": "object",
	"properties": map[string]any{
		"untitledSingle": map[string]any{"type": "string", "enum": []string{"option1", "option2", "option3"}},
		"titledSingle":   map[string]any{"type": "string", "oneOf": titled("First Option", "Second Option", "Third Option")},
		"legacyEnum": map[string]any{
			"type": "string", "enum": []string{"opt1", "opt2", "opt3"}, "enumNames": []string{"Option One", "Option Two", "Option Three"},
		},
		"untitledMulti": map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": []string{"option1", "option2", "option3"}}},
		"titledMulti":   map[string]any{"type": "array", "items": map[string]any{"anyOf": titled("First Choice", "Second Choice", "Third Choice")}},
	},
}

func titled(titles ...string) []map[string]any {
	var list []map[string]any
	for i, title := range titles {
		list = append(list, map[string]any{"const": fmt.Sprintf("value%d", i+1), "title": title})
	}
	return list
}
