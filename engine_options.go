package resilientwrite

import "time"

// syncLevel is how much of a commit is on stable storage when do returns.
type syncLevel string

const (
	syncFull    syncLevel = "full"    // bytes, name and journal row
	syncJournal syncLevel = "journal" // bytes and journal row; names follow
	syncOff     syncLevel = "off"     // nothing
)

// hardLinks says what happens when a file with several names is written.
type hardLinks string

const (
	hardLinksBreak   hardLinks = "break"
	hardLinksRefuse  hardLinks = "refuse"
	hardLinksInPlace hardLinks = "in_place"
)

// engineOptions are the settings of an engine.
type engineOptions struct {
	Sync            syncLevel
	HardLinks       hardLinks
	LockTimeout     time.Duration
	MaxContentBytes int64
	ReadOnly        bool
	FlushVolume     bool
	InPlaceOnBusy   bool
	VerifyReadBack  bool
}

// The reasons of the warnings that the engine gives.
const (
	warnBOMDropped          = "bom_dropped"
	warnDurabilityUnproven  = "durability_unverified"
	warnEOLChanged          = "eol_changed"
	warnHardLinkBroken      = "hardlink_broken"
	warnHistorySkipped      = "history_skipped"
	warnMetadataNotKept     = "metadata_not_preserved"
	warnModesNotEnforced    = "modes_not_enforced"
	warnNULBytes            = "nul_bytes"
	warnNameNotPortable     = "name_not_portable"
	warnReserveNotAvailable = "reserve_not_available"
	warnRewrittenInPlace    = "rewritten_in_place"
	warnStateNarrowed       = "state_dir_narrowed"
	warnStrangerKept        = "stranger_bytes_kept"
	warnStrangerRace        = "stranger_race_possible"
)
