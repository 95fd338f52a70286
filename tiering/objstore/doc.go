// Package objstore is the port to the object store: the few operations that tiering needs, with a contract that holds
// for S3, for stores that resemble it, and for a folder.
//
// Place in the house: tiering and its sub-packages use Store; cmd/tidemark chooses a driver (s3, minio, file) and wraps
// it: Metrics.Wrap counts, Limiter.For bounds concurrency and paces by priority. The order is
// limiter.For(class) over metrics.Wrap over driver, one limiter a bucket. objstoretest is the suite that every driver
// passes.
//
// Invariants: a key is written once and never again (the caller puts a random attempt id into it), so a repeated Put
// writes the same bytes and a Put needs no condition; nothing but tools and tests lists; a read returns exactly the
// bytes asked for or an error; no call outlives its context by more than one cancelled request.
//
// Lock order: Limiter.mu is a leaf; nothing is called with it held.
package objstore
