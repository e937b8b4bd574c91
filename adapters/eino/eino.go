// Package rweino gives the tools of a store to agents and graphs of eino.
package rweino

import (
	"context"
	"encoding/json"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/resilientwrite/resilientwrite/toolbox"
)

type invokable struct {
	box  *toolbox.Toolbox
	info toolbox.Tool
}

// Tools returns the tools of the box for compose.ToolsNodeConfig.
func Tools(box *toolbox.Toolbox) (list []tool.BaseTool) {
	for _, t := range box.Tools() {
		list = append(list, invokable{box, t})
	}
	return list
}

func (t invokable) Info(context.Context) (*schema.ToolInfo, error) {
	var input jsonschema.Schema
	err := json.Unmarshal(t.info.Input, &input)
	return &schema.ToolInfo{Name: t.info.Name, Desc: t.info.Description, ParamsOneOf: schema.NewParamsOneOfByJSONSchema(&input)}, err
}

func (t invokable) InvokableRun(ctx context.Context, args string, _ ...tool.Option) (string, error) {
	return t.box.Call(ctx, t.info.Name, json.RawMessage(args), &toolbox.CallOpts{CallID: compose.GetToolCallID(ctx)}).Text, nil
}
