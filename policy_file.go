package resilientwrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitindex"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/trust"
)

// Where a policy comes from, in [PolicyFacts].
const (
	policyOfDefault   = "default"
	policyOfWorkspace = "workspace" // the file in the state directory
	policyOfOptions   = "explicit"  // the file that the options name
)

const (
	policyName  = "policy.yaml"
	policyLimit = policyfile.MaxBytes
)

// Problems of a policy file that does not exist or cannot be read. Those of its
// text are the reasons of package policyfile.
const (
	policyMissing    = "missing"
	policyNotRegular = "not_a_regular_file"
	policyUnreadable = "unreadable"
	policyOfOthers   = "not_yours"
	policyCostly     = "too_costly" // a pattern of it, on the text of this call
)

// policyPlace says where the policy file is.
type policyPlace struct {
	root  string // the workspace
	place string // absolute, of the file that the options name; "" = the one in the state directory
	name  string // as errors show it, without what is outside the workspace
}

func (s *Store) policyPlace(root string) policyPlace {
	at := policyPlace{root: root, place: s.opts.PolicyFile, name: engine.StateDirName + "/" + policyName}
	if at.place == "" {
		return at
	}
	if !filepath.IsAbs(at.place) {
		at.place = filepath.Join(root, at.place)
	}
	at.name = filepath.Base(at.place)
	if rel, err := filepath.Rel(root, at.place); err == nil && filepath.IsLocal(rel) {
		at.name = filepath.ToSlash(rel)
	}
	return at
}

// openPolicy reads the policy once, for as long as the store is open: later
// changes of the file have no effect. A wrong file is read again, if the options
// ask for that, until it is valid.
func (s *Store) openPolicy(ctx context.Context, root string) error {
	at := s.policyPlace(root)
	if at.place != "" {
		s.policyWay = wayTo(root, at.place)
	}
	trouble := &policyTrouble{at: at, gate: s.defaultGate(ctx)}
	p, seen, err := s.loadPolicy(at, trouble.gate)
	if err == nil {
		s.rules.Store(p)
		return nil
	}
	e := s.engine.ErrorOf(err)
	if e.Code != fault.BadPolicy || !s.opts.ServeWithBadPolicy {
		return e
	}
	trouble.failed(e, seen, time.Now())
	p = DefaultPolicy()
	p.source = policyOfDefault
	w := warning(WarnPolicyBroken)
	w.Hint += ": " + trouble.failure().Hint
	p.warnings = []Warning{w}
	s.rules.Store(p)
	s.trouble.Store(trouble)
	return nil
}

// openPolicyFile opens the policy file. A symbolic link is followed only if the
// options name it, because its owner made it.
func (s *Store) openPolicyFile(at policyPlace) (fsx.File, error) {
	if at.place == "" {
		if s.engine.Disk.State == nil {
			return nil, os.ErrNotExist
		}
		f, err := s.engine.Disk.State.Open(policyName, fsx.Read, 0)
		if engine.IsAbsent(err) && s.workspace != nil {
			return s.policyOfTree()
		}
		return f, err
	}
	real, err := filepath.EvalSymlinks(at.place)
	if err != nil {
		return nil, err
	}
	dir, err := fsx.OpenRoot(filepath.Dir(real))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Open(filepath.Base(real), fsx.Read, 0)
}

// loadPolicy reads the policy file and removes the settings that it may not make.
// seen identifies the file that was read.
func (s *Store) loadPolicy(at policyPlace, def Gate) (p *Policy, seen fsx.Stat, err error) {
	f, err := s.openPolicyFile(at)
	if engine.IsAbsent(err) {
		return s.noPolicyFile(at)
	}
	var own *fault.Fault
	if errors.As(err, &own) {
		return nil, seen, own
	}
	if err != nil {
		return nil, seen, at.unusable(err)
	}
	defer f.Close()
	if seen, err = f.Stat(); err != nil {
		return nil, seen, at.unusable(err)
	}
	var c engine.Custody
	if c, err = s.engine.NewCustody(); err == nil {
		err = c.File(at.name, f, at.place == "")
	}
	if err == nil {
		err = at.guarded(c)
	}
	if err != nil {
		return nil, seen, err
	}
	if now, err := f.Stat(); err == nil {
		seen = now // narrowing has changed it
	}
	data, err := io.ReadAll(io.LimitReader(f, policyLimit+1))
	switch {
	case err != nil:
		return nil, seen, at.unusable(err)
	case len(data) > policyLimit:
		return nil, seen, at.bad(policyfile.TooLarge, "it is larger than %d bytes", policyLimit)
	}
	if p, err = parsePolicy(data, func(p *Policy) { s.restrict(p, at, def) }); err != nil {
		e := s.engine.ErrorOf(err).With("file", at.name)
		if e.Context["line"] == nil {
			e.Hint = "a rule of it cannot be used"
		}
		e.Hint = "policy file " + at.name + ": " + strings.TrimPrefix(e.Hint, "policy file: ")
		return nil, seen, e
	}
	p.warnings = append(p.warnings, warnings(c.Warnings())...)
	return p, seen, nil
}

// noPolicyFile returns the policy without a file: the default policy, unless the
// operator asked for that file.
func (s *Store) noPolicyFile(at policyPlace) (*Policy, fsx.Stat, error) {
	if at.place != "" && !s.opts.PolicyFileOptional {
		return nil, fsx.Stat{}, at.bad(policyMissing, "it does not exist")
	}
	p := DefaultPolicy()
	p.source = policyOfDefault
	if at.place != "" {
		p.warnings = []Warning{warning(WarnPolicyFileMissing)}
	}
	return p, fsx.Stat{}, nil
}

// bad returns an error about the file as a whole.
func (at policyPlace) bad(problem, format string, args ...any) *fault.Fault {
	return fault.New(fault.BadPolicy).With("file", at.name).With("problem", problem).Hintf("policy file "+strings.ReplaceAll(at.name, "%", "%%")+": "+format, args...)
}

func (at policyPlace) unusable(err error) *fault.Fault {
	var kind *fsx.TypeError
	if errors.As(err, &kind) {
		return at.bad(policyNotRegular, "it %s", kind.Error()).Because(err)
	}
	return at.bad(policyUnreadable, "it cannot be read; check the permissions of the file and its directories").Because(err)
}

// bounded returns a context for the scans of one call.
func (s *Store) bounded(ctx context.Context) context.Context {
	return scan.Bounded(ctx, cmp.Or(s.engine.TestHooks.Patterns, scan.MostTime))
}

// costly returns the error of a call on whose text a pattern of the policy takes
// too long. The gate refuses what it could not judge.
func (s *Store) costly(err *scan.CostlyError) *fault.Fault {
	at := s.policyPlace(s.engine.RealRoot)
	e := at.bad(policyCostly, "the pattern %s takes too long on this text; begin its expression with fixed characters, give it keywords, or shorten its repeats", err.Pattern)
	for _, family := range s.policy().file.ExtendPatterns {
		for _, p := range family.Patterns {
			if p.Name == err.Pattern {
				e.With("line", p.Line).With("pattern", p.Name)
				e.Hint = strings.Replace(e.Hint, "the pattern", fmt.Sprintf("line %d: the pattern", p.Line), 1)
			}
		}
	}
	return e.Because(err)
}

// restrict removes from a policy file of the workspace the settings that it may
// not make. The file never weakens the options, and weakens a default only if the
// operator has vouched for it, or git does not track it. Keys that need a vouched
// file apply in no other. def is the gate if neither a file nor an option sets
// one.
func (s *Store) restrict(p *Policy, at policyPlace, def Gate) {
	p.source = policyOfOptions
	if at.place != "" {
		return
	}
	p.source = policyOfWorkspace
	if p.hash == "" {
		return
	}
	given, base := policyfile.Default(), policyfile.Default()
	given.Gate, base.Gate = s.opts.Gate.inFile(), s.opts.Gate.or(def).inFile()
	trusted := s.opts.TrustWorkspacePolicy || trust.Has(s.engine.RealRoot, p.hash)
	p.tightens = !trusted && s.trackedByGit()
	if p.tightens {
		// The gate of a call may be another one than that of now, so it is
		// compared for each call.
		p.ignored = p.file.Weaker(base)
		p.file.Hold(given, nil)
	} else {
		p.ignored = p.file.Hold(given, func(k policyfile.Strictness) bool {
			return k.Order != nil || !trusted && (k.Vouched || k.Gate && s.opts.Gate != (Gate{}))
		})
	}
	if len(p.ignored) > 0 {
		w := warning(WarnPolicyNotTrusted)
		w.Hint += ": " + strings.Join(p.ignored, ", ")
		p.warnings = append(p.warnings, w)
	}
	if weaker := p.file.Weaker(base); len(weaker) > 0 && !trusted && !p.tightens {
		w := warning(WarnPolicyWeakens)
		w.Hint += ": " + strings.Join(weaker, ", ")
		p.warnings = append(p.warnings, w)
	}
}

// trackedByGit reports whether a repository tracks the policy file in the state
// directory.
func (s *Store) trackedByGit() bool {
	for _, file := range s.policyFiles() {
		dir, err := filepath.EvalSymlinks(filepath.Dir(file))
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil || gitindex.Tracked(filepath.Join(dir, policyName), relpath.SameName) {
			return true
		}
	}
	return false
}

// policyTrouble is a policy file that is wrong. Changes are refused until it is
// valid; it is read again when it has changed.
type policyTrouble struct {
	at   policyPlace
	gate Gate

	mu   sync.Mutex
	err  *fault.Fault
	seen fsx.Stat // the file that was read; the zero value is none, or one that may still be written to
}

// policyQuiet is how long a file must be unchanged before it is considered
// complete.
const policyQuiet = 50 * time.Millisecond

// failed records why the file is wrong. A file that was changed very recently may
// change again without another time stamp, so its identity is not recorded.
func (t *policyTrouble) failed(e *fault.Fault, seen fsx.Stat, now time.Time) {
	t.err = e
	if t.seen = seen; now.Sub(time.Unix(0, max(seen.Mtime, seen.Ctime))) < time.Second {
		t.seen = fsx.Stat{}
	}
}

// failure returns the error of a refused call.
func (t *policyTrouble) failure() *fault.Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := fault.New(fault.BadPolicy).Because(t.err.Err)
	for name, value := range t.err.Context {
		e.With(name, value)
	}
	e.Hint = t.err.Hint + "; nothing can be changed until it is valid: ask the user to correct it, then send the call again"
	return e
}

// policyProblem returns what is wrong with the policy file, nil when it is valid.
func (s *Store) policyProblem() *PolicyProblem {
	t := s.trouble.Load()
	if t == nil {
		return nil
	}
	e := t.failure()
	p := &PolicyProblem{File: t.at.name, Hint: e.Hint}
	p.Line, _ = e.Context["line"].(int)
	p.Column, _ = e.Context["column"].(int)
	p.Problem, _ = e.Context["problem"].(string)
	return p
}

// policyHolds reads a wrong policy file again, if it has changed, and fails for
// as long as it is wrong.
func (s *Store) policyHolds() error {
	t := s.trouble.Load()
	if t == nil {
		return nil
	}
	if t.mend(s) {
		return nil
	}
	return t.failure()
}

// mend reports whether the file is valid now.
func (t *policyTrouble) mend(s *Store) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.trouble.Load() == nil {
		return true
	}
	now := s.lookAtPolicy(t.at)
	if now == t.seen && now != (fsx.Stat{}) {
		return false
	}
	for range 10 {
		p, seen, err := s.loadPolicy(t.at, t.gate)
		if err != nil {
			e := s.engine.ErrorOf(err)
			if e.Code != fault.BadPolicy { // of others, say
				e = t.at.bad(policyOfOthers, "%s", e.Hint)
			}
			t.failed(e, seen, time.Now())
			return false
		}
		// Half of a file may be valid too: it is taken when no one is writing.
		if s.engine.TestHooks.Quiet != nil {
			s.engine.TestHooks.Quiet()
		} else {
			time.Sleep(policyQuiet)
		}
		if s.lookAtPolicy(t.at) == seen {
			s.rules.Store(p)
			s.trouble.Store(nil)
			return true
		}
	}
	return false
}

// lookAtPolicy returns the stat of the policy file, the zero value if none can be
// opened.
func (s *Store) lookAtPolicy(at policyPlace) (st fsx.Stat) {
	if f, err := s.openPolicyFile(at); err == nil {
		st, _ = f.Stat()
		f.Close()
	}
	return st
}

// maxLinks bounds the symbolic links on the way to a policy file.
const maxLinks = 40

// wayTo lists the names in the workspace that lead to a policy file, relative to
// the root: the file, the directories above it, and the paths that symbolic links
// resolve to, whether they exist or not. A user who can create one of them could
// prevent the file from being read, or put another one in its place.
func wayTo(root, place string) (names []string) {
	if rel, err := filepath.Rel(root, place); err == nil && filepath.IsLocal(rel) {
		names = append(names, filepath.ToSlash(rel))
	}
	cur := filepath.VolumeName(place) + string(filepath.Separator)
	rest := strings.Split(filepath.Clean(place)[len(filepath.VolumeName(place)):], string(filepath.Separator))
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			cur = filepath.Dir(cur)
			continue
		}
		next := filepath.Join(cur, part)
		if rel, err := filepath.Rel(root, next); err == nil && rel != "." && filepath.IsLocal(rel) {
			names = append(names, filepath.ToSlash(rel))
		}
		target, err := os.Readlink(next)
		if err != nil {
			cur = next
			continue
		}
		if links++; links > maxLinks {
			break
		}
		if filepath.IsAbs(target) {
			cur = filepath.VolumeName(target) + string(filepath.Separator)
			target = target[len(filepath.VolumeName(target)):]
		}
		rest = append(strings.Split(filepath.FromSlash(target), string(filepath.Separator)), rest...)
	}
	return names
}

// onPolicyWay reports whether a path is one of the names that lead to the policy
// file, or creating it would create one of them.
func (s *Store) onPolicyWay(path string) bool {
	key := relpath.Key(path)
	for _, name := range s.policyWay {
		own := relpath.Key(name)
		if key == own {
			return true
		}
		if strings.HasPrefix(key, own+"/") {
			if _, err := os.Stat(filepath.Join(s.engine.RealRoot, filepath.FromSlash(name))); err != nil {
				return true
			}
		}
	}
	return false
}

// guarded checks the directories of the policy file that the options name, and of
// a link to it: a user who can write there can replace the file. Their modes are
// not narrowed, since they hold more than that file. If the file has shown that
// modes are not kept, the modes of the directories are ignored.
func (at policyPlace) guarded(c engine.Custody) error {
	if at.place == "" || c.Self < 0 || c.Loose {
		return nil
	}
	for _, dir := range []string{filepath.Dir(realDir(at.place)), filepath.Dir(at.place)} {
		d, err := fsx.OpenRoot(dir)
		if err != nil {
			return at.unusable(err)
		}
		st, err := d.Stat()
		d.Close()
		if err != nil {
			return at.unusable(err)
		}
		if c.Ours(st.UID) && (st.Mode&0o002 == 0 || st.Mode&engine.Sticky != 0) {
			continue
		}
		owner, mode := fmt.Sprintf("uid %d", st.UID), fmt.Sprintf("%04o", st.Mode)
		return fault.New(fault.BadStateDir).With("part", at.name).With("owner", owner).With("mode", mode).
			Hintf("the directory of the policy file %s is owned by %s with mode %s, so other users can replace the file; check its content, then move it to a directory of your own", at.name, owner, mode)
	}
	return nil
}

// translate maps errors of the scanner to details.
func (s *Store) translate(err error) error {
	var costly *scan.CostlyError
	if errors.As(err, &costly) {
		return s.costly(costly)
	}
	var e *Error // a hook or an adapter called the store
	var f *fault.Fault
	if !errors.As(err, &f) && errors.As(err, &e) {
		return e.fault()
	}
	return err
}
