package resilientwrite_test

import (
	"io"
)

// endless is a long text that need not be held in memory.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.left)
	for i := range p[:n] {
		p[i] = 'a' + byte((e.left-int64(i))%26)
	}
	e.left -= n
	return int(n), nil
}
