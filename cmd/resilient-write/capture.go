package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/dirwatch"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

const (
	captureQuiet   = 250 * time.Millisecond // quiet time before a scan
	captureLongest = 2 * time.Second        // after the first change
	captureBlind   = 30 * time.Second       // between scans if not all directories are watched
	captureAgain   = time.Second            // before a scan is repeated
	captureEnd     = 5 * time.Second        // for the last scan
)

// capturing records changes of other programs until it is stopped.
type capturing struct {
	a     *app
	s     *rw.Store
	d     *dirwatch.Watcher
	begun bool // all directories have been watched once
	blind bool // not all of them are watched
}

// capture scans whenever something changes below the root.
func (a *app) capture(ctx context.Context) error {
	root, err := a.realRoot()
	if err != nil {
		return err
	}
	return a.withStore(ctx, false, func(ctx context.Context, s *rw.Store) error {
		d, err := dirwatch.New(root)
		if err != nil {
			return streamError(a.command, "the system cannot watch files", err)
		}
		defer d.Close()
		c := &capturing{a: a, s: s, d: d}
		if err := c.run(ctx); ctx.Err() == nil {
			return err
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), captureEnd)
		defer cancel()
		_, _, err = c.scan(last)
		return err
	})
}

// run scans until the context ends. Directories that a scan finds are watched
// only after it, so the scan is repeated until it finds no new ones.
func (c *capturing) run(ctx context.Context) error {
	for ctx.Err() == nil {
		r, seen, err := c.scan(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		every := captureAgain // a file is being written, or a commit takes long: scan again soon
		if seen {
			added, unwatched := c.d.Watch(r.Directories())
			if err := c.announce(len(r.Directories()), unwatched); err != nil {
				return err
			}
			if added > 0 || r.Partial {
				continue
			}
			switch {
			case len(r.Busy) > 0:
			case c.blind:
				every = captureBlind
			default:
				every = 0
			}
		}
		if err := c.d.Wait(ctx, captureQuiet, captureLongest, every); err != nil && ctx.Err() == nil {
			if err := c.say("limited", "the system reports: "+plainError(err), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// announce prints what is watched, once.
func (c *capturing) announce(all, unwatched int) error {
	begun, blind := c.begun, c.blind
	c.begun, c.blind = true, unwatched > 0
	if c.blind && !blind {
		return c.say("limited", fmt.Sprintf("the system does not watch %d of %d directories; everything is looked at every %v", unwatched, all, captureBlind), nil)
	}
	if !begun {
		return c.say("capturing", fmt.Sprintf("%d directories, until it is interrupted", all), nil)
	}
	return nil
}

// scan records what changed, during the open tool calls. It reports false if it
// must be repeated.
func (c *capturing) scan(ctx context.Context) (r around.ScanResult, seen bool, err error) {
	r, err = c.s.BeginCall(ctx, around.ToolCall{Host: "watch", Event: "scan"})
	var e *rw.Error
	switch {
	case ctx.Err() != nil, errors.As(err, &e) && e.Detail == rw.ErrLockTimeout:
		return r, false, nil
	case err != nil || r.Group == "":
		return r, true, err
	}
	text := fmt.Sprintf("%d created, %d changed, %d deleted, %d moved, %d with another mode; undo with: resilient-write undo --group %s", r.Created, r.Changed, r.Deleted, r.Moved, r.Modes, r.Group)
	if err := c.say("captured", text, &r); err != nil {
		return r, true, err
	}
	for _, f := range r.Findings {
		if err := c.say("finding", fmt.Sprintf("%s:%d looks like %s (%s)", f.Path, f.Line, f.Pattern, f.Confidence), nil); err != nil {
			return r, true, err
		}
	}
	return r, true, nil
}

// say prints an event, as an object with --json or for a program.
func (c *capturing) say(name, text string, r *around.ScanResult) error {
	ts := now().UTC()
	if c.a.json {
		data, err := schema.Encode(struct {
			Event string             `json:"event"`
			TS    string             `json:"ts"`
			Text  string             `json:"text"`
			Scan  *around.ScanResult `json:"scan,omitempty"`
		}{name, ts.Format(time.RFC3339), text, r})
		if err != nil {
			return err
		}
		return c.a.document(data)
	}
	fmt.Fprintf(c.a.out, "%s  %-9s %s\n", ts.Local().Format("2006-01-02 15:04:05"), name, printable(text))
	return c.a.out.failed()
}
