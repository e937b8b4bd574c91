// Package journal stores the rows that record what was written: JSON lines in segments.
// Each row has the hash of the previous one and never the content. spec/journal.md
// specifies the format byte by byte.
//
// All processes that have the store open share the journal, each through a Log. Write
// adds rows after the newest one under a lock shared by all processes. Flush returns
// when they are on stable storage. Callers that arrive while either is in progress
// share the next one. Readers, from the tail or from a cursor, see no row that is not
// known to be flushed, unless Show declares that this was not promised.
//
// Bytes that are not a row hide no rows: they are skipped, counted, and named by a
// note. Rows are changed in two cases only, both requested by the operator and recorded
// in a durable note before: a Redaction overwrites a secret, and a Mending restores the
// order of rows that are all present.
package journal
