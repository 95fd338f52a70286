-- A catalog that has lost commits is marked until the brokers' copies have been taken in.
ALTER TABLE controller ADD COLUMN rewound boolean NOT NULL DEFAULT FALSE, ADD COLUMN repaired bigint NOT NULL DEFAULT 0;
CREATE TABLE copies (
    broker  int    PRIMARY KEY,
    version bigint NOT NULL,
    copy    text   NOT NULL
);
