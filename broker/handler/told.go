package handler

import (
	"strings"

	"tidemark/broker/wire"
	"tidemark/catalog"
)

// told logs a change that a client has made to the cluster, so that an operator can find out when it was, by which client
// and from where.
func (h *Handlers) told(c *wire.Conn, req *wire.Request, change string, about ...any) {
	h.Log.Info(change, append(about, "client", req.ClientID, "from", c.RemoteAddr().String())...)
}

// tellConfigs logs what a request has changed of a topic's configs: NAME=VALUE, and -NAME for one that is its default again.
func (h *Handlers) tellConfigs(c *wire.Conn, req *wire.Request) func(topic string, changes []catalog.ConfigChange) {
	return func(topic string, changes []catalog.ConfigChange) {
		words := make([]string, 0, len(changes))
		for _, c := range changes {
			if c.Value == nil {
				words = append(words, "-"+c.Name)
				continue
			}
			words = append(words, c.Name+"="+*c.Value)
		}
		h.told(c, req, "topic configs changed", "topic", topic, "changes", strings.Join(words, " "))
	}
}
