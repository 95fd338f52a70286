-- The catalog of one broker. docs/catalog.md says what each column means; times are milliseconds.

CREATE TABLE cluster (
    one        INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    id         TEXT    NOT NULL,
    generation INTEGER  NOT NULL,
    level      INTEGER     NOT NULL
) STRICT;

CREATE TABLE counter (
    one           INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    version       INTEGER NOT NULL,
    nonce         INTEGER NOT NULL,
    complete_from INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE ledger (
    version INTEGER PRIMARY KEY,
    nonce   INTEGER NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
CREATE INDEX ledger_at ON ledger (at);

CREATE TABLE brokers (
    id          INTEGER     PRIMARY KEY CHECK (id >= 0),
    incarnation INTEGER  NOT NULL CHECK (incarnation > 0),
    rack        TEXT    NOT NULL,
    listeners   TEXT   NOT NULL,
    live        INTEGER NOT NULL,
    lease       INTEGER  NOT NULL,
    attempt     TEXT    NOT NULL,
    version     INTEGER  NOT NULL
) STRICT;

CREATE TABLE topics (
    id         TEXT    PRIMARY KEY,
    name       TEXT    NOT NULL,
    deleted    INTEGER NOT NULL,
    partitions INTEGER     NOT NULL,
    version    INTEGER  NOT NULL
) STRICT;
CREATE UNIQUE INDEX topics_live_name ON topics (name) WHERE NOT deleted;
CREATE INDEX topics_deleted ON topics (id) WHERE deleted;
CREATE INDEX topics_version ON topics (version);

CREATE TABLE topic_configs (
    topic TEXT NOT NULL REFERENCES topics,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (topic, name)
) STRICT;

CREATE TABLE tombstones (
    topic   TEXT   PRIMARY KEY,
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL
) STRICT;

CREATE TABLE partitions (
    topic              TEXT   NOT NULL REFERENCES topics,
    partition          INTEGER    NOT NULL,
    leader             INTEGER    NOT NULL,
    leader_incarnation INTEGER NOT NULL,
    leader_epoch       INTEGER    NOT NULL,
    isr                TEXT  NOT NULL CHECK (json_array_length(isr) > 0),
    elr                TEXT  NOT NULL,
    replicas           TEXT  NOT NULL,
    version            INTEGER NOT NULL,
    start              INTEGER NOT NULL DEFAULT 0 CHECK (start >= 0),
    tiered             INTEGER NOT NULL DEFAULT 0 CHECK (tiered >= start),
    tier_bytes         INTEGER NOT NULL DEFAULT 0 CHECK (tier_bytes >= 0),
    upto_from          INTEGER NOT NULL DEFAULT -1,
    upto_firm          INTEGER NOT NULL DEFAULT -1,
    PRIMARY KEY (topic, partition)
) STRICT;
CREATE INDEX partitions_version ON partitions (version);
CREATE INDEX partitions_upto ON partitions (topic) WHERE upto_from >= 0;

CREATE TRIGGER partitions_never_fall BEFORE UPDATE OF start, tiered ON partitions
WHEN NEW.start < OLD.start OR NEW.tiered < OLD.tiered
BEGIN
    SELECT RAISE(ABORT, 'start and tiered of a partition never fall');
END;

CREATE TABLE segments (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    topic         TEXT   NOT NULL,
    partition     INTEGER    NOT NULL,
    base          INTEGER NOT NULL CHECK (base >= 0),
    next          INTEGER NOT NULL,
    bytes         INTEGER NOT NULL CHECK (bytes > 0),
    records       INTEGER NOT NULL,
    min_ts        INTEGER NOT NULL,
    max_ts        INTEGER NOT NULL,
    max_ts_upto   INTEGER NOT NULL,
    append_time   INTEGER NOT NULL,
    key           TEXT   NOT NULL,
    tail_position INTEGER NOT NULL,
    data_bytes    INTEGER NOT NULL,
    sha256        BLOB  NOT NULL CHECK (length(sha256) = 32),
    leader_epoch  INTEGER    NOT NULL,
    generation    INTEGER    NOT NULL,
    clean_since   INTEGER NOT NULL,
    attempt       TEXT   NOT NULL UNIQUE,
    CHECK (next > base),
    FOREIGN KEY (topic, partition) REFERENCES partitions
) STRICT;
CREATE UNIQUE INDEX segments_base ON segments (topic, partition, base);
CREATE INDEX segments_upto ON segments (topic, partition, max_ts_upto, base);
CREATE INDEX segments_latest ON segments (topic, partition, max_ts DESC, base);

CREATE TRIGGER segments_never_overlap BEFORE INSERT ON segments
WHEN (SELECT next FROM segments WHERE topic = NEW.topic AND partition = NEW.partition AND base < NEW.base ORDER BY base DESC LIMIT 1) > NEW.base
  OR (SELECT base FROM segments WHERE topic = NEW.topic AND partition = NEW.partition AND base > NEW.base ORDER BY base LIMIT 1) < NEW.next
BEGIN
    SELECT RAISE(ABORT, 'the segment overlaps a live one');
END;
CREATE TRIGGER segments_never_move BEFORE UPDATE OF topic, partition, base, next ON segments
BEGIN
    SELECT RAISE(ABORT, 'the range of a segment never changes');
END;

CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    topic       TEXT   NOT NULL,
    partition   INTEGER    NOT NULL,
    kind        TEXT   NOT NULL,
    broker      INTEGER    NOT NULL,
    incarnation INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    lease       INTEGER NOT NULL,
    UNIQUE (topic, partition, kind)
) STRICT;

CREATE TABLE upload_intents (
    attempt     TEXT   PRIMARY KEY,
    topic       TEXT   NOT NULL,
    partition   INTEGER    NOT NULL,
    base        INTEGER NOT NULL,
    next        INTEGER NOT NULL,
    key         TEXT   NOT NULL UNIQUE,
    broker      INTEGER    NOT NULL,
    incarnation INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    upload_id   TEXT   NOT NULL,
    job         INTEGER NOT NULL,
    created     INTEGER NOT NULL,
    FOREIGN KEY (topic, partition) REFERENCES partitions
) STRICT;
CREATE INDEX upload_intents_partition ON upload_intents (topic, partition);
CREATE INDEX upload_intents_job ON upload_intents (job) WHERE job > 0;

CREATE TABLE garbage (
    key        TEXT    PRIMARY KEY,
    attempt    TEXT    NOT NULL,
    upload_id  TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    waits_from INTEGER NOT NULL,
    deletes    INTEGER     NOT NULL DEFAULT 0,
    listed     INTEGER NOT NULL DEFAULT FALSE
) STRICT;
CREATE INDEX garbage_attempt ON garbage (attempt);
CREATE INDEX garbage_due ON garbage (deletes, waits_from);

CREATE TABLE slots (
    slot        INTEGER    PRIMARY KEY,
    broker      INTEGER    NOT NULL,
    incarnation INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    version     INTEGER NOT NULL
) STRICT;

CREATE TABLE group_offsets (
    group_id     TEXT   NOT NULL,
    topic        TEXT   NOT NULL REFERENCES topics,
    partition    INTEGER    NOT NULL,
    committed    INTEGER NOT NULL,
    leader_epoch INTEGER    NOT NULL,
    metadata     TEXT   NOT NULL,
    commit_time  INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic, partition)
) STRICT;
CREATE INDEX group_offsets_topic ON group_offsets (topic);

CREATE TABLE producer_ids (
    prefix INTEGER PRIMARY KEY,
    broker INTEGER    NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
