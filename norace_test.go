//go:build !race

package resilientwrite_test

// raceDetector reports whether the tests run under the race detector.
const raceDetector = false
