package sqlite

import (
	"regexp"
	"strings"
	"sync"

	"tidemark/catalog/relational"
)

const now = `CAST(unixepoch('subsec') * 1000 AS INTEGER)`

func dialect() relational.Dialect {
	same := func(expr string) string { return expr }
	return relational.Dialect{
		Now:        now,
		Server:     `0`,
		Millis:     same,
		FromMillis: same,
		Ago:        func(param string) string { return `(` + now + ` - ` + param + `)` },
		List:       func(param, _ string) string { return `(SELECT value FROM json_each(` + param + `))` },
		Table: func(param, alias string, columns ...relational.Column) string {
			names := make([]string, len(columns))
			for i, c := range columns {
				names[i] = `json_extract(value, '$.` + c.Name + `') AS ` + c.Name
			}
			return `(SELECT ` + strings.Join(names, ", ") + ` FROM json_each(` + param + `)) AS ` + alias
		},
		HasMember: func(column, param string) string {
			return `EXISTS (SELECT 1 FROM json_each(` + column + `) WHERE json_extract(value, '$.broker') = ` + param + `)`
		},
	}
}

func numbersBelow(param string) string {
	return `(WITH RECURSIVE r (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n + 1 < ` + param + `) SELECT n FROM r) AS s`
}

var casts = regexp.MustCompile(`::[a-z]+`)

// plain remembers statements without their casts: parameters and results have no types here.
type plain struct{ known sync.Map }

func (p *plain) text(sql string) string {
	if t, ok := p.known.Load(sql); ok {
		return t.(string)
	}
	t := casts.ReplaceAllString(sql, "")
	p.known.Store(sql, t)
	return t
}
