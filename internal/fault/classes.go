package fault

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is the class of a failure, the `error` field of the envelope.
type Kind string

const (
	Blocked           Kind = "blocked"
	StalePrecondition Kind = "stale_precondition"
	WriteCorruption   Kind = "write_corruption"
	QuotaExceeded     Kind = "quota_exceeded"
	PolicyViolation   Kind = "policy_violation"
)

// Reason says what about the request made it fail, the `reason_hint` field of
// the envelope.
type Reason string

const (
	ReasonContentFilter Reason = "content_filter"
	ReasonSizeLimit     Reason = "size_limit"
	ReasonEncoding      Reason = "encoding"
	ReasonPermission    Reason = "permission"
	ReasonNetwork       Reason = "network"
	ReasonUnknown       Reason = "unknown"
)

// Action is what the caller should do next, the `suggested_action` field of
// the envelope.
type Action string

const (
	ActionRedact     Action = "redact"
	ActionSplit      Action = "split"
	ActionEscape     Action = "escape"
	ActionAskUser    Action = "ask_user"
	ActionRetryLater Action = "retry_later"
	ActionAbort      Action = "abort"
)

// Exit is the numeric class of an outcome, and the exit code of the command.
type Exit int

const (
	CodeOK           Exit = 0
	CodeInternal     Exit = 1
	CodeUsage        Exit = 2
	CodePermission   Exit = 3
	CodeNotFound     Exit = 4
	CodeInvalid      Exit = 5
	CodePrecondition Exit = 6
	CodeStorage      Exit = 7
	CodePolicy       Exit = 8
)

// Class is what a Code means to the caller.
type Class struct {
	Kind   Kind
	Reason Reason
	Action Action // of version 1 of the envelope; see [Code.Action]
	Exit   Exit
	Hint   string // what to do next, unless the fault says it better
}

// Class returns the class of c, or the class of [Internal] if the code is unknown.
func (c Code) Class() Class {
	if class, ok := classes[c]; ok {
		return class
	}
	return classes[Internal]
}

// Codes lists every Code, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(classes)) }

// classes gives every Code its class. docs/errors.md is made from it.
var classes = map[Code]Class{
	EmptyPath:            {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "give a path relative to the workspace"},
	InvalidPath:          {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "a path must be valid UTF-8 without NUL bytes; correct it"},
	PathTooLong:          {PolicyViolation, ReasonSizeLimit, ActionAbort, CodeInvalid, "use a path shorter than 4096 bytes, with names of at most 255 bytes"},
	AmbiguousWorkspace:   {PolicyViolation, ReasonUnknown, ActionAbort, CodeUsage, "the server serves several workspaces; pass workspace, or an absolute path"},
	AbsolutePathRejected: {PolicyViolation, ReasonPermission, ActionAbort, CodeInvalid, "give a path relative to the workspace"},
	EscapesWorkspace:     {PolicyViolation, ReasonPermission, ActionAbort, CodeInvalid, "use a path inside the workspace; nothing outside it can be written"},
	ProtectedDefault:     {PolicyViolation, ReasonPermission, ActionAskUser, CodePolicy, "a file of this name executes code, launches programs or grants access; the user can make the change, or allow it in the policy"},
	ProtectedPath:        {PolicyViolation, ReasonPermission, ActionAbort, CodePolicy, "choose another path; this one is protected"},
	ReservedName:         {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "choose a name that Windows does not reserve"},
	IsADirectory:         {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "the path names a directory; give the path of a file"},
	NotADirectory:        {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "a parent of the path is a file; choose another path"},
	NotARegularFile:      {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "the path names a FIFO, socket or device, and only regular files are read and written; choose another path"},
	SymlinkLoop:          {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "the path has too many symbolic links, or a loop of them; give the path of the target itself, or ask the user to correct the links"},

	FileAlreadyExists:    {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "read the file; to replace it use mode overwrite with expected_prev_sha256"},
	NotFound:             {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "the file does not exist; check the path, or create it"},
	FileNotFound:         {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "there is no file at this path; check it, or create the file with Store.SafeWrite"},
	VersionNotFound:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "the file has no such version; Store.History lists them"},
	VersionNotKept:       {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "the content of this version is not kept; Store.History says which versions are"},
	ChangedOutside:       {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the file was changed outside this store; read the current content before you replace it"},
	NothingToUndo:        {StalePrecondition, ReasonUnknown, ActionAbort, CodeNotFound, "there is no commit left to undo; use Store.History to find a version and Store.Restore to restore it"},
	NoEdits:              {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "give at least one edit"},
	EmptyOldString:       {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "old is empty; give the text to replace, or append with Store.SafeWrite"},
	OldStringNotFound:    {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "old is not in the file; read the file and copy the text exactly"},
	AmbiguousMatch:       {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "old occurs more than once; include more context to make it unique, or pass count"},
	InsufficientMatches:  {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "old occurs fewer times than count; read the file and correct count"},
	TooManyMatches:       {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "old occurs more often than count; read the file and correct count"},
	NoChange:             {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "the edit would change nothing; nothing is left to do"},
	NotUTF8:              {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "the file is not UTF-8 text, and its encoding is not known; name it with encoding, or replace the whole file with Store.SafeWrite, encoding base64"},
	NotEncodable:         {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "the encoding of the file cannot hold the new text beside what the file has there; use other characters, or replace whole lines"},
	HashMismatch:         {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the file changed since you read it; read it again and apply your change to the current content"},
	ChangedDuringWrite:   {StalePrecondition, ReasonUnknown, ActionRetryLater, CodePrecondition, "another program changed the file during the write; read it again"},
	DestructiveShrink:    {PolicyViolation, ReasonUnknown, ActionAskUser, CodePolicy, "the write would remove most of the file; if that is intended, pass allow_shrink"},
	ReadOnlyFile:         {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the file is read-only; to replace it anyway, pass force"},
	HardLinkRefused:      {PolicyViolation, ReasonPermission, ActionAskUser, CodePolicy, "the file has several hard links and the store is configured to refuse such files; ask the user, or write to another path"},
	IdempotencyKeyReused: {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the key was used by a different request; use a new key for a new request"},
	PathClaimed:          {StalePrecondition, ReasonUnknown, ActionRetryLater, CodePrecondition, "another session has claimed the path; work on something else, and try again when the claim is over"},
	ClaimLost:            {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the claim is over; claim the paths again, and read the files again before you change them"},
	LockTimeout:          {StalePrecondition, ReasonUnknown, ActionRetryLater, CodePrecondition, "another writer holds the path; try again later"},
	IOBusy:               {StalePrecondition, ReasonUnknown, ActionRetryLater, CodePrecondition, "the file is in use and cannot be replaced now; try again later"},

	InvalidArgument:     {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "correct the argument and call again"},
	UnknownArgument:     {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "remove the argument, or correct its name"},
	UnknownTool:         {PolicyViolation, ReasonUnknown, ActionAbort, CodeUsage, "use one of the listed tools"},
	MissingContent:      {QuotaExceeded, ReasonSizeLimit, ActionSplit, CodeInvalid, "no content arrived, as happens when a call is truncated; send the text in smaller parts: create the file with the first part, then add the others with mode append"},
	ContentHashMismatch: {WriteCorruption, ReasonNetwork, ActionRetryLater, CodeInvalid, "the received content does not match content_sha256; send it again, in smaller parts if it is long"},
	NotValidUTF8:        {PolicyViolation, ReasonEncoding, ActionEscape, CodeInvalid, "the content is not valid UTF-8; send bytes with encoding base64"},
	BadBase64:           {PolicyViolation, ReasonEncoding, ActionEscape, CodeInvalid, "the content is not standard base64; correct it, or send text without encoding"},
	BadSHA256:           {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "a sha256 is 64 hexadecimal digits; copy it from the reply that contained it"},
	TooLarge:            {QuotaExceeded, ReasonSizeLimit, ActionSplit, CodeInvalid, "the content exceeds the limit; send it in smaller parts"},
	RateLimited:         {QuotaExceeded, ReasonUnknown, ActionRetryLater, CodeUsage, "too many calls in a short time; wait a second, then send the call again"},

	RiskBlocked:        {Blocked, ReasonContentFilter, ActionRedact, CodePolicy, "the draft contains what looks like a secret; redact it and send the result"},
	SecretInName:       {Blocked, ReasonContentFilter, ActionRedact, CodePolicy, "a path, label or key contains what looks like a credential; names are stored and shown in clear text: choose another one"},
	RetryExhausted:     {QuotaExceeded, ReasonUnknown, ActionAskUser, CodePolicy, "the same call failed too often and was not tried again; change it or ask the user"},
	Denied:             {PolicyViolation, ReasonPermission, ActionAskUser, CodePolicy, "the host does not allow this; ask the user"},
	InputRequired:      {PolicyViolation, ReasonPermission, ActionAskUser, CodePolicy, "the user must answer context.questions first; then send the same call again"},
	TransformFailed:    {PolicyViolation, ReasonUnknown, ActionAskUser, CodePolicy, "a hook of the host could not process the content; ask the user"},
	VerifyFailed:       {PolicyViolation, ReasonUnknown, ActionAbort, CodePolicy, "a check of the host failed; context.output says why; correct the content and send it again"},
	BadPolicy:          {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the policy file is invalid; correct it and open the store again"},
	DraftNotFound:      {StalePrecondition, ReasonUnknown, ActionAbort, CodeNotFound, "there is no such draft; drafts are kept for seven days, and Store.DraftList lists them"},
	TxNotFound:         {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "there is no such transaction: it was committed, rolled back, or dropped after 24 hours; begin a new one"},
	SyntaxInvalid:      {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "the syntax of the text is invalid; correct it and send it again, or omit validate"},
	ScratchGetDisabled: {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "reading drafts and the scratchpad is disabled for this store; ask the user"},
	MustProvideRef:     {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "give sha256 or label"},
	ScratchFull:        {QuotaExceeded, ReasonSizeLimit, ActionRetryLater, CodeStorage, "the scratchpad is full; remove objects with Store.ScratchDelete (Store.ScratchList shows their sizes), then send the call again"},
	CheckpointNotFound: {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "there is no checkpoint of that name; Store.CheckpointList lists them"},

	MissingFields:           {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "the envelope lacks required fields; context.missing_fields names them"},
	BadEnvelope:             {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the front matter is valid YAML but not a valid envelope; correct the field named in context"},
	DuplicateStep:           {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "two steps of dependency_graph have the same id; give each its own"},
	UnknownStep:             {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "a step depends on a step that is not in dependency_graph; add it, or remove the dependency"},
	DependencyCycle:         {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "dependency_graph has a cycle; remove one of the dependencies listed in context.cycle"},
	StateDrift:              {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "files differ from last_good_state; examine each of context.drift_warnings, then continue without strict"},
	MissingDelimiter:        {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the file is not a handoff: its first line must be ---; read it, then write a handoff with Store.HandoffWrite"},
	UnterminatedFrontMatter: {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the front matter is not terminated; add a line --- before the body"},
	FrontMatterNotMapping:   {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the front matter must be YAML of the form field: value; correct it"},
	YAMLError:               {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the front matter is not valid YAML; correct it, or put the value in quotes"},

	BadSession:         {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "use a session name of 1 to 64 letters, digits, _ or -"},
	BadIndex:           {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "chunks are numbered from 1 to 999999; correct index"},
	IndexExceedsTotal:  {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "index is larger than total_expected; correct it, or pass a larger total_expected"},
	IndexMismatch:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the next chunk does not have the expected number; call Store.ChunkStatus and send the missing chunks"},
	SessionNotFound:    {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "there is no such session; Store.ChunkList lists them, Store.ChunkAppend starts one"},
	SessionSealed:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the session was composed and accepts no more chunks; call Store.ChunkReset, or use another session"},
	NoChunksFound:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "the session has no chunks; send them with Store.ChunkAppend"},
	NonContiguous:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "chunks are missing; send them with Store.ChunkWrite, then compose again"},
	ChunkCountMismatch: {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the number of chunks differs from total_expected; send the missing ones, or correct total_expected with Store.ChunkWrite"},

	DiskFull:         {QuotaExceeded, ReasonSizeLimit, ActionRetryLater, CodeStorage, "the disk or quota is full; free space, then send the call again"},
	TooManyFiles:     {QuotaExceeded, ReasonUnknown, ActionRetryLater, CodeStorage, "the process or the system has too many files open, or too little memory; try again later"},
	FileTooBig:       {QuotaExceeded, ReasonSizeLimit, ActionSplit, CodeStorage, "the file would be larger than this system allows; split it into several files"},
	IOError:          {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "the storage reported an error; check the disk before you continue"},
	PermissionError:  {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the process lacks the permission; ask the user for it"},
	ReadOnlyVolume:   {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the file system is mounted read-only; ask the user to mount it for writing, or to choose another workspace"},
	CrossDevice:      {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "the two paths are on different file systems, and a move does not copy; read the file, write it to the new path, then delete the old one"},
	ReadBackMismatch: {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "the bytes read back differ from those written; check the disk"},
	HashDriftOnRead:  {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "the stored content does not match its recorded hash; do not use it, call Store.Check and ask the user"},
	JournalDamaged:   {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "the journal cannot be continued; call Store.Check and ask the user"},
	StorePoisoned:    {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "a flush to disk failed, so the store accepts no more writes; ask the user to check the disk and to open the store again"},
	StoreClosed:      {PolicyViolation, ReasonUnknown, ActionAbort, CodeUsage, "the store was closed; open it again"},
	StoreReadOnly:    {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the store was opened read-only; ask the user to open it for writing"},
	UnsafeRoot:       {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "a system or home directory is not a workspace; open a project directory, or allow it explicitly (--allow-unsafe-root)"},
	BadStateDir:      {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the state directory is not a plain directory owned by this user; ask the user to examine it"},
	StateNotWritable: {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "no state directory of the workspace can be written; ask the user to make one writable, to name another (--state-dir), or to open the store read-only (--read-only); a command that exec runs cannot change the store"},
	NewerFormat:      {PolicyViolation, ReasonUnknown, ActionAbort, CodeStorage, "the state directory was written by a newer version; use that version"},
	ExportDamaged:    {WriteCorruption, ReasonUnknown, ActionAbort, CodeInvalid, "the export is damaged or truncated; export the journal again"},
	StoreNotEmpty:    {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the store has rows of its own; import into a fresh workspace, or pass allow_non_empty"},
	Canceled:         {StalePrecondition, ReasonUnknown, ActionRetryLater, CodePrecondition, "the call was canceled before anything was written; send it again"},
	NoIsolation:      {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "nothing here isolates a command from the workspace, so it was not started; ask the user to allow what context.tried says is missing"},
	Internal:         {WriteCorruption, ReasonUnknown, ActionAbort, CodeInternal, "internal error; report it together with the call"},
}

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

// BadChoice refuses an argument that is none of the choices.
func BadChoice(argument string, choices ...string) *Fault {
	return New(InvalidArgument).With("argument", argument).With("choices", choices).
		Hintf("%s must be one of %s", argument, strings.Join(choices, ", "))
}

// CheckChoice refuses an argument that is given and none of the choices.
func CheckChoice[T ~string](argument string, value T, choices ...T) *Fault {
	if value == "" || slices.Contains(choices, value) {
		return nil
	}
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = string(c)
	}
	return BadChoice(argument, names...)
}

// CheckText refuses an argument that is not UTF-8, or has too many characters.
func CheckText(argument, value string, max int) *Fault {
	if !utf8.ValidString(value) {
		return New(NotValidUTF8).With("argument", argument).Hintf("%s is not valid UTF-8", argument)
	}
	if utf8.RuneCountInString(value) > max {
		return New(InvalidArgument).With("argument", argument).Hintf("%s has at most %d characters", argument, max)
	}
	return nil
}
