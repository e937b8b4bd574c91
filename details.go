package resilientwrite

import "github.com/resilientwrite/resilientwrite/internal/fault"

// Detail is the exact failure, `context.reason` in the envelope. Details are
// stable: they are added, never renamed. A Detail is an error, so that
// errors.Is(err, ErrFileAlreadyExists) works.
type Detail string

// Error returns the name of the detail, as it is in the envelope.
func (d Detail) Error() string { return string(d) }

// The path details: what is wrong with a path. Nothing was written.
const (
	ErrEmptyPath            Detail = "empty_path"
	ErrInvalidPath          Detail = "invalid_path"
	ErrPathTooLong          Detail = "path_too_long"
	ErrAbsolutePathRejected Detail = "absolute_path_rejected"
	ErrAmbiguousWorkspace   Detail = "ambiguous_workspace"
	ErrEscapesWorkspace     Detail = "escapes_workspace"
	ErrProtectedPath        Detail = "protected_path"
	ErrProtectedDefault     Detail = "protected_default"
	ErrReservedName         Detail = "reserved_name"
	ErrIsADirectory         Detail = "is_a_directory"
	ErrNotADirectory        Detail = "not_a_directory"
	ErrNotARegularFile      Detail = "not_a_regular_file"
	ErrSymlinkLoop          Detail = "symlink_loop"
)

// The current state is not what the request expects: a file, a version, a key, or
// another holder. Nothing was written unless Effect says otherwise.
const (
	ErrFileAlreadyExists    Detail = "file_already_exists"
	ErrNotFound             Detail = "not_found"
	ErrFileNotFound         Detail = "file_not_found"
	ErrVersionNotFound      Detail = "version_not_found"
	ErrVersionNotKept       Detail = "version_not_kept"
	ErrChangedOutside       Detail = "changed_outside"
	ErrNothingToUndo        Detail = "nothing_to_undo"
	ErrHashMismatch         Detail = "hash_mismatch"
	ErrChangedDuringWrite   Detail = "changed_during_write"
	ErrDestructiveShrink    Detail = "destructive_shrink"
	ErrReadOnlyFile         Detail = "read_only_file"
	ErrHardLinkRefused      Detail = "hard_link_refused"
	ErrIdempotencyKeyReused Detail = "idempotency_key_reused"
	ErrPathClaimed          Detail = "path_claimed"
	ErrClaimLost            Detail = "claim_lost"
	ErrLockTimeout          Detail = "lock_timeout"
	ErrIOBusy               Detail = "io_busy"
)

// The reasons why an edit does not apply, or not to exactly one place. Nothing
// was written.
const (
	ErrNoEdits             Detail = "no_edits"
	ErrEmptyOldString      Detail = "empty_old_string"
	ErrOldStringNotFound   Detail = "old_string_not_found"
	ErrAmbiguousMatch      Detail = "ambiguous_match"
	ErrInsufficientMatches Detail = "insufficient_matches"
	ErrTooManyMatches      Detail = "too_many_matches"
	ErrNoChange            Detail = "no_change"
	ErrNotUTF8             Detail = "not_utf8"
	ErrNotEncodable        Detail = "not_encodable"
)

// What is wrong with the arguments of a call. Nothing was written.
const (
	ErrInvalidArgument     Detail = "invalid_argument"
	ErrUnknownArgument     Detail = "unknown_argument"
	ErrUnknownTool         Detail = "unknown_tool"
	ErrMissingContent      Detail = "missing_content"
	ErrContentHashMismatch Detail = "content_hash_mismatch"
	ErrNotValidUTF8        Detail = "not_valid_utf8"
	ErrBadBase64           Detail = "bad_base64"
	ErrBadSHA256           Detail = "not_a_lowercase_sha256_hex"
	ErrTooLarge            Detail = "too_large"
	ErrRateLimited         Detail = "rate_limited"
)

// Refusals of the gate, of hooks and of limits, and names in a call that refer to
// nothing. Nothing was written.
const (
	ErrRiskBlocked        Detail = "risk_blocked"
	ErrSecretInName       Detail = "secret_in_name"
	ErrRetryExhausted     Detail = "retry_exhausted"
	ErrBadPolicy          Detail = "bad_policy"
	ErrDenied             Detail = "denied"
	ErrInputRequired      Detail = "input_required"
	ErrTransformFailed    Detail = "transform_failed"
	ErrVerifyFailed       Detail = "verify_failed"
	ErrDraftNotFound      Detail = "draft_not_found"
	ErrScratchGetDisabled Detail = "scratch_get_disabled"
	ErrMustProvideRef     Detail = "must_provide_sha256_or_label"
	ErrScratchFull        Detail = "scratch_full"
	ErrCheckpointNotFound Detail = "checkpoint_not_found"
	ErrSyntaxInvalid      Detail = "syntax_invalid"
	ErrTxNotFound         Detail = "tx_not_found"
)

// What is wrong with a handoff. Nothing was written.
const (
	ErrMissingFields           Detail = "missing_fields"
	ErrBadEnvelope             Detail = "bad_envelope"
	ErrDuplicateStep           Detail = "duplicate_step"
	ErrUnknownStep             Detail = "unknown_step"
	ErrDependencyCycle         Detail = "dependency_cycle"
	ErrStateDrift              Detail = "state_drift"
	ErrMissingDelimiter        Detail = "missing_front_matter_delimiter"
	ErrUnterminatedFrontMatter Detail = "unterminated_front_matter"
	ErrFrontMatterNotMapping   Detail = "front_matter_not_mapping"
	ErrYAML                    Detail = "yaml_error"
)

// What is wrong with a session of chunks. Its pieces stay as they are.
const (
	ErrBadSession         Detail = "session_must_match_[A-Za-z0-9_-]{1,64}"
	ErrBadIndex           Detail = "index_must_be_int_in_1..999999"
	ErrIndexExceedsTotal  Detail = "index_exceeds_total_expected"
	ErrIndexMismatch      Detail = "index_mismatch"
	ErrSessionNotFound    Detail = "session_not_found"
	ErrSessionSealed      Detail = "session_sealed"
	ErrNoChunksFound      Detail = "no_chunks_found"
	ErrNonContiguous      Detail = "non_contiguous_chunks"
	ErrChunkCountMismatch Detail = "chunk_count_mismatch"
)

// The storage details, from ErrDiskFull to ErrJournalDamaged: failures of the file
// system or of the store's own files. They are followed by the states in which a
// store accepts no call, or no call that writes. Effect reports what is on disk.
const (
	ErrDiskFull         Detail = "disk_full"
	ErrTooManyFiles     Detail = "too_many_open_files"
	ErrFileTooBig       Detail = "file_too_big"
	ErrIO               Detail = "io_error"
	ErrPermission       Detail = "permission_denied"
	ErrReadOnlyVolume   Detail = "read_only_file_system"
	ErrCrossDevice      Detail = "cross_device"
	ErrReadBackMismatch Detail = "read_back_mismatch"
	ErrHashDriftOnRead  Detail = "hash_drift_on_read"
	ErrJournalDamaged   Detail = "journal_damaged"
	ErrStorePoisoned    Detail = "store_poisoned"
	ErrStoreClosed      Detail = "store_closed"
	ErrStoreReadOnly    Detail = "store_read_only"
	ErrUnsafeRoot       Detail = "unsafe_root"
	ErrBadStateDir      Detail = "bad_state_dir"
	ErrStateNotWritable Detail = "state_not_writable"
	ErrNewerFormat      Detail = "newer_format"
	ErrExportDamaged    Detail = "export_damaged"
	ErrStoreNotEmpty    Detail = "store_not_empty"
	ErrCanceled         Detail = "canceled"
	ErrNoIsolation      Detail = "no_isolation"
	ErrInternal         Detail = "internal_error"
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

// Describe returns the meaning of a Detail: its kind, reason, suggested action,
// code and a sentence with the next step.
func (d Detail) Describe() (Kind, Reason, Action, Code, string) {
	c := fault.Code(d).Class()
	return Kind(c.Kind), Reason(c.Reason), Action(fault.Code(d).Action()), Code(c.Exit), c.Hint
}
