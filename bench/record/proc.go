//go:build linux

package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// proc is a tool in a separate process, which can be killed.
type proc struct {
	arm, dir, level string

	cmd     *exec.Cmd
	in      io.Closer
	orders  *gob.Encoder
	replies *gob.Decoder
	sock    int
	w       *watcher
	dead    bool
	drop    bool  // the process is killed before the next reply is seen
	doomed  bool  // it may die at any moment
	err     error // it died unexpectedly
}

// patience is the time limit of a call.
const patience = 2 * time.Minute

func startProc(arm, dir, level string) (*proc, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	p := &proc{arm: arm, dir: real, level: level, dead: true}
	return p, p.start()
}

func (p *proc) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(pair[1]), "listener")
	defer theirs.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), armEnv+"="+p.arm, dirEnv+"="+p.dir, levelEnv+"="+p.level)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{theirs}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.in, p.orders, p.replies = cmd, in, gob.NewEncoder(in), gob.NewDecoder(out)
	p.sock, p.dead, p.doomed, p.w = pair[0], false, false, nil
	var ready string
	if err := p.receive(&ready); err != nil {
		p.kill()
		return fmt.Errorf("%s did not start: %w", p.arm, err)
	}
	return nil
}

// receive reads one answer.
func (p *proc) receive(into any) error {
	timer := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	return p.replies.Decode(into)
}

// ask sends an order and reads its result.
func (p *proc) ask(o order, into any) error {
	if p.dead {
		return errors.New("the process is dead")
	}
	if err := p.orders.Encode(o); err != nil {
		return err
	}
	return p.receive(into)
}

// Call calls the tool. If the process dies during the call, the reply is lost.
func (p *proc) Call(_ context.Context, c call) reply {
	var rep reply
	err := p.ask(order{Do: "call", Call: c}, &rep)
	if err != nil || p.drop {
		if !p.doomed {
			p.err = errors.Join(p.err, fmt.Errorf("the tool died by itself in %s: %w", c.Verb, err))
		}
		p.drop = false
		p.kill()
		return lost
	}
	return rep
}

// Has reports whether the arm has the verb. The arm need not be open.
func (p *proc) Has(v verb) bool {
	return !isPlain(p.arm) || (*plain)(nil).Has(v)
}

// kill ends the process and waits until it is gone.
func (p *proc) kill() {
	if !p.dead {
		p.cmd.Process.Kill()
	}
	p.stop()
}

// stop ends the process cleanly.
func (p *proc) stop() {
	if p.dead {
		return
	}
	p.dead = true
	p.in.Close()
	timer := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	p.cmd.Wait()
	timer.Stop()
	unix.Close(p.sock)
}

// restart starts the tool again on the same workspace.
func (p *proc) restart() error {
	p.kill()
	return p.start()
}

// watched returns the watcher of the system calls of the process.
func (p *proc) watched() (*watcher, error) {
	if p.w != nil {
		return p.w, nil
	}
	process, sock := p.cmd.Process, p.sock
	w := &watcher{dir: p.dir, killAt: -1, kill: func() { process.Kill() }}
	got := make(chan error, 1)
	go func() { // from now on the reply of the child needs permission, too
		var err error
		if w.fd, err = receive(sock); err == nil {
			go w.loop()
		}
		got <- err
	}()
	var ok string
	err := p.ask(order{Do: "watch"}, &ok)
	if err != nil {
		p.kill() // ends the wait for the listener
	}
	if err = errors.Join(err, <-got); err != nil {
		return nil, fmt.Errorf("the system calls of a child cannot be watched (seccomp user notification): %w", err)
	}
	p.w = w
	return w, nil
}

// counted makes a call, and returns how many system calls that change the disk it takes.
func (p *proc) counted(ctx context.Context, c call) (int, error) {
	w, err := p.watched()
	if err != nil {
		return 0, err
	}
	w.observe(-1)
	if rep := p.Call(ctx, c); !rep.OK {
		return 0, errors.New(rep.Text)
	}
	n, _ := w.rest()
	return n, nil
}

// limit bounds the files that the process can write; 0 lifts the limit.
func (p *proc) limit(bytes int) error {
	lim := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if bytes > 0 {
		lim.Cur = uint64(bytes)
	}
	return unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &lim, nil)
}

// inspect checks the files that the tool stores.
func (p *proc) inspect() (findings, error) {
	var f findings
	err := p.ask(order{Do: "inspect"}, &f)
	return f, err
}
