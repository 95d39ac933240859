-- Units with ids: seats, slots, serials. Of an item that has them the row in `items` keeps no figures (its `sequence` stays at
-- 1), so that no claim writes or locks it: they are sums over `unit_figures`.

-- One row per unit. `position` and `id` are the order of claims. Where `status` is not 0 (available), `reservation` has it: 1 is
-- held, 2 sold. Kept until it is retired.
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
    PRIMARY KEY (bucket, location, sku, id),
    CONSTRAINT units_status CHECK (status BETWEEN 0 AND 2),
    CONSTRAINT units_are_with_a_reservation CHECK ((status = 0) = (reservation IS NULL)),
    CONSTRAINT units_counted_up CHECK (version >= 1 AND position >= 0)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The free ones in the order of claims, without a sort. `status` stands first, so that no planner looks units up by it whose ids
-- are given.
CREATE INDEX units_in_order ON stockhold.units (status, bucket, location, sku, position, id);

-- What an item's units and its active reservations come to, in parts: batches in flight add to different ones, so that none waits
-- for another. A part may be below zero, their sum never is. `decided_at` is the newest instant that one was moved at. Kept for good.
CREATE TABLE stockhold.unit_figures (
    bucket smallint NOT NULL,
    location text COLLATE "C" NOT NULL,
    sku text COLLATE "C" NOT NULL,
    part smallint NOT NULL,
    total_units bigint NOT NULL,
    held bigint NOT NULL,
    confirmed_sold bigint NOT NULL,
    active bigint NOT NULL,
    decided_at bigint NOT NULL,
    PRIMARY KEY (bucket, location, sku, part)
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

-- A unit is sold at most once at a time, whatever anybody does.
CREATE UNIQUE INDEX unit_sales_once ON stockhold.unit_sales (bucket, location, sku, unit_id) WHERE returned_at IS NULL;
