package engine

import (
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// judgeMove decides whether a file may get its new name.
func (m *Mutation) judgeMove() error {
	if !m.Source.Prev.Exists {
		e := fault.New(fault.NotFound).Hintf("there is no file at path")
		e.Path = m.Source.Path
		return e
	}
	if m.Prev.Exists && !m.Overwrite {
		return fault.New(fault.FileAlreadyExists).With("existing_sha256", m.Prev.SHA).Hintf("the new path exists; choose another one, or pass overwrite to replace it")
	}
	if m.Prev.Exists && m.Prev.Stat.Mode&0o222 == 0 && !m.Force {
		return fault.New(fault.ReadOnlyFile).With("mode", Octal(m.Prev.Stat.Mode))
	}
	return nil
}

// composeMove takes what is known of the old name over to the new one.
func (m *Mutation) composeMove() {
	was := m.Source.Prev
	m.Final, m.SHA, m.Size, m.stageSHA = FileBody(was.File, was.Stat.Size), was.SHA, was.Stat.Size, was.SHA
	m.Mode, m.traits, m.midState = was.Stat.Mode, was.Traits, was.hash.State()
	m.Primitive = publish.Move
}

// stageMove keeps a version of the file that is to be replaced: the move takes
// its name from it in two steps.
func (m *Mutation) stageMove(c *Commit) error {
	from, err := m.Source.Target.Parent.Stat()
	if err != nil {
		return err
	}
	to, err := m.Target.Parent.Stat()
	if err != nil {
		return err
	}
	if !from.SameVolume(to) {
		return fault.New(fault.CrossDevice)
	}
	if !m.Prev.Exists {
		return nil
	}
	m.extra = m.hasExtra()
	return m.savePrevFor(c)
}
