package resilientwrite

import (
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// judgeMove decides whether a file may get its new name.
func (m *mutation) judgeMove() error {
	if !m.source.prev.exists {
		e := fault.New(fault.NotFound).Hintf("there is no file at path")
		e.Path = m.source.path
		return e
	}
	if m.prev.exists && !m.overwrite {
		return fault.New(fault.FileAlreadyExists).With("existing_sha256", m.prev.sha).Hintf("the new path exists; choose another one, or pass overwrite to replace it")
	}
	if m.prev.exists && m.prev.stat.Mode&0o222 == 0 && !m.force {
		return fault.New(fault.ReadOnlyFile).With("mode", octal(m.prev.stat.Mode))
	}
	return nil
}

// composeMove takes what is known of the old name over to the new one.
func (m *mutation) composeMove(s *engine) {
	was := m.source.prev
	m.final, m.sha, m.size, m.stageSHA = fileBody(was.file, was.stat.Size), was.sha, was.stat.Size, was.sha
	m.mode, m.traits, m.midState = was.stat.Mode, was.traits, was.hash.state()
	m.how = publish.Move
}

// stageMove keeps a version of the file that is to be replaced: the move takes
// its name from it in two steps.
func (m *mutation) stageMove(c *engineCommit) error {
	from, err := m.source.target.Parent.Stat()
	if err != nil {
		return err
	}
	to, err := m.target.Parent.Stat()
	if err != nil {
		return err
	}
	if from.Dev != to.Dev {
		return fault.New(fault.CrossDevice)
	}
	if !m.prev.exists {
		return nil
	}
	return c.spare.try(func() error { return m.savePrev(c.s) })
}
