package resilientwrite

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// ToolCall is a call of a tool of another program, such as a shell command,
// during which files may change.
type ToolCall struct {
	ID      string        // identifier of the call; empty in EndCall: every open call of the session
	Host    string        // name of the program that runs it
	Session string        // name of its session
	Event   string        // what the host says; shown as its newest event
	Command string        // command line; secrets in it are replaced
	Within  time.Duration // see [ScanRequest]

	// The host gives calls no identifier, and ID is the same for equal ones: the
	// store makes them distinct. EndCall ends the oldest that is open.
	Alike bool

	// Report, if not nil, is given the result of EndCall before its findings count as
	// returned: when the process ends meanwhile, a later EndCall returns them again.
	Report func(ScanResult)
}

// BeginCall records that a tool call has begun. First it records the changes
// until now, as [Store.Scan] does: during the calls that are open or, without
// any, outside all calls.
//
// A call that does not end within an hour is forgotten. The record is not part of
// the journal; a crash may lose it, and the changes of the call are then
// attributed to none. Errors: those of Scan.
func (s *Store) BeginCall(ctx context.Context, c ToolCall) (ScanResult, error) {
	return s.aroundCall(ctx, s.cleanCall(c), false)
}

// EndCall records that a tool call has ended, and records the changes since it
// began, as one group that [Store.Undo] undoes. Changes that were made while
// other calls were open belong to all of these. If there is not enough time for
// all changes, the rest is recorded by the next call of BeginCall or EndCall,
// under the same identifier.
//
// With an identifier it returns each finding that no earlier EndCall has
// returned, including those of changes that other calls recorded. The same
// applies to files that another session had claimed. Errors: those of Scan; the
// call then stays open.
func (s *Store) EndCall(ctx context.Context, c ToolCall) (ScanResult, error) {
	return s.aroundCall(ctx, s.cleanCall(c), true)
}

// SeenCall reports whether the same event of the same call (host, session, ID,
// Event) was passed to it before, less than a minute ago and with no other event
// of the call since: a host that is configured twice reports everything twice. A
// call without an identifier of its own has no repeated events. Errors: the
// storage details, [ErrStoreClosed].
func (s *Store) SeenCall(ctx context.Context, c ToolCall) (bool, error) {
	if c.ID == "" || c.Alike {
		return false, nil
	}
	if err := s.enter(ctx); err != nil {
		return false, s.verbError("scan", err)
	}
	defer s.engine.Leave()
	first, err := s.observed.First(strings.Join([]string{c.Host, c.Session, c.ID}, "\x00"), c.Event)
	if err != nil {
		return false, s.verbError("scan", err)
	}
	return !first, nil
}

// aroundCall scans when a call begins or ends, and records that it does.
func (s *Store) aroundCall(ctx context.Context, c ToolCall, ends bool) (out ScanResult, err error) {
	if err = s.engine.Enter(); err == nil {
		defer s.engine.Leave() // Report may end the goroutine
		out, err = s.scanCalls(ctx, c, ends)
	}
	if err != nil {
		err = s.verbError("scan", err)
	}
	return out, err
}

func (s *Store) scanCalls(ctx context.Context, c ToolCall, ends bool) (out ScanResult, err error) {
	known, err := s.observed.Calls()
	if err != nil {
		return out, err
	}
	call := observe.OpenCall{ID: c.ID, Host: c.Host, Session: c.Session, Command: c.Command}
	if c.Alike && c.ID != "" {
		id := ""
		if ends {
			id = known.Oldest(call)
		}
		call.ID = cmp.Or(id, asLabel(c.ID+"-"+strconv.FormatInt(s.engine.Now().UnixNano(), 36)))
	}
	calls, during, sessions := known.During(call, ends)
	r := ScanRequest{Within: c.Within, Calls: calls, Host: during.Host, Session: during.Session, Command: during.Command}
	if out, _, err = s.scan(ctx, r, s.observed.Pend); err != nil { // pending before the row, after which no scan finds them again
		return out, err
	}
	claimed := s.claimed(out, sessions...)
	out.Claimed = claimedFiles(claimed)
	return out, s.observed.EditCalls(func(w *observe.Watched) {
		for _, f := range claimed {
			w.Add(observe.Notice{Finding: observe.Finding{Path: f.Path, Fingerprint: fmt.Sprint("claim ", f.Fence, " ", f.Path)}, Session: f.Session, Until: f.Until})
		}
		call.Since = s.engine.Now().UTC()
		switch {
		case !ends:
			w.Begin(call)
		case call.ID == "":
			w.End(call)
		default:
			w.End(call)
			out.notices(w.Report(c.Session))
			if c.Report != nil {
				c.Report(out)
			}
		}
		w.Scanned(observe.HostSeen{Host: c.Host, Event: c.Event, At: call.Since}, out.Partial)
	})
}

// notices replaces the findings and the claimed files by those that are reported now.
func (r *ScanResult) notices(list []observe.Notice) {
	r.Findings, r.Claimed = []ObservedFinding{}, nil
	for _, n := range list {
		if n.Session != "" {
			r.Claimed = append(r.Claimed, ClaimedFile{n.Path, n.Session, n.Until})
		} else {
			r.Findings = append(r.Findings, ObservedFinding(n.Finding))
		}
	}
}

// cleanCall makes what a host reports suitable for the journal: bounded, and
// without secrets.
func (s *Store) cleanCall(c ToolCall) ToolCall {
	for _, text := range []*string{&c.ID, &c.Host, &c.Session, &c.Event} {
		*text = asLabel(s.safeText(*text))
	}
	if ofAdapter(c.Session) {
		c.Session = "host-" + c.Session
	}
	c.Command = s.commandText(c.Command)
	return c
}

// commandText returns a command line for the journal: its beginning, redacted.
func (s *Store) commandText(command string) string {
	return s.safeText(strings.ToValidUTF8(command[:min(len(command), observe.MaxCommand)], "\uFFFD"))
}

// CaptureStatus says which programs report their tool calls.
type CaptureStatus struct {
	Open  []CapturedCall `json:"open"`  // Tool calls that have begun and not ended.
	Hosts []CaptureHost  `json:"hosts"` // The newest event of each host.
	// True when less than 5 % of the disk are free: then no bytes of what other
	// programs change are kept, only hashes.
	DiskLow bool `json:"disk_low,omitempty"`
}

// CapturedCall is a tool call that has begun and not ended.
type CapturedCall struct {
	ID      string    `json:"id"`                // Identifier of the call.
	Host    string    `json:"host,omitempty"`    // Program that runs it.
	Session string    `json:"session,omitempty"` // Its session.
	Command string    `json:"command,omitempty"` // Command line.
	Since   time.Time `json:"since"`             // When it began.
}

// CaptureHost is the newest event of a host.
type CaptureHost struct {
	Host  string    `json:"host"`  // Program that reports its calls.
	Event string    `json:"event"` // What it reported last.
	At    time.Time `json:"at"`    // When.
	// Seconds between the last scan for an event that saw everything and this
	// event: changes of that time may not be recorded yet. 0 when nothing is missing.
	LagSeconds float64 `json:"lag_seconds"`
}

// Capture returns which programs report their tool calls. Errors: the storage
// details, [ErrStoreClosed].
func (s *Store) Capture(ctx context.Context) (CaptureStatus, error) {
	out := CaptureStatus{Open: []CapturedCall{}, Hosts: []CaptureHost{}}
	if err := s.enterReader(ctx); err != nil {
		return out, s.verbError("capture", err)
	}
	defer s.engine.Leave()
	w, err := s.observed.Calls()
	if err != nil {
		return out, s.verbError("capture", err)
	}
	out.DiskLow = s.observed.DiskLow()
	for _, o := range w.Open {
		if !o.Ended {
			out.Open = append(out.Open, CapturedCall{ID: o.ID, Host: o.Host, Session: o.Session, Command: o.Command, Since: o.Since})
		}
	}
	for _, h := range w.Hosts {
		out.Hosts = append(out.Hosts, CaptureHost{h.Host, h.Event, h.At, max(0, h.At.Sub(w.Complete).Seconds())})
	}
	return out, nil
}
