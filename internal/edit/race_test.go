//go:build race

package edit

// raceDetector is on: everything takes a hundred times as long.
const raceDetector = true
