-- Schema version 1. Keys of tables that are spread start with `bucket`, so that a distributed engine can place them; texts
-- are compared byte by byte; instants are microseconds since 1970. The CHECK constraints are assertions about the
-- rules, never rules: one that fires is a bug. There are no foreign keys: the rules guarantee the references at a lower cost on the hot path.

-- One row per (location, SKU). Its row lock is what orders everything that happens to the item. No index has a column that
-- changes, except when a pool is to be released, and room is left on the page, so an update writes one row version and no index.
-- Removed with its item only.
CREATE TABLE stockhold.items (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    mode smallint NOT NULL,
    total_units bigint NOT NULL,
    confirmed_sold bigint NOT NULL,
    fulfilled bigint NOT NULL,
    held_under_payment bigint NOT NULL,
    held bigint NOT NULL,
    active bigint NOT NULL,
    sequence bigint NOT NULL,
    decided_at bigint NOT NULL,
    oversell_allowance bigint NOT NULL,
    -- All of its settings. No statement looks into them, so a new one needs no column.
    settings bytea NOT NULL,
    version bigint NOT NULL,
    paused boolean NOT NULL,
    created_at bigint NOT NULL,
    -- Its pools, and when the next of them is to be released. NULL if there are none.
    pools bytea,
    pool_release_at bigint,
    PRIMARY KEY (bucket, location, sku),
    CONSTRAINT items_mode CHECK (mode IN (0, 1)),
    CONSTRAINT items_never_oversold
        CHECK (confirmed_sold >= 0 AND held >= 0 AND confirmed_sold + held <= total_units + oversell_allowance),
    CONSTRAINT items_parts_within_sums CHECK (fulfilled >= 0 AND fulfilled <= confirmed_sold AND fulfilled <= total_units
        AND held_under_payment >= 0 AND held_under_payment <= held),
    CONSTRAINT items_active_within_held CHECK (active >= 0 AND active <= held),
    CONSTRAINT items_counted_up CHECK (sequence >= 1 AND version >= 1 AND oversell_allowance >= 0)
) WITH (fillfactor = 50);

-- Lists of items, in order of location and SKU.
CREATE INDEX items_shelf ON stockhold.items (location, sku);

-- What the sweeper reads: items with pools to release, by the time.
CREATE INDEX items_releases ON stockhold.items (pool_release_at, location, sku) WHERE pool_release_at IS NOT NULL;

-- One row per reservation, its lines packed in `body`; the columns beside it are what an index or a filter needs. What
-- changes is in no index, as with items. `history` is the serials of its newest batches of events, 8 bytes each; it is empty within
-- a transaction only. `sku` is its first line's. Kept until it has ended and is archived.
CREATE TABLE stockhold.holds (
    bucket smallint NOT NULL,
    id uuid NOT NULL,
    status smallint NOT NULL,
    expires_at bigint NOT NULL,
    owner_id text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    history bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (bucket, id),
    CONSTRAINT holds_status CHECK (status BETWEEN 0 AND 3),
    CONSTRAINT holds_whole_milliseconds CHECK (expires_at % 1000 = 0),
    CONSTRAINT holds_history CHECK (octet_length(history) % 8 = 0)
) WITH (fillfactor = 70);

-- Lists, the newest first: an id sorts by the time it was made.
CREATE INDEX holds_by_owner ON stockhold.holds (owner_id, id);
CREATE INDEX holds_by_id ON stockhold.holds (id);
CREATE INDEX holds_by_sku ON stockhold.holds (sku, id);

-- The older parts of the histories of reservations that were changed often, so that their rows stay short. `serial` is that of the
-- batch of events that moved the part here: parts are in its order. Kept as long as the reservation.
CREATE TABLE stockhold.hold_histories (
    bucket smallint NOT NULL,
    id uuid NOT NULL,
    serial bigint NOT NULL,
    history bytea NOT NULL,
    PRIMARY KEY (bucket, id, serial),
    CONSTRAINT hold_histories_history CHECK (octet_length(history) >= 8 AND octet_length(history) % 8 = 0)
);

-- The SKUs of a reservation's other lines, for the same lists. Most reservations have one line and no row here. Kept as long as
-- the reservation.
CREATE TABLE stockhold.hold_skus (
    bucket smallint NOT NULL,
    id uuid NOT NULL,
    sku text COLLATE "C" NOT NULL,
    PRIMARY KEY (bucket, id, sku)
);
CREATE INDEX hold_skus_by_sku ON stockhold.hold_skus (sku, id);

-- The orders that reservations were confirmed for, for the lists of an order: the one with the largest `number` was confirmed last.
-- In a table of its own, so that a confirm changes no index of `holds`. Kept as long as the reservation.
CREATE SEQUENCE stockhold.order_number;
CREATE TABLE stockhold.hold_orders (
    bucket smallint NOT NULL,
    id uuid NOT NULL,
    order_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL DEFAULT nextval('stockhold.order_number'),
    PRIMARY KEY (bucket, id)
);
CREATE INDEX hold_orders_by_order ON stockhold.hold_orders (order_id, number);

-- One row per line of an active reservation, gone when it ends: "the earliest deadline on this item" is one step into
-- the primary key. Lines span items, so an index over `holds` can't answer that, and an index over an array of items
-- can't answer it in order. `quantity` lets an audit compare the sum with the item's `held`. A queue, so it is vacuumed often.
CREATE TABLE stockhold.active_lines (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    id uuid NOT NULL,
    quantity bigint NOT NULL,
    leads boolean NOT NULL,
    PRIMARY KEY (bucket, location, sku, expires_at, id),
    CONSTRAINT active_lines_quantity CHECK (quantity >= 1)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- What the sweeper reads: active reservations by deadline, each once.
CREATE INDEX active_lines_due ON stockhold.active_lines (expires_at, id) WHERE leads;

-- Reservations whose payment is to be moved on, and when: what the payment runner reads. A table of its own, so that other commits
-- change no index for it. A queue, so it is vacuumed often.
CREATE TABLE stockhold.due_payments (
    id uuid PRIMARY KEY,
    due_at bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX due_payments_by_time ON stockhold.due_payments (due_at, id);

-- Idempotency keys. Rows are never updated: the primary key decides between two instances. Kept for the configured
-- retention, at least 24 hours.
CREATE TABLE stockhold.keys (
    bucket smallint NOT NULL,
    hash bytea NOT NULL,
    used_at bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (bucket, hash),
    CONSTRAINT keys_hash CHECK (octet_length(hash) = 16)
);

-- The oldest keys are deleted first.
CREATE INDEX keys_by_use ON stockhold.keys (used_at);

-- Pauses of everything (the empty location, which no label is) and of locations. Not spread. A reader locks the table
-- against writers, and no row. The row of everything is always there: its `limits_version` changes with every commit that sets
-- a limit, so an instance that reads pauses knows whether its copy of the limits is the current one.
CREATE TABLE stockhold.pauses (
    location text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL,
    limits_version bigint NOT NULL DEFAULT 0
);
INSERT INTO stockhold.pauses (location, paused) VALUES ('', false);

-- Limits, packed in `body`. Not spread: every instance has a copy of all of them. Counters of generations before `generation`
-- are in use no more: they are deleted some time later. A deleted limit keeps its row, so that its versions are never used again.
CREATE TABLE stockhold.limits (
    id text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL,
    generation bigint NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT limits_version CHECK (version >= 1 AND generation BETWEEN 1 AND version)
);

-- What limits count: one row for each subject that has units, and its lock orders everything that happens to them. The first byte
-- of `subject` is its kind, and its name follows. The rows of one limit are listed in order of their subjects, so the key has no
-- bucket.
CREATE TABLE stockhold.limit_counters (
    limit_id text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    subject bytea NOT NULL,
    held bigint NOT NULL,
    sold bigint NOT NULL,
    PRIMARY KEY (limit_id, generation, subject),
    CONSTRAINT limit_counters_not_negative CHECK (held >= 0 AND sold >= 0)
) WITH (fillfactor = 50);

-- One row for each counter of an active reservation, gone when the reservation ends: "the earliest deadline that this counter
-- counts" is one step into the primary key. A queue, so it is vacuumed often.
CREATE TABLE stockhold.counted_holds (
    limit_id text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    subject bytea NOT NULL,
    expires_at bigint NOT NULL,
    id uuid NOT NULL,
    PRIMARY KEY (limit_id, generation, subject, expires_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Records: small things that are no stock, such as API keys. Not spread, since there are few. A deleted record keeps its row
-- without a value, so that its versions are never used again. Kept for good.
CREATE TABLE stockhold.records (
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value bytea,
    PRIMARY KEY (kind, id),
    CONSTRAINT records_version CHECK (version >= 1)
);

-- Customers: personal data, encrypted, each with a key of its own that is part of the value. Rows are updated in place, and deleted
-- for good: nothing of them is in any event. Dead rows would keep what was erased, so the table is vacuumed often.
CREATE TABLE stockhold.customers (
    id text COLLATE "C" NOT NULL PRIMARY KEY,
    version bigint NOT NULL,
    value bytea NOT NULL,
    CONSTRAINT customers_version CHECK (version >= 1)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 50);

-- One row per committed batch, its events packed in `body`. `serial` is drawn while the batch's locks are held, so of
-- two batches that share an item the later one has the larger; it has gaps and is no position. `last_position` is
-- given after the commit, by the transaction that holds the sequencer's row. Kept until it is archived: state is the fold of
-- all events, or of the balances of the archived ones and the events after them.
CREATE SEQUENCE stockhold.event_serial;
CREATE TABLE stockhold.events (
    bucket smallint NOT NULL,
    serial bigint NOT NULL,
    count bigint NOT NULL,
    last_position bigint,
    body bytea NOT NULL,
    PRIMARY KEY (bucket, serial),
    CONSTRAINT events_count CHECK (count >= 1),
    CONSTRAINT events_bucket CHECK (bucket = serial % 1024)
);
-- Large bodies are compressed before they are written: a second compression would only cost time.
ALTER TABLE stockhold.events ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX events_unnumbered ON stockhold.events (serial) WHERE last_position IS NULL;
CREATE UNIQUE INDEX events_by_position ON stockhold.events (last_position) WHERE last_position IS NOT NULL;

CREATE TABLE stockhold.sequencer (
    one boolean PRIMARY KEY DEFAULT true,
    position bigint NOT NULL,
    CONSTRAINT sequencer_one CHECK (one)
);
INSERT INTO stockhold.sequencer (position) VALUES (0);

-- Up to which position events have left for an archive, with the reservations that had ended by then; the newest instant among
-- them; and the newest file of which events have left: the position of its last event, which is later while a part of them is still
-- here, and its hash. `lease_holder` is the archive that is at work, until `lease_until` at the latest unless it renews that.
-- `key_retention` is the longest time, in microseconds, for which any instance has kept idempotency keys: nobody forgets them sooner.
CREATE TABLE stockhold.archived (
    one boolean PRIMARY KEY DEFAULT true,
    position bigint NOT NULL,
    at bigint NOT NULL,
    file_position bigint NOT NULL DEFAULT 0,
    file_hash bytea,
    lease_holder text COLLATE "C" NOT NULL DEFAULT '',
    lease_until bigint NOT NULL DEFAULT 0,
    key_retention bigint NOT NULL DEFAULT 0,
    CONSTRAINT archived_one CHECK (one),
    CONSTRAINT archived_file CHECK (file_position >= position AND (file_hash IS NULL) = (file_position = 0))
);
INSERT INTO stockhold.archived (position, at) VALUES (0, 0);

-- The items as the archived events left them, and the units that archived reservations have sold: all of them, and those drawn from
-- pools by the names of these, NULL if there are none.
-- Removed with its item only.
CREATE TABLE stockhold.archived_items (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    sold bigint NOT NULL,
    pool_sales bytea,
    body bytea NOT NULL,
    PRIMARY KEY (bucket, location, sku),
    CONSTRAINT archived_items_sold CHECK (sold >= 0)
);

-- The pauses after those events.
CREATE TABLE stockhold.archived_pauses (
    location text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL
);

-- Units that archived reservations have sold, by the counters that count them. Deleted with the counter.
CREATE TABLE stockhold.archived_counters (
    limit_id text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    subject bytea NOT NULL,
    sold bigint NOT NULL,
    PRIMARY KEY (limit_id, generation, subject),
    CONSTRAINT archived_counters_sold CHECK (sold >= 1)
);

-- Units with ids: seats, slots, serials. Of an item that has them the row in `items` keeps no figures (its `sequence` stays at
-- 1), so that no claim writes or locks it: they are sums over `unit_counters`.

-- One row per unit. `position` and `id` are the order of claims. Where `status` is not 0 (available), `reservation` has it: 1 is
-- held, 2 sold, 3 sold and fulfilled. A unit that is available in a pool only has status 4. A unit that is held or sold keeps the pool
-- that it was drawn from. `history` is the serials of the newest batches of events that moved the unit, 8 bytes each and at most 64 of them.
-- Kept until it is retired.
CREATE TABLE stockhold.units (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    section text COLLATE "C",
    seat_row text COLLATE "C",
    seat_number text COLLATE "C",
    attributes bytea NOT NULL,
    status smallint NOT NULL,
    reservation uuid,
    version bigint NOT NULL,
    history bytea NOT NULL,
    pool text COLLATE "C",
    PRIMARY KEY (bucket, location, sku, id),
    CONSTRAINT units_history CHECK (octet_length(history) <= 512 AND octet_length(history) % 8 = 0),
    CONSTRAINT units_status CHECK (status BETWEEN 0 AND 4),
    CONSTRAINT units_are_with_a_reservation CHECK ((status IN (0, 4)) = (reservation IS NULL)),
    CONSTRAINT units_free_in_pools CHECK (status NOT IN (0, 4) OR (status = 4) = (pool IS NOT NULL)),
    CONSTRAINT units_counted_up CHECK (version >= 1 AND position >= 0)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The free ones in the order of claims, without a sort. `status` stands first, so that no planner looks units up by it whose ids
-- are given.
CREATE INDEX units_in_order ON stockhold.units (status, bucket, location, sku, position, id);

-- The same for each pool. It has no entry for the units of items without pools, so their claims don't change it.
CREATE INDEX units_in_pools ON stockhold.units (bucket, location, sku, pool, position, id) WHERE status = 4;

-- What an item's units and its active reservations come to, in shards: instances add to different shards, so that they seldom wait
-- for each other. A shard may be below zero, the sum never is. `decided_at` is the newest instant that one was moved at. Removed with its item only.
CREATE TABLE stockhold.unit_counters (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    -- The empty text stands for the whole item. Of a pool `total_units` are the units that are in it, and `decided_at` is when units
    -- were last drawn from it, or 0. The columns that a pool does not have are 0.
    pool text COLLATE "C" NOT NULL,
    counter_shard smallint NOT NULL,
    total_units bigint NOT NULL,
    held bigint NOT NULL,
    confirmed_sold bigint NOT NULL,
    fulfilled bigint NOT NULL,
    held_under_payment bigint NOT NULL,
    active bigint NOT NULL,
    decided_at bigint NOT NULL,
    PRIMARY KEY (bucket, location, sku, pool, counter_shard)
) WITH (fillfactor = 50);

-- The ledger of sales: one row for each unit that a reservation has sold, closed when it came back. Closed ones are kept as long
-- as their reservation, open ones as long as the unit is sold.
CREATE TABLE stockhold.unit_sales (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    unit_id text COLLATE "C" NOT NULL,
    reservation uuid NOT NULL,
    sold_at bigint NOT NULL,
    returned_at bigint,
    PRIMARY KEY (bucket, location, sku, unit_id, reservation),
    CONSTRAINT unit_sales_in_order CHECK (returned_at >= sold_at)
);

-- This index makes sure that a unit is sold at most once at a time.
CREATE UNIQUE INDEX unit_sales_once ON stockhold.unit_sales (bucket, location, sku, unit_id) WHERE returned_at IS NULL;
