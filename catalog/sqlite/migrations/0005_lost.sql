-- Rows that brokers have published and that the catalog has lost, until the partition's leader has published them again.
CREATE TABLE lost_segments (
    attempt   TEXT    PRIMARY KEY,
    topic     TEXT    NOT NULL,
    partition INTEGER NOT NULL,
    segment   TEXT    NOT NULL,
    at        INTEGER NOT NULL
) STRICT;
CREATE INDEX lost_segments_partition ON lost_segments (topic, partition);
