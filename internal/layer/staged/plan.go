package staged

import (
	"context"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/move"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Op is one operation of a transaction.
type Op struct {
	Do       engine.WriteOp // create, overwrite, append, edit, delete or move
	Path, To string
	Content  []byte
	Revise   engine.Reviser // of an edit
	Expected *string

	Overwrite, AllowShrink, Force, Validate bool
}

// Plan makes the mutations of a transaction. Several operations on one file become one
// mutation.
type Plan struct {
	Of []*engine.Mutation // the mutation that each operation became part of

	e      *engine.Engine
	c      *engine.Commit
	byPath map[string]*file
}

// file is one file of a transaction.
type file struct {
	m     *engine.Mutation
	made  engine.Reviser // its content after the operations so far
	moved bool
}

// NewPlan begins the plan of a commit.
func NewPlan(e *engine.Engine, c *engine.Commit) *Plan {
	p := &Plan{e: e, c: c, byPath: map[string]*file{}}
	c.Plan = func(context.Context) error { return move.Distinct(c) }
	c.IndexOf = func(m *engine.Mutation) int { // the first operation on the file
		return slices.IndexFunc(p.Of, func(of *engine.Mutation) bool { return of == m || of.Source == m })
	}
	return p
}

// Add adds an operation; err is what is already known to be wrong with it.
func (p *Plan) Add(op Op, err error) error {
	rel, _, perr := relpath.Clean(op.Path, p.e.Tree.Rules)
	m := (*engine.Mutation)(nil)
	if perr != nil {
		err = perr
	} else if op.Path = rel; err == nil {
		m, err = p.add(op)
	}
	if err != nil {
		f := p.e.ErrorOf(err).With("op_index", len(p.Of))
		if perr == nil && f.Context["argument"] != "to" {
			f.Path = rel
		}
		if f.Path == "" {
			p.c.Muts = nil // those of the operations before it are not what is wrong
		}
		return f
	}
	m.Validate = op.Validate
	p.Of = append(p.Of, m)
	return nil
}

func (p *Plan) add(op Op) (*engine.Mutation, error) {
	have := p.byPath[op.Path]
	if op.Do == engine.OpMove {
		return p.move(op, have)
	}
	step := p.numbered(len(p.Of), op.step())
	if have != nil {
		return have.m, have.then(op, step)
	}
	m := &engine.Mutation{Path: op.Path, Op: op.Do, AllowShrink: op.AllowShrink, Force: op.Force, Expected: op.Expected}
	switch {
	case op.Do == engine.OpEdit:
		m.Revise = step
	case op.Do != engine.OpDelete:
		if most := p.e.Opts.MaxContentBytes; int64(len(op.Content)) > most {
			return nil, fault.New(fault.TooLarge).With("bytes", len(op.Content)).With("max_bytes", most)
		}
		m.Hold(op.Content)
	}
	p.byPath[op.Path] = &file{m: m, made: step}
	p.c.Muts = append(p.c.Muts, m)
	return m, nil
}

// numbered makes the errors of a step name its operation.
func (p *Plan) numbered(i int, step engine.Reviser) engine.Reviser {
	return func(ctx context.Context, before []byte) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		after, err := step(ctx, before)
		if err != nil {
			err = p.e.ErrorOf(err).With("op_index", i)
		}
		return after, err
	}
}

// step returns an operation as a function of the file's content.
func (op Op) step() engine.Reviser {
	if op.Do == engine.OpEdit {
		return op.Revise
	}
	return func(_ context.Context, before []byte) ([]byte, error) {
		switch op.Do {
		case engine.OpDelete:
			return nil, nil
		case engine.OpAppend:
			return slices.Concat(before, op.Content), nil
		}
		return op.Content, nil
	}
}

const moved = "a moved file can have no other operation in the same transaction; use two transactions"

// then adds another operation on a file of the transaction.
func (f *file) then(op Op, step engine.Reviser) error {
	m := f.m
	switch {
	case f.moved:
		return fault.New(fault.InvalidArgument).With("argument", "ops").Hintf("%s", moved)
	case op.Expected != nil:
		return fault.New(fault.InvalidArgument).With("argument", "expected_prev_sha256").Hintf("only the first operation on a file can give expected_prev_sha256")
	case op.Do == engine.OpDelete && m.Op == engine.OpCreate:
		return fault.New(fault.InvalidArgument).With("argument", "ops").Hintf("the transaction creates the file and deletes it again; omit both operations")
	case op.Do == engine.OpCreate && m.Op != engine.OpDelete:
		return fault.New(fault.FileAlreadyExists).Hintf("an earlier operation of the transaction creates the file; use mode overwrite")
	case m.Op == engine.OpDelete && op.Do == engine.OpEdit:
		return fault.New(fault.FileNotFound).Hintf("an earlier operation of the transaction deletes the file")
	case m.Op == engine.OpDelete && op.Do == engine.OpDelete:
		return fault.New(fault.NotFound).Hintf("an earlier operation of the transaction deletes the file")
	}
	before := f.made
	f.made = func(ctx context.Context, old []byte) ([]byte, error) {
		mid, err := before(ctx, old)
		if err != nil {
			return nil, err
		}
		return step(ctx, mid)
	}
	if op.Do == engine.OpDelete {
		m.Op = engine.OpDelete
		if m.Revise != nil { // what goes before must still be possible
			m.Revise = f.made
		}
		return nil
	}
	m.Revise = f.made
	switch m.Op {
	case engine.OpDelete: // taken away and made again: it must have been there
		m.Op, m.MustExist, m.AllowShrink = engine.OpOverwrite, true, true
	case engine.OpAppend:
		m.Op = engine.OpOverwrite
	}
	m.AllowShrink = m.AllowShrink || op.AllowShrink
	m.Force = m.Force || op.Force
	return nil
}

// move adds the two mutations of a move.
func (p *Plan) move(op Op, have *file) (*engine.Mutation, error) {
	to, err := move.NewName(p.e, op.To)
	if err != nil {
		return nil, err
	}
	if have != nil || p.byPath[to] != nil {
		return nil, fault.New(fault.InvalidArgument).With("argument", "ops").Hintf("%s", moved)
	}
	if op.Path == to {
		return nil, fault.New(fault.InvalidArgument).With("argument", "to").Hintf("a path cannot be moved to itself")
	}
	dst, src := move.Pair(op.Path, to, op.Overwrite, op.Force)
	src.Expected = op.Expected
	p.byPath[op.Path] = &file{m: src, moved: true}
	p.byPath[to] = &file{m: dst, moved: true}
	p.c.Muts = append(p.c.Muts, dst, src)
	return dst, nil
}
