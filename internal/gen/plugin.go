package main

import (
	"encoding/json"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/clients"
	"github.com/resilientwrite/resilientwrite/internal/hostevent"
)

// pluginDir is the plugin for Claude Code. Its files that are not generated here are
// written by hand.
const pluginDir = "packaging/claude-plugin/"

const pluginSkill = pluginDir + "skills/resilient-write/SKILL.md"

// pluginFiles are the manifest, the entry of the server as init writes it, the
// hooks as hook --print shows them, and the skill with the instructions; and the
// plugin for OpenCode.
func pluginFiles() map[string][]byte {
	hooks, err := hostevent.Config("claude", clients.Program)
	must(nil, err)
	client, _ := clients.Find("claude-code")
	server, err := clients.Block(client, false)
	must(nil, err)
	skill, err := clients.SetLines(string(written(pluginSkill)), clients.Instructions)
	must(nil, err)
	open, err := hostevent.Config("opencode", clients.Program)
	must(nil, err)
	home := "https://github.com/resilientwrite/resilientwrite"
	return map[string][]byte{
		pluginDir + ".claude-plugin/plugin.json": indented(must(json.Marshal(map[string]any{
			"name": clients.Server, "version": rw.Version, "homepage": home, "repository": home, "license": "MIT",
			"description": "Every change of the workspace is known, versioned and undoable: the rw_ tools write files, hooks record what shell commands change.",
			"author":      map[string]any{"name": "The resilientwrite authors", "url": home},
		}))),
		pluginDir + ".mcp.json":                    []byte(server),
		pluginDir + "hooks/hooks.json":             []byte(hooks[0].Text),
		pluginSkill:                                []byte(skill),
		"packaging/opencode/" + hostevent.OpenCode: []byte(open[0].Text),
	}
}
