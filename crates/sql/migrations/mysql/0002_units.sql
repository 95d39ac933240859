-- Units with ids: seats, slots, serials. Of an item that has them the row of items keeps no figures (its `sequence` stays at 1), so
-- that no claim writes or locks it: they are sums over `stockhold_unit_figures`.

-- One row per unit. `position` and `id` are the order of claims. Where `status` is not 0 (available), `reservation` has it: 1 is
-- held, 2 sold. Kept until it is retired.
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
    PRIMARY KEY (location, sku, id),
    -- The free ones in the order of claims, without a sort.
    KEY units_in_order (location, sku, status, position, id),
    CONSTRAINT stockhold_units_status CHECK (status BETWEEN 0 AND 2),
    CONSTRAINT stockhold_units_are_with_a_reservation CHECK ((status = 0) = (reservation IS NULL)),
    CONSTRAINT stockhold_units_counted_up CHECK (version >= 1 AND position >= 0)
) ENGINE = InnoDB DEFAULT CHARACTER SET binary ROW_FORMAT = DYNAMIC;

-- What an item's units and its active reservations come to, in parts: batches in flight add to different ones, so that none waits
-- for another. A part may be below zero, their sum never is. `decided_at` is the newest instant that one was moved at. Kept for good.
CREATE TABLE IF NOT EXISTS stockhold_unit_figures (
    location VARBINARY(128) NOT NULL,
    sku VARBINARY(128) NOT NULL,
    part SMALLINT NOT NULL,
    total_units BIGINT NOT NULL,
    held BIGINT NOT NULL,
    confirmed_sold BIGINT NOT NULL,
    active BIGINT NOT NULL,
    decided_at BIGINT NOT NULL,
    PRIMARY KEY (location, sku, part)
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
