package changes

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/layer/lease"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// Scanner finds what other programs changed, and during which tool calls.
type Scanner struct {
	*observe.Layer
	Gate    *gate.Layer
	Leases  *lease.Layer
	Inspect bool // the gate looks for secrets in what is found
}

// Scan records what was changed since the last scan. If pend is not nil, it is
// called with the findings before the row is written; if attribute is not nil, it
// says to whom the row attributes the changes.
func (s *Scanner) Scan(ctx context.Context, r around.ScanRequest, pend func([]around.ObservedFinding) error, attribute func(*observe.Request)) (out around.ScanResult, _ *observe.Index, err error) {
	if err := s.Enter(); err != nil {
		return out, nil, err
	}
	defer s.Leave()
	if len(r.Calls) > observe.MaxCalls {
		return out, nil, fault.New(fault.InvalidArgument).With("argument", "calls").Hintf("give at most %d calls", observe.MaxCalls)
	}
	req := observe.Request{
		Session: r.Session, Host: gate.Label(s.Gate.SafeText(r.Host)), Command: s.CommandText(r.Command),
		Capture: observe.Capture(s.Gate.Policy().File.Capture), Recording: pend, Attribute: attribute,
	}
	for _, call := range r.Calls {
		req.Calls = append(req.Calls, gate.Label(s.Gate.SafeText(call)))
	}
	if r.Within > 0 {
		req.Until = time.Now().Add(r.Within)
	}
	if s.Inspect {
		bounded := s.Gate.Bounded(ctx)
		req.Inspect = func(path string, data []byte, before func() []byte) []scan.Finding {
			return s.Gate.Fresh(bounded, path, data, before)
		}
	}
	found, index, err := s.Layer.Scan(ctx, req)
	if ctx.Err() != nil {
		err = fault.New(fault.Canceled).Because(ctx.Err())
	}
	if err != nil {
		return out, nil, err
	}
	return found, index, nil
}

// Claimed returns those of the files of a scan that another session than these has
// claimed.
func (s *Scanner) Claimed(out around.ScanResult, sessions ...string) []lease.File {
	var paths []string
	for _, f := range out.Files {
		paths = append(paths, f.Path, f.From)
	}
	return s.Leases.Over(paths, sessions)
}

// ClaimedFiles returns the form of claimed files for readers.
func ClaimedFiles(list []lease.File) (out []around.ClaimedFile) {
	for _, f := range list {
		out = append(out, f.ClaimedFile)
	}
	return out
}

// Call scans when a tool call begins or ends, and records that it does.
func (s *Scanner) Call(ctx context.Context, c around.ToolCall, ends bool) (out around.ScanResult, err error) {
	known, err := s.Calls()
	if err != nil {
		return out, err
	}
	call := observe.OpenCall{CapturedCall: around.CapturedCall{ID: c.ID, Host: c.Host, Session: c.Session, Command: c.Command}}
	if c.Alike && c.ID != "" {
		id := ""
		if ends {
			id = known.Oldest(call)
		}
		call.ID = cmp.Or(id, gate.Label(c.ID+"-"+strconv.FormatInt(s.Now().UnixNano(), 36)))
	}
	if ends {
		known.End(call)
	}
	var sessions []string
	attribute := func(r *observe.Request) {
		now, err := s.Calls()
		if err != nil {
			now = known
		}
		var of observe.OpenCall
		r.Calls, of, sessions = now.During(call, ends)
		r.Host, r.Session, r.Command = of.Host, of.Session, of.Command
	}
	if out, _, err = s.Scan(ctx, around.ScanRequest{Within: c.Within}, s.Pend, attribute); err != nil { // pending before the row, after which no scan finds them again
		return out, err
	}
	claimed := s.Claimed(out, sessions...)
	out.Claimed = ClaimedFiles(claimed)
	return out, s.EditCalls(func(w *observe.Watched) {
		for _, f := range claimed {
			w.Add(observe.Notice{ObservedFinding: around.ObservedFinding{Path: f.Path, Fingerprint: fmt.Sprint("claim ", f.Fence, " ", f.Path)}, Session: f.Session, Until: f.Until})
		}
		call.Since = s.Now().UTC()
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
		w.Scanned(observe.HostSeen{Host: c.Host, Event: c.Event, At: call.Since}, known.Open, out.Partial)
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

// Clean makes what a host reports suitable for the journal: bounded, and
// without secrets.
func (s *Scanner) Clean(c around.ToolCall) around.ToolCall {
	for _, text := range []*string{&c.ID, &c.Host, &c.Session, &c.Event} {
		*text = gate.Label(s.Gate.SafeText(*text))
	}
	if gate.OfAdapter(c.Session) {
		c.Session = "host-" + c.Session
	}
	c.Command = s.CommandText(c.Command)
	return c
}

// CommandText returns a command line for the journal: its beginning, redacted.
func (s *Scanner) CommandText(command string) string {
	return s.Gate.SafeText(strings.ToValidUTF8(command[:min(len(command), observe.MaxCommand)], "\uFFFD"))
}
