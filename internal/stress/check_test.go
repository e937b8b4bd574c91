//go:build linux

package stress

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// verdict is the counts and findings of the check.
type verdict struct {
	writes, saves, calls int
	kills, stops, fills  int
	refused, unknown     int
	problems             []string
	found                map[string]string   // where a content is, by hash
	marked               map[string][]string // hashes that hold a marker
	store                *rw.Store
	objects              map[string]bool     // hashes of the objects in the history directory
	bytes                map[string]int      // size by hash, as recorded by rows and saves
	made                 map[string]made     // the row of a content
	before               map[string][]string // hashes of the contents that a content was appended to
	begun                map[string]int64    // when a call began
	along                int                 // contents that the editor replaced together with a content that was appended to them
	asked                int                 // contents that had to be requested by name
	partly               int                 // contents that a call replaced or moved while the editor wrote them
	verbs, reasons       map[string]int
	foreign              map[string][]event // saves by path
	withdrawn            map[string]bool    // hashes that the editor replaced itself
	parts                map[string]bool    // hashes of incomplete saves in place
}

// made is the row that records the content of a path.
type made struct {
	path string
	seq  uint64
}

func (v *verdict) fault(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// check opens the store again and compares its state with the logs.
func check(ws, logs string) *verdict {
	v := &verdict{objects: map[string]bool{}, bytes: map[string]int{}, made: map[string]made{}, before: map[string][]string{}, begun: map[string]int64{}, found: map[string]string{}, marked: map[string][]string{}, verbs: map[string]int{}, reasons: map[string]int{},
		foreign: map[string][]event{}, withdrawn: map[string]bool{}, parts: map[string]bool{}}
	ctx := context.Background()
	s, err := rw.Open(ctx, ws, &rw.Options{Sync: rw.SyncLevel(*level), StateDir: ".resilient_write"})
	if err != nil {
		v.fault("the store does not open: %v", err)
		return v
	}
	defer s.Close(ctx)
	v.store = s
	if r, err := s.Check(ctx, admin.CheckRequest{}); err != nil || !r.Clean {
		v.fault("check: %v %+v", err, r.Problems)
	}
	events := readEvents(logs)
	for _, e := range events {
		switch e.Kind {
		case "begin":
			v.begun[e.ID] = e.At
		case "save":
			v.foreign[e.Paths[0]] = append(v.foreign[e.Paths[0]], e)
			for _, h := range e.Gone {
				v.withdrawn[h] = true
			}
			for _, h := range e.Parts {
				v.parts[h] = true
			}
			for _, h := range e.Files {
				v.bytes[h] = e.Bytes
			}
		}
	}
	v.rows(ctx)
	v.collect(ws)
	v.sample(ctx)
	for _, e := range events {
		v.judge(e)
	}
	v.once()
	return v
}

// rows reads the journal once.
func (v *verdict) rows(ctx context.Context) {
	aborted := map[uint64]bool{}
	for e, err := range v.store.JournalRows(ctx, rw.JournalSinceRequest{AfterSeq: new(uint64), Limit: 10000}) {
		if err != nil {
			v.fault("the journal cannot be read: %v", err)
			return
		}
		if e.Kind == "abort" {
			aborted[e.Ref] = true
		}
		if e.SHA256.String() == "" || e.Kind != "commit" {
			continue
		}
		v.made[e.SHA256.String()], v.bytes[e.SHA256.String()] = made{e.Path, e.Seq}, int(e.Bytes)
		if e.Mode == "append" && e.PrevSHA256.String() != "" {
			v.before[e.SHA256.String()] = append(v.before[e.SHA256.String()], e.PrevSHA256.String())
		}
	}
	for h, m := range v.made {
		if aborted[m.seq] {
			delete(v.made, h)
		}
	}
	// The old content of an append is the beginning of the new one, so an editor that
	// replaces the new content replaces the old one too.
	var along func(string)
	along = func(h string) {
		for _, b := range v.before[h] {
			if !v.withdrawn[b] {
				v.withdrawn[b] = true
				v.along++
				along(b)
			}
		}
	}
	for _, h := range slices.Collect(maps.Keys(v.withdrawn)) {
		along(h)
	}
}

// collect reads every file and every kept version, each once.
func (v *verdict) collect(ws string) {
	must(filepath.WalkDir(ws, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(ws, p)
		private := strings.HasPrefix(rel, ".resilient_write")
		if private && (!strings.Contains(rel, "/history/") || len(filepath.Base(p)) != 64) {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if h := sum(b); private {
			v.objects[h] = true
			if h != filepath.Base(p) {
				v.fault("the kept version %s is not what its name says", rel)
			}
		}
		v.take(rel, b)
		return nil
	}))
}

// sample requests some of the contents from the store by their hash.
func (v *verdict) sample(ctx context.Context) {
	left := 500
	for h := range v.objects {
		if v.made[h].path == "" {
			continue
		}
		if left--; left < 0 {
			return
		}
		if _, err := v.store.Restore(ctx, rw.RestoreRequest{Path: v.made[h].path, SHA256: digestOf(h), Force: true, Call: rw.Call{DryRun: true}}); err != nil {
			v.fault("%s of %s is kept and cannot be restored: %v", h, v.made[h].path, err)
		}
	}
}

func (v *verdict) take(where string, content []byte) {
	h := sum(content)
	if v.found[h] != "" {
		return
	}
	v.found[h] = where
	for _, m := range marker.FindAllString(string(content), -1) {
		v.marked[m] = append(v.marked[m], h)
	}
	// The old content of an append is its beginning.
	for _, b := range v.before[h] {
		if n, ok := v.bytes[b]; ok && n < len(content) && sum(content[:n]) == b {
			v.take("the beginning of "+where, content[:n])
		}
	}
}

// kept reports whether a content is a file or a version.
func (v *verdict) kept(path, hash string) bool {
	if v.found[hash] != "" {
		return true
	}
	v.asked++
	_, err := v.store.Restore(context.Background(), rw.RestoreRequest{Path: path, SHA256: digestOf(hash), Force: true, Call: rw.Call{DryRun: true}})
	return err == nil
}

// judge compares one event with the state of the store.
func (v *verdict) judge(e event) {
	switch e.Kind {
	case "begin":
		v.calls++
	case "save":
		for p, h := range e.Files {
			v.saves++
			if !*caps && !v.withdrawn[h] && !v.kept(p, h) {
				v.fault("save %s of %s (%s) is lost", e.ID, p, e.Verb)
			}
		}
	case "end":
		v.verbs[e.Verb]++
		if e.OK {
			v.acknowledged(e)
			return
		}
		v.reasons[e.Reason]++
		if e.Cause != "" {
			v.fault("%s %s ended with an internal error: %s", e.Verb, e.ID, e.Cause)
		}
		if e.Effect != "none" {
			v.unknown++
			return
		}
		v.refused++
		if at := v.marked["<<"+e.ID+">>"]; len(at) > 0 && e.Key == "" {
			v.fault("%s %s reported the effect none (%s), and %s holds it", e.Verb, e.ID, e.Reason, v.found[at[0]])
		}
		if e.Reason == "changed_during_write" && len(e.Paths) > 0 && !v.disturbed(e) {
			v.fault("%s %s says that %v changed during the write, and no other program changed it", e.Verb, e.ID, e.Paths)
		}
	}
}

func (v *verdict) acknowledged(e event) {
	v.writes++
	if *caps {
		return
	}
	for p, h := range e.Files {
		if e.Verb == "move" && v.parts[h] { // the editor has written the rest since, to the file that was moved
			v.partly++
			continue
		}
		if h != "" && !v.withdrawn[h] && !v.kept(p, h) && !v.overlooked(e, h) {
			v.fault("%s %s of %s was acknowledged and is lost", e.Verb, e.ID, p)
		}
	}
	for _, h := range e.Prev {
		// If a call replaces a file while the editor writes it in place, the version is
		// what the editor has written at the end.
		if v.parts[h] {
			v.partly++
			continue
		}
		if !v.withdrawn[h] && !slices.ContainsFunc(e.Paths, func(p string) bool { return v.kept(p, h) }) && !v.overlooked(e, h) {
			v.fault("what %s %s replaced at %v is lost", e.Verb, e.ID, e.Paths)
		}
	}
}

// disturbed reports whether the editor touched a path of the call while it
// ran.
func (v *verdict) disturbed(e event) bool { return len(v.beside(e)) > 0 }

// beside returns the saves of the editor to the paths of a call while it ran.
func (v *verdict) beside(e event) (list []event) {
	for _, p := range e.Paths {
		for _, s := range v.foreign[p] {
			if s.At >= v.begun[e.ID] && s.From <= e.At {
				list = append(list, s)
			}
		}
	}
	return list
}

// overlooked reports whether the editor read a file, bytes were appended to it that made
// it the content h, and then the editor emptied it.
func (v *verdict) overlooked(e event, h string) bool {
	for _, s := range v.beside(e) {
		for _, b := range v.before[h] {
			if s.Verb == "in place" && slices.Contains(s.Gone, b) || v.overlooked(e, b) {
				return true
			}
		}
	}
	return false
}

// once finds contents that hold one write twice.
func (v *verdict) once() {
	for m, hashes := range v.marked {
		seen := map[string]bool{}
		for _, h := range hashes {
			if seen[h] {
				v.fault("%s is twice in %s", m, v.found[h])
			}
			seen[h] = true
		}
	}
}

// names are what two problems of one kind differ in.
var names = regexp.MustCompile(`\[[^]]*\]|\S*[0-9]\S*`)

// report logs the counts and reports the problems.
func (v *verdict) report(t *testing.T) {
	t.Logf("seed %d: %d calls, %d acknowledged, %d refused with effect none, %d of unknown effect", *seed, v.calls, v.writes, v.refused, v.unknown)
	t.Logf("%d saves of the editor, %d kills, %d stops, %d times a full disk", v.saves, v.kills, v.stops, v.fills)
	t.Logf("%d contents went with what was appended to them, which the editor replaced; %d were asked for by name; %d were replaced or moved while the editor wrote them", v.along, v.asked, v.partly)
	t.Logf("verbs %v, reasons %v", v.verbs, v.reasons)
	for _, count := range []struct {
		what        string
		have, least int
	}{{"writes", v.writes, 10_000}, {"saves", v.saves, 2_000}, {"kills", v.kills, 50}} {
		if *length < time.Minute {
			count.least = 0 // on a machine that is busy, not even one may be reached
		}
		testbed.Expect(t, count.have >= count.least, "only %d %s, at least %d are needed", count.have, count.what, count.least)
	}
	kinds := map[string]int{}
	for _, p := range v.problems {
		kinds[names.ReplaceAllString(p, "…")]++
	}
	testbed.Expect(t, len(v.problems) == 0, "%d problems: %v", len(v.problems), kinds)
	for _, p := range v.problems[:min(20, len(v.problems))] {
		t.Error(p)
	}
}

func digestOf(hash string) rw.Digest {
	d, _ := call.ParseDigest(hash)
	return d
}
