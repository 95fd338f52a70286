package main

import (
	"github.com/spf13/cobra"

	"tidemark/broker/config"
)

// config prints every variable: its default and its meaning.
func (c *command) config() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print every TIDEMARK_ variable, its default and its meaning",
		Args:  named(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if !c.json {
				return config.WriteText(c.out)
			}
			type variable struct {
				Name    string `json:"name"`
				Kind    string `json:"kind"`
				Default string `json:"default"`
				Meaning string `json:"meaning"`
			}
			var vs []variable
			for _, v := range config.Variables() {
				vs = append(vs, variable{v.Name, v.Kind, v.Default, v.Doc})
			}
			return c.print(vs, nil)
		},
	}
}
