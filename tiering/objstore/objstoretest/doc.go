// Package objstoretest is the suite that every objstore driver passes.
package objstoretest
