//go:build linux

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
)

// verdict is what the check counted and found.
type verdict struct {
	writes, saves, calls int
	kills, stops, fills  int
	refused, unknown     int
	problems             []string
	found                map[string]string   // where a content is, by hash
	marked               map[string][]string // hashes that hold a marker
	store                *rw.Store
	objects              map[string]bool // hashes of what the history directory holds
	unlisted             int             // contents that are kept and cannot be restored by name
	verbs, reasons       map[string]int
	foreign              map[string][]event // saves by path
	withdrawn            map[string]bool    // hashes that the editor replaced itself
}

func (v *verdict) fault(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// check opens the store once more and compares what is there with the logs.
func check(ws, logs string) *verdict {
	v := &verdict{objects: map[string]bool{}, found: map[string]string{}, marked: map[string][]string{}, verbs: map[string]int{}, reasons: map[string]int{},
		foreign: map[string][]event{}, withdrawn: map[string]bool{}}
	ctx := context.Background()
	s, err := rw.Open(ctx, ws, &rw.Options{Sync: rw.SyncLevel(*level)})
	if err != nil {
		v.fault("the store does not open: %v", err)
		return v
	}
	defer s.Close(ctx)
	v.store = s
	if r, err := s.Check(ctx, rw.CheckRequest{}); err != nil || !r.Clean {
		v.fault("check: %v %+v", err, r.Problems)
	}
	events := readEvents(logs)
	v.collect(ctx, ws)
	for _, e := range events {
		if e.Kind == "save" {
			v.foreign[e.Paths[0]] = append(v.foreign[e.Paths[0]], e)
			for _, h := range e.Gone {
				v.withdrawn[h] = true
			}
		}
	}
	for _, e := range events {
		v.judge(e, events)
	}
	v.once()
	return v
}

// collect reads every file and every version that can be read.
func (v *verdict) collect(ctx context.Context, ws string) {
	must(filepath.WalkDir(ws, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(ws, p)
		private := strings.HasPrefix(rel, ".resilient_write")
		if private && !strings.Contains(rel, "/history/") {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if private {
			v.objects[sum(b)] = true
		} else {
			v.take("file "+rel, b)
		}
		return nil
	}))
	for i := range *paths {
		list, err := v.store.History(ctx, rw.HistoryRequest{Path: pathOf(i), N: 1000})
		if err != nil {
			continue
		}
		for _, one := range list.Versions {
			if !one.Available || one.SHA256 == "" || v.found[one.SHA256] != "" {
				continue
			}
			out, err := v.store.Read(ctx, rw.ReadRequest{Path: one.Path, Version: one.Version, MaxBytes: 64 << 20})
			switch {
			case err != nil:
				v.fault("version %d of %s is listed as available and cannot be read: %v", one.Version, one.Path, err)
			case sum([]byte(out.Content)) != one.SHA256:
				v.fault("version %d of %s is not what its hash says", one.Version, one.Path)
			default:
				v.take(fmt.Sprintf("version %d of %s", one.Version, one.Path), []byte(out.Content))
			}
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
}

// kept reports whether a content is a file or can be restored at a path.
func (v *verdict) kept(path, hash string) bool {
	if v.found[hash] != "" {
		return true
	}
	_, err := v.store.Restore(context.Background(), rw.RestoreRequest{Path: path, SHA256: hash, Force: true, DryRun: true})
	if err != nil && v.objects[hash] {
		v.unlisted++
	}
	return err == nil || v.objects[hash]
}

// judge compares one event with what is there.
func (v *verdict) judge(e event, all []event) {
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
		if e.Effect != "none" {
			v.unknown++
			return
		}
		v.refused++
		if at := v.marked["<<"+e.ID+">>"]; len(at) > 0 && e.Key == "" {
			v.fault("%s %s reported the effect none (%s), and %s holds it", e.Verb, e.ID, e.Reason, v.found[at[0]])
		}
		if e.Reason == "changed_during_write" && len(e.Paths) > 0 && !v.disturbed(e, all) {
			v.fault("%s %s says that %v changed during the write, and nobody changed it", e.Verb, e.ID, e.Paths)
		}
	}
}

func (v *verdict) acknowledged(e event) {
	v.writes++
	if *caps {
		return
	}
	for p, h := range e.Files {
		if h != "" && !v.kept(p, h) && !v.withdrawn[h] {
			v.fault("%s %s of %s was acknowledged and is lost", e.Verb, e.ID, p)
		}
	}
	for _, h := range e.Prev {
		if !v.withdrawn[h] && !v.kept(e.Paths[0], h) && !slices.ContainsFunc(e.Paths, func(p string) bool { return v.kept(p, h) }) {
			v.fault("what %s %s replaced at %v is lost", e.Verb, e.ID, e.Paths)
		}
	}
}

// disturbed reports whether the editor touched a path of the call while it
// ran.
func (v *verdict) disturbed(e event, all []event) bool {
	from := int64(0)
	for _, b := range all {
		if b.Kind == "begin" && b.ID == e.ID {
			from = b.At
		}
	}
	for _, p := range e.Paths {
		for _, s := range v.foreign[p] {
			if s.At >= from && s.From <= e.At {
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

// report prints counts and problems and reports whether the run failed.
func (v *verdict) report() (failed bool) {
	fmt.Printf("%d calls, %d acknowledged, %d refused with effect none, %d of unknown effect\n", v.calls, v.writes, v.refused, v.unknown)
	fmt.Printf("%d saves of the editor, %d kills, %d stops, %d times a full disk\n", v.saves, v.kills, v.stops, v.fills)
	fmt.Printf("%d contents are kept and cannot be restored by their hash\n", v.unlisted)
	fmt.Printf("verbs %v\nreasons %v\n", v.verbs, v.reasons)
	for _, count := range []struct {
		what        string
		have, least int
	}{{"writes", v.writes, *writes}, {"saves", v.saves, *saves}, {"kills", v.kills, *kills}} {
		if count.have < count.least {
			v.fault("only %d %s, at least %d are needed", count.have, count.what, count.least)
		}
	}
	kinds := map[string]int{}
	for _, p := range v.problems {
		kinds[names.ReplaceAllString(p, "…")]++
	}
	for kind, n := range kinds {
		fmt.Printf("%6d %s\n", n, kind)
	}
	for i, p := range v.problems {
		if i == 20 {
			fmt.Printf("… and %d more\n", len(v.problems)-i)
			break
		}
		fmt.Println("FAIL", p)
	}
	fmt.Printf("%d problems\n", len(v.problems))
	return len(v.problems) > 0
}
