package mcpserver_test

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// noErr and must check errors, as testbed describes.
var noErr = testbed.NoErr

func must[T any](v T, err error) func(testing.TB, ...any) T { return testbed.Must(v, err) }
