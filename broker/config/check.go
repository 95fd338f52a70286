package config

import (
	"fmt"
	"net"
	"reflect"
	"strconv"
	"time"
)

// checkServe is check, and what serve must be told because it has no default.
func (c Config) checkServe(before Faults) Faults {
	faults := c.check(before)
	if v := "TIDEMARK_BROKER_ID"; !c.Set[v] && !before.name(v) {
		faults = append(faults, Fault{v, "", "serve has no default for it", "give each broker a number of its own, e.g. 1"})
	}
	return append(faults, c.missingStores(before, "serve")...)
}

// missingStores are the faults of a command that has no default for the stores.
func (c Config) missingStores(before Faults, command string) Faults {
	var faults Faults
	missing := func(is bool, variable, remedy string) {
		if is && !before.name(variable) {
			faults = append(faults, Fault{variable, "", command + " has no default for it", remedy})
		}
	}
	missing(c.Stores.Catalog.IsZero(), "TIDEMARK_CATALOG_URL", "write e.g. postgres://user:password@host/tidemark")
	missing(c.Stores.Objects.IsZero(), "TIDEMARK_OBJECT_STORE_URL", "write e.g. s3://bucket/prefix?region=eu-central-1")
	return faults
}

// check judges values that parsed: their ranges, and what they mean together. Variables that `before` names already are
// not judged again.
func (c Config) check(before Faults) Faults {
	var faults Faults
	fault := func(variable, value, problem, remedy string) {
		if !before.name(variable) && !faults.name(variable) {
			faults = append(faults, Fault{variable, value, problem, remedy})
		}
	}
	root := reflect.ValueOf(c)
	for _, v := range variables {
		if problem := v.outOfRange(root.FieldByIndex(v.index)); problem != "" {
			fault(v.Name, fmt.Sprint(root.FieldByIndex(v.index)), problem, fmt.Sprintf("write %s to %s", v.min, v.max))
		}
	}
	c.checkStores(fault)
	c.checkNetwork(fault)
	if budgets := c.memoryBudgets(); c.Broker.Memory > 0 && c.Broker.Memory < budgets {
		fault("TIDEMARK_MEMORY", c.Broker.Memory.String(), fmt.Sprintf("below the %v that other variables let be used", budgets),
			"make it larger, or TIDEMARK_PRODUCE_MEMORY, TIDEMARK_REQUEST_MEMORY, TIDEMARK_ANSWER_MEMORY, TIDEMARK_TAIL_CACHE_BYTES, TIDEMARK_GROUP_MEMORY or TIDEMARK_COMPACTION_MEMORY smaller")
	}
	if c.Set["TIDEMARK_BROKER_ID"] && c.Broker.ID < 0 {
		fault("TIDEMARK_BROKER_ID", strconv.Itoa(int(c.Broker.ID)), "negative", "write 0 or more")
	}
	if c.Tier.GCGrace <= c.Tier.FreeDelay {
		fault("TIDEMARK_GC_GRACE", c.Tier.GCGrace.String(), fmt.Sprintf("not longer than TIDEMARK_FREE_DELAY (%v)", c.Tier.FreeDelay),
			"make it longer, or TIDEMARK_FREE_DELAY shorter")
	}
	if c.Groups.MinSession > c.Groups.MaxSession {
		fault("TIDEMARK_GROUP_MIN_SESSION_TIMEOUT", c.Groups.MinSession.String(),
			fmt.Sprintf("longer than TIDEMARK_GROUP_MAX_SESSION_TIMEOUT (%v)", c.Groups.MaxSession), "make it shorter")
	}
	if c.Disk.ProduceMark > 0 && c.Disk.AppendMark >= c.Disk.ProduceMark {
		fault("TIDEMARK_DISK_APPEND_MARK", c.Disk.AppendMark.String(),
			fmt.Sprintf("not below TIDEMARK_DISK_PRODUCE_MARK (%v)", c.Disk.ProduceMark), "make it smaller")
	}
	return faults
}

// memoryBudgets is what the largest users of memory may hold together.
func (c Config) memoryBudgets() Bytes {
	return c.Network.ProduceMemory + c.Network.RequestMemory + c.Network.AnswerMemory + c.Tier.TailCacheBytes + c.Groups.GroupMemory + Bytes(c.Tier.CompactionWorkers)*c.Tier.CompactionMemory
}

func (c Config) checkStores(fault func(variable, value, problem, remedy string)) {
	if u := c.Stores.Catalog; !u.IsZero() && !oneOf(u.Scheme(), "postgres", "postgresql", "sqlite") {
		fault("TIDEMARK_CATALOG_URL", u.String(), fmt.Sprintf("no catalog is called %q", u.Scheme()), "begin with postgres:// or sqlite://")
	}
	if u := c.Stores.Objects; !u.IsZero() && !oneOf(u.Scheme(), "s3", "minio", "file") {
		fault("TIDEMARK_OBJECT_STORE_URL", u.String(), fmt.Sprintf("no object store is called %q", u.Scheme()), "begin with s3://, minio:// or file://")
	}
}

func (c Config) checkNetwork(fault func(variable, value, problem, remedy string)) {
	n := c.Network
	if len(n.Listeners) == 0 {
		fault("TIDEMARK_LISTENERS", "", "no listener", remedies["listeners"])
	}
	for _, l := range n.Advertised {
		listener, ok := n.Listeners.Named(l.Name)
		switch {
		case !ok:
			fault("TIDEMARK_ADVERTISED_LISTENERS", n.Advertised.String(), fmt.Sprintf("no listener is named %s", l.Name),
				"use the names of TIDEMARK_LISTENERS")
		case unspecified(l.Host):
			fault("TIDEMARK_ADVERTISED_LISTENERS", n.Advertised.String(), fmt.Sprintf("clients cannot connect to %q", l.Host),
				"name the host by which clients reach this broker")
		case l.Port == 0 && listener.Port != 0:
			fault("TIDEMARK_ADVERTISED_LISTENERS", n.Advertised.String(), "port 0", "name the port that clients connect to")
		}
	}
	for _, l := range n.Listeners {
		if _, ok := n.Advertised.Named(l.Name); !ok {
			fault("TIDEMARK_ADVERTISED_LISTENERS", n.Advertised.String(), fmt.Sprintf("listener %s has no advertised address", l.Name),
				"name each listener of TIDEMARK_LISTENERS")
		}
	}
	if _, ok := n.Listeners.Named(n.InterBroker); !ok && len(n.Listeners) > 0 {
		fault("TIDEMARK_INTER_BROKER_LISTENER", n.InterBroker, "no listener has that name", "use a name of TIDEMARK_LISTENERS")
	}
	if n.ProduceMemory < n.MaxRequestBytes {
		fault("TIDEMARK_PRODUCE_MEMORY", n.ProduceMemory.String(), fmt.Sprintf("below TIDEMARK_MAX_REQUEST_BYTES (%v)", n.MaxRequestBytes),
			"make it larger, so that the largest request fits")
	}
	if c.HTTP.Listen != "" {
		if _, _, err := net.SplitHostPort(c.HTTP.Listen); err != nil {
			fault("TIDEMARK_HTTP_LISTEN", c.HTTP.Listen, "not host:port", "write e.g. 127.0.0.1:9644, or none")
		}
	}
}

// unspecified says whether a host means "all interfaces", which is no address for a client.
func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || (ip != nil && ip.IsUnspecified())
}

// outOfRange compares a number, size or duration with its bounds; "" is within.
func (v Variable) outOfRange(field reflect.Value) string {
	if v.min == "" {
		return ""
	}
	var n, lo, hi int64 = field.Int(), bound(v, v.min), bound(v, v.max)
	switch {
	case n < lo:
		return "less than " + v.min
	case n > hi:
		return "more than " + v.max
	}
	return ""
}

// bound reads a bound in the text form of its variable; the tags are checked by a test.
func bound(v Variable, text string) int64 {
	switch v.Kind {
	case "duration":
		d, _ := time.ParseDuration(text)
		return int64(d)
	case "size":
		var b Bytes
		_ = b.UnmarshalText([]byte(text))
		return int64(b)
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func oneOf(s string, words ...string) bool {
	for _, w := range words {
		if s == w {
			return true
		}
	}
	return false
}

// name says whether a fault of the variable is among them.
func (fs Faults) name(variable string) bool {
	for _, f := range fs {
		if f.Variable == variable {
			return true
		}
	}
	return false
}
