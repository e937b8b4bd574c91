package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestAdmission: commits beyond the limit wait for others to end, in their order; one that
// is canceled or has waited too long goes on and gives nothing back that it has not got.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Engine{limit: 2 * commitFiles}
		s.limitOnce.Do(func() {})
		ctx, cancel := context.WithCancel(context.Background())
		began := time.Now()
		first, second := s.admit(ctx, 1), s.admit(ctx, 1)
		canceled, cancelIt := context.WithCancel(ctx)
		cancelIt()
		s.admit(canceled, 1)()
		in := make(chan int, 2)
		for i, files := range []int{100, 1} {
			go func() {
				leave := s.admit(ctx, files)
				in <- i
				time.Sleep(time.Second)
				leave()
			}()
			synctest.Wait()
		}
		first()
		synctest.Wait()
		testbed.Expect(t, len(in) == 0, "a commit of many files goes on beside another one")
		second()
		if one, two := <-in, <-in; one != 0 || two != 1 || time.Since(began) != time.Second {
			t.Errorf("%d and %d went on, the second one after %v", one, two, time.Since(began))
		}
		time.Sleep(time.Second)
		all := s.admit(ctx, 2)
		began = time.Now()
		late := s.admit(ctx, 1)
		testbed.Equal(t, time.Since(began), admissionWait, "a commit waited")
		late()
		all()
		testbed.Expect(t, s.admission.used == 0 && len(s.admission.waiting) == 0,
			"%d units are used, %d commits wait", s.admission.used, len(s.admission.waiting))
		cancel()
	})
}
