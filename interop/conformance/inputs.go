package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// The fixtures of protocol 2026-07-28, in which a call that needs something of
// the client ends and is made again with the answers.

// addInputs adds the tools and the prompt that need input.
func addInputs(s *server.MCPServer) {
	about := mcp.WithDescription("A fixture of the conformance suite.")
	for name, run := range map[string]fixture{
		"test_input_required_result_elicitation":     once("user_name", "What is your name?", "name", "string"),
		"test_input_required_result_sampling":        sampleOnce,
		"test_input_required_result_list_roots":      rootsOnce,
		"test_input_required_result_request_state":   confirms,
		"test_input_required_result_tampered_state":  confirms,
		"test_input_required_result_multiple_inputs": several,
		"test_input_required_result_multi_round":     rounds,
		"test_input_required_result_capabilities":    able,
		"test_missing_capability":                    needsSampling,
	} {
		s.AddTool(mcp.NewTool(name, about), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return run(ctx, s, req)
		})
	}
	s.AddPrompt(mcp.NewPrompt("test_input_required_result_prompt", mcp.WithPromptDescription("A fixture of the conformance suite.")),
		func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if a := server.ElicitationResponse(req.Params.InputResponses, "user_context"); a != nil {
				return mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(fmt.Sprint("Context: ", a.Content)))}), nil
			}
			return server.NewInputRequestBuilder("").Elicit("user_context", form("What context should the prompt use?", "context", "string")).PromptResult(), nil
		})
}

func form(message, field, kind string) mcp.ElicitationParams {
	return mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": kind}}, "required": []string{field},
	}}
}

func question(text string, tokens int) mcp.CreateMessageParams {
	return mcp.CreateMessageParams{MaxTokens: tokens, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(text)}}}
}

// once asks one question and reports the answer.
func once(id, message, field, kind string) fixture {
	return func(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if a := server.ElicitationResponse(req.Params.InputResponses, id); a != nil {
			fields, _ := a.Content.(map[string]any)
			return mcp.NewToolResultText(fmt.Sprintf("Hello, %v!", fields[field])), nil
		}
		return server.NewInputRequestBuilder("").Elicit(id, form(message, field, kind)).ToolResult(), nil
	}
}

func sampleOnce(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if a := server.SamplingResponse(req.Params.InputResponses, "capital_question"); a != nil {
		return mcp.NewToolResultText(fmt.Sprint(a.Content)), nil
	}
	return server.NewInputRequestBuilder("").Sample("capital_question", question("What is the capital of France?", 100)).ToolResult(), nil
}

func rootsOnce(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if a := server.RootsResponse(req.Params.InputResponses, "client_roots"); a != nil {
		return mcp.NewToolResultText(fmt.Sprint("Roots: ", a.Roots)), nil
	}
	return server.NewInputRequestBuilder("").Roots("client_roots").ToolResult(), nil
}

// key signs the states that clients hold.
var key = []byte(rand.Text())

func signed(state string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(state))
	return state + "." + hex.EncodeToString(mac.Sum(nil))
}

// holds reports which of the states a client sent back; it fails for one that
// is not ours.
func holds(sent string, states ...string) (string, error) {
	for _, state := range states {
		if hmac.Equal([]byte(sent), []byte(signed(state))) {
			return state, nil
		}
	}
	return "", errors.New("the request state is not one of ours")
}

func confirms(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) == 0 && req.Params.RequestState == "" {
		return server.NewInputRequestBuilder(signed("confirm")).Elicit("confirm", form("Please confirm", "ok", "boolean")).ToolResult(), nil
	}
	if _, err := holds(req.Params.RequestState, "confirm"); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText("state-ok"), nil
}

func several(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	missing := slices.ContainsFunc([]string{"user_name", "greeting", "client_roots"}, func(id string) bool {
		_, ok := req.Params.InputResponses[id]
		return !ok
	})
	if missing {
		return server.NewInputRequestBuilder(signed("several")).Elicit("user_name", form("What is your name?", "name", "string")).
			Sample("greeting", question("Generate a greeting", 50)).Roots("client_roots").ToolResult(), nil
	}
	if _, err := holds(req.Params.RequestState, "several"); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText("all answers came"), nil
}

func rounds(_ context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState == "" {
		return server.NewInputRequestBuilder(signed("1")).Elicit("step1", form("Step 1: What is your name?", "name", "string")).ToolResult(), nil
	}
	state, err := holds(req.Params.RequestState, "1", "2")
	switch {
	case err != nil:
		return nil, err
	case state == "1":
		return server.NewInputRequestBuilder(signed("2")).Elicit("step2", form("Step 2: What is your favorite color?", "color", "string")).ToolResult(), nil
	}
	return mcp.NewToolResultText("both steps are done"), nil
}

func capabilities(ctx context.Context) mcp.ClientCapabilities {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientCapabilities != nil {
		return *info.ClientCapabilities
	}
	return mcp.ClientCapabilities{}
}

// able asks only questions that the client supports.
func able(ctx context.Context, _ *server.MCPServer, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return mcp.NewToolResultText("answered"), nil
	}
	can, b := capabilities(ctx), server.NewInputRequestBuilder("")
	if can.Elicitation != nil {
		b.Elicit("user_name", form("What is your name?", "name", "string"))
	}
	if can.Sampling != nil {
		b.Sample("greeting", question("Generate a greeting", 50))
	}
	return b.ToolResult(), nil
}

// needsSampling refuses clients that cannot sample.
func needsSampling(ctx context.Context, _ *server.MCPServer, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if capabilities(ctx).Sampling == nil {
		return nil, mcp.MissingRequiredClientCapabilityError{Capability: "sampling"}
	}
	return mcp.NewToolResultText("the client can sample"), nil
}
