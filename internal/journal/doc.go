// Package journal keeps the rows that say what was written: JSON lines in
// segments, each row with the hash of the one before it, never the content.
// spec/journal.md has the format byte by byte.
//
// All processes that have the store open share it, each through a Log. Write
// puts rows after the newest one under a lock of all of them; Flush returns
// when they are on stable storage. Callers that arrive while either is in progress
// share the next one. Readers, from the tail or from a cursor, are shown no row
// that is not known to be flushed, unless Show says that this was not promised.
//
// Bytes that are no row hide none: they are passed over, counted, and named by
// a note. Rows are changed in two cases only, both on the word of the operator
// and with a durable note of it before: a Redaction writes over a secret, a
// Mending puts rows in order that are all there.
package journal
