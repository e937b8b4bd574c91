// Package protect contains the protected defaults: the list of files in a project that
// are executed, launch programs or grant rights by their presence alone. The
// documentation, the server's description and the check of every commit use its table.
package protect

// Version is the version of the table; each row has the version that added it.
const Version = 1

// Answer is the consequence of a change to a file.
type Answer string

const (
	Ask  Answer = "ask"  // the user is asked; without a user the change is refused
	Warn Answer = "warn" // the receipt contains a warning
)

// Class is why files are protected. Its name is stable.
type Class string

const (
	AgentConfig  Class = "agent_config"
	Entry        Class = "entry"
	Shell        Class = "shell"
	Hook         Class = "hook"
	CI           Class = "ci"
	PackageHook  Class = "package_hook"
	Instructions Class = "instructions"
	HostFile     Class = "host_file"
	Executable   Class = "executable" // by its mode, not by its name
)

// Reasons describes the effect of the files of each class.
var Reasons = map[Class]string{
	AgentConfig:  "it launches programs for an agent or an editor, or grants them rights",
	Entry:        "it runs when the directory is entered or opened",
	Shell:        "a shell, an interpreter, an editor or a debugger runs it, or it grants access to an account",
	Hook:         "git, or an interpreter when it starts, runs what it holds or names",
	CI:           "a build server runs it",
	PackageHook:  "a package manager, a build or a test run executes it or what it names",
	Instructions: "agents follow it as instructions",
	HostFile:     "it belongs to an agent or an editor, which may act on it",
	Executable:   "it is executable",
}

// group is some rows of the table that have all but the pattern in common. A
// pattern holds at any depth, in any letter case. Its first name is literal, or
// a star and an ending; braces are alternatives, ** is everything below.
type group struct {
	class    Class
	answer   Answer
	since    int
	patterns []string
	scripts  bool // only when the member scripts of the JSON changed
}

var table = []group{
	{class: AgentConfig, answer: Ask, since: 1, patterns: []string{
		".mcp.json", "{mcp,mcp_config,mcp-config,mcp_settings,cline_mcp_settings,claude_desktop_config}.json", "opencode.{json,jsonc}", ".opencode.{json,jsonc}", ".opencode/{opencode.json,opencode.jsonc,plugin/**,plugins/**,tool/**,tools/**}",
		".claude.json", ".claude/{settings*.json,hooks/**,mcp.json,.mcp.json}", ".claude-plugin/**",
		".cursor/{mcp.json,hooks.json,hooks/**,cli.json,permissions.json,sandbox.json,environment.json,worktrees.json}",
		".codex/{config.toml,hooks*,hooks*/**,rules/**,*.rules}",
		".gemini/{settings.json,hooks/**,extensions/**,policies/**,sandbox.*}", ".qwen/settings.json", ".iflow/settings.json",
		".vscode/{settings,tasks,launch,mcp}.json", "*.code-workspace", "*.sublime-project", ".theia/{settings,tasks,launch}.json", ".fleet/{settings,run}.json", ".nova/{Configuration.json,Tasks/**}", ".helix/{config,languages}.toml", ".externalToolBuilders/**", ".vs/{mcp,launch.vs,tasks.vs}.json", ".idea/{runConfigurations/**,watcherTasks.xml}", ".run/*.run.xml",
		".junie/{mcp/**,config.json}", ".github/{mcp.json,hooks/**}", ".github/copilot/{mcp.json,settings*.json,mcp-config.json}", ".copilot/{config,mcp-config}.json",
		".windsurf/hooks.json", ".zed/{settings,tasks,debug}.json",
		".continue/{config.json,config.yaml,config.yml,config.ts,mcpServers/**}", ".continuerc.json",
		".cline/hooks/**", ".clinerules/hooks/**",
		".amazonq/{default.json,agents/**,cli-agents/**}", ".kiro/{settings/**,hooks/**,agents/**}",
		".factory/{settings,hooks}.json", ".augment/{settings.json,hooks/**}", ".crush.json", "crush.json", ".goose/config.yaml",
		".aider.conf.yml", ".rovodev/config.yml", ".amp/settings.{json,jsonc}", ".pi/{settings.json,extensions/**}", ".tabnine/mcp_servers.json", ".vibe/config.toml", "conductor.json", ".openhands/{setup.sh,pre-commit.sh,config.toml,hooks.json}", ".warp/.mcp.json",
	}},
	{class: Entry, answer: Ask, since: 1, patterns: []string{
		".envrc", ".devcontainer/**", ".devcontainer.json", "{.mise,mise,.mise.local,mise.local,.rtx}.toml", ".mise/**", "mise/config.toml", ".config/mise/**", ".config/mise.toml",
		".gitpod.yml", ".gitpod.Dockerfile", ".replit", ".idx/**", "devbox.json", ".autoenv{,.zsh,_leave.zsh}", ".direnvrc", ".config/direnv/**", ".shadowenv.d/**", ".flox/**",
		".codesandbox/**", ".stackblitzrc", ".gitpod/**",
	}},
	{class: Shell, answer: Ask, since: 1, patterns: []string{
		".{bashrc,bash_profile,bash_login,bash_logout,bash_aliases,profile,login,logout}", ".{zshrc,zshenv,zprofile,zlogin,zlogout,kshrc,cshrc,tcshrc,inputrc}",
		".config/fish/**", ".config/{nvim,autostart,systemd,git}/**", "{Microsoft.PowerShell_profile,profile}.ps1", ".{xprofile,xinitrc,xsession,xsessionrc,pam_environment}",
		"{.,_}{vimrc,gvimrc,exrc,netrc}", ".{nvimrc,nvim.lua,lvimrc,emacs,emacs.el,dir-locals.el,dir-locals-2.el,gdbinit,lldbinit,tmux.conf,screenrc}", ".{vim,emacs.d}/**", ".ycm_extra_conf.py",
		".{Rprofile,Renviron,ghci,ocamlinit,iex.exs,irbrc,pryrc,byebugrc,pdbrc,perldb,erlang,octaverc,psqlrc,sqliterc}", "jupyter_{notebook,server,lab}_config.{py,json}", ".{ipython,jupyter}/**",
		".config/{nushell,zsh,powershell,environment.d}/**", ".{bashrc,zshrc}.d/**", ".{mailcap,forward,procmailrc,curlrc,wgetrc,lessfilter,wezterm.lua}", "Library/LaunchAgents/**",
		".{ssh,gnupg}/**", ".{gitconfig,git-credentials,hgrc,rhosts,shosts,k5login}", ".aws/{config,credentials}", ".kube/config", ".docker/config.json", ".config/gh/**",
	}},
	{class: Hook, answer: Ask, since: 1, patterns: []string{
		".husky/**", ".huskyrc{,.json,.js,.cjs,.yaml,.yml}", "husky.config.{js,cjs}", "{.githooks,.git-hooks}/**", ".gitmodules", ".gitattributes", "{sitecustomize,usercustomize}.py", "*.pth", "pyvenv.cfg",
	}},
	{class: CI, answer: Warn, since: 1, patterns: []string{
		".github/{workflows,actions}/**", ".gitea/workflows/**", ".forgejo/workflows/**", "action.{yml,yaml}", ".gitlab-ci.yml", ".gitlab/ci/**", ".circleci/**", "Jenkinsfile",
		"azure-pipelines.{yml,yaml}", ".azure-pipelines/**", "bitbucket-pipelines.yml", ".travis.yml", "{.,}appveyor.yml", ".drone.{yml,jsonnet,star}", ".woodpecker.{yml,yaml}", ".woodpecker/**", ".buildkite/**", ".teamcity/**", ".cirrus.yml", ".semaphore/**",
		"cloudbuild.{yaml,yml,json}", "buildspec.{yml,yaml}", ".build.yml", ".builds/**", "wercker.yml", "codemagic.yaml", "bitrise.yml", ".tekton/**", ".harness/**", ".readthedocs.{yml,yaml}",
		"netlify.toml", "vercel.json", "amplify.yml", "render.yaml", "heroku.yml", "Procfile", ".goreleaser.{yml,yaml}",
	}},
	{class: PackageHook, answer: Warn, since: 1, patterns: []string{
		".npmrc", ".pypirc", ".yarnrc", ".yarnrc.yml", ".yarn/**", ".pnpmfile.{cjs,mjs}", ".pnp.{cjs,js,loader.mjs}", "bunfig.toml", "pip.{conf,ini}", "uv.toml", ".pre-commit-config.yaml", "{.,}lefthook{,-local}.{yml,yaml,toml,json}", "conftest.py", ".pre-commit-hooks.yaml", ".overcommit.yml", "captainhook.json", "{.,}simple-git-hooks.{js,cjs,json}", ".lintstagedrc{,.json,.yaml,.yml,.js,.cjs,.mjs}", "lint-staged.config.{js,cjs,mjs}", "{.,}pylintrc", ".gitlint", ".trunk/**",
		".cargo/{config,config.toml}", ".mvn/**", ".gradle/**", ".bundle/config", ".gemrc", ".condarc", "nuget.config", "rust-toolchain{,.toml}", "gradle-wrapper.properties", "{.sbtopts,.jvmopts,.bazelrc,.bazeliskrc,.terraformrc}", "Directory.Build.{props,targets,rsp}",
	}},
	{class: PackageHook, answer: Warn, since: 1, scripts: true, patterns: []string{"package.json"}},
	{class: Instructions, answer: Warn, since: 1, patterns: []string{
		"{AGENTS,AGENT,AGENTS.override,CLAUDE,CLAUDE.local,GEMINI,QWEN,CRUSH,WARP,SKILL}.md", "*.mdc", ".{cursorrules,windsurfrules,clinerules,roorules,roomodes,goosehints,rules}", ".clinerules/**",
		".github/copilot-instructions.md", ".github/{instructions,prompts,chatmodes,agents,skills}/**",
	}},
	{class: HostFile, answer: Warn, since: 1, patterns: []string{
		".{claude,cursor,codex,gemini,qwen,iflow,vscode,vs,idea,junie,copilot,windsurf,codeium,zed,continue}/**",
		".{roo,kilocode,cline,amazonq,kiro,trae,factory,augment,crush,goose,rovodev,openhands,opencode,agents,agent}/**", ".github/copilot/**",
		".{theia,fleet,nova,helix,amp,pi,tabnine,vibe,aiassistant}/**", ".{cursor,cursorindexing,codeium,gemini,ai,aider,roo,cline,kilocode}ignore",
	}},
}
