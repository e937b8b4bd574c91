package mcpserver

import rw "github.com/resilientwrite/resilientwrite"

// Two actions that version 1 of the envelope does not have: most refusals are
// repaired by the caller, without a person.
const (
	actionFixCall   rw.Action = "fix_call"   // correct the call and send it again
	actionReadAgain rw.Action = "read_again" // look at the file, then make the call anew
)

// briefActions are all actions of version 2.
func briefActions() []rw.Action { return append(rw.Actions(), actionFixCall, actionReadAgain) }

// actions are the details whose action in version 2 is another one.
var actions = map[rw.Detail]rw.Action{
	rw.HashMismatch: actionReadAgain, rw.ChangedOutside: actionReadAgain, rw.ChangedDuringWrite: actionReadAgain, rw.FileAlreadyExists: actionReadAgain,
	rw.OldStringNotFound: actionReadAgain, rw.AmbiguousMatch: actionReadAgain, rw.InsufficientMatches: actionReadAgain, rw.TooManyMatches: actionReadAgain,
	rw.StateDrift: actionReadAgain, rw.NoChange: actionReadAgain,

	rw.EmptyPath: actionFixCall, rw.InvalidPath: actionFixCall, rw.PathTooLong: actionFixCall, rw.AbsolutePathRejected: actionFixCall,
	rw.EscapesWorkspace: actionFixCall, rw.ReservedName: actionFixCall, rw.IsADirectory: actionFixCall, rw.NotADirectory: actionFixCall,
	rw.NotARegularFile: actionFixCall, rw.NotFound: actionFixCall, rw.FileNotFound: actionFixCall, rw.VersionNotFound: actionFixCall,
	rw.VersionNotKept: actionFixCall, rw.NothingToUndo: actionFixCall, rw.IdempotencyKeyReused: actionFixCall, rw.CrossDevice: actionFixCall,
	rw.DestructiveShrink: actionFixCall, rw.NoEdits: actionFixCall, rw.EmptyOldString: actionFixCall, rw.NotUTF8: actionFixCall,
	rw.InvalidArgument: actionFixCall, rw.UnknownArgument: actionFixCall, rw.UnknownTool: actionFixCall, rw.BadSHA256: actionFixCall,
	rw.MustProvideRef: actionFixCall, rw.SyntaxInvalid: actionFixCall, rw.VerifyFailed: actionFixCall,
	rw.SecretInName: actionFixCall, rw.DraftNotFound: actionFixCall, rw.CheckpointNotFound: actionFixCall, rw.TxNotFound: actionFixCall,
	rw.MissingFields: actionFixCall, rw.BadEnvelope: actionFixCall, rw.DuplicateStep: actionFixCall, rw.UnknownStep: actionFixCall,
	rw.DependencyCycle: actionFixCall, rw.MissingDelimiter: actionFixCall, rw.UnterminatedFrontMatter: actionFixCall,
	rw.FrontMatterNotMapping: actionFixCall, rw.YAMLError: actionFixCall,
	rw.BadSession: actionFixCall, rw.BadIndex: actionFixCall, rw.IndexExceedsTotal: actionFixCall, rw.IndexMismatch: actionFixCall,
	rw.SessionNotFound: actionFixCall, rw.SessionSealed: actionFixCall, rw.NoChunksFound: actionFixCall, rw.NonContiguous: actionFixCall,
	rw.ChunkCountMismatch: actionFixCall,
}

// corrected are the arguments that change where the corrected call is known.
func corrected(e *rw.Error) map[string]any {
	name, _ := e.Context["argument"].(string)
	switch meant, ok := e.Context["did_you_mean"]; {
	case e.Detail == rw.InvalidArgument && ok && name != "":
		return map[string]any{name: meant}
	case e.Detail == rw.DestructiveShrink:
		return map[string]any{"allow_shrink": true}
	}
	return nil
}

// ActionOf is what the caller of a refused call does next: the suggested_action
// of brief replies, and context.action of full ones.
func ActionOf(e *rw.Error) rw.Action {
	if a, ok := actions[e.Detail]; ok {
		return a
	}
	return e.Action
}
