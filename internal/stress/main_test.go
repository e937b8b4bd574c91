//go:build linux

// Package stress runs several processes on one workspace, and an editor that does not use
// the store. It kills and stops the processes at random, fills the disk, and then checks
// the remaining files against the result of each call:
//
//   - the result of every acknowledged write is the content of a file or a
//     version that can be restored;
//   - so is everything that the editor saved and did not replace itself;
//   - a call that reported the effect "none" left nothing;
//   - no content holds one write twice;
//   - a call says that a file changed during the write only when the editor
//     changed that file meanwhile.
//
// It logs its counts. A run of a minute or more fails below 10,000 writes, 2,000 saves and
// 50 kills.
//
//	go test ./internal/stress -v -timeout 0 -args -time 2m -kill 1s
package stress

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var (
	length  = flag.Duration("time", time.Second, "how long the processes run")
	procs   = flag.Int("procs", 4, "processes that write")
	threads = flag.Int("threads", 4, "writers in each process")
	editors = flag.Int("editors", 2, "editors")
	paths   = flag.Int("paths", 40, "files")
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of all choices")
	level   = flag.String("sync", "full", "full, journal or off")
	caps    = flag.Bool("caps", false, "keep few versions: only the newest of each file is checked")
	full    = flag.Bool("full", false, "fill the disk at times; needs a place of its own with -dir")
	dir     = flag.String("dir", "", "workspace; default: a temporary directory")
	killing = flag.Duration("kill", 0, "mean time between two kills or stops; 0 for none")
	worker  = flag.Int("worker", -1, "run as a writing process")
	logs    = flag.String("logs", "", "directory of the logs")
	round   = flag.Int("round", 0, "how often this process was started before")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *worker >= 0 {
		runWorker(*dir, *logs, *worker, *round)
		return
	}
	os.Exit(m.Run())
}

// TestStress keeps the workspace and the logs of a run that failed.
func TestStress(t *testing.T) {
	ws := *dir
	for name, place := range map[string]*string{"ws": &ws, "logs": logs} {
		if *place == "" {
			*place = filepath.Join(testbed.Must(os.MkdirTemp("", "rw-stress-"))(t), name)
			t.Cleanup(func() {
				if t.Failed() {
					t.Log("kept in", *place)
				} else {
					os.RemoveAll(filepath.Dir(*place))
				}
				*place = "" // another one for the next run
			})
		}
		testbed.NoErr(t, os.MkdirAll(*place, 0o755))
	}
	testbed.NoErr(t, writePolicy(ws))
	c := &crew{ws: ws, rng: rand.New(rand.NewPCG(*seed, 1))}
	c.run()
	v := check(ws, *logs)
	v.kills, v.stops, v.fills = c.kills, c.stops, c.fills
	v.report(t)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// writePolicy sets how many versions are kept: by default all of them.
func writePolicy(ws string) error {
	versions := 1000000
	if *caps {
		versions = 4
	}
	state := filepath.Join(ws, ".resilient_write")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	text := fmt.Sprintf("version: 1\nhistory: {max_bytes: 64GiB, max_versions: %d}\nretry_budget: {default: 100}\n", versions)
	return os.WriteFile(filepath.Join(state, "policy.yaml"), []byte(text), 0o600)
}

// crew is the processes and the disturbances of them.
type crew struct {
	ws                  string
	rng                 *rand.Rand
	mu                  sync.Mutex
	alive               []*exec.Cmd
	kills, stops, fills int
}

// run keeps the processes running, kills and stops them until the time has elapsed, and
// then ends them in order.
func (c *crew) run() {
	ctx, cancel := context.WithTimeout(context.Background(), *length)
	defer cancel()
	var wg sync.WaitGroup
	c.alive = make([]*exec.Cmd, *procs)
	for i := range *procs {
		wg.Go(func() { ; c.keep(ctx, i) })
	}
	for i := range *editors {
		wg.Go(func() { ; runEditor(ctx, c.ws, *logs, i) })
	}
	if *full {
		wg.Go(func() { ; c.fill(ctx) })
	}
	for ctx.Err() == nil && *killing > 0 {
		pause(ctx, time.Duration(c.rng.ExpFloat64()*float64(*killing)))
		c.disturb(ctx)
	}
	<-ctx.Done()
	wg.Wait()
}

// keep starts a process again whenever it ends.
func (c *crew) keep(ctx context.Context, i int) {
	for round := 0; ctx.Err() == nil; round++ {
		cmd := exec.Command(os.Args[0], "-worker", strconv.Itoa(i), "-round", strconv.Itoa(round), "-dir", c.ws, "-logs", *logs,
			"-seed", strconv.FormatUint(*seed, 10), "-threads", strconv.Itoa(*threads), "-paths", strconv.Itoa(*paths), "-sync", *level)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe() // the process stops at its end
		must(err)
		must(cmd.Start())
		c.mu.Lock()
		c.alive[i] = cmd
		c.mu.Unlock()
		ended := make(chan struct{})
		go func() {
			select {
			case <-ctx.Done():
				cmd.Process.Signal(syscall.SIGCONT)
				in.Close()
			case <-ended:
			}
		}()
		cmd.Wait()
		close(ended)
		c.mu.Lock()
		c.alive[i] = nil
		c.mu.Unlock()
	}
}

// disturb kills a process, or stops it for up to five seconds.
func (c *crew) disturb(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := c.alive[c.rng.IntN(*procs)]
	if cmd == nil || ctx.Err() != nil {
		return
	}
	if c.rng.IntN(4) > 0 {
		cmd.Process.Kill()
		c.kills++
		return
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	c.stops++
	time.AfterFunc(time.Duration(c.rng.IntN(5000))*time.Millisecond, func() { cmd.Process.Signal(syscall.SIGCONT) })
}

// fill takes all space of the disk and gives it back.
func (c *crew) fill(ctx context.Context) {
	name := filepath.Join(c.ws, "..", "filler")
	for ctx.Err() == nil {
		pause(ctx, 3*time.Second)
		f, err := os.Create(name)
		must(err)
		for block := make([]byte, 1<<20); ctx.Err() == nil; {
			if _, err := f.Write(block); err != nil {
				if len(block) == 1 {
					break
				}
				block = block[:len(block)/2]
			}
		}
		c.fills++
		pause(ctx, 300*time.Millisecond)
		f.Close()
		os.Remove(name)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
