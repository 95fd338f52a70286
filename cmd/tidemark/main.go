// Command tidemark is the one binary: a broker for a laptop (dev), a broker of a cluster (serve), and the
// tools topic, tier and config.
//
// Place in the house: flags, signals, exit codes and the choice of drivers; everything else is broker's.
// The tools speak to a broker as any client does, over Kafka's protocol or HTTP.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage or settings, 3 fenced: another process holds the broker id.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], system{out: os.Stdout, err: os.Stderr, environ: os.Environ()}))
}

// system is what a command has of the outside.
type system struct {
	out, err io.Writer
	environ  []string
}
