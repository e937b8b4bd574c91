package chunks

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Piece is one piece to store.
type Piece struct {
	Session       string
	Index         int  // 0: the next one
	Numbered      bool // the caller gives the number
	TotalExpected int
	Expect        int // the number that the piece must get; 0: any
	Content       []byte
}

// Stored is where a piece was stored.
type Stored struct {
	Index int
	Next  int  // the number after the last piece
	Total *int // how many are expected, nil when no caller said
}

// Check refuses what no session accepts.
func (p Piece) Check() *fault.Fault {
	if e := CheckName(p.Session); e != nil {
		return e
	}
	for _, n := range []struct {
		argument string
		given    int
		needed   bool
	}{{"index", p.Index, p.Numbered}, {"total_expected", p.TotalExpected, false}, {"expect_index", p.Expect, false}} {
		if n.given < 0 || n.given > MaxIndex || n.given == 0 && n.needed {
			return fault.New(fault.BadIndex).With("argument", n.argument)
		}
	}
	if p.TotalExpected > 0 && p.Index > p.TotalExpected {
		return fault.New(fault.IndexExceedsTotal).With("index", p.Index).With("total_expected", p.TotalExpected)
	}
	return nil
}

// Put stores a piece: the piece and the list of the session, both or neither.
func (s *Layer) Put(ctx context.Context, p Piece, begin Begin) (at Stored, err error) {
	err = s.run(ctx, p.Session, false, begin, func(k *Call) {
		part := engine.NewObject(PartObject(p.Session, max(p.Index, p.Expect, 1)), "chunk", engine.OpOverwrite)
		sum := part.Hold(p.Content)
		k.Muts = []*engine.Mutation{part}
		k.Plan = func(context.Context) (err error) {
			at, err = k.planPiece(p, part, sum)
			return err
		}
	})
	return at, err
}

// planPiece decides, under the lock of the session, which number the piece gets,
// and makes the list that contains it.
func (k *Call) planPiece(p Piece, part *engine.Mutation, sum string) (at Stored, err error) {
	sess, err := k.see()
	if err != nil {
		return at, err
	}
	if sess == nil {
		return k.replayed(part), nil
	}
	if seal := sess.Manifest.Sealed; seal != nil {
		return at, fault.New(fault.SessionSealed).With("session", sess.Name).With("output_path", seal.OutputPath).With("sha256", seal.SHA256)
	}
	if len(sess.Parts) == 0 && sess.Manifest.CreatedAt == "" {
		sess.Manifest.CreatedAt = stamp.Text(k.Began)
	}
	if p.TotalExpected > 0 {
		sess.Manifest.TotalExpected = p.TotalExpected
	}
	if err := k.s.FillHashes(sess); err != nil {
		return at, err
	}
	if at.Index, err = p.choose(sess, sum); err != nil {
		return at, err
	}
	if total := sess.Manifest.TotalExpected; total > 0 && at.Index > total {
		return at, fault.New(fault.IndexExceedsTotal).With("index", at.Index).With("total_expected", total)
	}
	part.SetObject(PartObject(p.Session, at.Index))
	i, found := sess.search(at.Index)
	if !found {
		sess.Parts = slices.Insert(sess.Parts, i, Part{})
	}
	sess.Parts[i] = Part{Index: at.Index, SHA256: sum, Bytes: part.Content.Size()}
	at.Next, at.Total = sess.Next(), sess.Total()
	return at, HoldManifest(k.Manifest, sess)
}

// replayed returns what the idempotency key answers.
func (k *Call) replayed(part *engine.Mutation) (at Stored) {
	if k.Replayed == nil {
		return at
	}
	if sess, err := k.s.Read(k.session); err == nil {
		at.Next, at.Total = sess.Next(), sess.Total()
	}
	if len(k.Replayed.Muts) > 0 {
		part.SetObject(k.Replayed.Muts[0].Object)
		at.Index = IndexOf(k.Replayed.Muts[0].Object)
	}
	return at
}

// choose returns the number of a piece.
func (p Piece) choose(sess *Session, sum string) (int, error) {
	if p.Numbered {
		return p.Index, nil
	}
	next := sess.Next()
	if p.Expect > 0 && p.Expect != next {
		if at, found := sess.search(p.Expect); !found || sess.Parts[at].SHA256 != sum {
			e := fault.New(fault.IndexMismatch).With("session", sess.Name).With("expect_index", p.Expect).With("next_index", next)
			if found {
				e.Hintf("chunk %d is stored already, with other content; keep it and send what follows it as chunk %d, or send all chunks under another session name", p.Expect, next)
			}
			return 0, e
		}
		return p.Expect, nil // the call whose reply was lost
	}
	if next > MaxIndex {
		return 0, fault.New(fault.BadIndex).With("argument", "index").Hintf("the session already has its last chunk; compose it")
	}
	return next, nil
}

// FillHashes finds the hashes of pieces that the manifest does not know: from
// the journal or, when a stranger put them there, from their bytes.
func (s *Layer) FillHashes(sess *Session) error {
	var dir fsx.Dir
	var err error
	for i := range sess.Parts {
		p := &sess.Parts[i]
		if p.SHA256 != "" {
			continue
		}
		if sess.State != manifestForeign {
			if p.SHA256, err = s.RecordedSHA(PartObject(sess.Name, p.Index)); err != nil {
				return err
			}
			if p.SHA256 != "" {
				continue
			}
		}
		if dir == nil {
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
	at   int       // the current piece
	file fsx.File  // nil before it is opened
	src  io.Reader // the separator before it, and its content
	sum  engine.Digest
	read journal.Size
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
		if j.file == nil {
			if j.at == len(j.sess.Parts) {
				return 0, io.EOF
			}
			if err := j.open(); err != nil {
				return 0, err
			}
		}
		n, err := j.src.Read(p)
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
	if engine.IsOdd(err) {
		return j.drift(part)
	}
	if err != nil {
		return err
	}
	j.file, j.sum, j.read = f, engine.NewDigest(), 0
	j.src = io.TeeReader(f, io.MultiWriter(j.sum, &j.read))
	if j.at > 0 {
		j.src = io.MultiReader(strings.NewReader(j.sess.Manifest.Separator), j.src)
	}
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
			var err error
			if recorded, err = j.s.RecordedSHA(PartObject(j.sess.Name, part.Index)); err != nil {
				return err
			}
		}
		if want := part.SHA256 + recorded; want != "" && got != recorded {
			return j.drift(*part)
		}
	}
	part.SHA256, part.Bytes = got, int64(j.read)
	j.at++
	return nil
}

func (j *joined) drift(part Part) error {
	return fault.New(fault.HashDriftOnRead).With("session", j.sess.Name).With("index", part.Index).
		Hintf("chunk %d was changed on disk; send it again with Store.ChunkWrite", part.Index)
}
