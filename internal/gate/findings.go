package gate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/aside"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// findings are what the gate found in the final bytes of one file.
type findings struct {
	report  scan.Report
	fresh   introduced
	verdict string // of what is fresh and more than information: it refuses
	score   float64
	worth   string // what is fresh deserves this warning
}

// introduced holds the findings that a commit introduces. All are counted, but
// only as many are kept as a refusal lists, because a text may hold millions of
// findings.
type introduced struct {
	scan.Tally
	first []scan.Finding
}

func (in *introduced) add(x scan.Finding) {
	in.Add(x)
	if len(in.first) < MaxListed {
		in.first = append(in.first, x)
	}
}

// Fresh returns the first findings in the bytes of a file that the version before, if
// there is one, does not have.
func (l *Layer) Fresh(ctx context.Context, path string, data []byte, before func() []byte) []scan.Finding {
	p := l.Policy()
	opt := p.Options(path)
	opt.Context = ctx
	var now []scan.Finding
	var seen Fingerprints
	opt.Each = func(x scan.Finding) {
		seen.Add(x)
		if len(now) < MaxListed {
			now = append(now, x)
		}
	}
	p.Scanner().Score(data, opt)
	if len(now) == 0 {
		return nil
	}
	opt.Each = seen.Mark
	p.Scanner().Score(before(), opt)
	return slices.DeleteFunc(now, func(x scan.Finding) bool { return seen.Marked(x) || x.Placeholder })
}

// inspect scans the final bytes and omits the findings that were there before.
func (c *Check) inspect(ctx context.Context, m *engine.Mutation) (f findings, err error) {
	opt := c.Layer.Policy().Options(m.Target.Path)
	switch {
	case m.Primitive == publish.Append:
		err = c.inspectAppended(ctx, m, opt, &f)
	case m.Prev.Exists && m.Prev.File != nil:
		err = c.inspectReplaced(ctx, m, opt, &f)
	default:
		_, err = c.scanFinal(ctx, m, opt, &f)
		f.fresh = introduced{f.report.Tally(), f.report.Findings[:min(len(f.report.Findings), MaxListed)]}
	}
	f.judge(c.Layer.Policy().Scanner())
	return f, err
}

// judge decides which findings are fresh. Findings of confidence info never
// refuse: they are not part of the verdict of the gate, and alone they only cause
// the mildest warning.
func (f *findings) judge(s *scan.Scanner) {
	score, verdict := s.GateVerdict(&f.fresh.Tally)
	f.score, f.verdict, f.worth = score, verdict, verdict
	if _, all := s.VerdictOf(&f.fresh.Tally); f.verdict == scan.VerdictSafe && all != scan.VerdictSafe {
		f.worth = scan.VerdictLow
	}
}

// inspectReplaced separates the new findings in the final bytes from those that
// the file had before. It records the Fingerprints of the current findings, marks
// those that the old file has too, and counts the others.
func (c *Check) inspectReplaced(ctx context.Context, m *engine.Mutation, opt scan.Options, f *findings) (err error) {
	s := c.Layer.Policy().Scanner()
	seen, err := c.scanFinal(ctx, m, opt, f)
	if err != nil || len(f.report.Findings) == 0 {
		return err
	}
	opt.Each = seen.Mark
	if _, err = scanReader(ctx, s, m.Prev.Reader(), opt); err != nil {
		return err
	}
	opt.Each = func(x scan.Finding) {
		if !seen.Marked(x) {
			f.fresh.add(x)
		}
	}
	if f.report.Omitted > 0 { // a report lists only so many
		_, err = Scan(ctx, s, m.Final, opt)
		return err
	}
	for _, x := range f.report.Findings {
		opt.Each(x)
	}
	return nil
}

// inspectAppended scans the appended bytes together with as much of the end of
// the file as one secret can span, so that a secret that is completed here is
// found.
func (c *Check) inspectAppended(ctx context.Context, m *engine.Mutation, opt scan.Options, f *findings) (err error) {
	from := max(0, m.Prev.Stat.Size-scan.Window)
	tail := io.NewSectionReader(m.Prev.File, from, m.Prev.Stat.Size-from)
	overlap := int(m.Prev.Stat.Size - from)
	opt.Each = func(x scan.Finding) {
		if x.End > overlap {
			f.fresh.add(x)
		}
	}
	if f.report, err = scanReader(ctx, c.Layer.Policy().Scanner(), io.MultiReader(tail, m.Final.Reader()), opt); err != nil {
		return err
	}
	if from > 0 && f.fresh.Total > 0 {
		err = placeInFile(m, f.fresh.first, from)
	}
	return err
}

// placeInFile converts positions in the end of a file, from an offset on, to
// positions in the whole file.
func placeInFile(m *engine.Mutation, found []scan.Finding, from int64) error {
	lines, err := countLines(io.NewSectionReader(m.Prev.File, from, m.Prev.Stat.Size-from))
	if err != nil {
		return err
	}
	column, err := columnAt(m.Prev.File, from)
	if err != nil {
		return err
	}
	above := int(m.Prev.Traits.LF+m.Prev.Traits.CRLF) - lines
	for i := range found {
		if found[i].Line == 1 {
			found[i].Column += column
		}
		found[i].Line += above
	}
	return nil
}

// columnAt is the number of characters between the start of its line and an
// offset of a file.
func columnAt(f io.ReaderAt, off int64) (int, error) {
	n, buf := 0, make([]byte, 64<<10)
	for off > 0 {
		piece := buf[:min(int64(len(buf)), off)]
		off -= int64(len(piece))
		if _, err := f.ReadAt(piece, off); err != nil && err != io.EOF {
			return 0, err
		}
		line := piece[bytes.LastIndexByte(piece, '\n')+1:]
		for _, c := range line {
			if c&0xc0 != 0x80 {
				n++
			}
		}
		if len(line) < len(piece) {
			break
		}
	}
	return n, nil
}

func countLines(r io.Reader) (int, error) {
	var t engine.Traits
	if _, err := io.Copy(&t, r); err != nil {
		return 0, err
	}
	return int(t.LF + t.CRLF), nil
}

// Score scans a text that would be written to a path. Placeholders are reported
// too.
func (p *Policy) Score(ctx context.Context, text []byte, path string) (scan.Report, error) {
	opt := p.Options(path)
	opt.Placeholders = true
	return Scan(ctx, p.Scanner(), engine.MemBody(text), opt)
}

// Redact returns a text with a marker in place of each secret, and the verdict on
// what is left, its size aside. list is called for each place.
func (p *Policy) Redact(ctx context.Context, text []byte, path string, list func(scan.Span)) (clean []byte, verdict string, err error) {
	opt := p.Options(path)
	opt.Context, opt.Span = ctx, list
	clean, err = aside.Run(ctx, len(text), func() []byte {
		clean, _ := p.Scanner().Redact(text, opt)
		return clean
	})
	if err != nil {
		return nil, "", err
	}
	left, err := Scan(ctx, p.Scanner(), engine.MemBody(clean), opt)
	return clean, p.Scanner().ContentVerdict(&left), err
}

// scanAtOnce is the size in bytes up to which a text is scanned in one piece.
const scanAtOnce = 1 << 20

// Scan scans a text, in one piece if it is short and in memory.
func Scan(ctx context.Context, s *scan.Scanner, b engine.Body, opt scan.Options) (scan.Report, error) {
	if whole, ok := b.Whole(); ok && len(whole) <= scanAtOnce {
		opt.Context = ctx
		return s.Score(whole, opt), ctx.Err()
	}
	return scanReader(ctx, s, b.Reader(), opt)
}

func scanReader(ctx context.Context, s *scan.Scanner, r io.Reader, opt scan.Options) (scan.Report, error) {
	opt.Context = ctx
	st := s.NewStream(opt)
	if _, err := io.CopyBuffer(st, engine.NewStoppable(ctx, r), make([]byte, engine.CopyBuffer)); err != nil {
		return scan.Report{}, err
	}
	return st.Report(), ctx.Err()
}

func isCostly(err error) bool {
	var costly *scan.CostlyError
	return errors.As(err, &costly)
}

// earlyFrom is the size in bytes from which content is scanned, and written to a slot,
// while it is hashed. Of smaller content, both begin once it is known that it will be
// published.
const earlyFrom = 256 << 10

// earlyScan is a scan of the content of a call, started before the stages.
type earlyScan struct {
	text   []byte
	policy *Policy
	done   chan struct{}
	report scan.Report
	seen   Fingerprints
	err    error
}

// Hold takes content that is in memory and returns its hash. Of a long one, the scan
// begins before it is hashed, if the gate only advises and treats all paths alike, and
// so does the device with its bytes. Wait waits for the scan.
func (c *Check) Hold(ctx context.Context, m *engine.Mutation, text []byte) string {
	if len(text) >= cmp.Or(c.Layer.TestHooks.AheadFrom, earlyFrom) && !c.Commit.Req.DryRun && !c.Layer.Transforms && c.onlyAdvises() {
		c.scanEarly(ctx, text)
		c.Commit.WriteAhead(ctx, m, text)
	}
	return m.Hold(text)
}

// onlyAdvises reports whether the gate refuses nothing, whatever the path is.
func (c *Check) onlyAdvises() bool {
	return c.Risk == (Risk{}) && len(c.Layer.Policy().File.Allow) == 0 && c.Layer.For(c.Default).Mode == Advise
}

func (c *Check) scanEarly(ctx context.Context, text []byte) {
	if len(text) > scanAtOnce || c.Layer.TestHooks.InTurn {
		return
	}
	e := &earlyScan{text: text, policy: c.Layer.Policy(), done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.report, e.err = Scan(c.Layer.Bounded(ctx), e.policy.Scanner(), engine.MemBody(text), scan.Options{Each: e.seen.Add})
	}()
	c.early, c.advice = e, append(c.advice, func() { <-e.done })
}

// scanFinal scans the final bytes and returns the Fingerprints of what it found.
func (c *Check) scanFinal(ctx context.Context, m *engine.Mutation, opt scan.Options, f *findings) (seen Fingerprints, err error) {
	whole, _ := m.Final.Whole()
	if e := c.early; e != nil && e.policy == c.Layer.Policy() && len(whole) == len(e.text) && &whole[0] == &e.text[0] {
		<-e.done
		f.report = e.report
		return e.seen, e.err
	}
	opt.Each = seen.Add
	f.report, err = Scan(ctx, c.Layer.Policy().Scanner(), m.Final, opt)
	return seen, err
}

// Fingerprints is a set of findings in bounded memory, each with a mark. A
// finding beyond the bound is not in the set and is never marked: a finding that
// is not known to be old counts as new. Its zero value is empty.
type Fingerprints struct{ marks map[uint64]bool }

// maxFingerprints bounds the set, at some 20 MiB. Findings of confidence info may
// fill half of it, so that a list of addresses leaves room for the keys in it.
const maxFingerprints = 786_432

// Add takes a finding into the set, as long as there is room.
func (p *Fingerprints) Add(x scan.Finding) {
	most := maxFingerprints
	if x.Confidence == scan.Info {
		most /= 2
	}
	if len(p.marks) >= most {
		return
	}
	if p.marks == nil {
		p.marks = map[uint64]bool{}
	}
	p.marks[printOf(x)] = p.marks[printOf(x)]
}

// Mark marks a finding of the set; others are left alone.
func (p *Fingerprints) Mark(x scan.Finding) {
	if _, in := p.marks[printOf(x)]; in {
		p.marks[printOf(x)] = true
	}
}

// Marked reports whether a finding is in the set and marked.
func (p *Fingerprints) Marked(x scan.Finding) bool { return p.marks[printOf(x)] }

// printOf returns the part of a fingerprint that is kept: 64 bits. Among a
// million of them, the chance that two are equal is one in ten million.
func printOf(x scan.Finding) uint64 { return binary.LittleEndian.Uint64(x.Fingerprint[:]) }
