package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

const tokenFileBytes = 4096

// tokenOf reads the token from a file that only its owner can read, or creates
// the file with a new one.
func tokenOf(name string) (string, error) {
	token := rand.Text() + rand.Text()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readToken(name)
	}
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(token + "\n")
	if err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err != nil {
		os.Remove(name) // a partial token could be mistaken for a complete one
	}
	return token, err
}

func readToken(name string) (string, error) {
	// Check the kind first: opening a pipe would wait for its other end.
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", errors.New("other users can read it; change its mode to 0600")
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, tokenFileBytes))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", errors.New("it is empty")
	}
	return token, nil
}
