-- Spreads the tables over a Citus cluster by `bucket`. Run by `stockhold migrate --distribute`, in one transaction, with $SHARDS in
-- place of the number of shards. The servers are stopped.

-- On Citus the positions of events are in a table of the coordinator: a unique index of a spread table begins with its bucket.
-- Events have none in their own rows.
CREATE TABLE stockhold.feed (
    last_position bigint PRIMARY KEY,
    bucket smallint NOT NULL,
    serial bigint NOT NULL UNIQUE,
    count bigint NOT NULL
);

-- What is committed and has no position gets one before the events are spread.
WITH unnumbered AS (
    SELECT serial, bucket,
        (SELECT position FROM stockhold.sequencer) + sum(count) OVER (ORDER BY serial) AS last_position
    FROM stockhold.events WHERE last_position IS NULL
)
UPDATE stockhold.events e SET last_position = u.last_position FROM unnumbered u
WHERE e.bucket = u.bucket AND e.serial = u.serial;
INSERT INTO stockhold.feed SELECT last_position, bucket, serial, count FROM stockhold.events;
UPDATE stockhold.events SET last_position = NULL;
DROP INDEX stockhold.events_by_position;

-- All batches up to this serial have positions.
ALTER TABLE stockhold.sequencer ADD COLUMN serial bigint NOT NULL DEFAULT 0;
UPDATE stockhold.sequencer SET position = greatest(position, (SELECT coalesce(max(last_position), 0) FROM stockhold.feed)),
    serial = (SELECT coalesce(max(serial), 0) FROM stockhold.feed);

-- A key is in the bucket of what it was used for, and another request that uses it again does not know which.
ALTER TABLE stockhold.keys DROP CONSTRAINT keys_pkey, ADD CONSTRAINT keys_pkey PRIMARY KEY (hash, bucket);

-- Rows with the same bucket are on the same worker, in all tables.
SELECT create_distributed_table('stockhold.items', 'bucket', shard_count => $SHARDS, colocate_with => 'none');
SELECT create_distributed_table('stockhold.' || name, 'bucket', colocate_with => 'stockhold.items')
FROM unnest(ARRAY['holds', 'hold_histories', 'hold_skus', 'hold_orders', 'active_lines', 'keys', 'units', 'unit_counters',
    'unit_sales', 'archived_items', 'events']) AS name;

-- A table without rows that is only there for Citus to know that a transaction writes on the coordinator.
CREATE TABLE stockhold.two_phase (one boolean PRIMARY KEY);
SELECT citus_add_local_table_to_metadata('stockhold.two_phase');
