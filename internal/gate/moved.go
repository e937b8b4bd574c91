package gate

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/gitignore"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// maxMovedScan is the size in bytes up to which a file is scanned when it gets
// another path.
const maxMovedScan = 8 << 20

// inspectMoved judges bytes that come from another path: of a move, or of a
// version that a restore or an undo brings back under another name. A finding
// that an exception of the policy allows there but not here counts as introduced
// by the call. A warning reports bytes that git ignored at the old path and does
// not ignore at the new one.
func (c *Check) inspectMoved(ctx context.Context, g Setting, i int, m *engine.Mutation) error {
	p, to := c.Layer.Policy(), m.Target.Path
	was, is := p.Options(m.Origin).Allow, p.Options(to).Allow
	if was == nil && !c.Layer.gitSees(to, m.Origin) {
		return nil
	}
	if m.Final.Size() > maxMovedScan {
		m.Warn(warnNotScanned)
		return nil
	}
	if was != nil {
		f, err := c.scanMoved(ctx, m, scan.Options{Allow: func(family, pattern string) bool { return !was(family, pattern) || is(family, pattern) }})
		if err == nil {
			err = c.decide(g, i, m, f)
		}
		if err != nil || !c.Layer.gitSees(to, m.Origin) {
			return err
		}
	}
	f, err := c.scanMoved(ctx, m, scan.Options{Allow: is})
	if err == nil && f.verdict != scan.VerdictSafe {
		m.Warn(warnSecretUnignored)
	}
	return err
}

func (c *Check) scanMoved(ctx context.Context, m *engine.Mutation, opt scan.Options) (f findings, err error) {
	s := c.Layer.Policy().Scanner
	f.report, err = Scan(ctx, s, m.Final, opt)
	f.fresh = introduced{f.report.Tally(), f.report.Findings[:min(len(f.report.Findings), MaxListed)]}
	f.judge(s)
	return f, err
}

// cameFrom returns the previous path of the bytes of a mutation, "" if that is
// its own path or the bytes are new.
func cameFrom(m *engine.Mutation) string {
	if m.Source != nil && m.Source.Target != nil {
		m.Origin = m.Source.Target.Path
	}
	if m.Op == engine.OpDelete || m.Origin == m.Target.Path {
		return ""
	}
	return m.Origin
}

// gitSees reports whether .gitignore files ignore one path of the workspace and
// not the other: those of the workspace and of the directories above it, up to
// the top of the repository. It does not read .git/info/exclude or the files that
// git's configuration names, and does not know which files are tracked. Outside a
// repository git sees nothing.
func (l *Layer) gitSees(seen, hidden string) bool {
	above, inside, ok := l.ignoredAbove()
	if !ok {
		return false
	}
	return l.ignores(above, inside, hidden) && !l.ignores(above, inside, seen)
}

func (l *Layer) ignores(above []gitignore.File, inside, name string) bool {
	files := append([]gitignore.File{}, above...)
	for dir := range parents(name) {
		target, err := l.Tree.Resolve(path.Join(dir, engine.IgnoreName))
		if err != nil {
			continue
		}
		if text, err := durable.ReadFile(target.Parent, target.Name, maxIgnore); err == nil {
			files = append(files, gitignore.Parse(strings.TrimPrefix(path.Join(inside, dir), "."), text))
		}
		target.Close()
	}
	return gitignore.Ignored(files, path.Join(inside, name))
}

// maxIgnore is how much of a .gitignore file is read, in bytes.
const maxIgnore = 256 << 10

// parents returns the directories that lead to a path, the workspace first.
func parents(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !yield("") {
			return
		}
		for i := range len(name) {
			if name[i] == '/' && !yield(name[:i]) {
				return
			}
		}
	}
}

// ignoredAbove reads the .gitignore files above the workspace, up to the top of
// the repository. inside is the workspace relative to that top.
func (l *Layer) ignoredAbove() (files []gitignore.File, inside string, ok bool) {
	top := l.RealRoot
	for top != "" {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			break
		}
		up := filepath.Dir(top)
		if up == top {
			return nil, "", false
		}
		top = up
	}
	rel, err := filepath.Rel(top, l.RealRoot)
	if top == "" || err != nil {
		return nil, "", false
	}
	if inside = filepath.ToSlash(rel); inside == "." {
		return nil, "", true
	}
	for dir := range parents(inside) {
		place := filepath.Join(top, filepath.FromSlash(dir), engine.IgnoreName)
		if st, err := os.Lstat(place); err != nil || !st.Mode().IsRegular() || st.Size() > maxIgnore {
			continue
		}
		if text, err := os.ReadFile(place); err == nil {
			files = append(files, gitignore.Parse(dir, text))
		}
	}
	return files, inside, true
}
