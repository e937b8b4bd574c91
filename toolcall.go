package resilientwrite

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// BeginCall records that a tool call has begun. First it records the changes
// until now, as [Store.Scan] does: during the calls that are open or, without
// any, outside all calls.
//
// A call that does not end within an hour is forgotten. The record is not part of
// the journal; a crash may lose it, and the changes of the call are then
// attributed to none. Errors: those of Scan.
func (s *Store) BeginCall(ctx context.Context, c around.ToolCall) (around.ScanResult, error) {
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
func (s *Store) EndCall(ctx context.Context, c around.ToolCall) (around.ScanResult, error) {
	return s.aroundCall(ctx, s.cleanCall(c), true)
}

// SeenCall reports whether the same event of the same call (host, session, ID,
// Event) was passed to it before, less than a minute ago and with no other event
// of the call since: a host that is configured twice reports everything twice. A
// call without an identifier of its own has no repeated events. Errors: the
// storage details, [ErrStoreClosed].
func (s *Store) SeenCall(ctx context.Context, c around.ToolCall) (bool, error) {
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
func (s *Store) aroundCall(ctx context.Context, c around.ToolCall, ends bool) (out around.ScanResult, err error) {
	if err = s.engine.Enter(); err == nil {
		defer s.engine.Leave() // Report may end the goroutine
		out, err = s.scanCalls(ctx, c, ends)
	}
	if err != nil {
		err = s.verbError("scan", err)
	}
	return out, err
}

func (s *Store) scanCalls(ctx context.Context, c around.ToolCall, ends bool) (out around.ScanResult, err error) {
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
	r := around.ScanRequest{Within: c.Within, Calls: calls, Host: during.Host, Session: during.Session, Command: during.Command}
	if out, _, err = s.scan(ctx, r, s.observed.Pend); err != nil { // pending before the row, after which no scan finds them again
		return out, err
	}
	claimed := s.claimed(out, sessions...)
	out.Claimed = claimedFiles(claimed)
	return out, s.observed.EditCalls(func(w *observe.Watched) {
		for _, f := range claimed {
			w.Add(observe.Notice{ObservedFinding: around.ObservedFinding{Path: f.Path, Fingerprint: fmt.Sprint("claim ", f.Fence, " ", f.Path)}, Session: f.Session, Until: f.Until})
		}
		call.Since = s.engine.Now().UTC()
		switch {
		case !ends:
			w.Begin(call)
		case call.ID == "":
			w.End(call)
		default:
			w.End(call)
			reportNotices(&out, w.Report(c.Session))
			if c.Report != nil {
				c.Report(out)
			}
		}
		w.Scanned(observe.HostSeen{Host: c.Host, Event: c.Event, At: call.Since}, out.Partial)
	})
}

// reportNotices replaces the findings and the claimed files by those that are reported now.
func reportNotices(r *around.ScanResult, list []observe.Notice) {
	r.Findings, r.Claimed = []around.ObservedFinding{}, nil
	for _, n := range list {
		if n.Session != "" {
			r.Claimed = append(r.Claimed, around.ClaimedFile{Path: n.Path, Session: n.Session, Until: n.Until})
		} else {
			r.Findings = append(r.Findings, n.ObservedFinding)
		}
	}
}

// cleanCall makes what a host reports suitable for the journal: bounded, and
// without secrets.
func (s *Store) cleanCall(c around.ToolCall) around.ToolCall {
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

// Capture returns which programs report their tool calls. Errors: the storage
// details, [ErrStoreClosed].
func (s *Store) Capture(ctx context.Context) (around.CaptureStatus, error) {
	return looking(ctx, s, "capture", func() (around.CaptureStatus, error) {
		w, err := s.observed.Calls()
		if err != nil {
			return (&observe.Watched{}).Status(), err
		}
		out := w.Status()
		out.DiskLow = s.observed.DiskLow()
		return out, nil
	})
}
