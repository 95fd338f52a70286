-- A catalog that is being written again from the bucket is marked until it is whole.
ALTER TABLE cluster ADD COLUMN restoring boolean NOT NULL DEFAULT FALSE;

-- Retention, compaction and garbage turn these tables over: vacuum them by what changed, not by a fifth of
-- a million rows.
ALTER TABLE segments SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE garbage SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE upload_intents SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
ALTER TABLE partitions SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200);
ALTER TABLE counter SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
ALTER TABLE brokers SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
