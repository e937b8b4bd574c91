package budget

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
)

// About combines a request with the state of the objects that it refers to: a call
// that failed because an object did not exist counts as another call once it
// exists.
func (l *Layer) About(req any, objects ...string) any { return about{l, req, objects} }

type about struct {
	l       *Layer
	req     any
	objects []string
}

// MarshalJSON reads the objects when the budget of the call is checked.
func (a about) MarshalJSON() ([]byte, error) {
	var states []string
	for _, object := range a.objects {
		states = append(states, a.l.stateOfObject(strings.TrimPrefix(object, engine.StateDirName+"/")))
	}
	return json.Marshal(map[string]any{"req": a.req, "states": states})
}

func (l *Layer) stateOfObject(object string) string {
	part, name, inside := strings.Cut(object, "/")
	dir, err := l.StatePart(part)
	if dir == nil || err != nil {
		return Absent
	}
	defer dir.Close()
	st, err := dir.Stat()
	if inside {
		st, err = dir.Lstat(name)
	}
	if err != nil {
		return Absent
	}
	return fmt.Sprint(st.Ino, st.Size, st.Mtime, st.Mode)
}
