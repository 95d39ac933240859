-- Counted stock. Keys of tables that are spread start with `bucket`, so that a distributed engine can place them; texts
-- are compared byte by byte; instants are microseconds since 1970. The CHECK constraints are assertions behind the
-- rules, never rules: one that fires is a bug. There are no foreign keys: the rules see to it, on the hot path for less.

-- One row per (location, SKU). Its row lock is what orders everything that happens to the item, so room is left on
-- the page for updates that touch no index.
CREATE TABLE stockhold.items (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    mode smallint NOT NULL,
    total_units bigint NOT NULL,
    confirmed_sold bigint NOT NULL,
    held bigint NOT NULL,
    active bigint NOT NULL,
    sequence bigint NOT NULL,
    decided_at bigint NOT NULL,
    -- Not a figure that anything is added to, and not bounded by the rules.
    safety_stock numeric(20) NOT NULL,
    default_ttl bigint,
    max_hold bigint,
    metadata bytea,
    version bigint NOT NULL,
    paused boolean NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (bucket, location, sku),
    CONSTRAINT items_mode CHECK (mode IN (0, 1)),
    CONSTRAINT items_never_oversold
        CHECK (confirmed_sold >= 0 AND held >= 0 AND confirmed_sold + held <= total_units),
    CONSTRAINT items_active_within_held CHECK (active >= 0 AND active <= held),
    CONSTRAINT items_counted_up CHECK (sequence >= 1 AND version >= 1 AND safety_stock >= 0)
) WITH (fillfactor = 50);

-- One row per reservation, its lines packed in `body`; the columns beside it are what an index needs.
CREATE TABLE stockhold.holds (
    bucket smallint NOT NULL,
    id uuid NOT NULL,
    status smallint NOT NULL,
    expires_at bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (bucket, id),
    CONSTRAINT holds_status CHECK (status BETWEEN 0 AND 3),
    CONSTRAINT holds_whole_milliseconds CHECK (expires_at % 1000 = 0)
);

-- What the sweep reads: active reservations by deadline.
CREATE INDEX holds_due ON stockhold.holds (expires_at, id) WHERE status = 0;

-- One row per line of an active reservation, gone when it ends: "the earliest deadline on this item" is one step into
-- the primary key. Lines span items, so an index over `holds` can't answer that, and an index over an array of items
-- can't answer it in order. `quantity` lets an audit compare the sum with the item's `held`.
CREATE TABLE stockhold.active_lines (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL,
    id uuid NOT NULL,
    quantity bigint NOT NULL,
    PRIMARY KEY (bucket, location, sku, expires_at, id),
    CONSTRAINT active_lines_quantity CHECK (quantity >= 1)
);

-- Idempotency keys. Rows are never updated: the primary key decides between two instances.
CREATE TABLE stockhold.keys (
    bucket smallint NOT NULL,
    hash bytea NOT NULL,
    used_at bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (bucket, hash),
    CONSTRAINT keys_hash CHECK (octet_length(hash) = 16)
);

-- Pauses of everything (the empty location, which no label is) and of locations. Not spread. A row is there as soon as
-- its location has an item, so that there is something to lock.
CREATE TABLE stockhold.pauses (
    location text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL
);
INSERT INTO stockhold.pauses VALUES ('', false);

-- One row per committed batch, its events packed in `body`. `serial` is drawn while the batch's locks are held, so of
-- two batches that share an item the later one has the larger; it has gaps and is no position. `last_position` is
-- given after the commit, by whoever holds the sequencer's row.
CREATE SEQUENCE stockhold.event_serial;
CREATE TABLE stockhold.events (
    bucket smallint NOT NULL,
    serial bigint NOT NULL DEFAULT nextval('stockhold.event_serial'),
    count bigint NOT NULL,
    last_position bigint,
    body bytea NOT NULL,
    PRIMARY KEY (bucket, serial),
    CONSTRAINT events_count CHECK (count >= 1)
);
CREATE INDEX events_unnumbered ON stockhold.events (serial) WHERE last_position IS NULL;
CREATE INDEX events_position ON stockhold.events (last_position) WHERE last_position IS NOT NULL;

CREATE TABLE stockhold.sequencer (
    one boolean PRIMARY KEY DEFAULT true,
    position bigint NOT NULL,
    CONSTRAINT sequencer_one CHECK (one)
);
INSERT INTO stockhold.sequencer (position) VALUES (0);
