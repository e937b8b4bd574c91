package hub

import (
	"encoding/json"
	"errors"

	rw "github.com/resilientwrite/resilientwrite"
)

// state is what a shipper stores in the state directory of its store. It is
// saved before the first request that relies on it.
type state struct {
	Seq         uint64 `json:"seq"`             // every row up to this one is in the hub
	Chain       string `json:"chain,omitempty"` // hash of that row
	Store       string `json:"store"`
	Incarnation string `json:"incarnation"`
	Slice       string `json:"slice,omitempty"` // key of the last slice
	At          string `json:"at,omitempty"`    // when it was shipped

	// The bounds of the slice that is being shipped.
	Pending *span `json:"pending,omitempty"`
	// The task that this store works on.
	Task  string `json:"task,omitempty"`
	Epoch uint64 `json:"epoch,omitempty"`
	// The task whose files may not be here: its resume has not ended.
	Resuming string `json:"resuming,omitempty"`
	// The task that another machine has taken over.
	LostTask string `json:"lost_task,omitempty"`
	// Contents that were withheld, and that no longer existed when they were to be
	// shipped.
	Withheld   int64 `json:"withheld,omitempty"`
	NotShipped int64 `json:"not_shipped,omitempty"`
	Forked     bool  `json:"forked,omitempty"`

	// Erasures up to this row are in the hub. While the log is rewritten for them, Old
	// is the incarnation that is replaced, OldSlice its last slice, and Hold the row
	// that the new one must reach.
	Erased   uint64 `json:"erased,omitempty"`
	Old      string `json:"old,omitempty"`
	OldSlice string `json:"old_slice,omitempty"`
	Hold     uint64 `json:"hold,omitempty"`
}

// span is a range of rows, both ends included.
type span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// loadState reads the state. A store without one gets an identity; one whose state is
// damaged keeps its own, and ships nothing.
func loadState(s *rw.Store) (*state, error) {
	data, err := s.Admin().ShipState()
	if err != nil {
		return nil, err
	}
	if data == nil {
		return &state{Store: newID(), Incarnation: newID()}, nil
	}
	st := &state{}
	if json.Unmarshal(data, st) != nil || st.Store == "" || st.Incarnation == "" {
		return nil, &Error{Code: Damaged, Err: errors.New("hub/ship.json of the state directory, which says what of this store is in the hub, is damaged"),
			Hint: "put it back from a backup of this machine; without one, run resilient-write hub ship --restart: the store becomes another one in the hub, and its log there remains"}
	}
	return st, nil
}

func (st *state) save(s *rw.Store) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return s.Admin().SetShipState(append(data, '\n'))
}
