package config

import (
	"log/slog"
	"reflect"
	"time"
)

// Prefix begins every variable.
const Prefix = "TIDEMARK_"

// Variable describes one variable, as `tidemark config` and docs/config.md show it.
type Variable struct {
	Name    string // whole name
	Default string // of serve; "" is none
	Doc     string
	Kind    string // what its text is: "number", "size", "duration", …
	Section string // the part of Config that it belongs to

	field  string // name of the field, unique over all of Config
	secret bool
	min    string
	max    string
	index  []int
}

var variables = listVariables()

// Variables lists all variables but TIDEMARK_DEFAULT_<TOPIC_CONFIG>, in the order of Config.
func Variables() []Variable { return append([]Variable(nil), variables...) }

func listVariables() []Variable {
	var out []Variable
	root := reflect.TypeFor[Config]()
	for i := range root.NumField() {
		section := root.Field(i)
		if section.Type.Kind() != reflect.Struct {
			continue
		}
		for j := range section.Type.NumField() {
			f := section.Type.Field(j)
			name := f.Tag.Get("env")
			if name == "-" {
				continue
			}
			out = append(out, Variable{
				Name: Prefix + name, Default: f.Tag.Get("envDefault"), Doc: f.Tag.Get("doc"), Kind: kindOf(f.Type),
				Section: section.Name, field: f.Name, min: f.Tag.Get("min"), max: f.Tag.Get("max"), index: []int{i, j},
				secret: f.Type == reflect.TypeFor[Secret]() || f.Type == reflect.TypeFor[StoreURL](),
			})
		}
	}
	return out
}

func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Bytes]():
		return "size"
	case reflect.TypeFor[Listeners]():
		return "listeners"
	case reflect.TypeFor[StoreURL]():
		return "URL"
	case reflect.TypeFor[slog.Level]():
		return "level"
	case reflect.TypeFor[LogFormat]():
		return "format"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32:
		return "number"
	}
	return "text"
}

// remedies say what to write, by kind.
var remedies = map[string]string{
	"duration":      "write a duration such as 250ms, 30s or 10m",
	"size":          "write bytes, or a size such as 64MiB or 10GiB",
	"listeners":     "write NAME://host:port, e.g. PLAINTEXT://127.0.0.1:9092, separated by commas",
	"URL":           "write a URL as docs/config.md shows",
	"level":         "write debug, info, warn or error",
	"format":        "write text or json",
	"true or false": "write true or false",
	"number":        "write a whole number",
	"text":          "write another text",
}

// shown is a value as a fault may repeat it.
func (v Variable) shown(value string) string {
	if !v.secret || value == "" {
		return value
	}
	if v.Kind == "URL" {
		var u StoreURL
		if u.UnmarshalText([]byte(value)) == nil {
			return u.String()
		}
	}
	return "(not shown)"
}
