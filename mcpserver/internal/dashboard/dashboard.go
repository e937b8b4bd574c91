// Package dashboard is the live view of a store in a browser: one page, a stream of its
// data, and undo after a confirmation.
package dashboard

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
	"github.com/resilientwrite/resilientwrite/report"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Dashboard is the data source and the settings of the view.
type Dashboard struct {
	// Open opens the store read-only; it is closed after each look.
	Open func(context.Context) (*rw.Store, error)
	// Undo undoes commits. nil: nothing can be undone.
	Undo *rw.Store
	// State is the state directory of the store.
	State string
}

// board is a dashboard with its open confirmations.
type board struct {
	Dashboard
	mu      sync.Mutex
	tickets []ticket // the oldest first
}

// ticket is an undo that was shown and may be confirmed.
type ticket struct {
	name  string
	row   uint64
	until time.Time
}

const (
	ticketTime = 5 * time.Minute
	maxTickets = 32

	rowsRead = 200
	changes  = 20 // and refusals
)

// Pages are the dashboard over HTTP.
func (d Dashboard) Pages() transport.Pages {
	b := &board{Dashboard: d}
	return transport.Pages{
		Page: page,
		Header: map[string]string{
			"Content-Security-Policy":      policy,
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"X-Frame-Options":              "DENY",
		},
		Events: b.events,
		Posts:  map[string]func(context.Context, []byte) (int, any){"/diff": b.diff, "/undo": b.undo},
	}
}

//go:embed page.html
var pageSource string

//go:embed page.css
var style string

//go:embed page.js
var script string

// page has no data, and its policy lets it run its own script and style and talk
// to its own server, nothing else: no markup can be made of a text.
var (
	page   = []byte(strings.NewReplacer("((style))", style, "((script))", script).Replace(pageSource))
	policy = "default-src 'none'; script-src '" + hash(script) + "'; style-src '" + hash(style) +
		"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// shown is one message of the stream: everything that the page shows.
type shown struct {
	*report.Overview
	Undo bool `json:"undo"` // it can undo
}

// events sends the state of the page whenever it changes. A slow reader gets the
// current state when it is ready for it, and no states in between.
func (b *board) events(ctx context.Context, send func([]byte) error) error {
	look, memo := overview.Looker{State: b.State}, &overview.Memo{}
	var last []byte
	for {
		var message []byte
		if look.Due() {
			data, err := b.present(ctx, memo)
			if err != nil {
				return err
			}
			if !bytes.Equal(data, last) {
				message, last = data, data
			}
		}
		if err := send(message); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(overview.Every):
		}
	}
}

func (b *board) present(ctx context.Context, memo *overview.Memo) (data []byte, err error) {
	err = b.read(ctx, func(s *rw.Store) error {
		o, err := overview.Read(ctx, s, overview.NewCleaner(s), overview.Request{Rows: rowsRead, Changes: changes, State: b.State, Memo: memo})
		if err != nil {
			return err
		}
		plain(reflect.ValueOf(o))
		data, err = json.Marshal(shown{o, b.Undo != nil})
		return err
	})
	return data, err
}

func (b *board) read(ctx context.Context, look func(*rw.Store) error) error {
	s, err := b.Open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(look(s), s.Close(context.WithoutCancel(ctx)))
}

// plain names what does not print in every text of a value.
func plain(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		plain(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			plain(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			plain(v.Index(i))
		}
	case reflect.String:
		v.SetString(report.Plain(v.String()))
	}
}

// asked is a request of the page.
type asked struct {
	Row    uint64 `json:"row"`
	Ticket string `json:"ticket"`
}

func question(body []byte) (q asked, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(&q)
	return q, err == nil && q.Row > 0 && !dec.More()
}

// answer is a reply to the page.
type answer struct {
	OK     bool                `json:"ok"`
	Files  []overview.FileDiff `json:"files,omitempty"`
	Ticket string              `json:"ticket,omitempty"`
	Reason string              `json:"reason,omitempty"`
	Hint   string              `json:"hint,omitempty"`
}

var unclear = answer{Reason: "invalid_argument", Hint: "this is no question of the page"}

// diff returns the changes of a commit.
func (b *board) diff(ctx context.Context, body []byte) (int, any) {
	q, ok := question(body)
	if !ok {
		return http.StatusBadRequest, unclear
	}
	out := answer{OK: true}
	err := b.read(ctx, func(s *rw.Store) (err error) {
		out.Files, err = overview.Diffs(ctx, s, overview.NewCleaner(s), q.Row)
		return err
	})
	if err != nil {
		return failed(err)
	}
	for i := range out.Files {
		out.Files[i].Path = report.Plain(out.Files[i].Path)
	}
	return http.StatusOK, out
}

// failed is an error without anything but its reason and what to do.
func failed(err error) (int, any) {
	e := rw.AsError("undo", err)
	return http.StatusConflict, answer{Reason: string(e.Detail), Hint: report.Plain(toolbox.Subcommands(e.Hint))}
}

// undo undoes a commit in two steps: the first one is a dry run that issues a ticket;
// the second one, with the ticket, undoes it, once. It undoes exactly that commit,
// whatever was written in between.
func (b *board) undo(ctx context.Context, body []byte) (int, any) {
	q, ok := question(body)
	switch {
	case !ok:
		return http.StatusBadRequest, unclear
	case b.Undo == nil:
		return http.StatusForbidden, answer{Reason: "store_read_only", Hint: "the server was started read-only"}
	}
	r := rw.UndoRequest{Row: q.Row, Call: rw.Call{Caller: "operator", DryRun: q.Ticket == ""}}
	if !r.DryRun {
		if !b.valid(q) {
			return http.StatusConflict, answer{Reason: "confirmation_expired", Hint: "look at the change again, then confirm"}
		}
		r.IdempotencyKey = "dashboard-" + q.Ticket
	}
	if _, err := b.Undo.Undo(rw.WithOperator(rw.WithGate(ctx, rw.GateOfAgents)), r); err != nil {
		return failed(err)
	}
	out := answer{OK: true}
	if r.DryRun {
		out.Ticket = b.ticket(q.Row)
	}
	return http.StatusOK, out
}

// ticket makes a confirmation possible.
func (b *board) ticket(row uint64) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := ticket{rand.Text(), row, time.Now().Add(ticketTime)}
	b.tickets = append(b.tickets, t)
	b.tickets = b.tickets[max(0, len(b.tickets)-maxTickets):]
	return t.name
}

// valid reports whether a ticket confirms this undo. It stays valid for a
// repeated request, which happens once.
func (b *board) valid(q asked) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.tickets, func(t ticket) bool {
		return t.name == q.Ticket && t.row == q.Row && time.Now().Before(t.until)
	})
}
