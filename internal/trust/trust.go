// Package trust records which policy files their user has approved. The records
// are stored in the user's configuration directory, where no repository puts a
// file and no tool of an agent writes: one file for each workspace and hash.
package trust

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Record states that the policy file with a hash may weaken the rules of a workspace.
type Record struct {
	Root   string    `json:"root"` // absolute, without symbolic links
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
}

const (
	suffix      = ".json"
	recordLimit = 64 << 10
)

// Errors of a directory that cannot be used.
var (
	// ErrNoHome: the system names no configuration directory.
	ErrNoHome = errors.New("there is no configuration directory")
	// ErrInside: the records would be in the workspace, where agents write.
	ErrInside = errors.New("the configuration directory is in the workspace")
	// ErrOthers: others can write where the records are.
	ErrOthers = errors.New("others can write where trusted policies are recorded")
)

// place is where the records are.
func place() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil || !filepath.IsAbs(dir) {
		return "", ErrNoHome
	}
	return filepath.Join(dir, "resilientwrite", "trusted"), nil
}

func fileName(root, hash string) string {
	sum := sha256.Sum256([]byte(root + "\x00" + hash))
	return hex.EncodeToString(sum[:]) + suffix
}

// open opens the directory of the records. It must not be in the workspace
// root, and belong to this user or root alone.
func open(root string) (fsx.Dir, error) {
	dir, err := place()
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	if root != "" && relpath.Contains(root, real) {
		return nil, ErrInside
	}
	d, err := fsx.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	if st, err := d.Stat(); err != nil || !safe(st) {
		d.Close()
		return nil, ErrOthers
	}
	return d, nil
}

// safe reports whether only this user and root can write a file or directory.
// It is true on systems without owners.
func safe(st fsx.Stat) bool {
	self := os.Geteuid()
	return self < 0 || (st.UID == self || st.UID == 0) && st.Mode&0o022 == 0
}

// Has reports whether the policy file of a hash is trusted in the workspace
// root. What cannot be read is not there.
func Has(root, hash string) bool {
	d, err := open(root)
	if err != nil {
		return false
	}
	defer d.Close()
	r, err := read(d, fileName(root, hash))
	return err == nil && r.Root == root && r.SHA256 == hash
}

func read(d fsx.Dir, name string) (r Record, err error) {
	st, err := d.Lstat(name)
	if err != nil {
		return r, err
	}
	if !safe(st) {
		return r, ErrOthers
	}
	data, err := durable.ReadFile(d, name, recordLimit)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// Add records that a policy file is trusted.
func Add(r Record) error {
	dir, err := place()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	d, err := open(r.Root)
	if err != nil {
		return err
	}
	defer d.Close()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := fileName(r.Root, r.SHA256)
	return durable.WriteFrom(d, durable.TempName(name), d, name, append(data, '\n'), 0o600)
}

// List returns the records, by workspace and time. There may be none.
func List() ([]Record, error) {
	d, err := open("")
	if err != nil {
		return nil, fsx.Unless(err, fs.ErrNotExist)
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	var list []Record
	for _, name := range names {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		if r, err := read(d, name); err == nil && fileName(r.Root, r.SHA256) == name {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Record) int { return cmp.Or(strings.Compare(a.Root, b.Root), a.At.Compare(b.At)) })
	return list, nil
}

// Remove removes every record of a workspace and returns how many there were.
func Remove(root string) (int, error) {
	list, err := List()
	if err != nil {
		return 0, err
	}
	d, err := open("")
	if err != nil {
		return 0, fsx.Unless(err, fs.ErrNotExist)
	}
	defer d.Close()
	n := 0
	for _, r := range list {
		if r.Root != root {
			continue
		}
		if err := d.Remove(fileName(r.Root, r.SHA256)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		n++
	}
	return n, d.Sync()
}
