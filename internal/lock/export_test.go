package lock

import "testing"

// TellAtOnce has every call told, however short.
func TellAtOnce(t *testing.T) {
	before := notable
	notable = 0
	t.Cleanup(func() { notable = before })
}
