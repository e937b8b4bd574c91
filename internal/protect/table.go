// Package protect is the list of files that execute, launch or grant by lying
// in a project: the protected defaults. Documents, the server's description
// and the check of every commit are made from its table.
package protect

// Version is that of the table; a row says since which one it is there.
const Version = 1

// Answer is what becomes of a change of a file.
type Answer string

const (
	Ask  Answer = "ask"  // the user is asked, and it is refused where nobody can be
	Warn Answer = "warn" // the receipt says it
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

// Reasons says of each class what its files do.
var Reasons = map[Class]string{
	AgentConfig:  "it launches programs for an agent or an editor, or grants them rights",
	Entry:        "it runs when the directory is entered or opened",
	Shell:        "a shell, an editor or a debugger runs it, or it grants access to an account",
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
		".mcp.json", "mcp.json", "opencode.{json,jsonc}", ".opencode.{json,jsonc}", ".opencode/{opencode.json,opencode.jsonc,plugin/**,plugins/**,tool/**,tools/**}",
		".claude.json", ".claude/{settings*.json,hooks/**,mcp.json,.mcp.json}", ".claude-plugin/**",
		".cursor/{mcp.json,hooks.json,hooks/**,cli.json,permissions.json,sandbox.json,environment.json}",
		".codex/{config.toml,hooks*,hooks*/**,rules/**,*.rules}",
		".gemini/{settings.json,hooks/**,extensions/**,policies/**,sandbox.*}", ".qwen/settings.json", ".iflow/settings.json",
		".vscode/{settings,tasks,launch,mcp}.json", "*.code-workspace", ".vs/{mcp,launch.vs,tasks.vs}.json", ".idea/runConfigurations/**", ".run/*.run.xml",
		".junie/{mcp/**,config.json}", ".github/{mcp.json,hooks/**}", ".github/copilot/{mcp.json,settings*.json,mcp-config.json}", ".copilot/{config,mcp-config}.json",
		".windsurf/{mcp,mcp_config,hooks}.json", ".codeium/**/mcp_config.json", ".zed/{settings,tasks,debug}.json",
		".continue/{config.json,config.yaml,config.yml,config.ts,mcpServers/**}", ".continuerc.json",
		".roo/{mcp.json,mcp_settings.json}", ".kilocode/{mcp.json,mcp_settings.json}", ".cline/{mcp.json,mcp_settings.json,cline_mcp_settings.json,hooks/**}", ".clinerules/hooks/**",
		".amazonq/{mcp.json,default.json,agents/**,cli-agents/**}", ".kiro/{settings/**,hooks/**,agents/**}",
		".trae/mcp.json", ".factory/{mcp,settings,hooks}.json", ".augment/{settings.json,hooks/**}", ".crush.json", "crush.json", ".goose/config.yaml",
		".aider.conf.yml", ".rovodev/{config.yml,mcp.json}", ".openhands/{setup.sh,pre-commit.sh,config.toml,hooks.json}", ".warp/.mcp.json",
	}},
	{class: Entry, answer: Ask, since: 1, patterns: []string{
		".envrc", ".devcontainer/**", ".devcontainer.json", "{.mise,mise,.mise.local,mise.local,.rtx}.toml", ".mise/**", "mise/config.toml", ".config/mise/**", ".config/mise.toml",
		".gitpod.yml", ".gitpod.Dockerfile", ".replit", ".idx/**", "devbox.json", ".autoenv.zsh", ".autoenv",
	}},
	{class: Shell, answer: Ask, since: 1, patterns: []string{
		".{bashrc,bash_profile,bash_login,bash_logout,bash_aliases,profile,login,logout}", ".{zshrc,zshenv,zprofile,zlogin,zlogout,kshrc,cshrc,tcshrc,inputrc}",
		".config/fish/**", ".config/{nvim,autostart,systemd,git}/**", "{Microsoft.PowerShell_profile,profile}.ps1", ".{xprofile,xinitrc,xsession,xsessionrc,pam_environment}",
		"{.,_}{vimrc,gvimrc,exrc,netrc}", ".{nvimrc,nvim.lua,lvimrc,emacs,emacs.el,dir-locals.el,dir-locals-2.el,gdbinit,lldbinit,tmux.conf,screenrc}", ".{vim,emacs.d}/**", ".ycm_extra_conf.py",
		".ssh/**", ".gitconfig",
	}},
	{class: Hook, answer: Ask, since: 1, patterns: []string{
		".husky/**", ".githooks/**", ".gitmodules", ".gitattributes", "{sitecustomize,usercustomize}.py", "*.pth",
	}},
	{class: CI, answer: Warn, since: 1, patterns: []string{
		".github/{workflows,actions}/**", ".gitea/workflows/**", ".forgejo/workflows/**", "action.{yml,yaml}", ".gitlab-ci.yml", ".gitlab/ci/**", ".circleci/**", "Jenkinsfile",
		"azure-pipelines.yml", "bitbucket-pipelines.yml", ".travis.yml", "{.,}appveyor.yml", ".drone.yml", ".woodpecker.yml", ".woodpecker/**", ".buildkite/**", ".teamcity/**", ".cirrus.yml", ".semaphore/**",
		"cloudbuild.yaml", "buildspec.yml",
	}},
	{class: PackageHook, answer: Warn, since: 1, patterns: []string{
		".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/**", ".pnpmfile.cjs", "bunfig.toml", "pip.conf", ".pre-commit-config.yaml", "{.,}lefthook{,-local}.{yml,yaml,toml,json}", "conftest.py",
		".cargo/{config,config.toml}", ".mvn/**", ".gradle/**", ".bundle/config", ".gemrc", ".condarc", "nuget.config", "Directory.Build.{props,targets,rsp}",
	}},
	{class: PackageHook, answer: Warn, since: 1, scripts: true, patterns: []string{"package.json"}},
	{class: Instructions, answer: Warn, since: 1, patterns: []string{
		"{AGENTS,AGENT,AGENTS.override,CLAUDE,CLAUDE.local,GEMINI,QWEN,CRUSH,WARP}.md", "*.mdc", ".{cursorrules,windsurfrules,clinerules,roorules,roomodes,goosehints,rules}", ".clinerules/**",
		".github/copilot-instructions.md", ".github/{instructions,prompts,chatmodes,agents,skills}/**",
	}},
	{class: HostFile, answer: Warn, since: 1, patterns: []string{
		".{claude,cursor,codex,gemini,qwen,iflow,vscode,vs,idea,junie,copilot,windsurf,codeium,zed,continue}/**",
		".{roo,kilocode,cline,amazonq,kiro,trae,factory,augment,crush,goose,rovodev,openhands,opencode,agents,agent}/**", ".github/copilot/**",
	}},
}
