// Package admin is the broker's HTTP side: metrics, health, profiles, a JSON API that `tidemark tier`
// uses, and a plain console page.
//
// Place in the house: a room of broker. It knows HTTP and JSON; what it shows it asks of a [State],
// which broker fills. Nobody of ours imports it but broker.
//
// Invariants: every request ends by the server's time-outs; nothing here changes the cluster unless the
// request came in on a loopback address or bears the token (DESIGN §9); an answer names no secret.
package admin
