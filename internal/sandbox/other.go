//go:build !linux

package sandbox

import (
	"context"
	"os"
	"runtime"
)

// stamp is of copies, which are not made here.
type stamp struct{}

// Main returns: there is no helper here.
func Main() {}

// Changes lists nothing: there are no views here.
func (v *View) Changes(func(Change) error) error { return nil }

func (v *View) run(context.Context, Job) (Exit, bool, error) {
	return Exit{}, false, &missingError{what: "there is none for " + runtime.GOOS + "; use Linux", always: true}
}

func lockFile(name string, _ bool) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}
