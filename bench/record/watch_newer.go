//go:build linux && !amd64

package main

var olderCalls []uint32
