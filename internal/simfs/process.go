package simfs

import (
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Process is one program that uses the disk. Its handles and locks end with
// it; those of other processes stay.
type Process struct {
	f       *FS
	foreign bool
	dead    bool
	files   map[*file]bool
	dirs    map[*dir]bool
	paused  chan struct{} // closed when the process resumes; nil while it runs
	reached chan struct{} // closed when PauseAt has stopped it
	ops     int
	muts    int
	pauseAt int // operation before which it stops; -1 never
	stopAt  int // mutating operation from which on it is dead; -1 never
}

// NewProcess starts another process.
func (f *FS) NewProcess() *Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &Process{f: f, stopAt: -1, pauseAt: -1}
	f.started = append(f.started, p)
	return p
}

// Foreign is the top directory as a program sees it that takes no part in the
// test: its operations are not traced, not counted and not made to fail.
func (f *FS) Foreign() fsx.Dir {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := &Process{f: f, foreign: true, stopAt: -1, pauseAt: -1}
	f.started = append(f.started, p)
	return &dir{handle: handle{f: f, n: f.root, process: p}}
}

// Root is the top directory as the process sees it.
func (p *Process) Root() fsx.Dir {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	return &dir{handle: handle{f: p.f, n: p.f.root, process: p}}
}

// Kill ends the process: its handles are invalid and its locks are released. Its writes
// stay.
func (p *Process) Kill() {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.kill()
}

func (p *Process) kill() {
	p.dead = true
	for x := range p.files {
		x.release()
	}
	p.resume()
}

// StopAt kills the process at its mutating operation n, counted from now on:
// that one and all that follow fail and change nothing. Its locks are free
// after [Process.Kill]. Negative means never.
func (p *Process) StopAt(n int) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if p.stopAt = n; n >= 0 {
		p.stopAt = p.muts + n
	}
}

// PauseAt stops the process, as SIGSTOP does, before its operation n, counted
// from now on; reads count. The channel is closed when it has stopped. Its
// locks stay taken until [Process.Continue] or [Process.Kill].
func (p *Process) PauseAt(n int) (reached <-chan struct{}) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.pauseAt, p.reached = p.ops+n, make(chan struct{})
	return p.reached
}

// Continue lets a stopped process go on, and cancels a PauseAt that was not
// reached.
func (p *Process) Continue() {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.pauseAt = -1
	p.resume()
}

func (p *Process) resume() {
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// wait counts an operation and returns when the process is not stopped. The caller
// holds f.mu, which is released during the wait.
func (p *Process) wait() {
	if p.pauseAt >= 0 && p.ops >= p.pauseAt && !p.dead {
		p.pauseAt, p.paused = -1, make(chan struct{})
		close(p.reached)
	}
	p.ops++
	for p.paused != nil {
		gate := p.paused
		p.f.mu.Unlock()
		<-gate
		p.f.mu.Lock()
	}
}

// opened notes a handle of the process.
func (p *Process) opened(x *file) {
	if p.files == nil {
		p.files = map[*file]bool{}
	}
	p.files[x] = true
	if x.writes() {
		if x.n.writers == nil {
			x.n.writers = map[*file]bool{}
		}
		x.n.writers[x] = true
	}
}

// openedDir is opened for a directory.
func (p *Process) openedDir(d *dir) {
	if p.dirs == nil {
		p.dirs = map[*dir]bool{}
	}
	p.dirs[d] = true
}

// Open lists the files and directories that the process has open, without the top
// directory.
func (p *Process) Open() (list []string) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for x := range p.files {
		list = append(list, x.path)
	}
	for d := range p.dirs {
		list = append(list, d.path+"/")
	}
	slices.Sort(list)
	return list
}

// doForeign runs an operation of a foreign program.
func (f *FS) doForeign(p *Process, op Op, apply func(op Op) error) error {
	if p.dead {
		return fail(op, ErrDead)
	}
	if mutating(op.Kind) {
		f.clock++
	}
	return apply(op)
}
