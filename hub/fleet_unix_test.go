//go:build unix

package hub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const (
	agentRoot = "RW_HUB_TEST_ROOT" // makes this program the agent of a workspace
	agentHub  = "RW_HUB_TEST_URL"
)

func TestMain(m *testing.M) {
	if root := os.Getenv(agentRoot); root != "" {
		if err := agent(root, os.Getenv(agentHub)); err != nil {
			fmt.Println("err", err)
			os.Exit(1)
		}
		return
	}
	testbed.Main(m)
}

// agent runs the commands on its standard input, and prints the outcome: "ack" for an
// acknowledged write, "begin" before it makes a request to the hub, "done", or the
// code of the error.
func agent(root, url string) error {
	ctx := context.Background()
	s, err := rw.Open(ctx, root, &rw.Options{StateDir: root + ".state", Sync: rw.SyncOff})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	var ship *Shipper
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		words := strings.Fields(in.Text())
		if words[0] == "write" {
			data := []byte(words[2] + strings.Repeat(" more", len(words[2])*1000))
			r, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: words[1], Content: data, Mode: rw.ModeOverwrite})
			if err != nil {
				return err
			}
			fmt.Println("ack", words[1], r.SHA256)
			continue
		}
		fmt.Println("begin")
		if ship == nil {
			h, err := Open(ctx, url, nil)
			if err != nil {
				fmt.Println(codeOf(err))
				continue
			}
			ship = &Shipper{Hub: h, Store: s, Label: filepath.Base(root)}
		}
		switch words[0] {
		case "publish":
			_, err = ship.Publish(ctx, PublishRequest{Task: "t", Root: root})
		case "ship":
			_, err = ship.Ship(ctx)
		case "resume":
			_, err = ship.Resume(ctx, ResumeRequest{Task: "t", Force: true})
		}
		fmt.Println(codeOf(err))
	}
	return nil
}

func codeOf(err error) string {
	var e *Error
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &e):
		return e.Code
	}
	return "err " + err.Error()
}

// process is an agent in its own process.
type process struct {
	t      *testing.T
	root   string
	inside []string // the command that runs it
	url    string
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	wrote  []string // acknowledged writes that were not published since
}

func startAgent(t *testing.T, root, url string, inside ...string) *process {
	t.Helper()
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, root: root, url: url, inside: inside}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.t.Helper()
	args := append(append([]string{}, p.inside...), os.Args[0])
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Env = append(os.Environ(), agentRoot+"="+p.root, agentHub+"="+p.url)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// say sends a command.
func (p *process) say(format string, args ...any) { fmt.Fprintf(p.in, format+"\n", args...) }

// hear returns the next line; it is empty if the process has died.
func (p *process) hear() string {
	if !p.out.Scan() {
		return ""
	}
	return p.out.Text()
}

func (p *process) write(path, text string) {
	p.t.Helper()
	p.say("write %s %s", path, text)
	line := p.hear()
	ack, ok := strings.CutPrefix(line, "ack ")
	if !ok {
		p.t.Fatalf("%s: %q", p.root, line)
	}
	p.wrote = append(p.wrote, ack)
}

// call makes the agent work on the hub until the command is done, or waiting
// would not help. A process that was killed is started again.
func (p *process) call(what string) string {
	p.t.Helper()
	for range 200 {
		p.say("%s", what)
		switch line := p.after(); line {
		case "":
			p.cmd.Wait()
			p.start()
		case Unreachable:
		default:
			return line
		}
	}
	p.t.Fatalf("%s: %s never ends", p.root, what)
	return ""
}

// done calls for what must succeed.
func (p *process) done(what string) {
	p.t.Helper()
	if said := p.call(what); said != "done" {
		p.t.Fatalf("%s: %s: %s", p.root, what, said)
	}
}

// after returns the reply that follows the line begin.
func (p *process) after() string {
	if line := p.hear(); line != "begin" {
		return line
	}
	return p.hear()
}

// wire counts the requests of agents, and acts at one of them.
type wire struct {
	next   http.Handler
	mu     sync.Mutex
	count  int
	at     int
	before func()
	after  func()
}

func (w *wire) arm(at int, before, after func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count, w.at, w.before, w.after = 0, at, before, after
}

func (w *wire) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.count++
	before, after := w.before, w.after
	if w.count != w.at {
		before, after = nil, nil
	}
	w.mu.Unlock()
	if before != nil {
		before()
	}
	if after != nil {
		defer after()
	}
	w.next.ServeHTTP(out, r.WithContext(context.WithoutCancel(r.Context()))) // also if the client has died
}

// record lists what the task must contain, may contain, and must not contain.
type record struct {
	t          *testing.T
	dir        string
	address    string // of the hub
	must, late map[string]bool
	stores     []string // workspaces
	last       *process // the last that published
}

func newRecord(t *testing.T, address string) *record {
	return &record{t: t, dir: t.TempDir(), address: address, must: map[string]bool{}, late: map[string]bool{}}
}

// next starts an agent in a new workspace.
func (r *record) next(inside ...string) *process {
	p := startAgent(r.t, filepath.Join(r.dir, fmt.Sprint("m", len(r.stores))), r.address, inside...)
	r.stores = append(r.stores, p.root)
	return p
}

func (r *record) published(p *process) {
	for _, ack := range p.wrote {
		r.must[ack] = true
	}
	p.wrote, r.last = nil, p
}

// lost makes a machine that lost the lease write once more: the hub reports the
// loss, and the write is not part of the task.
func (r *record) lost(p *process, n int) {
	p.t.Helper()
	p.write("late.txt", fmt.Sprint("late-", n))
	if got := p.call("ship"); got != Fenced && got != "done" { // the loss may have been reported before
		p.t.Errorf("after the lease was lost: %s", got)
	}
	if got := p.call("publish"); got != Leased {
		p.t.Errorf("after the lease was lost: %s", got)
	}
	r.late[p.wrote[len(p.wrote)-1]] = true
	p.wrote = nil
}

// check folds everything. The log of each store is its journal, each row once. The
// task has every published write, each once, none that was rolled back, and none of a
// machine that had lost the lease. And it resumes to the files that were published
// last.
func (r *record) check() {
	t := r.t
	t.Helper()
	h := openHub(t, r.address, nil)
	for _, root := range r.stores {
		m := openMachine(t, h, root)
		out, err := m.Ship(t.Context())
		if err != nil && !IsCode(err, Fenced) {
			t.Fatal(err)
		}
		m.sound(out.Store)
	}
	rows, writes := map[string]bool{}, map[string]int{}
	_, err := h.FoldTask(t.Context(), "t", func(epoch uint64, row Row) error {
		if id := fmt.Sprint(row.Store, row.Seq); rows[id] {
			t.Errorf("row %s is there twice", id)
		} else {
			rows[id] = true
		}
		for _, f := range row.Files {
			if row.Kind != "commit" || f.Op == "restore" {
				continue
			}
			ack := f.Path + " " + f.SHA256
			writes[ack]++
			if r.must[ack] && row.Aborted || r.late[ack] {
				t.Errorf("epoch %d has %s, aborted %t, late %t", epoch, ack, row.Aborted, r.late[ack])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for ack := range r.must {
		if writes[ack] != 1 {
			t.Errorf("the task has %s %d times", ack, writes[ack])
		}
	}
	if x, y := tree(t, r.last.root), tree(t, resumed(t, h, "t").root); !maps.Equal(x, y) {
		t.Errorf("published were %v, resumed %v", x, y)
	}
	t.Logf("%d rows of %d stores, %d writes that were published, %d that came too late", len(rows), len(r.stores), len(r.must), len(r.late))
}

// TestFleet: agents in separate processes hand a task on. At some request of each
// publication, before or after the store has received it, the agent is killed, the server
// is killed or stopped, or the agent is stopped and another one takes the task. In the
// last case the request reaches the store after the lease was lost.
func TestFleet(t *testing.T) {
	s3Environment(t)
	t.Run("in memory", func(t *testing.T) {
		fleet(t, &s3test.Server{}, nil, 12)
	})
	t.Run("a real server", func(t *testing.T) {
		g := s3test.StartGateway(t, "")
		fleet(t, g.Handler(), g, 40)
	})
}

func fleet(t *testing.T, store http.Handler, g *s3test.Gateway, rounds int) {
	w := &wire{next: store}
	r := newRecord(t, bucket(t, w))
	rng := rand.New(rand.NewPCG(7, 7))
	holder := r.next()
	for round := range rounds {
		for i := range 3 {
			holder.write(fmt.Sprint("f", i, ".txt"), fmt.Sprintf("round-%03d-%d", round, i))
		}
		at, p := 1+rng.IntN(14), holder
		restart := func() { g.Kill(); g.Start() }
		stall := func() { g.Signal(syscall.SIGSTOP); g.Signal(syscall.SIGCONT) }
		cmd := p.cmd
		kill := func() { cmd.Process.Kill() }
		kinds := 3
		if g != nil {
			kinds = 6
		}
		switch round % kinds {
		case 0:
			w.arm(at, kill, nil)
		case 1:
			w.arm(at, nil, kill)
		case 2:
			holder = takeover(t, w, at, p, r, round)
			continue
		case 3:
			w.arm(at, restart, nil)
		case 4:
			w.arm(at, nil, restart)
		case 5:
			w.arm(at, stall, nil)
		}
		p.done("publish")
		r.published(p)
		w.arm(0, nil, nil)
	}
	holder.kill()
	r.check()
}

// takeover stops an agent at a request that the store does not have yet, and
// makes another one take the task and publish. Then the request and the agent
// continue.
func takeover(t *testing.T, w *wire, at int, p *process, r *record, round int) *process {
	t.Helper()
	stopped, over := make(chan bool), make(chan bool)
	w.arm(at, func() {
		p.cmd.Process.Signal(syscall.SIGSTOP)
		stopped <- true
		<-over
	}, nil)
	p.say("publish")
	reply := make(chan string, 1)
	go func() { reply <- p.after() }()
	var got string
	select {
	case <-stopped:
	case got = <-reply: // it needed fewer requests
		w.arm(0, nil, nil)
		if got != "done" {
			t.Fatalf("round %d: %s", round, got)
		}
		r.published(p)
	}
	b := r.next()
	if said := b.call("resume"); said == NotFound && got == "" { // nothing was published before
		close(over)
		p.cmd.Process.Signal(syscall.SIGCONT)
		<-reply
		w.arm(0, nil, nil)
		if said := p.call("publish"); said != "done" && said != Leased {
			t.Fatalf("round %d: %s", round, said)
		}
		r.published(p)
		b.done("resume")
	} else if said != "done" {
		t.Fatalf("round %d: %s", round, said)
	} else if got == "" {
		b.write("b.txt", fmt.Sprint("taken-", round))
		b.done("publish")
		r.published(b)
		close(over)
		p.cmd.Process.Signal(syscall.SIGCONT)
		if got = <-reply; got != Fenced && got != Leased && got != "done" && got != Unreachable {
			t.Errorf("round %d: %s", round, got)
		}
		if got == "done" { // only the answer was outstanding
			r.published(p)
		}
	}
	r.last = b
	r.lost(p, round)
	p.kill()
	return b
}

// descriptors sets how many descriptors this process may have, and returns the limit before.
func descriptors(t *testing.T, n uint64) uint64 {
	t.Helper()
	var old syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old)
	if err = errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: old.Max})); err != nil {
		t.Fatal(err)
	}
	return old.Cur
}

// TestPublishWithoutDescriptors: a handoff that cannot be read for a moment is not taken from
// the task.
func TestPublishWithoutDescriptors(t *testing.T) {
	failed := 0
	for n, ended := 1, false; !ended; n++ {
		m := openMachine(t, newFrail().hub(), filepath.Join(t.TempDir(), "w"))
		m.handoff("t")
		m.publish(PublishRequest{Task: "t"})
		calls, old := 0, uint64(0)
		m.now = func() time.Time {
			if calls++; calls == n {
				old = descriptors(t, 3)
			}
			return time.Now()
		}
		_, err := m.Publish(t.Context(), PublishRequest{Task: "t", Root: m.root})
		if ended = calls < n; !ended {
			descriptors(t, old)
		}
		if err != nil {
			failed++
		}
		head, _, herr := m.task(t.Context(), "t")
		if herr != nil || head.Handoff == nil {
			t.Errorf("clock %d: %v, %v: %+v", n, err, herr, head)
		}
	}
	if failed == 0 {
		t.Error("nothing failed")
	}
}

// TestShipWithoutDescriptors: contents that cannot be read for a moment are not shipped as
// lost.
func TestShipWithoutDescriptors(t *testing.T) {
	f := newFrail()
	m := openMachine(t, f.hub(), filepath.Join(t.TempDir(), "w"))
	m.write("a.txt", "one")
	m.write("a.txt", "two")
	old := uint64(0)
	m.save = func(st *state) error { // the bounds; the contents follow
		err := st.save(m.Store)
		old = descriptors(t, 3)
		return err
	}
	out, err := m.Ship(t.Context())
	descriptors(t, old)
	if !errors.Is(err, rw.ErrTooManyFiles) {
		t.Fatalf("%v %+v", err, out)
	}
	f.revive(m)
	if out := m.ship(); out.Contents != 2 {
		t.Fatalf("%+v", out)
	}
}
