package chunks

import (
	"errors"
	"io"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// FillHashes finds the hashes of pieces that the manifest does not know: from
// the journal or, when a stranger put them there, from their bytes.
func (s *Layer) FillHashes(sess *Session) error {
	var dir fsx.Dir
	for i := range sess.Parts {
		p := &sess.Parts[i]
		if p.SHA256 != "" {
			continue
		}
		if sess.State != manifestForeign {
			if p.SHA256 = s.RecordedSHA(PartObject(sess.Name, p.Index)); p.SHA256 != "" {
				continue
			}
		}
		if dir == nil {
			var err error
			if dir, err = s.OpenDir(sess.Name); dir == nil || err != nil {
				return err
			}
			defer dir.Close()
		}
		f, _, err := engine.OpenIfThere(dir, PartName(p.Index))
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		sha, st, err := engine.HashFile(f)
		f.Close()
		if err != nil {
			return err
		}
		p.SHA256, p.Bytes = sha, st.Size
	}
	return nil
}

// joined reads the pieces of a session one after the other, with a separator
// between them, and compares each with its hash.
type joined struct {
	s    *Layer
	dir  fsx.Dir
	sess *Session
	at   int // the current piece
	file fsx.File
	sum  engine.Digest
	read int64
	gap  io.Reader // the separator, while it is being read
}

// join opens the pieces of a session. A nil separator is that of the session.
func (s *Layer) join(sess *Session, separator *string) (*joined, error) {
	dir, err := s.OpenDir(sess.Name)
	if err != nil {
		return nil, err
	}
	if dir == nil { // removed since
		return nil, fault.New(fault.SessionNotFound).With("session", sess.Name)
	}
	if separator != nil {
		sess.Manifest.Separator = *separator
	}
	return &joined{s: s, dir: dir, sess: sess}, nil
}

func (j *joined) Close() error {
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
	return j.dir.Close()
}

func (j *joined) Read(p []byte) (int, error) {
	for {
		if j.gap != nil {
			if n, err := j.gap.Read(p); err == nil {
				return n, nil
			}
			j.gap = nil
		}
		if j.file == nil {
			if j.at == len(j.sess.Parts) {
				return 0, io.EOF
			}
			if err := j.open(); err != nil {
				return 0, err
			}
		}
		n, err := j.file.Read(p)
		j.sum.Write(p[:n])
		j.read += int64(n)
		if err != nil && err != io.EOF {
			return n, err
		}
		if err == io.EOF || n == 0 && len(p) > 0 {
			if err := j.finish(); err != nil {
				return 0, err
			}
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
}

func (j *joined) open() error {
	part := j.sess.Parts[j.at]
	f, err := j.dir.Open(PartName(part.Index), fsx.Read, 0)
	var kind *fsx.TypeError
	if errors.As(err, &kind) {
		return j.drift(part)
	}
	if err != nil {
		return err
	}
	j.file, j.sum, j.read = f, engine.NewDigest(), 0
	return nil
}

// finish compares the chunk that was read with the recorded facts. It consults the
// journal before it reports a change: the journal has a row of a chunk whose writer
// died before it replaced the manifest.
func (j *joined) finish() error {
	part := &j.sess.Parts[j.at]
	j.file.Close()
	j.file = nil
	got := j.sum.Hex()
	if got != part.SHA256 {
		recorded := ""
		if j.sess.State != manifestForeign || part.SHA256 != "" {
			recorded = j.s.RecordedSHA(PartObject(j.sess.Name, part.Index))
		}
		if want := part.SHA256 + recorded; want != "" && got != recorded {
			return j.drift(*part)
		}
	}
	part.SHA256, part.Bytes = got, j.read
	if j.at++; j.at < len(j.sess.Parts) && j.sess.Manifest.Separator != "" {
		j.gap = strings.NewReader(j.sess.Manifest.Separator)
	}
	return nil
}

func (j *joined) drift(part Part) error {
	return fault.New(fault.HashDriftOnRead).With("session", j.sess.Name).With("index", part.Index).
		Hintf("chunk %d was changed on disk; send it again with Store.ChunkWrite", part.Index)
}
