package resilientwrite

import (
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
)

// ResealManifest gives a manifest the hash that makes it one of ours, whatever
// it says; ok is false for what cannot be one.
func ResealManifest(data []byte, session string) (sealed []byte, ok bool) {
	var m chunks.Manifest
	if json.Unmarshal(data, &m) != nil {
		return nil, false
	}
	m.Session = session
	sealed, err := m.Encode()
	return sealed, err == nil
}
