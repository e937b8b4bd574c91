// Package adapter is what the adapters of this module ask of a Store besides
// its methods: it is not for callers of the library.
package adapter

// CountRefusal counts a call whose arguments an adapter refused, so that no
// verb has run, in the retry budget of the verb, and returns the refusal with
// what is left of the budget. args identify the call: any change of a byte is
// another call. When the budget is used up, the answer is retry_exhausted, which
// keeps the context of the refusal. There is no row in the journal, and no
// observer hears of it.
//
// Like all counts it is forgotten after a day, or for a thousand newer ones,
// and when the task is reset. Of a closed store the answer is store_closed.
//
// The root package sets it; store is its *Store, the errors are its *Error.
var CountRefusal func(store any, verb string, args []byte, refusal error) error
