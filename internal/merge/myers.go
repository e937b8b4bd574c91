package merge

import (
	"math"
	"slices"
)

// comparison is a run of Myers' algorithm in linear space, "An O(ND) Difference
// Algorithm and Its Variations", with the limits at which git stops searching for the
// shortest result.
type comparison struct {
	a, b      picked
	fwd, back []int // how far each diagonal was reached; diagonal 0 is at shift
	shift     int
	costly    int // edits from which a split need not be the best one
	steps     int // that are left
}

const (
	minCostly = 256 // edits from which any split is taken at the earliest
	enough    = 256 // edits from which a good split is taken
	longRun   = 20  // equal lines in a row that show a good split
	goodness  = 4
)

// box is a part of both texts.
type box struct{ a0, a1, b0, b1 int }

func (c *comparison) run() error {
	n := len(c.a.lines) + len(c.b.lines) + 3
	c.fwd, c.back, c.shift = make([]int, n+1), make([]int, n+1), len(c.b.lines)+1
	c.costly = max(roundedRoot(n), minCostly)
	return c.solve(box{0, len(c.a.lines), 0, len(c.b.lines)}, false)
}

// solve marks what differs in a box.
func (c *comparison) solve(x box, best bool) error {
	for {
		for x.a0 < x.a1 && x.b0 < x.b1 && c.a.lines[x.a0] == c.b.lines[x.b0] {
			x.a0, x.b0 = x.a0+1, x.b0+1
		}
		for x.a0 < x.a1 && x.b0 < x.b1 && c.a.lines[x.a1-1] == c.b.lines[x.b1-1] {
			x.a1, x.b1 = x.a1-1, x.b1-1
		}
		if x.a0 == x.a1 || x.b0 == x.b1 {
			for _, i := range c.a.at[x.a0:x.a1] {
				c.a.side.mark(i, true)
			}
			for _, i := range c.b.at[x.b0:x.b1] {
				c.b.side.mark(i, true)
			}
			return nil
		}
		at, err := c.split(x, best)
		if err != nil {
			return err
		}
		if err := c.solve(box{x.a0, at.a, x.b0, at.b}, at.bestBefore); err != nil {
			return err
		}
		x, best = box{at.a, x.a1, at.b, x.b1}, at.bestBehind
	}
}

// point is where a box is divided, and whether each part needs the best result.
type point struct {
	a, b                   int
	bestBefore, bestBehind bool
}

// front is the diagonals that were reached from one corner of a box.
type front struct {
	v      []int
	shift  int
	lo, hi int // diagonals
	min    int // limits of the box
	max    int
}

func (f *front) at(k int) int { return f.v[k+f.shift] }

// widen takes in one diagonal on each side, or lets one go at the limit of the
// box.
func (f *front) widen(beyond int) {
	if f.lo > f.min {
		f.lo--
		f.v[f.lo-1+f.shift] = beyond
	} else {
		f.lo++
	}
	if f.hi < f.max {
		f.hi++
		f.v[f.hi+1+f.shift] = beyond
	} else {
		f.hi--
	}
}

// split finds a point that a short way through the box goes through.
func (c *comparison) split(x box, best bool) (point, error) {
	first, last := x.a0-x.b0, x.a1-x.b1
	f := &front{c.fwd, c.shift, first, first, x.a0 - x.b1, x.a1 - x.b0}
	r := &front{c.back, c.shift, last, last, f.min, f.max}
	f.v[first+f.shift], r.v[last+r.shift] = x.a0, x.a1
	odd := (first-last)&1 != 0
	for cost := 1; ; cost++ {
		if c.steps -= f.hi - f.lo + r.hi - r.lo + 2; c.steps < 0 {
			return point{}, ErrTooMuchWork
		}
		long := false
		if p, ok := c.forward(x, f, r, odd, &long); ok {
			return p, nil
		}
		if p, ok := c.backward(x, f, r, !odd, &long); ok {
			return p, nil
		}
		if best {
			continue
		}
		if long && cost > enough {
			if p, ok := c.good(x, f, r, first, last, cost); ok {
				return p, nil
			}
		}
		if cost >= c.costly {
			return c.furthest(x, f, r), nil
		}
	}
}

// forward goes one edit further from the upper left corner.
func (c *comparison) forward(x box, f, r *front, meets bool, long *bool) (point, bool) {
	f.widen(-1)
	for k := f.hi; k >= f.lo; k -= 2 {
		i := max(f.at(k-1)+1, f.at(k+1))
		from := i
		for i < x.a1 && i-k < x.b1 && c.a.lines[i] == c.b.lines[i-k] {
			i++
		}
		c.steps -= i - from
		*long = *long || i-from > longRun
		f.v[k+f.shift] = i
		if meets && r.lo <= k && k <= r.hi && r.at(k) <= i {
			return point{i, i - k, true, true}, true
		}
	}
	return point{}, false
}

// backward goes one edit further from the lower right corner.
func (c *comparison) backward(x box, f, r *front, meets bool, long *bool) (point, bool) {
	r.widen(math.MaxInt)
	for k := r.hi; k >= r.lo; k -= 2 {
		i := min(r.at(k-1), r.at(k+1)-1)
		from := i
		for i > x.a0 && i-k > x.b0 && c.a.lines[i-1] == c.b.lines[i-k-1] {
			i--
		}
		c.steps -= from - i
		*long = *long || from-i > longRun
		r.v[k+r.shift] = i
		if meets && f.lo <= k && k <= f.hi && i <= f.at(k) {
			return point{i, i - k, true, true}, true
		}
	}
	return point{}, false
}

// good finds a point after a long run of equal lines that is far from its
// corner.
func (c *comparison) good(x box, f, r *front, first, last, cost int) (p point, found bool) {
	most := goodness * cost
	for k := f.hi; k >= f.lo; k -= 2 {
		i, j := f.at(k), f.at(k)-k
		far := i - x.a0 + j - x.b0 - abs(k-first)
		if far > most && x.a0+longRun <= i && i < x.a1 && x.b0+longRun <= j && j < x.b1 && c.equalRun(i-longRun, j-longRun) {
			most, p, found = far, point{i, j, true, false}, true
		}
	}
	if found {
		return p, true
	}
	for k := r.hi; k >= r.lo; k -= 2 {
		i, j := r.at(k), r.at(k)-k
		far := x.a1 - i + x.b1 - j - abs(k-last)
		if far > most && x.a0 < i && i <= x.a1-longRun && x.b0 < j && j <= x.b1-longRun && c.equalRun(i, j) {
			most, p, found = far, point{i, j, false, true}, true
		}
	}
	return p, found
}

func (c *comparison) equalRun(i, j int) bool {
	return slices.Equal(c.a.lines[i:i+longRun], c.b.lines[j:j+longRun])
}

// furthest takes the point that is furthest from its corner.
func (c *comparison) furthest(x box, f, r *front) point {
	ahead, at := -1, 0
	for k := f.hi; k >= f.lo; k -= 2 {
		i := min(f.at(k), x.a1)
		if i-k > x.b1 {
			i = x.b1 + k
		}
		if i+i-k > ahead {
			ahead, at = i+i-k, i
		}
	}
	behind, from := math.MaxInt, 0
	for k := r.hi; k >= r.lo; k -= 2 {
		i := max(r.at(k), x.a0)
		if i-k < x.b0 {
			i = x.b0 + k
		}
		if i+i-k < behind {
			behind, from = i+i-k, i
		}
	}
	if x.a1+x.b1-behind < ahead-(x.a0+x.b0) {
		return point{at, ahead - at, true, false}
	}
	return point{from, behind - from, false, true}
}

func abs(n int) int { return max(n, -n) }
