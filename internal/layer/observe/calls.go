package observe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// OpenCall is a tool call of another program that has begun and not ended.
type OpenCall struct {
	around.CapturedCall
	Ended bool `json:"ended,omitempty"` // but no scan has seen everything since
}

// HostSeen is the newest event of a host.
type HostSeen struct {
	Host  string    `json:"host"`
	Event string    `json:"event"`
	At    time.Time `json:"at"`
}

// Watched is the information about the calls of other programs. It is advisory: if it
// is lost, some changes are not attributed, but no changes are lost.
type Watched struct {
	Open  []OpenCall `json:"open"`
	Hosts []HostSeen `json:"hosts"`
	// Complete is when a scan for an event last saw everything.
	Complete time.Time `json:"complete,omitzero"`
	// Findings that are not reported yet, and the fingerprints of those that are.
	Pending  []Notice `json:"pending,omitempty"`
	Reported []string `json:"reported,omitempty"`
}

// Notice is what is reported once: a finding, or a file that was changed although
// Session has claimed it.
type Notice struct {
	around.ObservedFinding
	Session string    `json:"session,omitempty"`
	Until   time.Time `json:"until,omitzero"`
}

// Status returns the calls and hosts in the form of their readers.
func (w *Watched) Status() around.CaptureStatus {
	out := around.CaptureStatus{Open: []around.CapturedCall{}, Hosts: []around.CaptureHost{}}
	for _, o := range w.Open {
		if !o.Ended {
			out.Open = append(out.Open, o.CapturedCall)
		}
	}
	for _, h := range w.Hosts {
		out.Hosts = append(out.Hosts, around.CaptureHost{Host: h.Host, Event: h.Event, At: h.At, LagSeconds: max(0, h.At.Sub(w.Complete).Seconds())})
	}
	return out
}

// Add adds notices, unless they are pending or reported.
func (w *Watched) Add(list ...Notice) {
	for _, f := range list {
		known := func(o Notice) bool { return o.Fingerprint == f.Fingerprint }
		if !slices.Contains(w.Reported, f.Fingerprint) && !slices.ContainsFunc(w.Pending, known) {
			w.Pending = append(w.Pending, f)
		}
	}
}

// Report returns the pending notices for a session, and marks them as reported.
// Those of files that the session itself has claimed wait for another session.
func (w *Watched) Report(session string) (list []Notice) {
	w.Pending = slices.DeleteFunc(w.Pending, func(f Notice) bool {
		if f.Session != "" && f.Session == session {
			return false
		}
		list = append(list, f)
		w.Reported = append(w.Reported, f.Fingerprint)
		return true
	})
	return list
}

// Begin adds a call that begins.
func (w *Watched) Begin(c OpenCall) {
	if c.ID != "" {
		w.Open = slices.DeleteFunc(w.Open, func(o OpenCall) bool { return o.ID == c.ID })
		w.Open = append(w.Open, c)
	}
}

// End marks a call as ended; without an identifier, every call of the session.
func (w *Watched) End(c OpenCall) {
	known := false
	for i := range w.Open {
		if o := &w.Open[i]; o.ID == c.ID || c.ID == "" && o.Host == c.Host && o.Session == c.Session {
			o.Ended, known = true, true
		}
	}
	if !known && c.ID != "" {
		c.Ended = true
		w.Open = append(w.Open, c)
	}
}

// Scanned records that a scan for an event of a host has ended. If it saw everything,
// it saw the changes of the calls that had ended when it began.
func (w *Watched) Scanned(h HostSeen, ended []OpenCall, partial bool) {
	if !partial || w.Complete.IsZero() { // before the first there is nothing to miss
		w.Complete = h.At
	}
	if !partial {
		w.Open = slices.DeleteFunc(w.Open, func(o OpenCall) bool {
			return o.Ended && slices.ContainsFunc(ended, func(c OpenCall) bool { return c.Ended && c.ID == o.ID })
		})
	}
	if h.Host != "" {
		w.Hosts = append(slices.DeleteFunc(w.Hosts, func(o HostSeen) bool { return o.Host == h.Host }), h)
	}
}

// During returns the calls that are open for a scan, what is known of the newest, and the
// sessions of all of them. If c ends with the scan, it is one of them.
func (w *Watched) During(c OpenCall, ends bool) (calls []string, of OpenCall, sessions []string) {
	for _, o := range w.Open {
		if len(calls) < MaxCalls-1 {
			calls, of, sessions = append(calls, o.ID), o, append(sessions, o.Session)
		}
	}
	if ends && c.ID != "" {
		if !slices.Contains(calls, c.ID) {
			calls = append(calls, c.ID)
		}
		of.Host, of.Session, sessions = c.Host, c.Session, append(sessions, c.Session)
		of.Command = cmp.Or(c.Command, of.Command)
	}
	return calls, of, sessions
}

// Oldest returns the identifier of the oldest open call that was begun like c under a
// distinct identifier, "" if there is none.
func (w *Watched) Oldest(c OpenCall) string {
	for _, o := range w.Open {
		if !o.Ended && o.Host == c.Host && o.Session == c.Session && strings.HasPrefix(o.ID, c.ID+"-") {
			return o.ID
		}
	}
	return ""
}

const (
	callsFile   = "calls.json"
	maxCalls    = 1 << 20 // bytes
	maxOpen     = 64
	maxHosts    = 32
	maxReported = 1000
	maxPending  = 100
	callAge     = time.Hour // after which a call that did not end is forgotten
)

// Calls returns the information about the calls of other programs. A damaged file counts
// as absent.
func (l *Layer) Calls() (w Watched, err error) {
	data, err := l.ReadPart(Dir, callsFile, maxCalls)
	if engine.IsUnread(err) {
		return w, err
	}
	if err == nil && json.Unmarshal(data, &w) != nil {
		w = Watched{}
	}
	now := l.Now()
	w.Open = slices.DeleteFunc(w.Open, func(c OpenCall) bool { return now.Sub(c.Since).Abs() > callAge }) // ahead: of a clock that was wrong
	return w, nil
}

// EditCalls changes the information about the calls of other programs. No other process
// changes it at the same time.
func (l *Layer) EditCalls(edit func(*Watched)) error {
	return l.Alone("calls", func() error {
		w, err := l.Calls()
		if err != nil {
			return err
		}
		edit(&w)
		w.Open, w.Hosts, w.Reported, w.Pending = newest(w.Open, maxOpen), newest(w.Hosts, maxHosts), newest(w.Reported, maxReported), newest(w.Pending, maxPending)
		data, err := json.Marshal(w)
		if err != nil {
			return err
		}
		return l.WritePart(Dir, callsFile, data)
	})
}

// Pend adds findings that are to be reported.
func (l *Layer) Pend(list []around.ObservedFinding) error {
	return l.EditCalls(func(w *Watched) {
		for _, f := range list {
			w.Add(Notice{ObservedFinding: f})
		}
	})
}

const (
	eventsDir = "events"    // below Dir: an empty file for the newest event of each call
	eventAge  = time.Minute // after which an equal event is another one
)

// First reports whether an event of a call is another one than the newest event
// that was given for the call, or came long after it. Of several processes that
// ask for one event at a time one gets true. The files are not flushed: after a
// crash an event may be first twice.
func (l *Layer) First(call, event string) (bool, error) {
	up, err := l.OpenPart(Dir)
	if err != nil {
		return false, err
	}
	defer up.Close()
	if err := up.Mkdir(eventsDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	dir, err := up.OpenDir(eventsDir)
	if fsx.NotDir(err) {
		err = engine.Misplaced(Dir + "/" + eventsDir)
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	of := func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:12]) }
	mine, prefix := of(call)+"-"+of(event), of(call)+"-"
	names, err := dir.Names()
	if err != nil {
		return false, err
	}
	now := l.Now()
	for _, name := range names {
		st, err := dir.Lstat(name)
		if err == nil && len(name) == len(mine) && (now.Sub(time.Unix(0, st.Mtime)).Abs() > eventAge || name != mine && strings.HasPrefix(name, prefix)) {
			dir.Remove(name)
		}
	}
	f, err := dir.Open(mine, fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		return false, fsx.Unless(err, fs.ErrExist)
	}
	return true, f.Close()
}

// newest are the last n of a list.
func newest[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }
