package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Remedy is what can be done about an answer of Postgres; "" if err has none: https://www.postgresql.org/docs/current/errcodes-appendix.html
func Remedy(err error) string {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return ""
	}
	code := answer.Code
	switch {
	case code == "53300":
		return "give Postgres a larger max_connections, or the brokers a smaller TIDEMARK_POSTGRES_POOL"
	case strings.HasPrefix(code, "57P"):
		return "let Postgres finish starting or stopping; its log says what it does"
	case code == "57014", code == "55P03":
		return "look at the load of Postgres and at who holds its locks; TIDEMARK_POSTGRES_STATEMENT_TIMEOUT bounds a statement"
	case strings.HasPrefix(code, "28"):
		return "name the user and password that Postgres knows, or let the user in by its pg_hba.conf"
	case code == "3D000":
		return "make the database, or name one that there is"
	case code == "42501":
		return "let the user make tables in the database"
	}
	return "look at the log of Postgres, or name the server and database that there are"
}
