package main

import (
	"time"

	"github.com/rs/zerolog"
	"github.com/zricethezav/gitleaks/v8/detect"
	gitleaks "github.com/zricethezav/gitleaks/v8/logging"

	"github.com/resilientwrite/resilientwrite/bench/scan/internal/texts"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// An arm scans a text, and returns the CPU time and the number of secrets that
// it found.
type arm struct {
	name string
	most int // length of the longest text that it gets
	scan func(text []byte) (cpu time.Duration, found int, err error)
	stop func()
}

// inside returns an arm that runs in this process.
func inside(name string, most int, find func([]byte) int) arm {
	return arm{name: name, most: most, stop: func() {}, scan: func(text []byte) (time.Duration, int, error) {
		from := texts.CPU()
		n := find(text)
		return texts.CPU() - from, n, nil
	}}
}

// start starts the arms, ours first. If trufflehog is not among them, skipped
// says why.
func start(peer bool) (arms []arm, skipped string) {
	ours, err := scan.New(nil)
	if err != nil {
		panic(err) // the default policy compiles
	}
	gitleaks.Logger = gitleaks.Logger.Level(zerolog.Disabled)
	theirs, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		panic(err) // it is compiled into the module
	}
	arms = []arm{
		inside("resilientwrite", 1<<30, func(text []byte) int {
			r := ours.Score(text, scan.Options{})
			return len(r.Findings) + r.Omitted
		}),
		// On base64 and go.sum its time grows with the square of the length.
		inside("gitleaks", 100<<10, func(text []byte) int { return len(theirs.DetectBytes(text)) }),
	}
	if !peer {
		return arms, "it was left out"
	}
	child, err := trufflehog(pinned)
	if err != nil {
		return arms, err.Error()
	}
	return append(arms, child), ""
}
