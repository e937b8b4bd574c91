package testbed

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Plant creates files and their parent directories directly.
func Plant(t testing.TB, dir string, mode fs.FileMode, files map[string]string) {
	t.Helper()
	for name, text := range files {
		place := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// Forms returns the forms in which a secret could be stored or shown: unchanged, in
// hexadecimal, in escapes of JSON, in base64 at any place of a text, and two thirds of
// it.
func Forms(secret string) []string {
	escaped := ""
	for _, c := range secret {
		escaped += fmt.Sprintf(`\u%04x`, c)
	}
	list := []string{
		secret, secret[:len(secret)*2/3], secret[len(secret)/3:], hex.EncodeToString([]byte(secret)), escaped,
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	for shift := range 3 { // the middle of its base64, whatever is before it
		b := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		list = append(list, b[4:len(b)-4])
	}
	return list
}
