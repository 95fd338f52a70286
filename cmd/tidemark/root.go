package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"tidemark/broker"
	"tidemark/broker/config"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitFenced = 3
)

// command is one invocation: what the root's flags say and whether the command itself has begun, which
// tells a wrong usage from a failure.
type command struct {
	system
	json  bool
	begun bool
}

// usageError is a mistake in what the user wrote that a command found itself.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run does what args say and returns the exit code.
func run(ctx context.Context, args []string, sys system) int {
	c := &command{system: sys}
	root := c.root()
	root.SetArgs(args)
	root.SetOut(sys.out)
	root.SetErr(sys.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(sys.err, "tidemark: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	return c.exitCode(err)
}

func (c *command) exitCode(err error) int {
	var usage usageError
	var faults config.Faults
	switch {
	case errors.Is(err, broker.ErrFenced), errors.Is(err, broker.ErrIDTaken):
		return exitFenced
	case !c.begun, errors.As(err, &usage), errors.As(err, &faults):
		return exitUsage
	}
	return exitFailed
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tidemark",
		Short:         "A Kafka-compatible broker whose history lives in object storage",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		// Runs when the arguments have been accepted.
		PersistentPreRun:  func(*cobra.Command, []string) { c.begun = true },
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(otherFlag)
	root.PersistentFlags().BoolVar(&c.json, "json", false, "print JSON, for scripts")
	root.AddCommand(c.dev(), c.serve(), c.topic(), c.broker(), c.tier(), c.replay(), c.compactor(), c.config())
	return root
}

// version is the release or the commit that this binary was built from, as Go has stamped it, and Go's own.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version + " " + info.GoVersion
}

// otherFlag names the flag that was meant where it is another command's: brokers are reached in two ways.
func otherFlag(cmd *cobra.Command, err error) error {
	unknown := err.Error()
	has := func(flag string) bool { return cmd.Flag(flag) != nil }
	switch {
	case strings.HasSuffix(unknown, "flag: --bootstrap") && has("kafka"):
		return fmt.Errorf("%w; the address to serve clients on is --kafka", err)
	case strings.HasSuffix(unknown, "flag: --bootstrap") && has("http"):
		return fmt.Errorf("%w; `%s` asks a broker's HTTP address, e.g. --http http://127.0.0.1:9644", err, cmd.CommandPath())
	case strings.HasSuffix(unknown, "flag: --http") && has("bootstrap"):
		return fmt.Errorf("%w; `%s` asks a broker by Kafka's protocol, e.g. --bootstrap 127.0.0.1:9092", err, cmd.CommandPath())
	}
	return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
}

// group is a command that only has commands below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return fmt.Errorf("unknown command %q for %q; see `%s --help`", args[0], cmd.CommandPath(), cmd.CommandPath())
	}, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	g.AddCommand(below...)
	return g
}

// named takes between least and most arguments (most < 0: any number), which its usage calls what.
func named(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s is missing: `%s`", what, cmd.UseLine())
		case most >= 0 && len(args) > most:
			return fmt.Errorf("%q is one too many: `%s`", args[most], cmd.UseLine())
		}
		return nil
	}
}
