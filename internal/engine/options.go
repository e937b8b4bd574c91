package engine

import "time"

// SyncLevel is how much of a commit is on stable storage when do returns.
type SyncLevel string

const (
	SyncFull    SyncLevel = "full"    // bytes, name and journal row
	SyncJournal SyncLevel = "journal" // bytes and journal row; names follow
	SyncOff     SyncLevel = "off"     // nothing
)

// HardLinks says what happens when a file with several names is written.
type HardLinks string

const (
	hardLinksBreak   HardLinks = "break"
	hardLinksRefuse  HardLinks = "refuse"
	hardLinksInPlace HardLinks = "in_place"
)

// Options are the settings of an engine.
type Options struct {
	Sync            SyncLevel
	HardLinks       HardLinks
	LockTimeout     time.Duration
	MaxContentBytes int64
	ReadOnly        bool
	InPlaceOnBusy   bool
	VerifyReadBack  bool
}
