// Package storefaults holds the tests that put the object-store drivers, a fault proxy and a real S3 server together:
// the faults of real stores and networks, told as stories that both drivers must survive, and the drivers' speed.
//
// Place in the house: tests only; it may import the drivers, which no package below tiering may.
package storefaults
