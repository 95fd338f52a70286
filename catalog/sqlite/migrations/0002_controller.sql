-- The controller's lease, and partitions on their way to other replicas.

CREATE TABLE controller (
    one         INTEGER PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    broker      INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    lease       INTEGER NOT NULL
) STRICT;
INSERT INTO controller (one, broker, incarnation, epoch, lease) VALUES (1, -1, 0, 0, 0);

-- While a partition moves, replicas is where it goes to and then removing. '[]' while it does not.
ALTER TABLE partitions ADD COLUMN adding TEXT NOT NULL DEFAULT '[]';
ALTER TABLE partitions ADD COLUMN removing TEXT NOT NULL DEFAULT '[]';
