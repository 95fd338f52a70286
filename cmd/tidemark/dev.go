package main

import (
	"errors"
	"net"

	"github.com/spf13/cobra"

	"tidemark/broker"
	"tidemark/broker/config"
)

// dev runs one broker that needs nothing else.
func (c *command) dev() *cobra.Command {
	var o config.DevOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run one broker that needs nothing else: SQLite, objects in a folder",
		Args:  named(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Dev(o, c.environ)
			if err != nil {
				return byFlag(err)
			}
			return byFlag(c.node(cmd.Context(), cfg, func(b *broker.Broker) error { return c.welcome(cfg, b) }))
		},
	}
	cmd.Flags().StringVar(&o.DataDir, "data", "", "folder for everything (./tidemark-data)")
	cmd.Flags().StringVar(&o.Kafka, "kafka", "", "address for Kafka clients (127.0.0.1:9092)")
	cmd.Flags().StringVar(&o.HTTP, "http", "", "address for metrics, health and console, or none (127.0.0.1:9644)")
	return cmd
}

// devFlags are the flags that set a variable.
var devFlags = map[string]string{
	"TIDEMARK_DATA_DIR": "--data", "TIDEMARK_LISTENERS": "--kafka", "TIDEMARK_HTTP_LISTEN": "--http",
}

// byFlag names the flag beside the variable in faults, since that is what the user may have written.
func byFlag(err error) error {
	var faults config.Faults
	var setting settingError
	switch {
	case errors.As(err, &setting):
		if flag, ok := devFlags[setting.Variable]; ok {
			setting.Variable = flag + " or " + setting.Variable
			return setting
		}
		return err
	case !errors.As(err, &faults):
		return err
	}
	for i, f := range faults {
		if flag, ok := devFlags[f.Variable]; ok {
			faults[i].Variable = flag + " or " + f.Variable
		}
	}
	return faults
}

// greeting is what dev says when it serves.
type greeting struct {
	Kafka string `json:"kafka"`
	HTTP  string `json:"http,omitempty"`
	Data  string `json:"data"`
}

func (c *command) welcome(cfg config.Config, b *broker.Broker) error {
	g := greeting{Kafka: reachable(b.Addr(cfg.Network.Listeners[0].Name)), Data: cfg.Broker.DataDir}
	if a := b.HTTPAddr(); a != "" {
		g.HTTP = "http://" + reachable(a)
	}
	return c.print(g, func(t *table) {
		t.line("Tidemark is up.")
		t.row("  Kafka", g.Kafka)
		if g.HTTP != "" {
			t.row("  Console", g.HTTP+"/")
		}
		t.row("  Data", g.Data)
		t.line("")
		t.line("Try it:")
		t.line("  echo hello | kcat -b %s -t greetings -P", g.Kafka)
		t.line("  kcat -b %s -t greetings -C -e", g.Kafka)
		t.line("")
		t.line("Ctrl-C stops it.")
	})
}

// reachable is an address that a client on this machine can use, also where the listener is bound to all
// interfaces.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}
