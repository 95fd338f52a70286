// Package s3proxy stands between a client and an S3 server and does to their requests what networks and stores do:
// delays, drops, hangs, errors, lost replies, cut bodies, limits.
//
// Requests pass unchanged, Host and path as the client sent them, because both are signed. Rules match by verb, path and
// query; the first that matches and is not used up acts.
//
// Place in the house: tests import it; it imports none of ours.
//
// Lock order: Proxy.mu is a leaf.
package s3proxy
