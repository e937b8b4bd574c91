package main

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func addResources(s *server.MCPServer) {
	text := func(uri, mime, body string) server.ResourceHandlerFunc {
		return func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: mime, Text: body}}, nil
		}
	}
	about := mcp.WithResourceDescription("A fixture of the conformance suite.")
	s.AddResource(mcp.NewResource("test://static-text", "static-text", about, mcp.WithMIMEType("text/plain")),
		text("test://static-text", "text/plain", "This is the content of the static text resource."))
	s.AddResource(mcp.NewResource("test://watched-resource", "watched-resource", about, mcp.WithMIMEType("text/plain")),
		text("test://watched-resource", "text/plain", "Watched."))
	s.AddResource(mcp.NewResource("test://static-binary", "static-binary", about, mcp.WithMIMEType("image/png")),
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.BlobResourceContents{URI: "test://static-binary", MIMEType: "image/png", Blob: png}}, nil
		})
	s.AddResourceTemplate(mcp.NewResourceTemplate("test://template/{id}/data", "template",
		mcp.WithTemplateDescription("A fixture of the conformance suite."), mcp.WithTemplateMIMEType("application/json")),
		func(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			id := ""
			if list, ok := req.Params.Arguments["id"].([]string); ok && len(list) > 0 {
				id = list[0]
			}
			return []mcp.ResourceContents{mcp.TextResourceContents{
				URI: req.Params.URI, MIMEType: "application/json",
				Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id),
			}}, nil
		})
}
