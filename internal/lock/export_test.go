package lock

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// PublishAtOnce has every call published, however short.
func PublishAtOnce(t *testing.T) { testbed.Set(t, &notable, 0) }
