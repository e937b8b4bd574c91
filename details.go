package resilientwrite

import "sort"

// Detail is the exact failure, `context.reason` in the envelope. Details are
// stable: they are added, never renamed. A Detail is an error, so that
// errors.Is(err, FileAlreadyExists) works.
type Detail string

// Error returns the name of the detail, as it stands in the envelope.
func (d Detail) Error() string { return string(d) }

// The path details: what is wrong with a path. Nothing was written.
const (
	EmptyPath            Detail = "empty_path"
	InvalidPath          Detail = "invalid_path"
	PathTooLong          Detail = "path_too_long"
	AbsolutePathRejected Detail = "absolute_path_rejected"
	EscapesWorkspace     Detail = "escapes_workspace"
	ProtectedPath        Detail = "protected_path"
	ProtectedDefault     Detail = "protected_default"
	ReservedName         Detail = "reserved_name"
	IsADirectory         Detail = "is_a_directory"
	NotADirectory        Detail = "not_a_directory"
	NotARegularFile      Detail = "not_a_regular_file"
	SymlinkLoop          Detail = "symlink_loop"
)

// What is there is not what the request expects: a file, a version, a key, or
// somebody who holds it. Nothing was written unless Effect says otherwise.
const (
	FileAlreadyExists    Detail = "file_already_exists"
	NotFound             Detail = "not_found"
	FileNotFound         Detail = "file_not_found"
	VersionNotFound      Detail = "version_not_found"
	VersionNotKept       Detail = "version_not_kept"
	ChangedOutside       Detail = "changed_outside"
	NothingToUndo        Detail = "nothing_to_undo"
	HashMismatch         Detail = "hash_mismatch"
	ChangedDuringWrite   Detail = "changed_during_write"
	DestructiveShrink    Detail = "destructive_shrink"
	ReadOnlyFile         Detail = "read_only_file"
	HardLinkRefused      Detail = "hard_link_refused"
	IdempotencyKeyReused Detail = "idempotency_key_reused"
	LockTimeout          Detail = "lock_timeout"
	IOBusy               Detail = "io_busy"
)

// Why an edit fits nowhere, or not there alone. Nothing was written.
const (
	NoEdits             Detail = "no_edits"
	EmptyOldString      Detail = "empty_old_string"
	OldStringNotFound   Detail = "old_string_not_found"
	AmbiguousMatch      Detail = "ambiguous_match"
	InsufficientMatches Detail = "insufficient_matches"
	TooManyMatches      Detail = "too_many_matches"
	NoChange            Detail = "no_change"
	NotUTF8             Detail = "not_utf8"
)

// What is wrong with the arguments of a call. Nothing was written.
const (
	InvalidArgument     Detail = "invalid_argument"
	UnknownArgument     Detail = "unknown_argument"
	UnknownTool         Detail = "unknown_tool"
	MissingContent      Detail = "missing_content"
	ContentHashMismatch Detail = "content_hash_mismatch"
	NotValidUTF8        Detail = "not_valid_utf8"
	BadBase64           Detail = "bad_base64"
	BadSHA256           Detail = "not_a_lowercase_sha256_hex"
	TooLarge            Detail = "too_large"
	RateLimited         Detail = "rate_limited"
)

// Refusals of the gate, of hooks and of limits, and what is not there that a
// call names. Nothing was written.
const (
	RiskBlocked        Detail = "risk_blocked"
	SecretInName       Detail = "secret_in_name"
	RetryExhausted     Detail = "retry_exhausted"
	BadPolicy          Detail = "bad_policy"
	Denied             Detail = "denied"
	InputRequired      Detail = "input_required"
	TransformFailed    Detail = "transform_failed"
	VerifyFailed       Detail = "verify_failed"
	DraftNotFound      Detail = "draft_not_found"
	ScratchGetDisabled Detail = "scratch_get_disabled"
	MustProvideRef     Detail = "must_provide_sha256_or_label"
	ScratchFull        Detail = "scratch_full"
	CheckpointNotFound Detail = "checkpoint_not_found"
	SyntaxInvalid      Detail = "syntax_invalid"
	TxNotFound         Detail = "tx_not_found"
)

// What is wrong with a handoff. Nothing was written.
const (
	MissingFields           Detail = "missing_fields"
	BadEnvelope             Detail = "bad_envelope"
	DuplicateStep           Detail = "duplicate_step"
	UnknownStep             Detail = "unknown_step"
	DependencyCycle         Detail = "dependency_cycle"
	StateDrift              Detail = "state_drift"
	MissingDelimiter        Detail = "missing_front_matter_delimiter"
	UnterminatedFrontMatter Detail = "unterminated_front_matter"
	FrontMatterNotMapping   Detail = "front_matter_not_mapping"
	YAMLError               Detail = "yaml_error"
)

// What is wrong with a session of chunks. Its pieces stay as they are.
const (
	BadSession         Detail = "session_must_match_[A-Za-z0-9_-]{1,64}"
	BadIndex           Detail = "index_must_be_int_in_1..999999"
	IndexExceedsTotal  Detail = "index_exceeds_total_expected"
	IndexMismatch      Detail = "index_mismatch"
	SessionNotFound    Detail = "session_not_found"
	SessionSealed      Detail = "session_sealed"
	NoChunksFound      Detail = "no_chunks_found"
	NonContiguous      Detail = "non_contiguous_chunks"
	ChunkCountMismatch Detail = "chunk_count_mismatch"
)

// The storage details, from DiskFull to JournalDamaged: what the file system
// or the store's own files refuse. Behind them the states in which a store
// takes no call, or none that writes. Effect says where the disk stands.
const (
	DiskFull         Detail = "disk_full"
	TooManyFiles     Detail = "too_many_open_files"
	FileTooBig       Detail = "file_too_big"
	IOError          Detail = "io_error"
	PermissionError  Detail = "permission_denied"
	ReadOnlyVolume   Detail = "read_only_file_system"
	CrossDevice      Detail = "cross_device"
	ReadBackMismatch Detail = "read_back_mismatch"
	HashDriftOnRead  Detail = "hash_drift_on_read"
	JournalDamaged   Detail = "journal_damaged"
	StorePoisoned    Detail = "store_poisoned"
	StoreClosed      Detail = "store_closed"
	StoreReadOnly    Detail = "store_read_only"
	UnsafeRoot       Detail = "unsafe_root"
	BadStateDir      Detail = "bad_state_dir"
	NewerFormat      Detail = "newer_format"
	ExportDamaged    Detail = "export_damaged"
	StoreNotEmpty    Detail = "store_not_empty"
	Canceled         Detail = "canceled"
	DetailInternal   Detail = "internal_error"
)

// failure is one row of the table of details.
type failure struct {
	kind   Kind
	reason Reason
	action Action
	code   Code
	hint   string
}

// details says for every Detail what it means to the caller. docs/errors.md
// is made from it.
var details = map[Detail]failure{
	EmptyPath:            {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "give a path relative to the workspace"},
	InvalidPath:          {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "a path must be valid UTF-8 without NUL bytes; correct it"},
	PathTooLong:          {PolicyViolation, ReasonSizeLimit, ActionAbort, CodeInvalid, "use a path shorter than 4096 bytes, with names of at most 255 bytes"},
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
	FileNotFound:         {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "there is no file to edit; check the path, or create it with rw_safe_write"},
	VersionNotFound:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "the file has no such version; rw_history lists them"},
	VersionNotKept:       {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "the content of this version is no longer kept; rw_history says which versions are"},
	ChangedOutside:       {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the file was changed outside this store; read the current content before you replace it"},
	NothingToUndo:        {StalePrecondition, ReasonUnknown, ActionAbort, CodeNotFound, "there is no commit left to undo; use rw_history to find a version and rw_restore to restore it"},
	NoEdits:              {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "give at least one edit"},
	EmptyOldString:       {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "old is empty; give the text to replace, or append with rw_safe_write"},
	OldStringNotFound:    {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "old is not in the file; read the file and copy the text exactly"},
	AmbiguousMatch:       {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "old occurs more than once; include more context to make it unique, or pass count"},
	InsufficientMatches:  {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "old occurs fewer times than count; read the file and correct count"},
	TooManyMatches:       {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "old occurs more often than count; read the file and correct count"},
	NoChange:             {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "the edit would change nothing; nothing is left to do"},
	NotUTF8:              {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "the file is not UTF-8 text; replace the whole file, with encoding base64"},
	HashMismatch:         {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the file changed since you read it; read it again and apply your change to the current content"},
	ChangedDuringWrite:   {StalePrecondition, ReasonUnknown, ActionRetryLater, CodePrecondition, "another program changed the file during the write; read it again"},
	DestructiveShrink:    {PolicyViolation, ReasonUnknown, ActionAskUser, CodePolicy, "the write would remove most of the file; if that is intended, pass allow_shrink"},
	ReadOnlyFile:         {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the file is read-only; to replace it anyway, pass force"},
	HardLinkRefused:      {PolicyViolation, ReasonPermission, ActionAskUser, CodePolicy, "the file has several hard links and the store is configured to refuse such files; ask the user, or write to another path"},
	IdempotencyKeyReused: {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the key was used by a different request; use a new key for a new request"},
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
	DraftNotFound:      {StalePrecondition, ReasonUnknown, ActionAbort, CodeNotFound, "there is no such draft; drafts are kept for seven days, and rw_draft_list lists them"},
	TxNotFound:         {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "there is no such transaction: it was committed, rolled back, or dropped after 24 hours; begin a new one"},
	SyntaxInvalid:      {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "the syntax of the text is invalid; correct it and send it again, or omit validate"},
	ScratchGetDisabled: {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "reading drafts and the scratchpad is disabled for this store; ask the user"},
	MustProvideRef:     {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "give sha256 or label"},
	ScratchFull:        {QuotaExceeded, ReasonSizeLimit, ActionRetryLater, CodeStorage, "the scratchpad is full; remove objects with rw_scratch_delete (rw_scratch_list shows their sizes), then send the call again"},
	CheckpointNotFound: {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "there is no checkpoint of that name; rw_checkpoint_list lists them"},

	MissingFields:           {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "the envelope lacks required fields; context.missing_fields names them"},
	BadEnvelope:             {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the front matter is valid YAML but not a valid envelope; correct the field named in context"},
	DuplicateStep:           {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "two steps of dependency_graph have the same id; give each its own"},
	UnknownStep:             {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "a step depends on a step that is not in dependency_graph; add it, or remove the dependency"},
	DependencyCycle:         {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "dependency_graph has a cycle; remove one of the dependencies listed in context.cycle"},
	StateDrift:              {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "files differ from last_good_state; examine each of context.drift_warnings, then continue without strict"},
	MissingDelimiter:        {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the file is not a handoff: its first line must be ---; read it, then write a handoff with rw_handoff_write"},
	UnterminatedFrontMatter: {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the front matter is not terminated; add a line --- before the body"},
	FrontMatterNotMapping:   {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the front matter must be YAML of the form field: value; correct it"},
	YAMLError:               {PolicyViolation, ReasonEncoding, ActionAskUser, CodeInvalid, "the front matter is not valid YAML; correct it, or put the value in quotes"},

	BadSession:         {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "use a session name of 1 to 64 letters, digits, _ or -"},
	BadIndex:           {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "chunks are numbered from 1 to 999999; correct index"},
	IndexExceedsTotal:  {PolicyViolation, ReasonEncoding, ActionAbort, CodeInvalid, "index is larger than total_expected; correct it, or pass a larger total_expected"},
	IndexMismatch:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the next chunk does not have the expected number; call rw_chunk_status and send the missing chunks"},
	SessionNotFound:    {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "there is no such session; rw_chunk_list lists them, rw_chunk_append starts one"},
	SessionSealed:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the session was composed and accepts no more chunks; call rw_chunk_reset, or use another session"},
	NoChunksFound:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodeNotFound, "the session has no chunks; send them with rw_chunk_append"},
	NonContiguous:      {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "chunks are missing; send them with rw_chunk_write, then compose again"},
	ChunkCountMismatch: {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the number of chunks differs from total_expected; send the missing ones, or correct total_expected with rw_chunk_write"},

	DiskFull:         {QuotaExceeded, ReasonSizeLimit, ActionRetryLater, CodeStorage, "the disk or quota is full; free space, then send the call again"},
	TooManyFiles:     {QuotaExceeded, ReasonUnknown, ActionRetryLater, CodeStorage, "the process has too many files open; try again later"},
	FileTooBig:       {QuotaExceeded, ReasonSizeLimit, ActionSplit, CodeStorage, "the file would be larger than this system allows; split it into several files"},
	IOError:          {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "the storage reported an error; check the disk before you continue"},
	PermissionError:  {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the process lacks the permission; ask the user for it"},
	ReadOnlyVolume:   {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the file system is mounted read-only; ask the user to mount it for writing, or to choose another workspace"},
	CrossDevice:      {PolicyViolation, ReasonUnknown, ActionAbort, CodeInvalid, "the two paths are on different file systems, and a move does not copy; read the file, write it to the new path, then delete the old one"},
	ReadBackMismatch: {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "the bytes read back differ from those written; check the disk"},
	HashDriftOnRead:  {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "the stored content does not match its recorded hash; do not use it, call rw_check and ask the user"},
	JournalDamaged:   {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "the journal cannot be continued; call rw_check and ask the user"},
	StorePoisoned:    {WriteCorruption, ReasonUnknown, ActionAbort, CodeStorage, "a flush to disk failed, so the store accepts no more writes; ask the user to check the disk and to open the store again"},
	StoreClosed:      {PolicyViolation, ReasonUnknown, ActionAbort, CodeUsage, "the store was closed; open it again"},
	StoreReadOnly:    {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the store was opened read-only; ask the user to open it for writing"},
	UnsafeRoot:       {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "this directory is not a workspace; open a project directory, or allow it explicitly"},
	BadStateDir:      {PolicyViolation, ReasonPermission, ActionAskUser, CodePermission, "the state directory is not a plain directory owned by this user; ask the user to examine it"},
	NewerFormat:      {PolicyViolation, ReasonUnknown, ActionAbort, CodeStorage, "the state directory was written by a newer version; use that version"},
	ExportDamaged:    {WriteCorruption, ReasonUnknown, ActionAbort, CodeInvalid, "the export is damaged or truncated; export the journal again"},
	StoreNotEmpty:    {StalePrecondition, ReasonUnknown, ActionAskUser, CodePrecondition, "the store has rows of its own; import into a fresh workspace, or pass allow_non_empty"},
	Canceled:         {StalePrecondition, ReasonUnknown, ActionRetryLater, CodePrecondition, "the call was canceled before anything was written; send it again"},
	DetailInternal:   {WriteCorruption, ReasonUnknown, ActionAbort, CodeInternal, "internal error; report it together with the call"},
}

// Details lists every Detail, sorted.
func Details() []Detail {
	list := make([]Detail, 0, len(details))
	for d := range details {
		list = append(list, d)
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	return list
}

// Describe returns what a Detail means: its kind, reason, suggested action,
// code and the sentence that says what to do next.
func (d Detail) Describe() (Kind, Reason, Action, Code, string) {
	f := details[d]
	return f.kind, f.reason, f.action, f.code, f.hint
}
