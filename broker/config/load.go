package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sort"
	"strings"

	"github.com/caarlos0/env/v11"

	"tidemark/broker/topicconfig"
)

// Load makes the Config of `tidemark serve` from an environment as os.Environ gives it. The error is Faults: all that is
// wrong, at once. Variables that do not begin with TIDEMARK_ are not looked at.
func Load(environ []string) (Config, error) {
	c, faults := parse(environ, nil)
	return c, append(faults, c.checkServe(faults)...).orNil()
}

// Compactor makes the Config of `tidemark compactor`, which has no broker id.
func Compactor(environ []string) (Config, error) {
	c, faults := parse(environ, nil)
	faults = append(faults, c.check(faults)...)
	return c, append(faults, c.missingStores(faults, "compactor")...).orNil()
}

// DevOptions are the flags of `tidemark dev`. An empty one leaves the variable, or the default, as it is.
type DevOptions struct {
	DataDir string // --data
	Kafka   string // --kafka host:port
	HTTP    string // --http host:port
}

// Dev makes the Config of `tidemark dev`: one broker that needs nothing else. Flags win over variables, variables over
// dev's defaults (broker 1, SQLite and objects under the data folder, short delays, topics created on use).
func Dev(o DevOptions, environ []string) (Config, error) {
	given := env.ToMap(environ)
	flags := map[string]string{}
	if o.DataDir != "" {
		flags["TIDEMARK_DATA_DIR"] = o.DataDir
	}
	if o.Kafka != "" {
		flags["TIDEMARK_LISTENERS"] = "PLAINTEXT://" + o.Kafka
	}
	if o.HTTP != "" {
		flags["TIDEMARK_HTTP_LISTEN"] = o.HTTP
	}
	for name, value := range flags {
		environ = append(environ, name+"="+value)
		given[name] = value
	}
	data := given["TIDEMARK_DATA_DIR"]
	if data == "" {
		data = "./tidemark-data"
	}
	dir, err := filepath.Abs(data)
	if err != nil {
		return Config{}, Faults{{"TIDEMARK_DATA_DIR", data, "the current folder cannot be found", "give an absolute path"}}
	}
	c, faults := parse(environ, devDefaults(dir))
	return c, append(faults, c.check(faults)...).orNil()
}

// devDefaults differ from serve's.
func devDefaults(dir string) map[string]string {
	return map[string]string{
		"TIDEMARK_BROKER_ID":                     "1",
		"TIDEMARK_CATALOG_URL":                   (&url.URL{Scheme: "sqlite", Path: filepath.Join(dir, "catalog.db")}).String(),
		"TIDEMARK_OBJECT_STORE_URL":              (&url.URL{Scheme: "file", Path: filepath.Join(dir, "objects")}).String(),
		"TIDEMARK_FREE_DELAY":                    "5s",
		"TIDEMARK_GC_GRACE":                      "30s",
		"TIDEMARK_AUTO_CREATE_TOPICS":            "true",
		"TIDEMARK_GROUP_INITIAL_REBALANCE_DELAY": "0s",
	}
}

// parse reads the environment over the given defaults and fills in what follows from other settings. An empty variable
// counts as not given.
func parse(environ []string, defaults map[string]string) (Config, Faults) {
	merged, set := map[string]string{}, map[string]bool{}
	for name, value := range defaults {
		merged[name] = value
	}
	for name, value := range env.ToMap(environ) {
		if strings.HasPrefix(name, Prefix) && value != "" {
			merged[name] = value
			set[name] = true
		}
	}
	var c Config
	faults := parseFaults(env.ParseWithOptions(&c, env.Options{Environment: merged, Prefix: Prefix}), merged)
	c.Set = set
	c.derive()
	more := c.readTopicDefaults(merged)
	return c, append(append(faults, more...), unknown(set)...)
}

// derive fills in the settings whose default is another setting.
func (c *Config) derive() {
	if c.Tier.CacheDir == "" {
		c.Tier.CacheDir = filepath.Join(c.Broker.DataDir, "cache")
	}
	if len(c.Network.Advertised) == 0 {
		c.Network.Advertised = c.Network.Listeners
	}
	if c.Network.InterBroker == "" && len(c.Network.Listeners) > 0 {
		c.Network.InterBroker = c.Network.Listeners[0].Name
	}
	c.Network.InterBroker = strings.ToUpper(c.Network.InterBroker)
	if c.HTTP.Listen == "none" { // an empty variable counts as not given, so it takes a word
		c.HTTP.Listen = ""
	}
}

// parseFaults turns the parser's errors, which name fields, into faults, which name variables.
func parseFaults(err error, environment map[string]string) Faults {
	if err == nil {
		return nil
	}
	var all env.AggregateError
	if !errors.As(err, &all) {
		all.Errors = []error{err}
	}
	var faults Faults
	for _, e := range all.Errors {
		var p env.ParseError
		if !errors.As(e, &p) {
			faults = append(faults, Fault{Prefix + "…", "", e.Error(), "see docs/config.md"})
			continue
		}
		for _, v := range variables {
			if v.field == p.Name {
				value := environment[v.Name]
				faults = append(faults, Fault{v.Name, v.shown(value), problem(v, p.Err), remedies[v.Kind]})
			}
		}
	}
	return faults
}

// problem puts the parser's word into ours where that one names Go's functions.
func problem(v Variable, err error) string {
	if v.Kind == "listeners" || v.Kind == "size" || v.Kind == "URL" {
		return err.Error()
	}
	return "not a " + strings.Replace(v.Kind, "true or false", "truth value", 1)
}

// readTopicDefaults takes the TIDEMARK_DEFAULT_… variables that are topic configs.
func (c *Config) readTopicDefaults(environment map[string]string) Faults {
	var faults Faults
	good := map[string]string{}
	for _, d := range topicconfig.Topics() {
		value, ok := environment[d.Variable()]
		if !ok {
			continue
		}
		if _, err := topicconfig.NewDefaults(map[string]string{d.Name: value}); err != nil {
			faults = append(faults, Fault{d.Variable(), value, strings.TrimSuffix(err.Error(), "."),
				fmt.Sprintf("write a value of type %s, %s", strings.ToLower(d.Type.String()), d.Valid())})
			continue
		}
		good[d.Name] = value
	}
	defaults, err := topicconfig.NewDefaults(good)
	if err == nil {
		err = defaults.Check(nil, 1)
	}
	if err != nil {
		faults = append(faults, Fault{topicconfig.VariablePrefix + "…", "", strings.TrimSuffix(err.Error(), "."), "change one of the two"})
	}
	c.Topics.Defaults = defaults
	return faults
}

// unknown finds variables that begin as ours do and that nobody reads: most often a slip that would otherwise go unseen.
func unknown(set map[string]bool) Faults {
	var known []string // without the prefix that all have, which would make any two alike
	isKnown := make(map[string]bool)
	know := func(name string) {
		known, isKnown[name] = append(known, strings.TrimPrefix(name, Prefix)), true
	}
	for _, v := range variables {
		know(v.Name)
	}
	for _, d := range topicconfig.Topics() {
		know(d.Variable())
	}
	var faults Faults
	for name := range set {
		if isKnown[name] || outside[name] {
			continue
		}
		remedy := "unset it; `tidemark config` prints every variable"
		if near := topicconfig.Nearest(strings.TrimPrefix(name, Prefix), known); near != "" {
			remedy = "did you mean " + Prefix + near + "?"
		}
		faults = append(faults, Fault{name, "(not shown)", "no such variable", remedy})
	}
	sort.Slice(faults, func(i, j int) bool { return faults[i].Variable < faults[j].Variable })
	return faults
}

// outside are variables of ours that no broker reads.
var outside = map[string]bool{"TIDEMARK_TOOLS": true}
