package mcpserver_test

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the heaps of small stores are collected all the time otherwise
	remove := testbed.Memory()
	code := m.Run()
	remove()
	os.Exit(code)
}
