package main

import (
	"github.com/spf13/cobra"

	"tidemark/broker"
	"tidemark/broker/config"
)

// serve runs one broker of a cluster.
func (c *command) serve() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run one broker of a cluster, set by TIDEMARK_ variables (see `tidemark config`)",
		Args:  named(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(c.environ)
			if err != nil {
				return err
			}
			return c.node(cmd.Context(), cfg, func(*broker.Broker) error { return nil })
		},
	}
}
