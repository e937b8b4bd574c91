package toolbox_test

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }
