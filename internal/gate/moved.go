package gate

import (
	"context"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
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
func (c *Check) inspectMoved(ctx context.Context, g policyfile.Setting, i int, m *engine.Mutation) error {
	p, to := c.Layer.Policy(), m.Target.Path
	was, is := p.Options(m.Origin).Allow, p.Options(to).Allow
	if was == nil && !c.gitSees(to, m.Origin) {
		return nil
	}
	if m.Final.Size() > maxMovedScan {
		m.Warn(call.WarnNotScanned)
		return nil
	}
	if was != nil {
		f, err := c.scanMoved(ctx, m, scan.Options{Allow: func(family, pattern string) bool { return !was(family, pattern) || is(family, pattern) }})
		if err == nil {
			err = c.decide(g, i, m, f)
		}
		if err != nil || !c.gitSees(to, m.Origin) {
			return err
		}
	}
	f, err := c.scanMoved(ctx, m, scan.Options{Allow: is})
	if err == nil && f.verdict != scan.VerdictSafe {
		m.Warn(call.WarnSecretUnignored)
	}
	return err
}

func (c *Check) scanMoved(ctx context.Context, m *engine.Mutation, opt scan.Options) (f findings, err error) {
	s := c.Layer.Policy().Scanner()
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

// gitSees reports whether git ignores one path of the workspace and not the other.
// Outside a repository git sees nothing.
func (c *Check) gitSees(seen, hidden string) bool {
	if c.ignored == nil {
		c.ignored = func(string, bool) (bool, bool) { return false, false }
		if c.Layer.RealRoot != "" && gitdir.Top(c.Layer.RealRoot) != "" {
			c.ignored = c.Layer.Ignored()
		}
	}
	was, _ := c.ignored(hidden, false)
	is, _ := c.ignored(seen, false)
	return was && !is
}
