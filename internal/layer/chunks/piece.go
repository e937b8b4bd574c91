package chunks

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
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
	if err := sess.writable(); err != nil {
		return at, err
	}
	if len(sess.Parts) == 0 && sess.Manifest.CreatedAt == "" {
		sess.Manifest.CreatedAt = stamp.Text(k.Began)
	}
	if p.TotalExpected > 0 {
		sess.Manifest.TotalExpected = p.TotalExpected
	}
	if at.Index, err = p.choose(sess, sum); err != nil {
		return at, err
	}
	if total := sess.Manifest.TotalExpected; total > 0 && at.Index > total {
		return at, fault.New(fault.IndexExceedsTotal).With("index", at.Index).With("total_expected", total)
	}
	if odd, err := k.odd(PartName(at.Index)); err != nil {
		return at, err
	} else if odd != nil {
		return at, k.later(func(ctx context.Context) error { return k.s.setAside(ctx, k.session, odd) })
	}
	part.SetObject(PartObject(p.Session, at.Index))
	if err := k.s.FillHashes(sess); err != nil {
		return at, err
	}
	sess.put(Part{Index: at.Index, SHA256: sum, Bytes: part.Content.Size()})
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
			return 0, fault.New(fault.IndexMismatch).With("expect_index", p.Expect).With("next_index", next)
		}
		return p.Expect, nil // the call whose reply was lost
	}
	if next > MaxIndex {
		return 0, fault.New(fault.BadIndex).With("argument", "index").Hintf("the session already has its last chunk; compose it")
	}
	return next, nil
}
