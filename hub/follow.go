package hub

import (
	"cmp"
	"context"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// followRows is how many rows are shipped without waiting for more: with three to
// five requests a slice, a thousand commits take at most 20.
const followRows = 500

// Follow ships when 500 rows wait, or when fewer wait and every has passed, until ctx
// ends. With a publish request it publishes instead each time something was shipped, and
// renews the lease while nothing is. each, if set, is called after every shipment,
// including failed ones: an unreachable hub is tried again. Follow returns nil when ctx
// ends, otherwise [Forked], [Fenced] or [Leased], which waiting does not resolve.
func (s *Shipper) Follow(ctx context.Context, every time.Duration, publish *PublishRequest, each func(Shipped, error)) error {
	tick := time.NewTicker(min(every, time.Second))
	defer tick.Stop()
	last, tried := time.Time{}, error(nil)
	for {
		waiting, err := s.Waiting(ctx)
		idle := s.clock().Sub(last)
		renew := publish != nil && idle >= s.until().Sub(s.clock())/3
		if due(waiting, idle, every, last.IsZero(), renew, cmp.Or(err, tried)) {
			var out Shipped
			switch {
			case err != nil: // the store cannot be read
			case publish != nil:
				out, err = s.Publish(ctx, *publish)
			default:
				out, err = s.Ship(ctx)
			}
			last, tried = s.clock(), err
			if each != nil && ctx.Err() == nil {
				each(out, err)
			}
			if IsCode(err, Forked) || IsCode(err, Fenced) || IsCode(err, Leased) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// due reports whether it is time to ship: enough rows wait, or some have waited long
// enough. After a failure it is not before the interval has passed.
func due(waiting uint64, idle, every time.Duration, first, renew bool, tried error) bool {
	if tried != nil {
		return idle >= every
	}
	return first || renew || waiting >= followRows || waiting > 0 && idle >= every
}

// Waiting returns the number of rows that are not in the hub yet.
func (s *Shipper) Waiting(ctx context.Context) (uint64, error) {
	st, err := loadState(s.Store)
	if err != nil {
		return 0, err
	}
	r, err := s.Store.JournalSince(ctx, rw.JournalSinceRequest{AfterSeq: &st.Seq, Limit: followRows})
	return r.NextSeq - min(st.Seq, r.NextSeq), err
}

// Local is the shipping state of a store, as recorded in its own state
// directory.
type Local struct {
	Store       string `json:"store"`
	Incarnation string `json:"incarnation"`
	// The newest row in the hub, when it was shipped, and the number of rows that wait,
	// of which at most 500 are counted.
	Seq     uint64 `json:"seq"`
	At      string `json:"at,omitempty"`
	Waiting uint64 `json:"waiting"`
	// Contents that were withheld because of findings, and contents that were gone
	// before they could be shipped.
	Withheld   int64 `json:"withheld"`
	NotShipped int64 `json:"not_shipped"`
	// The task that the store works on, and the one that it has lost.
	Task     string `json:"task,omitempty"`
	Epoch    uint64 `json:"epoch,omitempty"`
	LostTask string `json:"lost_task,omitempty"`
	Forked   bool   `json:"forked,omitempty"`
}

// Local reports the shipping state of the store. It makes no request to the
// hub. The identity is empty if the store was never shipped.
func (s *Shipper) Local(ctx context.Context) (Local, error) {
	st, err := loadState(s.Store)
	if err != nil {
		return Local{}, err
	}
	waiting, err := s.Waiting(ctx)
	out := Local{Store: st.Store, Incarnation: st.Incarnation, Seq: st.Seq, At: st.At, Waiting: waiting, Withheld: st.Withheld, NotShipped: st.NotShipped,
		Task: st.Task, Epoch: st.Epoch, LostTask: st.LostTask, Forked: st.Forked}
	if st.At == "" && st.Task == "" {
		out.Store, out.Incarnation = "", ""
	}
	return out, err
}
