package resilientwrite

import (
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
)

// ResealManifest gives a manifest the hash that makes it ours, whatever its content; ok
// is false for data that cannot be a manifest.
func ResealManifest(data []byte, session string) (sealed []byte, ok bool) {
	var m chunks.Manifest
	if json.Unmarshal(data, &m) != nil {
		return nil, false
	}
	m.Session = session
	sealed, err := m.Encode()
	return sealed, err == nil
}
