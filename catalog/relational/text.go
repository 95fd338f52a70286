package relational

import "fmt"

// text holds the statements whose words depend on the dialect, made once when the store is made.
type text struct {
	d                                       Dialect
	ledger, pulled                          string
	setPartitions, addPartitions            string
	electing, registered, bounds, standings string
	leases, leaving, endBrokers, setSlots   string
	involved                                func(param string) string
	setConfigs                              string
	intents, putIntent                      string
	addGarbage, garbageDue, garbageListed   string
	byIDs, byAttempts, dropByIDs, dropTaken string
	setUpto, markClean                      string
	addLost, dropLostBefore                 string
	slotsHeld, topicsHeld, topicVersions    string
	commit, dropOffsets                     string
	offsets, groups                         string
	pruneLedger, pruneTombstones            string
}

// partitionColumns are read by partitionRow.
const partitionColumns = `p.topic::text, p.partition, p.leader, p.leader_epoch, p.isr::text, p.elr::text, p.replicas::text,
	p.adding::text, p.removing::text, p.version, p.start, p.tiered, p.tier_bytes`

const currentVersion = `(SELECT version FROM counter)`

func write(d Dialect) text {
	t := text{d: d}
	t.cluster()
	t.partitions()
	t.tier()
	t.groupOffsets()
	return t
}

func (t *text) cluster() {
	d := t.d
	t.ledger = `INSERT INTO ledger (version, nonce, at) SELECT version, nonce, ` + d.Now + ` FROM counter`
	t.pulled = `SELECT c.version, c.nonce, c.complete_from,
			(SELECT count(*) FROM ledger l WHERE l.version = $1 AND l.nonce = $2),
			(SELECT coalesce(min(version), 0) FROM ledger) FROM counter c`
	t.pruneLedger = `DELETE FROM ledger WHERE at < ` + d.Ago("$1") + ` AND version < ` + currentVersion
	t.pruneTombstones = `DELETE FROM tombstones WHERE at < ` + d.Ago("$1")
	t.registered = `SELECT id, incarnation, live FROM brokers WHERE id IN ` + d.List("$1", "int") + ` ORDER BY id`
	t.leases = `SELECT broker, incarnation, epoch, lease, rewound, ` + d.Server + ` FROM controller`
	t.leaving = `SELECT id, incarnation, lease, live, attempt FROM brokers WHERE id IN ` + d.List("$1", "int") + ` ORDER BY id`
	t.endBrokers = `UPDATE brokers SET live = FALSE, version = ` + currentVersion + ` WHERE id IN ` + d.List("$1", "int")
	t.setConfigs = `INSERT INTO topic_configs (topic, name, value) SELECT $1::uuid, e.name, e.value FROM ` +
		d.Table("$2", "e", Column{"name", "text"}, Column{"value", "text"}) +
		` WHERE TRUE ON CONFLICT (topic, name) DO UPDATE SET value = excluded.value`
}

func (t *text) partitions() {
	d := t.d
	row := d.Table("$1", "e", Column{"topic", "uuid"}, Column{"partition", "int"}, Column{"leader", "int"},
		Column{"incarnation", "bigint"}, Column{"epoch", "int"}, Column{"isr", "jsonb"}, Column{"elr", "jsonb"},
		Column{"replicas", "jsonb"}, Column{"adding", "jsonb"}, Column{"removing", "jsonb"})
	t.setPartitions = `UPDATE partitions AS p SET leader = e.leader, leader_incarnation = e.incarnation, leader_epoch = e.epoch,
			isr = e.isr, elr = e.elr, replicas = e.replicas, adding = e.adding, removing = e.removing, version = ` + currentVersion + `
		FROM ` + row + ` WHERE p.topic = e.topic AND p.partition = e.partition`
	t.addPartitions = `INSERT INTO partitions (topic, partition, leader, leader_incarnation, leader_epoch, isr, elr, replicas, version)
		SELECT e.topic, e.partition, e.leader, e.incarnation, e.epoch, e.isr, e.elr, e.replicas, ` + currentVersion + ` FROM ` + row
	t.involved = func(param string) string {
		return `p.leader = ` + param + ` OR ` + d.HasMember("p.isr", param) + ` OR ` + d.HasMember("p.elr", param)
	}
	named := d.Table("$1", "e", Column{"topic", "uuid"}, Column{"partition", "int"}) + ` JOIN partitions p ON p.topic = e.topic AND p.partition = e.partition`
	t.electing = `SELECT ` + partitionColumns + `, p.leader_incarnation FROM ` + named + ` ORDER BY p.topic, p.partition`
	t.bounds = `SELECT p.topic::text, p.partition, p.start, p.tiered, p.tier_bytes FROM ` + named
	t.standings = `SELECT ` + partitionColumns + `,
			EXISTS (SELECT 1 FROM upload_intents i WHERE i.topic = p.topic AND i.partition = p.partition) OR
			EXISTS (SELECT 1 FROM lost_segments l WHERE l.topic = p.topic AND l.partition = p.partition)
		FROM ` + named + ` JOIN topics t ON t.id = p.topic AND NOT t.deleted`
}

func (t *text) tier() {
	d := t.d
	ids := d.List("$1", "bigint")
	t.intents = `SELECT attempt, topic::text, partition, base, next, key, broker, incarnation, epoch, upload_id, job, ` +
		d.Millis("created") + ` FROM upload_intents `
	t.putIntent = `INSERT INTO upload_intents (attempt, topic, partition, base, next, key, broker, incarnation, epoch, upload_id, job, created)
		VALUES ($1, $2::uuid, $3, $4, $5, $6, $7, $8, $9, $10, $11, ` + d.Now + `)`
	t.addGarbage = `INSERT INTO garbage (key, attempt, upload_id, since, waits_from)
		SELECT e.key, e.attempt, e.upload_id, ` + d.Now + `, ` + d.Now + ` FROM ` +
		d.Table("$1", "e", Column{"key", "text"}, Column{"attempt", "text"}, Column{"upload_id", "text"}) +
		` WHERE TRUE ON CONFLICT (key) DO NOTHING`
	t.garbageDue = `SELECT key, upload_id, ` + d.Millis("since") + `, deletes, listed FROM garbage
		WHERE deletes = $1 AND waits_from <= ` + d.Ago("$2") + ` ORDER BY waits_from LIMIT $3`
	t.garbageListed = `UPDATE garbage SET listed = TRUE WHERE NOT listed AND deletes = $2 AND key IN ` + d.List("$1", "text")
	t.byIDs = `SELECT ` + segmentColumns + ` FROM segments WHERE id IN ` + ids + ` ORDER BY base`
	t.byAttempts = `SELECT ` + segmentColumns + ` FROM segments WHERE attempt IN ` + d.List("$1", "text") + ` ORDER BY base`
	t.dropByIDs = `DELETE FROM segments WHERE id IN ` + ids
	t.dropTaken = `DELETE FROM upload_intents WHERE attempt IN ` + d.List("$1", "text")
	t.markClean = `UPDATE segments SET clean_since = $4 WHERE topic = $2::uuid AND partition = $3 AND id IN ` + ids
	t.addLost = `INSERT INTO lost_segments (attempt, topic, partition, segment, at) SELECT e.attempt, e.topic, e.partition, e.segment, ` + d.Now + ` FROM ` +
		d.Table("$1", "e", Column{"attempt", "text"}, Column{"topic", "uuid"}, Column{"partition", "int"}, Column{"segment", "text"}) +
		` WHERE TRUE ON CONFLICT (attempt) DO NOTHING`
	t.dropLostBefore = `DELETE FROM lost_segments WHERE at < ` + d.Ago("$1")
	t.setUpto = `UPDATE segments AS s SET max_ts_upto = e.upto FROM ` +
		d.Table("$1", "e", Column{"id", "bigint"}, Column{"upto", "bigint"}) + ` WHERE s.id = e.id`
}

func (t *text) groupOffsets() {
	d := t.d
	t.slotsHeld = `SELECT slot, broker, incarnation, epoch FROM slots WHERE slot IN ` + d.List("$1", "int") + ` ORDER BY slot`
	t.topicsHeld = `SELECT id::text, partitions FROM topics WHERE NOT deleted AND id IN ` + d.List("$1", "uuid") + ` ORDER BY id`
	t.topicVersions = `SELECT id::text, version FROM topics WHERE NOT deleted AND id IN ` + d.List("$1", "uuid")
	t.setSlots = `UPDATE slots AS s SET broker = e.broker, incarnation = e.incarnation, epoch = s.epoch + 1, version = ` + currentVersion + ` FROM ` +
		d.Table("$1", "e", Column{"slot", "int"}, Column{"broker", "int"}, Column{"incarnation", "bigint"}) + ` WHERE s.slot = e.slot`
	named := d.Table("$1", "e", Column{"group_id", "text"}, Column{"topic", "uuid"}, Column{"partition", "int"},
		Column{"committed", "bigint"}, Column{"leader_epoch", "int"}, Column{"metadata", "text"}, Column{"at", "bigint"})
	t.commit = fmt.Sprintf(`INSERT INTO group_offsets AS o (group_id, topic, partition, committed, leader_epoch, metadata, commit_time)
		SELECT e.group_id, e.topic, e.partition, e.committed, e.leader_epoch, e.metadata, %s FROM %s
		WHERE TRUE ORDER BY e.group_id, e.topic, e.partition
		ON CONFLICT (group_id, topic, partition) DO UPDATE SET committed = excluded.committed,
			leader_epoch = excluded.leader_epoch, metadata = excluded.metadata, commit_time = excluded.commit_time
		WHERE o.committed <> excluded.committed OR o.leader_epoch <> excluded.leader_epoch OR o.metadata <> excluded.metadata`,
		d.FromMillis("e.at"), named)
	t.dropOffsets = `DELETE FROM group_offsets WHERE group_id = $2 AND EXISTS (SELECT 1 FROM ` +
		d.Table("$1", "e", Column{"topic", "uuid"}, Column{"partition", "int"}) +
		` WHERE e.topic = group_offsets.topic AND e.partition = group_offsets.partition)`
	t.offsets = `SELECT topic::text, partition, committed, leader_epoch, metadata, ` + d.Millis("commit_time") +
		` FROM group_offsets WHERE group_id = $1 ORDER BY topic, partition`
	t.groups = `SELECT group_id, ` + d.Millis("max(commit_time)") + ` FROM group_offsets GROUP BY group_id`
}
