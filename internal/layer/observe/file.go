package observe

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/tree"
)

// Limits of a batch that is flushed together: versions, for a process that may have
// eight times as many descriptors, and their bytes.
const (
	batchFiles = 512
	batchBytes = 16 << 20
	readTries  = 4 // of a file that changes while it is read
)

// file reads a file that is new or differs from its index entry.
func (v *visit) file(p string, e *tree.Entry, was *Entry, ignored bool) error {
	v.touched = true
	now := Entry{Name: e.Name}
	if ignored {
		now.Flags = Ignored
		if e.Size > MaxIgnored {
			now.take(&e.Stat)
			v.now = append(v.now, now)
			return nil
		}
	}
	if !v.recordable(p) {
		v.skip(p)
		return nil
	}
	if v.late() {
		v.partly()
		v.keepOld(was)
		return nil
	}
	data, err := v.read(p, e.Kind, &now)
	switch {
	case engine.IsAbsent(err):
		if was != nil {
			v.gone(was)
		}
		return nil
	case errors.Is(err, errBusy):
		v.mu.Lock()
		note(&v.out.Busy, p)
		v.mu.Unlock()
		v.keepOld(was)
		return nil
	case engine.IsShortage(err):
		v.partly()
		v.keepOld(was)
		return nil
	case err != nil:
		if err := v.ctx.Err(); err != nil {
			return err
		}
		v.skip(p)
		v.keepOld(was)
		return nil
	}
	return v.compare(p, &now, was, data)
}

// keepOld keeps the index entry of a file unchanged, so that the next scan reads the
// file again.
func (v *visit) keepOld(was *Entry) {
	if was != nil {
		v.now = append(v.now, *was)
	}
}

func (v *visit) skip(p string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	note(&v.out.Skipped, p)
}

var errBusy = errors.New("the file changes while it is read")

// read hashes a file and returns its bytes, unless it is too large for history.
func (v *visit) read(p string, kind fsx.Kind, now *Entry) (data []byte, err error) {
	f, err := v.open(kind, now.Name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for range readTries {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		now.take(&st)
		sum, git := sha256.New(), v.gitHash(p, st.Size)
		var to io.Writer = sum
		if git != nil {
			to = io.MultiWriter(sum, git)
		}
		data = nil
		r := engine.NewStoppable(v.ctx, io.NewSectionReader(f, 0, st.Size))
		if st.Size <= MaxFile {
			data = make([]byte, st.Size)
			n, rerr := io.ReadFull(r, data)
			if err = rerr; err == io.ErrUnexpectedEOF || err == io.EOF && st.Size > 0 {
				err = nil // it became shorter
			}
			to.Write(data[:n])
		} else {
			_, err = engine.Move(to, r)
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		after, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if now.same(&after) {
			sum.Sum(now.SHA[:0])
			if git != nil && string(git.Sum(nil)) == git.object {
				now.Git = git.object
			}
			v.mu.Lock()
			v.out.Read++
			v.mu.Unlock()
			return data, nil
		}
	}
	return nil, errBusy
}

func (v *visit) open(kind fsx.Kind, name string) (fsx.File, error) {
	if kind == fsx.Symlink {
		return fsx.OpenEntry(v.d.Dir, name)
	}
	return v.d.Open(name, fsx.Read, 0)
}

// gitHash compares a file with the object that git has of it.
type gitHash struct {
	hash.Hash
	object string
}

// gitHash is nil for a file that git does not track.
func (v *visit) gitHash(p string, size int64) *gitHash {
	if v.at.repo.git == "" {
		return nil
	}
	object, ok := v.at.repo.listing().Find(v.at.repo.name(p))
	if !ok {
		return nil
	}
	g := &gitHash{sha1.New(), object}
	if len(object) == sha256.Size {
		g.Hash = sha256.New()
	}
	fmt.Fprintf(g, "blob %d\x00", size)
	return g
}

// compare classifies a file that was read.
func (v *visit) compare(p string, now, was *Entry, data []byte) error {
	met := v.at.met
	if was != nil && !was.kept() { // it was there, with what content is not known
		was, met = nil, true
	}
	if data == nil {
		now.Flags |= Unkept
	}
	v.now = append(v.now, *now)
	if v.out.Baseline || was == nil && (met || v.scan.old.Growing) {
		return v.baseline(p, now, data)
	}
	if was != nil && was.SHA == now.SHA && was.Mode == now.Mode {
		last, err := v.LastRow(p)
		if err == nil && last.Seq > v.scan.old.Seq { // a commit may have removed it since
			v.found = append(v.found, &change{path: p, dir: v.d.Path, was: was, now: now})
		}
		return err
	}
	v.found = append(v.found, &change{path: p, dir: v.d.Path, was: was, now: now})
	if was != nil && was.SHA == now.SHA && was.link() == now.link() {
		return nil
	}
	if v.req.Inspect != nil && data != nil && now.Flags&Ignored == 0 {
		v.inspect(p, was, data)
	}
	return v.keep(p, now, data)
}

// inspect adds what is wrong with the new bytes of a file and was not before.
func (v *visit) inspect(p string, was *Entry, data []byte) {
	list := v.req.Inspect(p, data, func() []byte {
		if was == nil {
			return nil
		}
		if src, err := v.Kept(hex.EncodeToString(was.SHA[:]), MaxFile); err == nil {
			defer src.Close()
			if text, err := io.ReadAll(src); err == nil {
				return text
			}
		}
		return nil
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, x := range list {
		if len(v.out.Findings) < 10*maxListed {
			v.out.Findings = append(v.out.Findings, around.ObservedFinding{
				Path: p, Kind: x.Family, Pattern: x.Pattern, Line: x.Line, Confidence: string(x.Confidence), Fingerprint: hex.EncodeToString(x.Fingerprint[:8]),
			})
		}
	}
}

// baseline treats a file that no scan has seen as known, unless the journal has a row
// of it: then it may have changed since. Git has the bytes of most files.
func (v *visit) baseline(p string, now *Entry, data []byte) error {
	last, err := v.LastRow(p)
	if err != nil {
		return err
	}
	if last.Seq > 0 {
		v.found = append(v.found, &change{path: p, dir: v.d.Path, now: now})
	} else if now.Git != "" {
		return nil
	}
	return v.keep(p, now, data)
}

// keep has a version kept, with others.
func (s *scan) keep(p string, now *Entry, data []byte) error {
	if now.Size == 0 {
		return nil // an empty file needs no object
	}
	s.mu.Lock()
	if data == nil || s.out.DiskLow {
		note(&s.out.NotKept, p)
		s.mu.Unlock()
		return nil
	}
	b := engine.Bytes{SHA: hex.EncodeToString(now.SHA[:]), Size: now.Size, Data: data}
	s.pending = append(s.pending, b)
	s.weight += b.Size
	full := len(s.pending) >= s.batch || s.weight >= batchBytes
	s.mu.Unlock()
	if full {
		return s.flush(s.batch / 2)
	}
	return nil
}

// flush makes what waits objects of history, if there is more than some.
func (s *scan) flush(least int) error {
	s.mu.Lock()
	batch := s.pending
	if len(batch) <= least && s.weight < batchBytes {
		s.mu.Unlock()
		return nil
	}
	s.pending, s.weight = nil, 0
	s.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	return s.Keep(batch)
}
