-- A catalog that is being written again from the bucket is marked until it is whole.
ALTER TABLE cluster ADD COLUMN restoring INTEGER NOT NULL DEFAULT 0;
