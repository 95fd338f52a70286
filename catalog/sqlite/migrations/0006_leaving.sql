-- A broker that is being decommissioned gets no new replicas.
ALTER TABLE brokers ADD COLUMN leaving INTEGER NOT NULL DEFAULT 0;
