// Package report draws what a store did as one page of HTML that needs nothing
// else: no network, no script, no other file.
//
// The package does not use a store. The caller fills an [Input] from what it read,
// folds the rows of the journal with an [Activity], and compares versions with
// a [Comparer]; [Write] makes the page. The same input gives the same bytes.
//
// Every text of an Input is taken for hostile. Secrets are taken out of it by
// the function that the caller gives, characters that do not print are named
// instead of shown, and everything goes through html/template; the page itself
// forbids what it does not hold (a content security policy without script).
package report

import (
	"time"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/analytics"
)

// Input is what a report is made of. All lists may be longer than what is
// shown; the page says what it leaves out.
type Input struct {
	Title    string    // heading; empty: a general one
	Made     time.Time // when; shown in the page, whose times are all in its zone
	Since    time.Time // rows before it were left out; zero: none were
	Overview *Overview // what a person asks first; nil: it is left out
	Facts    []Fact    // of the store
	// The figures of the whole period, also where the rows of the Activity are only the
	// newest part of it.
	Usage    analytics.Result
	Activity *Activity
	Refused  Refused
	Newest   []Row  // oldest first
	Files    []File // whose versions are shown
	Check    Check
	LeftOut  []string // what the caller left out, in sentences
}

// Fact is one thing that is known of the store.
type Fact struct{ Name, Value string }

// Refused is what is known of the calls that were refused, besides their counts.
type Refused struct {
	Recent []Row  // oldest first
	From   uint64 // rows from here on were looked at for Recent
}

// Row is one row of the journal.
type Row struct {
	ID         string
	Seq        uint64
	TS         string // RFC 3339
	Kind       string // commit, abort, conflict, refused …
	Op         string
	Path       string
	Caller     string
	Session    string
	Bytes      int64 // size of the file afterwards
	Gone       bool  // there was no file afterwards
	Reason     string
	AcceptRisk string
	Ref        uint64 // an abort or conflict: the commit
}

// File is one file whose versions are shown.
type File struct {
	Path     string
	Problem  string    // why there are no versions
	Versions []Version // newest first
	More     bool      // there are older ones
	Now      *Now      // nil: the file is what its newest version says
}

// Now is a file on disk that differs from its newest version.
type Now struct {
	Gone bool
	Diff Diff // from the newest version
}

// Version is one version of a file.
type Version struct {
	Seq    uint64
	TS     string
	Op     string
	Caller string
	Path   string // where the file was then
	SHA256 string // empty: it was gone
	Bytes  int64
	Kept   bool
	Diff   Diff // from the version before
}

// Check is what was found wrong.
type Check struct {
	Skipped  string // why there was none; empty: it was made
	Deep     bool
	Problems []admin.CheckProblem
	Counters []Fact
}

// How long the lists of the page are.
const (
	maxBars     = 96  // of a timeline
	maxHot      = 20  // files
	maxNames    = 15  // of callers, operations, reasons
	maxSessions = 20  // of each kind
	maxRecent   = 50  // rows, refusals
	maxAsked    = 10  // lines of an answer to a question at the top
	maxFiles    = 50  // with versions
	maxProblems = 100 // and as many facts
	maxVersions = 20  // of a file
	maxLeftOut  = 50  // sentences
)
