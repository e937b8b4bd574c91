//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// runWorker makes calls until standard input ends.
func runWorker(ws, logs string, number, round int) {
	j := openJournal(logs, fmt.Sprintf("worker-%d.log", number))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	s := open(ctx, j, ws)
	if s == nil {
		return
	}
	var wg sync.WaitGroup
	for i := range *threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := &writer{s: s, j: j, name: fmt.Sprintf("w%d-%d-%d", number, round, i),
				rng: rand.New(rand.NewPCG(*seed, uint64(number*1_000_000+round*100+i)))}
			for ctx.Err() == nil && !w.stuck {
				w.call(ctx)
			}
		}()
	}
	wg.Wait()
	closing, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	s.Close(closing)
}

// open opens the store. On a full disk that may have to wait.
func open(ctx context.Context, j *journal, ws string) *rw.Store {
	for ctx.Err() == nil {
		s, err := rw.Open(ctx, ws, &rw.Options{Sync: rw.SyncLevel(*level), StateDir: ".resilient_write", LockTimeout: 2 * time.Second})
		if err == nil {
			return s
		}
		j.add(event{Kind: "open", Reason: reasonOf(err)})
		pause(ctx, 100*time.Millisecond)
	}
	return nil
}

func reasonOf(err error) string {
	var e *rw.Error
	if errors.As(err, &e) {
		return e.Detail.Error()
	}
	return err.Error()
}

// writer is one sequence of calls.
type writer struct {
	s     *rw.Store
	j     *journal
	rng   *rand.Rand
	name  string
	n     int
	stuck bool // the store takes no more calls
}

func (w *writer) path() string { return pathOf(w.rng.IntN(*paths)) }

// call makes one call and records its result. Every third write is sent again with its
// key, as after a lost reply.
func (w *writer) call(ctx context.Context) {
	w.n++
	e := event{Kind: "begin", ID: fmt.Sprintf("%s-%d", w.name, w.n)}
	verb := verbs[w.rng.IntN(len(verbs))]
	e.Verb = verb.name
	again := w.rng.IntN(3) == 0
	if again {
		e.Key = "key-" + e.ID
	}
	run := verb.make(w, &e)
	w.j.add(e)
	w.note(e, run)
	if again {
		w.note(e, run)
	}
}

func (w *writer) note(e event, run func() (map[string]string, []string, error)) {
	e.Kind, e.At = "end", 0
	files, prev, err := run()
	e.OK, e.Files, e.Prev = err == nil, files, prev
	var fault *rw.Error
	if errors.As(err, &fault) {
		e.Effect, e.Reason = string(fault.Effect), fault.Detail.Error()
		if fault.Detail == rw.ErrInternal {
			e.Cause = fmt.Sprint(fault, ": ", errors.Unwrap(fault))
		}
		w.stuck = fault.Detail == rw.ErrStorePoisoned || fault.Detail == rw.ErrStoreClosed
	} else if err != nil {
		e.Effect, e.Reason = "unknown", err.Error()
	}
	w.j.add(e)
}

type outcome = func() (files map[string]string, prev []string, err error)

// verbs are the calls; a repeated one is chosen more often.
var verbs = []struct {
	name string
	make func(w *writer, e *event) outcome
}{
	{"overwrite", (*writer).write}, {"overwrite", (*writer).write}, {"overwrite", (*writer).write}, {"create", (*writer).write},
	{"append", (*writer).write}, {"append", (*writer).write}, {"guarded", (*writer).guarded}, {"edit", (*writer).edit},
	{"delete", (*writer).remove}, {"move", (*writer).move}, {"tx", (*writer).tx}, {"undo", (*writer).undo},
}

func of(r rw.Receipt) (map[string]string, []string) {
	var prev []string
	if r.PrevSHA256.String() != "" {
		prev = []string{r.PrevSHA256.String()}
	}
	return map[string]string{r.Path: r.SHA256.String()}, prev
}

func (w *writer) write(e *event) outcome {
	return w.writes(e, rw.SafeWriteRequest{Path: w.path(), Mode: rw.WriteMode(e.Verb)})
}

// guarded overwrites the version that was read.
func (w *writer) guarded(e *event) outcome {
	path := w.path()
	hash, _ := w.read(path)
	return w.writes(e, rw.SafeWriteRequest{Path: path, Mode: rw.ModeOverwrite, Expect: rw.Exactly(digestOf(hash))})
}

func (w *writer) writes(e *event, r rw.SafeWriteRequest) outcome {
	e.Paths = []string{r.Path}
	r.Content, r.AllowShrink, r.IdempotencyKey, r.Caller = []byte(text(w.rng, e.ID, size(w.rng))), true, e.Key, w.name
	return func() (map[string]string, []string, error) {
		out, err := w.s.SafeWrite(context.Background(), r)
		files, prev := of(out.Receipt)
		return files, prev, err
	}
}

func (w *writer) read(path string) (hash string, content string) {
	out, err := w.s.Read(context.Background(), rw.ReadRequest{Path: path, MaxBytes: 8 << 20})
	if err != nil {
		return "", ""
	}
	return out.SHA256.String(), string(out.Content)
}

func (w *writer) edit(e *event) outcome {
	e.Paths = []string{w.path()}
	_, content := w.read(e.Paths[0])
	old := marker.FindString(content)
	r := rw.EditRequest{Path: e.Paths[0], Edits: []rw.EditOp{{Old: old, New: old + strings.TrimSpace(text(w.rng, e.ID, 30))}}, Call: rw.Call{IdempotencyKey: e.Key, Caller: w.name}}
	return func() (map[string]string, []string, error) {
		out, err := w.s.Edit(context.Background(), r)
		files, prev := of(out.Receipt)
		return files, prev, err
	}
}

func (w *writer) remove(e *event) outcome {
	e.Paths = []string{w.path()}
	r := rw.DeleteRequest{Path: e.Paths[0], Call: rw.Call{IdempotencyKey: e.Key, Caller: w.name}}
	return func() (map[string]string, []string, error) {
		out, err := w.s.Delete(context.Background(), r)
		_, prev := of(out.Receipt)
		return nil, prev, err
	}
}

func (w *writer) move(e *event) outcome {
	e.Paths = []string{w.path(), w.path()}
	r := rw.MoveRequest{Path: e.Paths[0], To: e.Paths[1], Overwrite: w.rng.IntN(2) == 0, Call: rw.Call{IdempotencyKey: e.Key, Caller: w.name}}
	return func() (map[string]string, []string, error) {
		out, err := w.s.Move(context.Background(), r)
		return map[string]string{e.Paths[1]: out.Receipt.SHA256.String()}, nil, err
	}
}

func (w *writer) tx(e *event) outcome {
	r := rw.TxRequest{Call: rw.Call{IdempotencyKey: e.Key, Caller: w.name}}
	for i := range 2 + w.rng.IntN(4) {
		p := w.path()
		e.Paths = append(e.Paths, p)
		r.Ops = append(r.Ops, rw.TxOp{Op: "write", Path: p, Mode: "overwrite", Content: []byte(text(w.rng, fmt.Sprintf("%s.%d", e.ID, i), size(w.rng)/2)), AllowShrink: true})
	}
	return func() (map[string]string, []string, error) {
		out, err := w.s.Tx(context.Background(), r)
		files := map[string]string{}
		var prev []string
		for _, one := range out.Results {
			files[one.Path] = one.SHA256.String() // of several on one path the last holds
			if one.PrevSHA256.String() != "" {
				prev = append(prev, one.PrevSHA256.String())
			}
		}
		return files, prev, err
	}
}

func (w *writer) undo(e *event) outcome {
	r := rw.UndoRequest{Call: rw.Call{Caller: w.name, IdempotencyKey: e.Key}}
	return func() (map[string]string, []string, error) {
		_, err := w.s.Undo(context.Background(), r)
		return nil, nil, err
	}
}
