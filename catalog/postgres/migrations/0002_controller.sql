-- The controller's lease, and partitions on their way to other replicas.

CREATE TABLE controller (
    one         boolean PRIMARY KEY DEFAULT TRUE CHECK (one),
    broker      int    NOT NULL,
    incarnation bigint NOT NULL,
    epoch       bigint NOT NULL,
    lease       bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO controller (broker, incarnation, epoch, lease) VALUES (-1, 0, 0, 0);

-- While a partition moves, replicas is where it goes to and then removing. '[]' while it does not.
ALTER TABLE partitions ADD COLUMN adding jsonb NOT NULL DEFAULT '[]', ADD COLUMN removing jsonb NOT NULL DEFAULT '[]';
