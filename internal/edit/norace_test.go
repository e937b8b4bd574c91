//go:build !race

package edit

const raceDetector = false
