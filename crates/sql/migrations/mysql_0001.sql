-- Schema version 1, for MySQL and MariaDB. Tables live in the database that the address names, under a prefix of their own. All
-- of it is binary: default collations merge `abc`, `ABC` and `abc `. Instants are microseconds since 1970. The CHECK
-- constraints are assertions behind the rules, never rules: one that fires is a bug. There are no foreign keys: the rules
-- see to it, on the hot path for less. InnoDB keeps a table's rows in the order of its primary key, so a key that grows with
-- time appends, and `bucket`, which PostgreSQL's tables begin with, would scatter. Statements can be run twice: DDL is not
-- transactional, and what was cut off is begun again.

-- One row per (location, SKU). Its row lock is what orders everything that happens to the item. No index has a column that
-- changes, except when a pool is to be released, and without pools the columns that change have a fixed size, so an update is made in
-- place. Removed with its item only.
CREATE TABLE IF NOT EXISTS stockhold_items (
    location VARBINARY(128) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    mode TINYINT NOT NULL,
    total_units BIGINT NOT NULL,
    confirmed_sold BIGINT NOT NULL,
    fulfilled BIGINT NOT NULL,
    held_under_payment BIGINT NOT NULL,
    held BIGINT NOT NULL,
    active BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    decided_at BIGINT NOT NULL,
    oversell_allowance BIGINT NOT NULL,
    -- All of its settings. No statement looks into them, so a new one needs no column.
    settings BLOB NOT NULL,
    version BIGINT NOT NULL,
    paused TINYINT NOT NULL,
    created_at BIGINT NOT NULL,
    -- Its pools, and when the next of them is to be released. NULL if there are none.
    pools BLOB,
    pool_release_at BIGINT,
    -- The batch of events that changed it last: since it always changes, a row that was updated can be distinguished from one that was not.
    serial BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (location, sku),
    -- What the sweeper reads: items with pools to release, by the time.
    KEY items_releases (pool_release_at, location, sku),
    CONSTRAINT stockhold_items_mode CHECK (mode IN (0, 1)),
    CONSTRAINT stockhold_items_never_oversold
        CHECK (confirmed_sold >= 0 AND held >= 0 AND confirmed_sold + held <= total_units + oversell_allowance),
    CONSTRAINT stockhold_items_parts_within_sums CHECK (fulfilled >= 0 AND fulfilled <= confirmed_sold
        AND fulfilled <= total_units
        AND held_under_payment >= 0 AND held_under_payment <= held),
    CONSTRAINT stockhold_items_active_within_held CHECK (active >= 0 AND active <= held),
    CONSTRAINT stockhold_items_counted_up CHECK (sequence >= 1 AND version >= 1 AND oversell_allowance >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- One row per reservation, its lines packed in `body`; the columns beside it are what an index or a filter needs. An id
-- sorts by the time it was made, so rows are appended. `history` is the serials of its newest batches of events, 8 bytes each; it
-- is empty within a transaction only. `sku` is its first line's. Kept until it has ended and is archived.
CREATE TABLE IF NOT EXISTS stockhold_holds (
    id BINARY(16) NOT NULL,
    status TINYINT NOT NULL,
    expires_at BIGINT NOT NULL,
    owner_id VARBINARY(128) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    history MEDIUMBLOB NOT NULL,
    body MEDIUMBLOB NOT NULL,
    PRIMARY KEY (id),
    -- Lists, the newest first.
    KEY holds_by_owner (owner_id, id),
    KEY holds_by_sku (sku, id),
    CONSTRAINT stockhold_holds_status CHECK (status BETWEEN 0 AND 3),
    CONSTRAINT stockhold_holds_whole_milliseconds CHECK (expires_at % 1000 = 0),
    CONSTRAINT stockhold_holds_history CHECK (OCTET_LENGTH(history) % 8 = 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- The older parts of the histories of reservations that were changed often, so that their rows stay short. `serial` is that of the
-- batch of events that moved the part here: parts are in its order. Kept as long as the reservation.
CREATE TABLE IF NOT EXISTS stockhold_hold_histories (
    id BINARY(16) NOT NULL,
    serial BIGINT UNSIGNED NOT NULL,
    history MEDIUMBLOB NOT NULL,
    PRIMARY KEY (id, serial),
    CONSTRAINT stockhold_hold_histories_history CHECK (OCTET_LENGTH(history) >= 8 AND OCTET_LENGTH(history) % 8 = 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- The SKUs of a reservation's other lines, for the same lists. Most reservations have one line and no row here. Kept as long as
-- the reservation.
CREATE TABLE IF NOT EXISTS stockhold_hold_skus (
    id BINARY(16) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    PRIMARY KEY (id, sku),
    KEY hold_skus_by_sku (sku, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- The orders that reservations were confirmed for, for the lists of an order: the one with the largest `number` was confirmed last.
-- Kept as long as the reservation.
CREATE TABLE IF NOT EXISTS stockhold_hold_orders (
    number BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    id BINARY(16) NOT NULL,
    order_id VARBINARY(128) NOT NULL,
    PRIMARY KEY (number),
    UNIQUE KEY hold_orders_by_id (id),
    KEY hold_orders_by_order (order_id, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- One row per line of an active reservation, gone when it ends: "the earliest deadline on this item" is one step into
-- the primary key. `quantity` lets an audit compare the sum with the item's `held`. `due` is the deadline once more, on
-- one line of each reservation only: its index is what the sweeper reads.
CREATE TABLE IF NOT EXISTS stockhold_active_lines (
    location VARBINARY(128) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    expires_at BIGINT NOT NULL,
    id BINARY(16) NOT NULL,
    quantity BIGINT NOT NULL,
    due BIGINT NULL,
    PRIMARY KEY (location, sku, expires_at, id),
    KEY active_lines_due (due, id),
    CONSTRAINT stockhold_active_lines_quantity CHECK (quantity >= 1),
    CONSTRAINT stockhold_active_lines_due CHECK (due IS NULL OR due = expires_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- Reservations whose payment is to be moved on, and when: what the payment runner reads. A table of its own, so that other commits
-- change no index for it.
CREATE TABLE IF NOT EXISTS stockhold_due_payments (
    id BINARY(16) NOT NULL,
    due_at BIGINT NOT NULL,
    PRIMARY KEY (id),
    KEY due_payments_by_time (due_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- Idempotency keys. Rows are never updated: the primary key decides between two instances. Kept for the configured
-- retention, at least 24 hours.
CREATE TABLE IF NOT EXISTS stockhold_keys (
    hash BINARY(16) NOT NULL,
    used_at BIGINT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (hash),
    -- The oldest keys are deleted first.
    KEY keys_by_use (used_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- Pauses of everything (the empty location, which no label is) and of locations. The row of everything is always there:
-- a reader of pauses locks it against writers. Its `limits_version` changes with every commit that sets a limit, so an
-- instance that locks it knows whether its copy of the limits is the current one.
CREATE TABLE IF NOT EXISTS stockhold_pauses (
    location VARBINARY(128) NOT NULL,
    paused TINYINT NOT NULL,
    limits_version BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (location)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;
INSERT IGNORE INTO stockhold_pauses (location, paused) VALUES (x'', 0);

-- These rows take the place of the lock of that row in a Galera cluster, which sees at the commit what was written and not what was
-- locked: a batch that reads pauses writes one row, and a batch that sets a pause or a limit writes all of them. Used nowhere else.
CREATE TABLE IF NOT EXISTS stockhold_cluster_slots (
    slot SMALLINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (slot)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;
INSERT IGNORE INTO stockhold_cluster_slots (slot, version)
    WITH RECURSIVE numbers (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM numbers WHERE slot < 255)
    SELECT slot, 0 FROM numbers;

-- Limits, packed in `body`: every instance has a copy of all of them. Counters of generations before `generation` are in use no
-- more: they are deleted some time later. A deleted limit keeps its row, so that its versions are never used again.
CREATE TABLE IF NOT EXISTS stockhold_limits (
    id VARBINARY(128) NOT NULL,
    version BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    body MEDIUMBLOB NOT NULL,
    PRIMARY KEY (id),
    CONSTRAINT stockhold_limits_version CHECK (version >= 1 AND generation BETWEEN 1 AND version)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- What limits count: one row for each subject that has units, and its lock orders everything that happens to them. The first byte
-- of `subject` is its kind, and its name follows, so the rows of one limit are in the order of their subjects.
CREATE TABLE IF NOT EXISTS stockhold_limit_counters (
    limit_id VARBINARY(128) NOT NULL,
    generation BIGINT NOT NULL,
    subject VARBINARY(129) NOT NULL,
    held BIGINT NOT NULL,
    sold BIGINT NOT NULL,
    PRIMARY KEY (limit_id, generation, subject),
    CONSTRAINT stockhold_limit_counters_not_negative CHECK (held >= 0 AND sold >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- One row for each counter of an active reservation, gone when the reservation ends: "the earliest deadline that this counter
-- counts" is one step into the primary key.
CREATE TABLE IF NOT EXISTS stockhold_counted_holds (
    limit_id VARBINARY(128) NOT NULL,
    generation BIGINT NOT NULL,
    subject VARBINARY(129) NOT NULL,
    expires_at BIGINT NOT NULL,
    id BINARY(16) NOT NULL,
    PRIMARY KEY (limit_id, generation, subject, expires_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- Records: small things that are no stock, such as API keys. A deleted record keeps its row without a value, so that its versions
-- are never used again. Kept for good.
CREATE TABLE IF NOT EXISTS stockhold_records (
    kind VARBINARY(32) NOT NULL,
    id VARBINARY(128) NOT NULL,
    version BIGINT NOT NULL,
    -- A value may have 65,536 bytes, which is one more than a BLOB may.
    value MEDIUMBLOB,
    PRIMARY KEY (kind, id),
    CONSTRAINT records_version CHECK (version >= 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- Customers: personal data, encrypted, each with a key of its own that is part of the value. Rows are updated in place, and deleted
-- for good: nothing of them is in any event.
CREATE TABLE IF NOT EXISTS stockhold_customers (
    id VARBINARY(128) NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL,
    value BLOB NOT NULL,
    CONSTRAINT customers_version CHECK (version >= 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- One row per committed batch (more only where its events are very large), its events packed in `body`. `serial` is drawn
-- while the batch's locks are held, so of two batches that share an item the later one has the larger; it has gaps and is no
-- position. `last_position` is given after the commit, by the transaction that holds the sequencer's row. Kept until it is
-- archived: state is the fold of all events, or of the balances of the archived ones and the events after them. `NULL` sorts
-- first, so one index has both the events without a position and the others by their positions.
CREATE TABLE IF NOT EXISTS stockhold_events (
    serial BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    event_count BIGINT NOT NULL,
    last_position BIGINT NULL,
    body MEDIUMBLOB NOT NULL,
    PRIMARY KEY (serial),
    UNIQUE KEY events_by_position (last_position),
    CONSTRAINT stockhold_events_count CHECK (event_count >= 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS stockhold_sequencer (
    one TINYINT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (one),
    CONSTRAINT stockhold_sequencer_one CHECK (one = 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;
INSERT IGNORE INTO stockhold_sequencer (one, position) VALUES (1, 0);

-- Up to which position events have left for an archive, with the reservations that had ended by then; the newest instant among
-- them; and the newest file of which events have left: the position of its last event, which is later while a part of them is still
-- here, and its hash. `lease_holder` is the archive that is at work, until `lease_until` at the latest unless it renews that.
-- `key_retention` is the longest time, in microseconds, for which any instance has kept idempotency keys: nobody forgets them sooner.
CREATE TABLE IF NOT EXISTS stockhold_archived (
    one TINYINT NOT NULL,
    position BIGINT NOT NULL,
    at BIGINT NOT NULL,
    file_position BIGINT NOT NULL DEFAULT 0,
    file_hash VARBINARY(32),
    lease_holder VARBINARY(64) NOT NULL DEFAULT '',
    lease_until BIGINT NOT NULL DEFAULT 0,
    key_retention BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (one),
    CONSTRAINT stockhold_archived_one CHECK (one = 1),
    CONSTRAINT stockhold_archived_file CHECK (file_position >= position AND (file_hash IS NULL) = (file_position = 0))
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;
INSERT IGNORE INTO stockhold_archived (one, position, at) VALUES (1, 0, 0);

-- The items as the archived events left them, and the units that archived reservations have sold: all of them, and those drawn from
-- pools by the names of these, NULL if there are none.
-- Removed with its item only.
CREATE TABLE IF NOT EXISTS stockhold_archived_items (
    location VARBINARY(128) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    sold BIGINT NOT NULL,
    pool_sales BLOB,
    body BLOB NOT NULL,
    PRIMARY KEY (location, sku),
    CONSTRAINT stockhold_archived_items_sold CHECK (sold >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- The pauses after those events.
CREATE TABLE IF NOT EXISTS stockhold_archived_pauses (
    location VARBINARY(128) NOT NULL,
    paused TINYINT NOT NULL,
    PRIMARY KEY (location)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- Units that archived reservations have sold, by the counters that count them. Deleted with the counter.
CREATE TABLE IF NOT EXISTS stockhold_archived_counters (
    limit_id VARBINARY(128) NOT NULL,
    generation BIGINT NOT NULL,
    subject VARBINARY(129) NOT NULL,
    sold BIGINT NOT NULL,
    PRIMARY KEY (limit_id, generation, subject),
    CONSTRAINT stockhold_archived_counters_sold CHECK (sold >= 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- Units with ids: seats, slots, serials. Of an item that has them the row of items keeps no figures (its `sequence` stays at 1), so
-- that no claim writes or locks it: they are sums over `stockhold_unit_counters`.

-- One row per unit. `position` and `id` are the order of claims. Where `status` is not 0 (available), `reservation` has it: 1 is
-- held, 2 sold, 3 sold and fulfilled. A unit that is available in a pool only has status 4, and `free_pool` is its pool. A unit that is
-- held or sold keeps the pool that it was drawn from. `history` is the serials of the newest batches of events that moved the unit, 8 bytes each and at most 64 of them.
-- Kept until it is retired.
CREATE TABLE IF NOT EXISTS stockhold_units (
    location VARBINARY(128) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    id VARBINARY(128) NOT NULL,
    position BIGINT NOT NULL,
    section VARBINARY(128) NULL,
    seat_row VARBINARY(128) NULL,
    seat_number VARBINARY(128) NULL,
    attributes BLOB NOT NULL,
    status TINYINT NOT NULL,
    reservation BINARY(16) NULL,
    version BIGINT NOT NULL,
    history VARBINARY(512) NOT NULL,
    pool VARBINARY(128) NULL,
    free_pool VARBINARY(128) NULL,
    PRIMARY KEY (location, sku, id),
    -- The free ones in the order of claims, without a sort.
    KEY units_in_order (location, sku, status, position, id),
    -- The same for each pool. The column is NULL for all units of items without pools, so their claims don't change an entry.
    KEY units_in_pools (location, sku, free_pool, position, id),
    CONSTRAINT stockhold_units_status CHECK (status BETWEEN 0 AND 4),
    CONSTRAINT stockhold_units_are_with_a_reservation CHECK ((status IN (0, 4)) = (reservation IS NULL)),
    CONSTRAINT stockhold_units_free_in_pools CHECK ((status = 4) = (free_pool IS NOT NULL)
        AND (status NOT IN (0, 4) OR (status = 4) = (pool IS NOT NULL))),
    CONSTRAINT stockhold_units_counted_up CHECK (version >= 1 AND position >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- What an item's units and its active reservations come to, in shards: instances add to different shards, so that they seldom wait
-- for each other. A shard may be below zero, the sum never is. `decided_at` is the newest instant that one was moved at. Removed with its item only.
CREATE TABLE IF NOT EXISTS stockhold_unit_counters (
    location VARBINARY(128) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    -- The empty text stands for the whole item. Of a pool `total_units` are the units that are in it, and `decided_at` is when units
    -- were last drawn from it, or 0. The columns that a pool does not have are 0.
    pool VARBINARY(128) NOT NULL,
    counter_shard SMALLINT NOT NULL,
    total_units BIGINT NOT NULL,
    held BIGINT NOT NULL,
    confirmed_sold BIGINT NOT NULL,
    fulfilled BIGINT NOT NULL,
    held_under_payment BIGINT NOT NULL,
    active BIGINT NOT NULL,
    decided_at BIGINT NOT NULL,
    PRIMARY KEY (location, sku, pool, counter_shard)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- The ledger of sales: one row for each unit that a reservation has sold, closed when it came back. `is_open` is 1 or NULL, and
-- its index is what lets a unit be sold at most once at a time, whatever anybody does. Closed ones are kept as long as their
-- reservation, open ones as long as the unit is sold.
CREATE TABLE IF NOT EXISTS stockhold_unit_sales (
    location VARBINARY(128) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    unit_id VARBINARY(128) NOT NULL,
    reservation BINARY(16) NOT NULL,
    sold_at BIGINT NOT NULL,
    returned_at BIGINT NULL,
    is_open TINYINT NULL,
    PRIMARY KEY (location, sku, unit_id, reservation),
    UNIQUE KEY unit_sales_once (location, sku, unit_id, is_open),
    CONSTRAINT stockhold_unit_sales_in_order CHECK (returned_at >= sold_at),
    CONSTRAINT stockhold_unit_sales_open
        CHECK ((is_open IS NOT NULL) = (returned_at IS NULL) AND (is_open IS NULL OR is_open = 1))
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;
