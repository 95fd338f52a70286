package relational

import "tidemark/catalog"

// Level is the newest feature level that this release writes and reads.
const Level = 1

// Seed is what an empty schema needs: the cluster's row with a random id, the counter at 1 and the
// free slots. It changes nothing where it has run. slots is a FROM item whose column n counts from 0
// to below its parameter. The key of the one-row tables is written out, because SQLite numbers an
// INTEGER PRIMARY KEY itself, whatever its default.
func Seed(d Dialect, slots func(param string) string) []Stmt {
	return []Stmt{
		{SQL: `INSERT INTO cluster (one, id, generation, level) VALUES (TRUE, $1::uuid, 1, $2) ON CONFLICT DO NOTHING`,
			Args: []any{catalog.NewUUID().Hex(), Level}},
		{SQL: `INSERT INTO counter (one, version, nonce) VALUES (TRUE, 1, $1) ON CONFLICT DO NOTHING`, Args: []any{random()}},
		{SQL: `INSERT INTO ledger (version, nonce, at) SELECT version, nonce, ` + d.Now + ` FROM counter WHERE version = 1 ON CONFLICT DO NOTHING`},
		{SQL: `INSERT INTO slots (slot, broker, incarnation, epoch, version) SELECT n, -1, 0, 0, 0 FROM ` + slots("$1") + ` WHERE TRUE ON CONFLICT DO NOTHING`,
			Args: []any{catalog.Slots}},
	}
}
