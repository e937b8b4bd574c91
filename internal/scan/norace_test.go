//go:build !race

package scan

// raceDetector reports whether the tests run under the race detector.
const raceDetector = false
