package resilientwrite

import "fmt"

// OpMissed is the Op of the receipt that replaces all those that a watcher was
// too slow to receive. It describes no call: the missed calls are in the journal.
const OpMissed = "missed"

// Watch calls f with the receipt of every mutating call of this Store, including
// refused calls and calls that changed nothing, once the outcome is known. Calls
// of other processes are not included; [Store.JournalSince] reports them.
//
// Receipts arrive in the order in which the calls ended, one at a time, in a
// separate goroutine: f may take its time and may call the Store, and no writer
// waits for it. At most 256 receipts wait for a slow f. Further receipts are
// dropped, and one receipt whose Op is [OpMissed] replaces them. A panic in f is
// contained.
//
// stop ends the watch, as does [Store.Close], which lets f receive the waiting
// receipts for at most a second. After stop no further call of f begins; one that
// has begun may still be in progress. Stopping twice is harmless. Watching a
// closed store does nothing.
func (s *Store) Watch(f func(Receipt)) (stop func()) { return s.watchers.Add(f, missedReceipts) }

func missedReceipts(n int) Receipt {
	return Receipt{Op: OpMissed, ToolVersion: Version, Durability: "none", Warnings: []Warning{{
		Reason: WarnReceiptsMissed,
		Hint:   fmt.Sprintf("%d receipts were dropped because the watcher was too slow; the journal has the changes", n),
	}}}
}
