-- A catalog that has lost commits is marked until the brokers' copies have been taken in.
ALTER TABLE controller ADD COLUMN rewound INTEGER NOT NULL DEFAULT 0;
ALTER TABLE controller ADD COLUMN repaired INTEGER NOT NULL DEFAULT 0;
CREATE TABLE copies (
    broker  INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    copy    TEXT    NOT NULL
) STRICT;
