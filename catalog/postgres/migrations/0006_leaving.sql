-- A broker that is being decommissioned gets no new replicas.
ALTER TABLE brokers ADD COLUMN leaving boolean NOT NULL DEFAULT FALSE;
