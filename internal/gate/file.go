package gate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitindex"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/trust"
)

// Where a policy comes from, in [Policy.Source].
const (
	ofDefault   = "default"
	ofWorkspace = "workspace" // the file in the state directory
	ofOptions   = "explicit"  // the file that the options name
)

const policyName = "policy.yaml"

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
	place string // absolute, of the file that the options name; "" = the one in the state directory
	name  string // as errors show it, without what is outside the workspace
}

func placeOf(root, place string) policyPlace {
	at := policyPlace{place: place, name: engine.StateDirName + "/" + policyName}
	if at.place == "" {
		return at
	}
	if !filepath.IsAbs(at.place) {
		at.place = filepath.Join(root, at.place)
	}
	at.name = filepath.Base(at.place)
	if rel, ok := relpath.Below(root, at.place); ok {
		at.name = rel
	}
	return at
}

// OpenPolicy reads the policy once, for as long as the store is open: later
// changes of the file have no effect. A wrong file is read again, if the options
// ask for that, until it is valid. def is the setting if neither the file nor the
// options set one.
func (l *Layer) OpenPolicy(root string, def policyfile.Setting) error {
	l.at = placeOf(root, l.PolicyFile)
	if l.at.place != "" {
		l.way = wayTo(root, l.at.place)
	}
	p, seen, err := l.load(def)
	if err == nil {
		l.rules.Store(p)
		return nil
	}
	e := l.ErrorOf(err)
	if e.Code != fault.BadPolicy || !l.ServeWithBad {
		return e
	}
	t := &trouble{def: def}
	t.failed(e, seen, time.Now())
	l.rules.Store(defaultWith(engine.Note{Reason: call.WarnPolicyBroken, About: t.failure().Hint}))
	l.trouble.Store(t)
	return nil
}

// openPolicyFile opens the policy file. A symbolic link is followed only if the
// options name it, because its owner made it.
func (l *Layer) openPolicyFile() (fsx.File, error) {
	if l.at.place == "" {
		if l.Disk.State == nil {
			return nil, os.ErrNotExist
		}
		f, err := l.Disk.State.Open(policyName, fsx.Read, 0)
		if engine.IsAbsent(err) && l.Placed {
			return l.policyOfTree()
		}
		return f, err
	}
	real, err := filepath.EvalSymlinks(l.at.place)
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

// policyOfTree opens the policy file in the workspace if the state directory is
// elsewhere.
func (l *Layer) policyOfTree() (fsx.File, error) {
	d, err := l.Disk.Root.OpenDir(engine.StateDirName)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	c, err := l.NewCustody()
	if err != nil {
		return nil, err
	}
	if st, err := d.Stat(); err != nil || !c.Fine(st) {
		return nil, fault.New(fault.BadStateDir).Because(err).With("part", engine.StateDirName).
			Hintf("other users own or can write %s in the workspace, whose policy applies; check its content, then run: chmod go-w %[1]s", engine.StateDirName)
	}
	return d.Open(policyName, fsx.Read, 0)
}

// PolicyFiles returns the places of the policy file when no option names one.
func (l *Layer) PolicyFiles() (list []string) {
	if l.StatePlace == "" {
		return nil
	}
	list = []string{filepath.Join(l.StatePlace, policyName)}
	if l.Placed {
		list = append(list, filepath.Join(l.RealRoot, engine.StateDirName, policyName))
	}
	return list
}

// load reads the policy file and removes the settings that it may not make.
// seen identifies the file that was read, if it was.
func (l *Layer) load(def policyfile.Setting) (p *Policy, seen fsx.Stat, err error) {
	at := l.at
	f, err := l.openPolicyFile()
	if engine.IsAbsent(err) {
		return l.noPolicyFile()
	}
	var own *fault.Fault
	if errors.As(err, &own) {
		return nil, seen, own
	}
	if err != nil {
		return nil, seen, at.unusable(err)
	}
	defer f.Close()
	var c engine.Custody
	if c, err = l.NewCustody(); err == nil {
		err = c.File(at.name, f, at.place == "")
	}
	if err == nil {
		err = at.guarded(c)
	}
	if err != nil {
		return nil, fsx.Stat{}, err
	}
	if seen, err = f.Stat(); err != nil { // narrowing has changed it
		return nil, fsx.Stat{}, at.unusable(err)
	}
	data, err := io.ReadAll(io.LimitReader(f, policyfile.MaxBytes+1))
	if err != nil {
		return nil, fsx.Stat{}, at.unusable(err)
	}
	if p, err = Parse(data, func(p *Policy) { l.restrict(p, def) }); err != nil {
		e := l.ErrorOf(err).With("file", at.name)
		if e.Context["line"] == nil {
			e.Hint = "a rule of it cannot be used"
		}
		e.Hint = "policy file " + at.name + ": " + strings.TrimPrefix(e.Hint, "policy file: ")
		return nil, seen, e
	}
	p.Warnings = append(p.Warnings, c.Warnings()...)
	return p, seen, nil
}

// noPolicyFile returns the policy without a file: the default policy, unless the
// operator asked for that file.
func (l *Layer) noPolicyFile() (*Policy, fsx.Stat, error) {
	switch {
	case l.at.place == "":
		return defaultWith(), fsx.Stat{}, nil
	case !l.Optional:
		return nil, fsx.Stat{}, l.at.bad(policyMissing, "it does not exist")
	}
	return defaultWith(engine.Note{Reason: call.WarnPolicyFileMissing}), fsx.Stat{}, nil
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
	if engine.IsShortage(err) {
		return fault.New(fault.TooManyFiles).Because(err)
	}
	return at.bad(policyUnreadable, "it cannot be read; check the permissions of the file and its directories").Because(err)
}

// restrict removes from a policy file of the workspace the settings that it may
// not make. The file never weakens the options, and weakens a default only if the
// operator has vouched for it, or git does not track it. Keys that need a vouched
// file apply in no other. def is the gate if neither a file nor an option sets
// one.
func (l *Layer) restrict(p *Policy, def policyfile.Setting) {
	p.Source = ofOptions
	if l.at.place != "" {
		return
	}
	p.Source = ofWorkspace
	if p.Hash == "" {
		return
	}
	given, base := policyfile.Default(), policyfile.Default()
	given.Gate.Setting, base.Gate.Setting = l.Setting, l.Setting.Or(def)
	trusted := l.Trust || trust.Has(l.RealRoot, p.Hash)
	p.tightens = !trusted && l.trackedByGit()
	if p.tightens {
		// The gate of a call may be another one than that of now, so it is
		// compared for each call.
		p.Ignored = p.File.Weaker(base)
		p.File.Hold(given, nil)
	} else {
		p.Ignored = p.File.Hold(given, func(k policyfile.Strictness) bool {
			return k.Order != nil || !trusted && (k.Vouched || k.Gate && l.Setting != (policyfile.Setting{}))
		})
	}
	if len(p.Ignored) > 0 {
		p.Warnings = append(p.Warnings, engine.Note{Reason: call.WarnPolicyNotTrusted, About: strings.Join(p.Ignored, ", ")})
	}
	if weaker := p.File.Weaker(base); len(weaker) > 0 && !trusted && !p.tightens {
		p.Warnings = append(p.Warnings, engine.Note{Reason: call.WarnPolicyWeakens, About: strings.Join(weaker, ", ")})
	}
}

// trackedByGit reports whether a repository tracks the policy file in the state
// directory.
func (l *Layer) trackedByGit() bool {
	for _, file := range l.PolicyFiles() {
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

// trouble is a policy file that is wrong. Changes are refused until it is valid;
// it is read again when it has changed.
type trouble struct {
	def policyfile.Setting

	mu   sync.Mutex
	err  *fault.Fault
	seen fsx.Stat // the file that was read; the zero value is none, or one that may still be written to
}

// policyQuiet is how long a file must be unchanged before it is considered
// complete.
const policyQuiet = 50 * time.Millisecond

// failed records why the file is wrong. A file that was changed very recently may
// change again without another time stamp, so its identity is not recorded.
func (t *trouble) failed(e *fault.Fault, seen fsx.Stat, now time.Time) {
	t.err = e
	if t.seen = seen; now.Sub(time.Unix(0, max(seen.Mtime, seen.Ctime))) < time.Second {
		t.seen = fsx.Stat{}
	}
}

// failure returns the error of a refused call.
func (t *trouble) failure() *fault.Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := fault.New(fault.BadPolicy).Because(t.err.Err)
	for name, value := range t.err.Context {
		e.With(name, value)
	}
	e.Hint = t.err.Hint + "; nothing can be changed until it is valid: ask the user to correct it, then send the call again"
	return e
}

// Problem returns the name of the policy file and what is wrong with it, nil when
// it is valid.
func (l *Layer) Problem() (file string, e *fault.Fault) {
	t := l.trouble.Load()
	if t == nil {
		return "", nil
	}
	return l.at.name, t.failure()
}

// Holds reads a wrong policy file again, if it has changed, and fails for as long
// as it is wrong.
func (l *Layer) Holds() error {
	t := l.trouble.Load()
	if t == nil || l.readAgain(t) {
		return nil
	}
	return t.failure()
}

// readAgain reports whether the file is valid now.
func (l *Layer) readAgain(t *trouble) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.trouble.Load() == nil {
		return true
	}
	now := l.lookAtPolicy()
	if now == t.seen && now != (fsx.Stat{}) {
		return false
	}
	for range 10 {
		p, seen, err := l.load(t.def)
		if err != nil {
			e := l.ErrorOf(err)
			switch e.Code {
			case fault.BadPolicy:
			case fault.BadStateDir:
				e = l.at.bad(policyOfOthers, "%s", e.Hint)
			default:
				e = l.at.bad(policyUnreadable, "%s", e.Hint)
			}
			t.failed(e, seen, time.Now())
			return false
		}
		// Half of a file may be valid too: it is taken when no one is writing.
		if l.TestHooks.Quiet != nil {
			l.TestHooks.Quiet()
		} else {
			time.Sleep(policyQuiet)
		}
		if l.lookAtPolicy() == seen {
			l.rules.Store(p)
			l.trouble.Store(nil)
			return true
		}
	}
	return false
}

// lookAtPolicy returns the stat of the policy file, the zero value if none can be
// opened.
func (l *Layer) lookAtPolicy() (st fsx.Stat) {
	if f, err := l.openPolicyFile(); err == nil {
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
	if rel, ok := relpath.Below(root, place); ok {
		names = append(names, rel)
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
		if rel, ok := relpath.Below(root, next); ok && rel != "." {
			names = append(names, rel)
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
func (l *Layer) onPolicyWay(path string) bool {
	key := relpath.Key(path)
	for _, name := range l.way {
		own := relpath.Key(name)
		if key == own {
			return true
		}
		if strings.HasPrefix(key, own+"/") {
			if _, err := os.Stat(filepath.Join(l.RealRoot, filepath.FromSlash(name))); err != nil {
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
	for _, dir := range []string{filepath.Dir(relpath.Resolved(at.place)), filepath.Dir(at.place)} {
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
