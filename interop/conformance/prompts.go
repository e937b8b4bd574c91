package main

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func addPrompts(s *server.MCPServer) {
	about := mcp.WithPromptDescription("A fixture of the conformance suite.")
	argument := func(name string) mcp.PromptOption {
		return mcp.WithArgument(name, mcp.ArgumentDescription("An argument."), mcp.RequiredArgument())
	}
	says := func(list ...mcp.Content) *mcp.GetPromptResult {
		res := &mcp.GetPromptResult{}
		for _, c := range list {
			res.Messages = append(res.Messages, mcp.NewPromptMessage(mcp.RoleUser, c))
		}
		return res
	}
	add := func(name string, answer func(args map[string]string) *mcp.GetPromptResult, opts ...mcp.PromptOption) {
		s.AddPrompt(mcp.NewPrompt(name, append(opts, about)...), func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return answer(req.Params.Arguments), nil
		})
	}
	add("test_simple_prompt", func(map[string]string) *mcp.GetPromptResult {
		return says(mcp.NewTextContent("This is a simple prompt for testing."))
	})
	add("test_prompt_with_arguments", func(args map[string]string) *mcp.GetPromptResult {
		return says(mcp.NewTextContent(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])))
	}, argument("arg1"), argument("arg2"))
	add("test_prompt_with_embedded_resource", func(args map[string]string) *mcp.GetPromptResult {
		return says(embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing."),
			mcp.NewTextContent("Please process the embedded resource above."))
	}, argument("resourceUri"))
	add("test_prompt_with_image", func(map[string]string) *mcp.GetPromptResult {
		return says(mcp.NewImageContent(png, "image/png"), mcp.NewTextContent("Please analyze the image above."))
	})
}
