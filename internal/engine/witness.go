package engine

import (
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// A slot that is gone says that its commit is published, and the inode of one
// that is there says whether it is. Neither holds where the directory of slots was
// removed and made again, or was copied. A file in it
// whose name holds its own inode, as that of a slot does, shows it: it is the
// witness. It is made before the first slot and stays.

// WitnessStem begins the name of the witness.
const WitnessStem = "witness"

// witness is what a directory of slots says of itself.
type witness int

const (
	witnessSeen   witness = iota // it is the directory in which the slots were made
	witnessCopied                // it is a copy: inode numbers say nothing
	witnessGone                  // it is another directory: a slot that is missing says nothing
)

// witnessed looks at the directory. It lists the names only until it has found the
// witness: recovery asks for every mutation.
func (d *slotDir) witnessed() (witness, error) {
	if d.dir == nil {
		return witnessGone, nil
	}
	if name := d.witness.Load(); name != nil {
		if is, err := isWitness(d.dir, *name); err != nil || is {
			return witnessSeen, err
		}
	}
	names, err := d.dir.Names()
	if err != nil {
		return witnessGone, err
	}
	found := witnessGone
	for _, name := range names {
		if !strings.HasPrefix(name, WitnessStem+"-") {
			continue
		}
		is, err := isWitness(d.dir, name)
		if err != nil {
			return witnessGone, err
		}
		if is {
			d.witness.Store(&name)
			return witnessSeen, nil
		}
		found = witnessCopied
	}
	return found, nil
}

func isWitness(dir fsx.Dir, name string) (bool, error) {
	st, err := dir.Lstat(name)
	if err != nil && !IsAbsent(err) {
		return false, err
	}
	ino, perr := strconv.ParseUint(strings.TrimPrefix(name, WitnessStem+"-"), 36, 64)
	return err == nil && perr == nil && st.Ino == ino, nil
}

// renewWitness makes the witness where there is none that is true. Every slot of
// a dead writer was judged. Without it, on a full disk, a slot that is missing
// says nothing.
func (s *Engine) renewWitness() {
	if w, err := s.slotDirs.home.witnessed(); err != nil || w == witnessSeen {
		return
	}
	dir := s.Disk.Staging
	names, err := dir.Names()
	if err != nil {
		return
	}
	dir.Remove(WitnessStem + publish.Unnamed)
	if _, err := publish.MakeSlot(dir, WitnessStem, ""); err != nil || s.syncDirs(dir) != nil {
		return
	}
	for _, name := range names {
		if strings.HasPrefix(name, WitnessStem+"-") {
			dir.Remove(name)
		}
	}
}
