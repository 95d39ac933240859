-- The serials of the newest batches of events that moved the unit, 8 bytes each and 64 of them at most. Units that were there before
-- begin with none. No CHECK: it would copy the table. MySQL has no ADD COLUMN IF NOT EXISTS.
SET @stockhold_statement = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'stockhold_units' AND column_name = 'history'
    ),
    'DO 0',
    'ALTER TABLE stockhold_units ADD COLUMN history VARBINARY(512) NOT NULL DEFAULT x'''''
);
PREPARE stockhold_statement FROM @stockhold_statement;
EXECUTE stockhold_statement;
DEALLOCATE PREPARE stockhold_statement;
