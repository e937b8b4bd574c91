package resilientwrite

import (
	"context"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// chunkLayer keeps the sessions of chunks of a store.
type chunkLayer struct{ *engine.Engine }

const (
	chunksName   = "chunks"
	manifestName = "manifest.json"
	maxIndex     = 999_999
	opReset      = "reset" // what the journal calls the end of a session's pieces
)

// chunkSession is a session as it lies on disk.
type chunkSession struct {
	name     string
	found    bool // there is a piece or a manifest
	manifest chunkManifest
	state    manifestState
	parts    []chunkPart // the pieces on disk, by number
	odd      []string    // names that are ours and are no regular files
}

func partName(index int) string { return fmt.Sprintf("part-%03d.txt", index) }

// partIndex is the number in the name of a piece, 0 for another name.
func partIndex(name string) int {
	digits, ok := strings.CutPrefix(name, "part-")
	if !ok {
		return 0
	}
	digits, ok = strings.CutSuffix(digits, ".txt")
	if !ok || len(digits) < 3 || len(digits) > 6 {
		return 0
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || partName(n) != name {
		return 0
	}
	return n
}

func sessionObject(session string) string { return chunksName + "/" + session }

func partObject(session string, index int) string {
	return sessionObject(session) + "/" + partName(index)
}

func manifestObject(session string) string { return sessionObject(session) + "/" + manifestName }

// indexOf is the number of the piece that an object is.
func indexOf(object string) int { return partIndex(object[strings.LastIndexByte(object, '/')+1:]) }

// openSession opens the directory of a session, nil when there is none.
func (s *chunkLayer) openSession(name string) (fsx.Dir, error) {
	chunks, err := s.openChunks()
	if chunks == nil || err != nil {
		return nil, err
	}
	defer chunks.Close()
	return openPlain(chunks, name)
}

// openChunks opens the directory of all sessions, nil when there is none.
func (s *chunkLayer) openChunks() (fsx.Dir, error) {
	if s.Disk.State == nil {
		return nil, nil
	}
	return openPlain(s.Disk.State, chunksName)
}

// openPlain opens a directory of the state directory; a symbolic link in its
// place is refused.
func openPlain(dir fsx.Dir, name string) (fsx.Dir, error) {
	d, err := dir.OpenDir(name)
	if err == nil {
		return d, nil
	}
	if engine.IsAbsent(err) {
		return nil, nil
	}
	if st, serr := dir.Lstat(name); serr == nil && st.Kind != fsx.Directory {
		return nil, fault.New(fault.BadStateDir).Hintf("an entry of the state directory that should be a directory is not").Because(err)
	}
	return nil, err
}

// readSession looks at a session. It reads no piece.
func (s *chunkLayer) readSession(name string) (*chunkSession, error) {
	sess := &chunkSession{name: name}
	sess.manifest.Session = name
	dir, err := s.openSession(name)
	if dir == nil || err != nil {
		return sess, err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if n == manifestName {
			sess.found = true
			if err := sess.readManifest(dir); err != nil {
				return nil, err
			}
		}
	}
	known := map[int]chunkPart{}
	for _, p := range sess.manifest.Parts {
		known[p.Index] = p
	}
	for _, n := range names {
		index := partIndex(n)
		if index == 0 {
			continue
		}
		p, ok := known[index]
		if !ok {
			st, err := dir.Lstat(n)
			if engine.IsAbsent(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if st.Kind != fsx.Regular {
				sess.odd = append(sess.odd, n)
				continue
			}
			p = chunkPart{Index: index, Bytes: st.Size}
		}
		sess.found = true
		sess.parts = append(sess.parts, p)
	}
	sort.Slice(sess.parts, func(i, j int) bool { return sess.parts[i].Index < sess.parts[j].Index })
	if sess.state == manifestLost && sess.found {
		s.recallSession(sess)
	}
	return sess, nil
}

// part returns a piece by its number, nil when it is not there.
func (sess *chunkSession) part(index int) *chunkPart {
	i := sort.Search(len(sess.parts), func(i int) bool { return sess.parts[i].Index >= index })
	if i < len(sess.parts) && sess.parts[i].Index == index {
		return &sess.parts[i]
	}
	return nil
}

// put adds a piece or replaces it.
func (sess *chunkSession) put(p chunkPart) {
	if have := sess.part(p.Index); have != nil {
		*have = p
		return
	}
	i := sort.Search(len(sess.parts), func(i int) bool { return sess.parts[i].Index > p.Index })
	sess.parts = append(sess.parts, chunkPart{})
	copy(sess.parts[i+1:], sess.parts[i:])
	sess.parts[i] = p
}

// next is the number behind the last piece.
func (sess *chunkSession) next() int {
	if len(sess.parts) == 0 {
		return 1
	}
	return sess.parts[len(sess.parts)-1].Index + 1
}

// total is how many pieces are expected, nil when nobody said.
func (sess *chunkSession) total() *int {
	if n := sess.manifest.TotalExpected; n > 0 {
		return &n
	}
	return nil
}

func (sess *chunkSession) bytes() (sum int64) {
	for _, p := range sess.parts {
		sum += p.Bytes
	}
	return sum
}

func (sess *chunkSession) indices() []int {
	list := make([]int, 0, len(sess.parts))
	for _, p := range sess.parts {
		list = append(list, p.Index)
	}
	return list
}

// maxMissing is how many missing numbers are listed; all are counted.
const maxMissing = 1000

// missing lists the numbers up to the expected total, or to the last piece,
// that no piece has.
func (sess *chunkSession) missing() (list []int, count int) {
	list = []int{}
	upto := max(sess.manifest.TotalExpected, sess.next()-1)
	if total := sess.manifest.TotalExpected; total > 0 {
		upto = total
	}
	at := 0
	for i := 1; i <= upto; i++ {
		if at < len(sess.parts) && sess.parts[at].Index == i {
			at++
			continue
		}
		if count++; len(list) < maxMissing {
			list = append(list, i)
		}
	}
	return list, count
}

// gone makes a session that is being reset look like the empty one it is.
func (sess *chunkSession) gone() *chunkSession {
	out := &chunkSession{name: sess.name}
	out.manifest.Session = sess.name
	return out
}

// writable refuses pieces for a session that was composed.
func (sess *chunkSession) writable() error {
	seal := sess.manifest.Sealed
	if seal == nil {
		return nil
	}
	return fault.New(fault.SessionSealed).With("session", sess.name).With("output_path", seal.OutputPath).With("sha256", seal.SHA256)
}

func sessionLock(session string) string { return "chunks\x00" + relpath.Key(session) }

// maxAgain is how often a call is made anew because of what others left.
const maxAgain = 16

// settleSession finishes what a dead writer left of a session, so that what is
// read next is what will stay.
func (s *chunkLayer) settleSession(ctx context.Context, session string) error {
	if s.Log == nil {
		return nil
	}
	if err := s.Log.CatchUp(); err != nil {
		return err
	}
	if s.Opts.ReadOnly || s.Poisoned.Load() {
		return nil
	}
	manifest := engine.StateDirName + "/" + manifestObject(session)
	for range maxAgain {
		left, err := s.LeftBehind([]string{manifest})
		if left == nil || err != nil {
			return err
		}
		if err := s.FinishDead(ctx, left, new(engine.Report)); err != nil {
			return err
		}
	}
	return nil
}

// withSession runs fn while nobody else changes the session.
func (s *chunkLayer) withSession(ctx context.Context, session, what string, fn func() error) error {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Leave()
	manifest := engine.StateDirName + "/" + manifestObject(session)
	unlock, err := s.Locks.Names(ctx, s.Opts.LockTimeout, what, sessionLock(session), engine.PathLock(manifest))
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}

// setAside moves what has a name of ours and is no file of ours into
// quarantine: it may not keep anybody from the pieces.
func (s *chunkLayer) setAside(ctx context.Context, session string, names []string) error {
	return s.withSession(ctx, session, "quarantine", func() error {
		dir, err := s.openSession(session)
		if dir == nil || err != nil {
			return err
		}
		defer dir.Close()
		to, err := s.OpenPart("quarantine")
		if err != nil {
			return err
		}
		defer to.Close()
		for _, name := range names {
			st, err := dir.Lstat(name)
			if engine.IsAbsent(err) || err == nil && st.Kind == fsx.Regular {
				continue
			}
			if err != nil {
				return err
			}
			if err := dir.RenameNoReplace(name, to, "chunk-"+s.NewCommitID()+"-"+session+"-"+name); err != nil && !engine.IsAbsent(err) {
				return err
			}
		}
		if s.Opts.Sync == engine.SyncOff {
			return nil
		}
		return s.Together(func() error { return s.SyncDir(to) }, func() error { return s.SyncDir(dir) })
	})
}

// finishLeft brings the commit of a dead writer to its end.
func (s *chunkLayer) finishLeft(ctx context.Context, rec *journal.Record) error {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Leave()
	return s.FinishDead(ctx, rec, new(engine.Report))
}

var sessionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}\z`)

// checkSession refuses a name that is none.
func checkSession(name string) *fault.Fault {
	if !sessionName.MatchString(name) {
		return fault.New(fault.BadSession).With("argument", "session")
	}
	return nil
}
