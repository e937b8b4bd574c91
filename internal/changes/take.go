package changes

import (
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Take takes the content of a file, and its mode if it is created, for a mutation, and
// returns the hash of the content.
type Take func(m *engine.Mutation, src io.Reader, mode uint32) (sha string, err error)

// version is the content that a file is to get.
type version struct {
	sha      string
	size     int64
	mode     uint32 // of the file, if it is created; 0: as the mutation says
	recorded uint32 // the same, if history has the version
}

// restored returns the mutation that gives a file another version in place of believed.
func restored(kind, path, believed string, link bool) *engine.Mutation {
	return &engine.Mutation{
		Path: path, Op: engine.OpOverwrite, Kind: kind, Force: true, AllowShrink: true, Ungated: true, Expected: &believed, ExpectJournalHash: true,
		NoFollow: true, WasLink: link,
	}
}

// take takes a version from history, or from the first other place that has it. Many
// files are read from history directly.
func (l *Layer) take(c *engine.Commit, m *engine.Mutation, v version, take Take, places ...func() io.ReadCloser) error {
	sum, ok, err := c.TakeFile(m, func() (fsx.File, error) { return l.History.Open(v.sha) })
	if err == nil && ok {
		if m.Perm == nil && v.recorded != 0 && !l.IsThere(m.Path) {
			m.Perm = &v.recorded
		}
		if sum == v.sha {
			return nil
		}
	}
	for _, place := range append([]func() io.ReadCloser{func() io.ReadCloser { return l.Observed.Kept(v.sha, v.size) }}, places...) {
		src := place()
		if src == nil {
			continue
		}
		sum, err := take(m, src, v.mode)
		src.Close()
		if err != nil || sum == v.sha {
			return err
		}
		m.DropSpooled()
	}
	return l.Versions.NotKept(v.sha)
}

// contentBefore opens what a file held before the commit seq, whose mutation is m, if a
// later version holds it: one that was left unchanged or appended to, or one under the
// name it was moved to; nil if there is none.
func (l *Layer) contentBefore(m *journal.Mutation, seq uint64) (src io.ReadCloser) {
	switch {
	case m.PaySHA256 != "" || m.SHA256 == m.PrevSHA256:
		src, _, _ = l.Versions.ContentAt(m.Identity(), seq, m.PrevBytes)
	case m.SHA256 == "":
		src, _, _ = l.Versions.MovedContent(seq, m.Identity(), m.PrevBytes)
	}
	return src
}
