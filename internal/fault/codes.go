package fault

// Code is the exact failure. Codes are stable: they are added, never renamed.
// A Code is an error, so that errors.Is finds it in a [Fault].
type Code string

// Error returns the code itself.
func (c Code) Error() string { return string(c) }

// Problems with a path.
const (
	EmptyPath            Code = "empty_path"
	InvalidPath          Code = "invalid_path"
	PathTooLong          Code = "path_too_long"
	AbsolutePathRejected Code = "absolute_path_rejected"
	AmbiguousWorkspace   Code = "ambiguous_workspace"
	EscapesWorkspace     Code = "escapes_workspace"
	ProtectedPath        Code = "protected_path"
	ProtectedDefault     Code = "protected_default"
	ReservedName         Code = "reserved_name"
	IsADirectory         Code = "is_a_directory"
	NotADirectory        Code = "not_a_directory"
	NotARegularFile      Code = "not_a_regular_file"
	SymlinkLoop          Code = "symlink_loop"
)

// The workspace is not in the state that the request expects.
const (
	FileAlreadyExists    Code = "file_already_exists"
	NotFound             Code = "not_found"
	FileNotFound         Code = "file_not_found"
	VersionNotFound      Code = "version_not_found"
	VersionNotKept       Code = "version_not_kept"
	ChangedOutside       Code = "changed_outside"
	NothingToUndo        Code = "nothing_to_undo"
	HashMismatch         Code = "hash_mismatch"
	ChangedDuringWrite   Code = "changed_during_write"
	DestructiveShrink    Code = "destructive_shrink"
	ReadOnlyFile         Code = "read_only_file"
	HardLinkRefused      Code = "hard_link_refused"
	IdempotencyKeyReused Code = "idempotency_key_reused"
	PathClaimed          Code = "path_claimed"
	ClaimLost            Code = "claim_lost"
	LockTimeout          Code = "lock_timeout"
	IOBusy               Code = "io_busy"
)

// Why an edit does not apply, or is ambiguous.
const (
	NoEdits             Code = "no_edits"
	EmptyOldString      Code = "empty_old_string"
	OldStringNotFound   Code = "old_string_not_found"
	AmbiguousMatch      Code = "ambiguous_match"
	InsufficientMatches Code = "insufficient_matches"
	TooManyMatches      Code = "too_many_matches"
	NoChange            Code = "no_change"
	NotUTF8             Code = "not_utf8"
	NotEncodable        Code = "not_encodable"
)

// Problems with the arguments of a call.
const (
	InvalidArgument     Code = "invalid_argument"
	UnknownArgument     Code = "unknown_argument"
	UnknownTool         Code = "unknown_tool"
	MissingContent      Code = "missing_content"
	ContentHashMismatch Code = "content_hash_mismatch"
	NotValidUTF8        Code = "not_valid_utf8"
	BadBase64           Code = "bad_base64"
	BadSHA256           Code = "not_a_lowercase_sha256_hex"
	TooLarge            Code = "too_large"
	RateLimited         Code = "rate_limited"
)

// Refusals of the gate, of hooks and of limits, and objects that do not exist.
const (
	RiskBlocked        Code = "risk_blocked"
	SecretInName       Code = "secret_in_name"
	RetryExhausted     Code = "retry_exhausted"
	BadPolicy          Code = "bad_policy"
	Denied             Code = "denied"
	InputRequired      Code = "input_required"
	TransformFailed    Code = "transform_failed"
	VerifyFailed       Code = "verify_failed"
	DraftNotFound      Code = "draft_not_found"
	ScratchGetDisabled Code = "scratch_get_disabled"
	MustProvideRef     Code = "must_provide_sha256_or_label"
	ScratchFull        Code = "scratch_full"
	CheckpointNotFound Code = "checkpoint_not_found"
	SyntaxInvalid      Code = "syntax_invalid"
	TxNotFound         Code = "tx_not_found"
)

// Problems with a handoff.
const (
	MissingFields           Code = "missing_fields"
	BadEnvelope             Code = "bad_envelope"
	DuplicateStep           Code = "duplicate_step"
	UnknownStep             Code = "unknown_step"
	DependencyCycle         Code = "dependency_cycle"
	StateDrift              Code = "state_drift"
	MissingDelimiter        Code = "missing_front_matter_delimiter"
	UnterminatedFrontMatter Code = "unterminated_front_matter"
	FrontMatterNotMapping   Code = "front_matter_not_mapping"
	YAMLError               Code = "yaml_error"
)

// Problems with a session of chunks.
const (
	BadSession         Code = "session_must_match_[A-Za-z0-9_-]{1,64}"
	BadIndex           Code = "index_must_be_int_in_1..999999"
	IndexExceedsTotal  Code = "index_exceeds_total_expected"
	IndexMismatch      Code = "index_mismatch"
	SessionNotFound    Code = "session_not_found"
	SessionSealed      Code = "session_sealed"
	NoChunksFound      Code = "no_chunks_found"
	NonContiguous      Code = "non_contiguous_chunks"
	ChunkCountMismatch Code = "chunk_count_mismatch"
)

// Failures of the file system and of the store's own files, and the states in
// which a store accepts no calls, or none that write.
const (
	DiskFull         Code = "disk_full"
	TooManyFiles     Code = "too_many_open_files"
	FileTooBig       Code = "file_too_big"
	IOError          Code = "io_error"
	PermissionError  Code = "permission_denied"
	ReadOnlyVolume   Code = "read_only_file_system"
	CrossDevice      Code = "cross_device"
	ReadBackMismatch Code = "read_back_mismatch"
	HashDriftOnRead  Code = "hash_drift_on_read"
	JournalDamaged   Code = "journal_damaged"
	StorePoisoned    Code = "store_poisoned"
	StoreClosed      Code = "store_closed"
	StoreReadOnly    Code = "store_read_only"
	UnsafeRoot       Code = "unsafe_root"
	BadStateDir      Code = "bad_state_dir"
	StateNotWritable Code = "state_not_writable"
	NewerFormat      Code = "newer_format"
	ExportDamaged    Code = "export_damaged"
	StoreNotEmpty    Code = "store_not_empty"
	Canceled         Code = "canceled"
	NoIsolation      Code = "no_isolation"
	Internal         Code = "internal_error"
)
