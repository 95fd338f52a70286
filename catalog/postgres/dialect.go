package postgres

import (
	"strings"

	"tidemark/catalog/relational"
)

func dialect() relational.Dialect {
	return relational.Dialect{
		Now:        `clock_timestamp()`,
		Server:     `(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint`,
		Millis:     func(expr string) string { return `(extract(epoch FROM ` + expr + `) * 1000)::bigint` },
		FromMillis: func(expr string) string { return `to_timestamp(` + expr + ` / 1000.0)` },
		Ago: func(param string) string {
			return `(clock_timestamp() - ` + param + `::bigint * interval '1 millisecond')`
		},
		List: func(param, typ string) string {
			return `(SELECT v::` + typ + ` FROM jsonb_array_elements_text(` + param + `::text::jsonb) AS v)`
		},
		Table: func(param, alias string, columns ...relational.Column) string {
			names := make([]string, len(columns))
			for i, c := range columns {
				names[i] = c.Name + " " + c.Type
			}
			return `jsonb_to_recordset(` + param + `::text::jsonb) AS ` + alias + ` (` + strings.Join(names, ", ") + `)`
		},
		HasMember: func(column, param string) string {
			return column + ` @> jsonb_build_array(jsonb_build_object('broker', ` + param + `::int))`
		},
	}
}

func numbersBelow(param string) string { return `generate_series(0, ` + param + `::int - 1) AS n` }
