-- Rows that brokers have published and that the catalog has lost, until the partition's leader has published them again.
CREATE TABLE lost_segments (
    attempt   text        PRIMARY KEY,
    topic     uuid        NOT NULL,
    partition int         NOT NULL,
    segment   text        NOT NULL,
    at        timestamptz NOT NULL
);
CREATE INDEX lost_segments_partition ON lost_segments (topic, partition);
