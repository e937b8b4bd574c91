//go:build !linux

package bench

func spread(string) {}
