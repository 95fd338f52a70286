// Package audit compares catalog and bucket: every live row with its object, every object with what
// names it. It reports; the one thing that it changes is to write garbage rows of objects that nothing
// names, when an operator asks for that ([Auditor.Discard], D11).
//
// Place in the house: a room of tiering. The broker's HTTP side streams a verification; a [Scrubber]
// makes the same checks slowly, all the time. Everything is read with the priority of GC.
//
// Invariants:
//   - What is wrong is looked up again before it is reported: a row that was removed or swapped meanwhile
//     is no problem (R8).
//   - A store or catalog that cannot be asked is not a finding of damage.
//   - The bucket is listed first and the catalog asked afterwards, so that whatever is named at any time
//     in between is found named.
package audit
