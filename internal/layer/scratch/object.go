package scratch

import (
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// The states of a stored object.
const (
	scratchAbsent = iota
	scratchIntact
	scratchDamaged
)

// inspectScratch compares a stored object with its name. One that is intact is
// made durable: its writer may not have done so.
func (s *Layer) inspectScratch(sha string) (int, error) {
	dir, err := s.StatePart(Dir)
	if dir == nil || err != nil {
		return scratchAbsent, err
	}
	defer dir.Close()
	f, err := dir.Open(BinName(sha), fsx.Read, 0)
	var kind *fsx.TypeError
	switch {
	case engine.IsAbsent(err):
		return scratchAbsent, nil
	case errors.As(err, &kind): // something else has its name
		return scratchDamaged, nil
	case err != nil:
		return scratchAbsent, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return scratchAbsent, err
	}
	d, t, err := engine.Measure(io.NewSectionReader(f, 0, st.Size))
	if err != nil {
		return scratchAbsent, err
	}
	if d.Hex() != sha {
		// The remembered hash of the file is not valid.
		s.Hashes.Put(st, engine.HashEntry{SHA: d.Hex(), State: d.State(), Traits: t})
		return scratchDamaged, nil
	}
	if s.Opts.Sync == engine.SyncOff {
		return scratchIntact, nil
	}
	if err := f.Sync(); err != nil {
		return scratchIntact, s.Poison(err)
	}
	return scratchIntact, s.SyncDir(dir)
}

func scratchObject(sha string, op engine.WriteOp) *engine.Mutation {
	m := engine.NewObject(Dir+"/"+BinName(sha), "scratch", op)
	m.Ungated, m.AbsentOK = true, op == engine.OpDelete
	return m
}

const BinSuffix = ".bin"

func BinName(sha string) string { return sha + BinSuffix }

func Path(sha string) string {
	return engine.StateDirName + "/" + Dir + "/" + BinName(sha)
}
