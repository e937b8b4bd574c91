package mcpserver

import (
	"cmp"
	"log/slog"

	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Options are the settings of a server. nil means the defaults.
type Options struct {
	// Tier chooses which tools are listed and how much is said of each.
	// Default [Standard]. A tool that is not listed, but for exec and claim, can be
	// called anyway. It is a setting of the process: every connection sees one list.
	Tier Preset
	// Tools adds tools to the list, by name, with or without the prefix.
	Tools []string
	// Replies is the form of replies. Default: full for the preset [Full] and
	// for dotted names, which older clients use, otherwise brief.
	Replies Replies
	// DottedNames lists the tools as rw.safe_write instead of rw_safe_write.
	// Some clients reject dots; both forms always work on call.
	DottedNames bool
	// OmitOutputSchemas lists the tools without the schemas of their replies,
	// which are listed with full replies only.
	OmitOutputSchemas bool

	// Filter drops the tools for which it returns false: they are neither
	// listed nor can they be called. nil keeps all.
	Filter func(ToolInfo) bool
	// Rename gives a tool another name on the wire, and in the instructions,
	// descriptions, schemas, hints and next steps. It is called with the name
	// as it would be listed and returns the one to list; the original names
	// keep working on call. If two tools get one name, or a name does not have
	// the form [A-Za-z0-9_.-]{1,64}, they keep their original names.
	Rename func(name string) string
	// Wrap puts code of the host around a tool. The handler it gets never
	// returns an error and never panics: what goes wrong is an envelope, with
	// IsError set. A panic of the host's code is one as well.
	//
	// A call about which a hook asks the user is seen in two ways. A client of
	// protocol 2026-07-28 gets a result whose ResultType is input_required:
	// it has no structured content and is no error, nothing has happened yet,
	// and the client makes the same call again with the answers, which Wrap
	// sees as another call. Code that counts, bills or caches has to leave such
	// a result alone, and must return it as it is. For clients of earlier
	// versions the handler itself asks, so that Wrap sees one call, which lasts
	// as long as the user thinks.
	Wrap func(ToolInfo, server.ToolHandlerFunc) server.ToolHandlerFunc

	// Workspaces are roots besides that of the store. Resources, prompts and
	// notifications are about the store of the server only. Default: none.
	Workspaces *Workspaces

	// Logger gets structured records without content. Default: none.
	Logger *slog.Logger
	// CallsPerSecond is the rate at which calls are answered in the long run;
	// twice as many may come at once. 0 means 1000, negative no limit.
	CallsPerSecond int
}

// orDefaults sets missing options to their defaults.
func (o *Options) orDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Logger = cmp.Or(out.Logger, slog.New(slog.DiscardHandler))
	return out
}

// ToolInfo is [toolbox.Tool].
type ToolInfo = toolbox.Tool

// Tier is [toolbox.Tier].
type Tier = toolbox.Tier

// Preset is [toolbox.Preset].
type Preset = toolbox.Preset

// Replies is [toolbox.Replies].
type Replies = toolbox.Replies

// NextAction is [toolbox.NextAction].
type NextAction = toolbox.NextAction

// The presets and the forms of replies.
const (
	Core         = toolbox.Core
	Standard     = toolbox.Standard
	Full         = toolbox.Full
	BriefReplies = toolbox.BriefReplies
	FullReplies  = toolbox.FullReplies
)

// SchemaVersion is [toolbox.SchemaVersion].
const SchemaVersion = toolbox.SchemaVersion

// Instructions are [toolbox.Instructions].
const Instructions = toolbox.Instructions

// Table is [toolbox.Table].
func Table() []ToolInfo { return toolbox.Table() }

// Tool is [toolbox.Lookup].
func Tool(name string) (ToolInfo, bool) { return toolbox.Lookup(name) }

// Presets is [toolbox.Presets].
func Presets() []Preset { return toolbox.Presets() }

// ParsePreset is [toolbox.ParsePreset].
func ParsePreset(name string) (Preset, error) { return toolbox.ParsePreset(name) }

// ParseReplies is [toolbox.ParseReplies].
func ParseReplies(name string) (Replies, error) { return toolbox.ParseReplies(name) }
