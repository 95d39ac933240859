-- The serials of the newest batches of events that moved the unit, 8 bytes each and 64 of them at most. Units that were there before
-- begin with none.
ALTER TABLE stockhold.units
    ADD COLUMN history bytea NOT NULL DEFAULT '',
    ADD CONSTRAINT units_history CHECK (octet_length(history) <= 512 AND octet_length(history) % 8 = 0) NOT VALID;
