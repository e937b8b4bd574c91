//go:build linux

package stress

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

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
		wg.Go(func() {
			w := &writer{s: s, j: j, name: fmt.Sprintf("w%d-%d-%d", number, round, i),
				rng: rand.New(rand.NewPCG(*seed, uint64(number*1_000_000+round*100+i)))}
			for ctx.Err() == nil && !w.stuck {
				w.call()
			}
		})
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
func (w *writer) call() {
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

// runEditor saves files as editors do. It notes the content that each save replaced,
// because the editor itself causes that loss.
func runEditor(ctx context.Context, ws, logs string, number int) {
	e := &editor{ws: ws, j: openJournal(logs, fmt.Sprintf("editor-%d.log", number)), name: fmt.Sprintf("e%d", number),
		rng: rand.New(rand.NewPCG(*seed, uint64(number)<<32))}
	for ctx.Err() == nil {
		e.save()
		pause(ctx, time.Duration(e.rng.IntN(40))*time.Millisecond)
	}
}

// saving keeps two editors from saving one file at once: what one of them does
// to the other is their own loss and could not be distinguished.
var saving [1000]sync.Mutex

type editor struct {
	ws, name string
	j        *journal
	rng      *rand.Rand
	n        int
}

// save makes one save, completely or not at all, and records it.
func (e *editor) save() {
	e.n++
	file := e.rng.IntN(*paths)
	saving[file].Lock()
	defer saving[file].Unlock()
	rel := pathOf(file)
	at := filepath.Join(e.ws, rel)
	id := fmt.Sprintf("%s-%d", e.name, e.n)
	content := []byte(text(e.rng, id, size(e.rng)))
	ev := event{Kind: "save", ID: id, Paths: []string{rel}, From: time.Now().UnixNano()}
	var gone []byte
	var err error
	switch e.rng.IntN(10) {
	case 0:
		ev.Verb = "delete"
		gone, err = e.discard(at)
	case 1, 2, 3:
		ev.Verb = "in place"
		ev.Parts = parts(content)
		gone, err = e.inPlace(at, content)
	default:
		ev.Verb = "rename"
		gone, err = e.byRename(at, content)
	}
	if gone != nil {
		ev.Gone = []string{sum(gone)}
	}
	if ev.OK = err == nil; ev.OK && ev.Verb != "delete" {
		ev.Files, ev.Bytes = map[string]string{rel: sum(content)}, len(content)
	}
	e.j.add(ev)
}

// byRename writes a file next to the workspace and swaps it in. The file that it gets
// back is the one that the save replaced.
func (e *editor) byRename(at string, content []byte) (gone []byte, err error) {
	tmp := filepath.Join(e.ws, "..", e.name+".swp")
	defer os.Remove(tmp)
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return nil, err
	}
	for range 3 {
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE)
		if err == nil {
			return os.ReadFile(tmp)
		}
		if err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, at, unix.RENAME_NOREPLACE); !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
	return nil, err
}

// inPlace reads a file and writes it again through one descriptor, in two steps.
func (e *editor) inPlace(at string, content []byte) (gone []byte, err error) {
	f, err := os.OpenFile(at, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	gone = make([]byte, st.Size())
	if _, err := f.ReadAt(gone, 0); err != nil && len(gone) > 0 {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return gone, err
	}
	half := len(content) / 2
	if _, err := f.WriteAt(content[:half], 0); err != nil {
		return gone, err
	}
	time.Sleep(time.Duration(e.rng.IntN(500)) * time.Microsecond)
	_, err = f.WriteAt(content[half:], int64(half))
	return gone, err
}

// parts returns the hashes of what others may read while inPlace writes content: the
// kernel shows a write page by page.
func parts(content []byte) []string {
	list := []string{sum(nil), sum(content[:len(content)/2])}
	for h := sha256.New(); len(content) > 4096; content = content[4096:] {
		h.Write(content[:4096])
		list = append(list, hex.EncodeToString(h.Sum(nil)))
	}
	return list
}

// discard removes a file by moving it away first, to read its content.
func (e *editor) discard(at string) (gone []byte, err error) {
	tmp := filepath.Join(e.ws, "..", e.name+".trash")
	defer os.Remove(tmp)
	if err := os.Rename(at, tmp); err != nil {
		return nil, err
	}
	return os.ReadFile(tmp)
}

// event is one line of a log: the start or end of a call, or a save of the editor. The
// line is written before its event may be relied on.
type event struct {
	Kind   string            `json:"kind"` // begin, end, save
	ID     string            `json:"id"`   // marks the content of the call, or of the save
	Verb   string            `json:"verb,omitempty"`
	Paths  []string          `json:"paths,omitempty"`
	Key    string            `json:"key,omitempty"`
	OK     bool              `json:"ok,omitempty"`
	Files  map[string]string `json:"files,omitempty"` // hash by path, as the call reports the result
	Prev   []string          `json:"prev,omitempty"`  // hashes of the previous content, as the call reports it
	Effect string            `json:"effect,omitempty"`
	Reason string            `json:"reason,omitempty"`
	Cause  string            `json:"cause,omitempty"` // of an internal error
	Gone   []string          `json:"gone,omitempty"`  // hashes that the editor replaced
	Parts  []string          `json:"parts,omitempty"` // of a save in place: hashes of what it showed before its end
	Bytes  int               `json:"bytes,omitempty"` // of a save: its size
	At     int64             `json:"at"`              // nanoseconds
	From   int64             `json:"from,omitempty"`  // of a save: when it began
}

// journal is a log. A line is one write, so a kill leaves at most one torn
// line at the end.
type journal struct {
	mu sync.Mutex
	f  *os.File
}

func openJournal(dir, name string) *journal {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	must(err)
	return &journal{f: f}
}

func (j *journal) add(e event) {
	e.At = cmp.Or(e.At, time.Now().UnixNano())
	line, err := json.Marshal(e)
	must(err)
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err = j.f.Write(append(line, '\n'))
	must(err)
}

// readEvents reads every log.
func readEvents(dir string) (list []event) {
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	must(err)
	for _, name := range names {
		f, err := os.Open(name)
		must(err)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				list = append(list, e)
			}
		}
		must(lines.Err())
		f.Close()
	}
	return list
}

var marker = regexp.MustCompile(`<<[a-z0-9.-]+>>`)

// text is ordinary content that holds the marker of its call once.
func text(rng *rand.Rand, id string, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<<%s>>\n", id)
	for b.Len() < size {
		for range 4 + rng.IntN(12) {
			b.WriteString(words[rng.IntN(len(words))])
			b.WriteByte(' ')
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var words = strings.Fields(`the value of each line is read before it is compared with what the file held when the
	caller asked for it and a table keeps one row for every name that was seen so far return error when size is
	larger than limit open close read write append range index length buffer record commit version`)

// size is mostly small, sometimes large.
func size(rng *rand.Rand) int {
	switch rng.IntN(100) {
	case 0:
		return 1<<20 + rng.IntN(1<<20)
	case 1, 2, 3:
		return 64<<10 + rng.IntN(128<<10)
	}
	return 20 + rng.IntN(4000)
}

func pathOf(i int) string {
	if i%3 == 0 {
		return fmt.Sprintf("d%d/f%02d.txt", i%4, i)
	}
	return fmt.Sprintf("f%02d.txt", i)
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
