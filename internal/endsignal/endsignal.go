// Package endsignal has the signals that end a command.
package endsignal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Context returns a context that ends when the process is to end: on an interrupt,
// SIGTERM, or a hangup. A hangup that the parent ignores, as nohup does, stays ignored.
// A second signal ends the process at once. stop releases the context.
func Context() (ctx context.Context, stop context.CancelFunc) {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), list...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
