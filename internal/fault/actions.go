package fault

// The two actions that version 1 of the envelope does not have: most refusals
// are repaired by the caller, without a person.
const (
	ActionFixCall   Action = "fix_call"
	ActionReadAgain Action = "read_again"
)

// Action returns what the caller does next: one of eight values. Class.Action is the
// action of version 1 of the envelope, which has six.
func (c Code) Action() Action {
	if a, ok := repairs[c]; ok {
		return a
	}
	return c.Class().Action
}

// repairs lists the codes whose action is one of the two.
var repairs = map[Code]Action{
	HashMismatch: ActionReadAgain, ChangedOutside: ActionReadAgain, ChangedDuringWrite: ActionReadAgain, FileAlreadyExists: ActionReadAgain,
	OldStringNotFound: ActionReadAgain, AmbiguousMatch: ActionReadAgain, InsufficientMatches: ActionReadAgain,
	TooManyMatches: ActionReadAgain, StateDrift: ActionReadAgain, NoChange: ActionReadAgain,

	EmptyPath: ActionFixCall, InvalidPath: ActionFixCall, PathTooLong: ActionFixCall, AbsolutePathRejected: ActionFixCall, AmbiguousWorkspace: ActionFixCall,
	EscapesWorkspace: ActionFixCall, ReservedName: ActionFixCall, IsADirectory: ActionFixCall, NotADirectory: ActionFixCall,
	NotARegularFile: ActionFixCall, NotFound: ActionFixCall, FileNotFound: ActionFixCall, VersionNotFound: ActionFixCall,
	VersionNotKept: ActionFixCall, NothingToUndo: ActionFixCall, IdempotencyKeyReused: ActionFixCall, CrossDevice: ActionFixCall,
	DestructiveShrink: ActionFixCall, NoEdits: ActionFixCall, EmptyOldString: ActionFixCall, NotUTF8: ActionFixCall, NotEncodable: ActionFixCall,
	InvalidArgument: ActionFixCall, UnknownArgument: ActionFixCall, UnknownTool: ActionFixCall, BadSHA256: ActionFixCall,
	MustProvideRef: ActionFixCall, SyntaxInvalid: ActionFixCall, VerifyFailed: ActionFixCall, SecretInName: ActionFixCall,
	DraftNotFound: ActionFixCall, CheckpointNotFound: ActionFixCall, TxNotFound: ActionFixCall, MissingFields: ActionFixCall,
	BadEnvelope: ActionFixCall, DuplicateStep: ActionFixCall, UnknownStep: ActionFixCall, DependencyCycle: ActionFixCall,
	MissingDelimiter: ActionFixCall, UnterminatedFrontMatter: ActionFixCall, FrontMatterNotMapping: ActionFixCall, YAMLError: ActionFixCall,
	BadSession: ActionFixCall, BadIndex: ActionFixCall, IndexExceedsTotal: ActionFixCall, IndexMismatch: ActionFixCall,
	SessionNotFound: ActionFixCall, SessionSealed: ActionFixCall, NoChunksFound: ActionFixCall, NonContiguous: ActionFixCall,
	ChunkCountMismatch: ActionFixCall,
}
