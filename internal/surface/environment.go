package surface

// Variable is an environment variable that the command reads.
type Variable struct {
	Name    string `json:"name"`
	Flag    string `json:"flag,omitempty" differs:"flag"` // the flag that wins over it
	Default string `json:"default" differs:"breaks"`
	Meaning string `json:"meaning" differs:"words"`
}

// Environment lists the variables that the command reads, by name. The
// library reads none. A test compares the list with the source of the command.
func Environment() []Variable {
	return []Variable{
		{"RW_ALLOW_UNSAFE_ROOT", "allow-unsafe-root", "", "1 accepts a system or home directory as the workspace."},
		{"RW_POLICY_FILE", "policy-file", "policy.yaml in the state directory", "The policy file, absolute or relative to the workspace."},
		{"RW_REPLIES", "replies", "full with --tier full and --dotted-names, otherwise brief", "The form of replies: brief or full."},
		{"RW_SCRATCH_DISABLE_GET", "", "", "Anything but the empty text switches reading from the scratchpad and of refused drafts off."},
		{"RW_STATE_DIR", "state-dir", "the one that exists, else in the git directory of the repository, in the user's state, or .resilient_write in the workspace", "The state directory."},
		{"RW_SYNC", "sync", "full", "What a successful call has on stable storage: full, journal or off."},
		{"RW_TOKEN", "token", "", "The bearer token of HTTP clients. Without one, and without a file that holds one, a token is generated and printed once."},
		{"RW_WORKSPACE", "root", "the working directory", "The workspace."},
	}
}
