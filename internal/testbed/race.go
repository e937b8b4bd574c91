//go:build race

package testbed

// RaceDetector reports whether the tests run under the race detector, which
// makes everything ten times slower.
const RaceDetector = true
