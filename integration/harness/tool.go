package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Tool runs a command of the binary against the node, e.g. Tool("tier", "ls", "events", "--json"), with --bootstrap or
// --http added, and gives what it prints and its exit code.
func (n *Node) Tool(args ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	return n.ToolWith(nil, args...)
}

// ToolWith is Tool with variables of its own, name=value each.
func (n *Node) ToolWith(env []string, args ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	switch args[0] {
	case "topic", "broker":
		args = append(args, "--bootstrap", n.Kafka)
	case "tier":
		args = append(args, "--http", n.HTTP)
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.bin, args...)
	var out, diag bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(Environ(), env...), &out, &diag
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.t.Fatalf("tidemark %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), diag.String(), cmd.ProcessState.ExitCode()
}

// Environ is the environment for a command of the binary. It lacks what tests are told by variables: a command that reads the
// settings refuses those that it does not know.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TIDEMARK_TEST_") || strings.HasPrefix(v, "TIDEMARK_SOAK_") || strings.HasPrefix(v, "TIDEMARK_CATALOG_ROWS")
	})
}
