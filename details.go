package resilientwrite

import "github.com/resilientwrite/resilientwrite/internal/fault"

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

// Details lists every Detail, sorted.
func Details() []Detail {
	codes := fault.Codes()
	list := make([]Detail, len(codes))
	for i, c := range codes {
		list[i] = Detail(c)
	}
	return list
}

// Describe returns what a Detail means: its kind, reason, suggested action,
// code and the sentence that says what to do next.
func (d Detail) Describe() (Kind, Reason, Action, Code, string) {
	c := fault.Code(d).Class()
	return Kind(c.Kind), Reason(c.Reason), Action(fault.Code(d).Action()), Code(c.Exit), c.Hint
}
