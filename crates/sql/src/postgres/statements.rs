//! Every statement of a connection, prepared once. What is written here loads, locks and stores; it never judges.
//!
//! Locks are taken row by row in the order of the arrays given: a subquery with a locking clause is never flattened, so
//! the plan is a loop over the array with a look-up by key inside, whatever the planner thinks of the tables. What it
//! yields of a row is what was committed when the lock was had, since a locking read reads a row again that it waited for.

use super::citus::{self, Layout};
use super::limit_statements;
use super::unit_statements::{
    LAST_UNITS, LOCK_FREE_UNITS, LOCK_NAMED_UNITS_THAT_ARE_FREE, LOCK_POOL_UNITS, LOCK_UNITS,
    READ_FREE_UNITS, READ_POOL_UNITS, READ_UNIT, READ_UNITS, UNIT_FIGURES, UNITS_PAGE,
};
use crate::engine::UNIT_HISTORY_BYTES;
use tokio_postgres::{Client, Error, Statement};

/// The store's clock, in microseconds.
pub(super) const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

macro_rules! statements {
    ($($name:ident: $text:expr;)*) => {
        /// The statements of one connection.
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            /// `clock` is an expression.
            pub(super) async fn prepare(client: &Client, clock: &str, layout: Layout) -> Result<Self, Error> {
                let ready = |name: &'static str, text: &'static str| {
                    let text = match layout {
                        Layout::OneServer => text.into(),
                        Layout::Citus => citus::text_of(name, text),
                    };
                    let text = text.replace("{clock}", clock);
                    async move { client.prepare(&text).await }
                };
                // Sent one after the other without waiting.
                let ($($name,)*) = tokio::try_join!(biased; $(ready(stringify!($name), $text),)*)?;
                Ok(Self { $($name,)* })
            }
        }
    };
}

macro_rules! item_columns {
    () => {
        "location, sku, mode, total_units, confirmed_sold, fulfilled, held, held_under_payment, active, sequence,
         decided_at, oversell_allowance, settings, version, paused, created_at, pools"
    };
}

macro_rules! lock_items {
    ($how:literal) => {
        concat!(
            "SELECT locked.* FROM unnest($1::smallint[], $2::text[], $3::text[]) AS want (bucket, location, sku)
             CROSS JOIN LATERAL (
                 SELECT ",
            item_columns!(),
            " FROM stockhold.items i
                 WHERE i.bucket = want.bucket AND i.location = want.location AND i.sku = want.sku
                 FOR NO KEY UPDATE ",
            $how,
            ") AS locked"
        )
    };
}

macro_rules! update_items {
    () => {
        "WITH done AS (
            UPDATE stockhold.items i
            SET mode = n.mode, total_units = n.total_units, confirmed_sold = n.confirmed_sold,
                fulfilled = n.fulfilled, held = n.held, held_under_payment = n.held_under_payment, active = n.active, sequence = n.sequence, decided_at = n.decided_at,
                oversell_allowance = n.oversell_allowance, settings = n.settings, version = n.version, paused = n.paused, created_at = n.created_at,
                pools = n.pools, pool_release_at = n.pool_release_at
            FROM unnest($1::smallint[], $2::text[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[],
                $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
                $13::bigint[], $14::bytea[], $15::bigint[], $16::boolean[], $17::bigint[], $18::bytea[],
                $19::bigint[])
                AS n (bucket, location, sku, mode, total_units, confirmed_sold, fulfilled, held, held_under_payment,
                    active, sequence, decided_at, oversell_allowance, settings, version, paused, created_at, pools,
                    pool_release_at)
            WHERE i.bucket = n.bucket AND i.location = n.location AND i.sku = n.sku
            RETURNING 1
        )"
    };
}

macro_rules! all_are_done {
    () => {
        " SELECT 1 / (count(*) = cardinality($1))::integer FROM done"
    };
}

macro_rules! scan {
    ($owner:literal) => {
        concat!(
            "SELECT id, status, CASE WHEN status = coalesce($1, status) THEN body END AS body
             FROM stockhold.holds WHERE id < $2 ",
            $owner,
            " ORDER BY id DESC LIMIT $3"
        )
    };
}

pub(super) const LOCK_ITEMS: &str = lock_items!("");
pub(super) const LOCK_FREE_ITEMS: &str = lock_items!("SKIP LOCKED");
pub(super) const LOCK_HOLDS: &str = "
    SELECT locked.body FROM unnest($1::smallint[], $2::uuid[]) AS want (bucket, id)
    CROSS JOIN LATERAL (
        SELECT h.body FROM stockhold.holds h WHERE h.bucket = want.bucket AND h.id = want.id
        FOR NO KEY UPDATE
    ) AS locked";
pub(super) const LOCK_FREE_HOLDS: &str = "
    SELECT locked.id FROM unnest($1::smallint[], $2::uuid[]) AS want (bucket, id)
    CROSS JOIN LATERAL (
        SELECT h.id FROM stockhold.holds h WHERE h.bucket = want.bucket AND h.id = want.id
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked";
pub(super) const READ_ITEMS: &str = concat!(
    "SELECT found.* FROM unnest($1::smallint[], $2::text[], $3::text[]) AS want (bucket, location, sku)
     CROSS JOIN LATERAL (
         SELECT ",
    item_columns!(),
    " FROM stockhold.items i
         WHERE i.bucket = want.bucket AND i.location = want.location AND i.sku = want.sku
         OFFSET 0
     ) AS found"
);
pub(super) const READ_HOLDS: &str = "
    SELECT found.body FROM unnest($1::smallint[], $2::uuid[]) AS want (bucket, id)
    CROSS JOIN LATERAL (
        SELECT h.body FROM stockhold.holds h WHERE h.bucket = want.bucket AND h.id = want.id OFFSET 0
    ) AS found";
pub(super) const READ_KEYS: &str = "
    SELECT found.body FROM unnest($1::smallint[], $2::bytea[]) AS want (bucket, hash)
    CROSS JOIN LATERAL (
        SELECT k.body FROM stockhold.keys k WHERE k.bucket = want.bucket AND k.hash = want.hash OFFSET 0
    ) AS found";
pub(super) const READ_DUE: &str = "
    SELECT want.number, first.expires_at, first.id
    FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
        AS want (bucket, location, sku, depth, number)
    CROSS JOIN LATERAL (
        SELECT a.expires_at, a.id FROM stockhold.active_lines a
        WHERE a.bucket = want.bucket AND a.location = want.location AND a.sku = want.sku
        ORDER BY a.expires_at, a.id LIMIT want.depth
    ) AS first";
macro_rules! read_any_due {
    () => {
        "SELECT expires_at, id FROM stockhold.active_lines
         WHERE leads AND (expires_at, id) > ($2::bigint, $3::uuid) ORDER BY expires_at, id LIMIT $1"
    };
}
pub(super) const READ_ANY_DUE: &str = read_any_due!();
macro_rules! read_any_release {
    () => {
        "SELECT pool_release_at, location, sku FROM stockhold.items
         WHERE pool_release_at IS NOT NULL AND (pool_release_at, location, sku) > ($2::bigint, $3::text, $4::text)
         ORDER BY pool_release_at, location, sku LIMIT $1"
    };
}
pub(super) const READ_ANY_RELEASE: &str = read_any_release!();
pub(super) const SCAN_OWNER: &str = scan!("AND owner_id = $4");
pub(super) const SCAN_ALL: &str = scan!("");
/// Those whose first line is of the SKU, and those that have another line of it, in one order.
pub(super) const SCAN_SKU: &str = "
    SELECT id, status, CASE WHEN status = coalesce($1, status) THEN body END AS body FROM (
        (SELECT id, status, body FROM stockhold.holds WHERE sku = $4 AND id < $2 ORDER BY id DESC LIMIT $3)
        UNION ALL
        (SELECT one.id, h.status, h.body FROM (
            SELECT bucket, id FROM stockhold.hold_skus WHERE sku = $4 AND id < $2 ORDER BY id DESC LIMIT $3
        ) AS one CROSS JOIN LATERAL (
            SELECT status, body FROM stockhold.holds h WHERE h.bucket = one.bucket AND h.id = one.id OFFSET 0
        ) AS h ORDER BY one.id DESC LIMIT $3)
    ) AS found ORDER BY id DESC LIMIT $3";
/// Those that were confirmed for an order, the last one first.
pub(super) const SCAN_ORDER: &str = "
    SELECT one.number, one.id, h.status, CASE WHEN h.status = coalesce($1, h.status) THEN h.body END AS body FROM (
        SELECT bucket, id, number FROM stockhold.hold_orders WHERE order_id = $4 AND number < $2
        ORDER BY number DESC LIMIT $3
    ) AS one CROSS JOIN LATERAL (
        SELECT status, body FROM stockhold.holds h WHERE h.bucket = one.bucket AND h.id = one.id OFFSET 0
    ) AS h ORDER BY one.number DESC";
/// The history of a reservation: the parts that were moved, oldest first, and that of its own row.
pub(super) const READ_HISTORY: &str = "
    SELECT ARRAY(
        SELECT p.history FROM stockhold.hold_histories p WHERE p.bucket = h.bucket AND p.id = h.id ORDER BY p.serial
    ) AS moved, h.history FROM stockhold.holds h WHERE h.bucket = $1 AND h.id = $2";
pub(super) const READ_EVENTS: &str = "
    SELECT last_position, count, body FROM stockhold.events WHERE last_position > $1
    ORDER BY last_position LIMIT $2";

pub(super) const LOCK_RECORDS: &str = "
    SELECT locked.* FROM unnest($1::text[], $2::text[]) AS want (kind, id)
    CROSS JOIN LATERAL (
        SELECT r.kind, r.id, r.version, r.value FROM stockhold.records r
        WHERE r.kind = want.kind AND r.id = want.id
        FOR NO KEY UPDATE
    ) AS locked";
pub(super) const READ_RECORDS: &str = "
    SELECT found.* FROM unnest($1::text[], $2::text[]) AS want (kind, id)
    CROSS JOIN LATERAL (
        SELECT r.kind, r.id, r.version, r.value FROM stockhold.records r
        WHERE r.kind = want.kind AND r.id = want.id OFFSET 0
    ) AS found";
pub(super) const RECORD_PAGE: &str = "
    SELECT kind, id, version, value FROM stockhold.records
    WHERE kind = $1 AND id > $2 AND value IS NOT NULL ORDER BY id LIMIT $3";

// A history and another serial, less what is too long, begins at this byte: see `update_units`.
const _: () = assert!(UNIT_HISTORY_BYTES == 503 + 9);

statements! {
    keep_shard: citus::KEEP_SHARD;
    lock_items: LOCK_ITEMS;
    lock_free_items: LOCK_FREE_ITEMS;
    lock_holds: LOCK_HOLDS;
    lock_free_holds: LOCK_FREE_HOLDS;
    lock_units: LOCK_UNITS;
    lock_named_units_that_are_free: LOCK_NAMED_UNITS_THAT_ARE_FREE;
    lock_free_units: LOCK_FREE_UNITS;
    read_free_units: READ_FREE_UNITS;
    lock_pool_units: LOCK_POOL_UNITS;
    read_pool_units: READ_POOL_UNITS;
    unit_figures: UNIT_FIGURES;
    read_units: READ_UNITS;
    last_units: LAST_UNITS;
    units_page: UNITS_PAGE;
    read_unit: READ_UNIT;
    // After the locks, in one statement of its own: nothing in it reads what is locked.
    // The rest of a serial by 1,024 is its bucket.
    clock_and_serial: "SELECT {clock}, nextval('stockhold.event_serial') * 1024 + $1::bigint";

    // The row of everything is always among them.
    read_pauses: "SELECT location, paused, limits_version FROM stockhold.pauses WHERE location = ANY ($1::text[])";
    read_limits: limit_statements::READ_LIMITS;
    lock_counters: limit_statements::LOCK_COUNTERS;
    lock_free_counters: limit_statements::LOCK_FREE_COUNTERS;
    read_counters: limit_statements::READ_COUNTERS;
    read_counted_due: limit_statements::READ_COUNTED_DUE;
    counter_page: limit_statements::COUNTER_PAGE;
    forget_counters: limit_statements::FORGET_COUNTERS;
    read_items: READ_ITEMS;
    read_holds: READ_HOLDS;
    read_keys: READ_KEYS;
    read_due: READ_DUE;
    lock_records: LOCK_RECORDS;
    read_records: READ_RECORDS;
    record_page: RECORD_PAGE;
    read_customer: "SELECT id, version, value FROM stockhold.customers WHERE id = $1";
    customer_page: "SELECT id, version, value FROM stockhold.customers WHERE id > $1 ORDER BY id LIMIT $2";
    insert_customer: "
        INSERT INTO stockhold.customers (id, version, value) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    update_customer: "UPDATE stockhold.customers SET version = $2, value = $3 WHERE id = $1 AND version = $4";
    delete_customer: "DELETE FROM stockhold.customers WHERE id = $1 AND ($2::bigint IS NULL OR version = $2)";
    read_any_due: READ_ANY_DUE;
    read_overdue: concat!(
        "SELECT {clock} AS now, first.expires_at, first.id FROM (VALUES (1)) AS one (n) LEFT JOIN (",
        read_any_due!(),
        ") AS first ON true ORDER BY first.expires_at, first.id",
    );

    read_any_release: READ_ANY_RELEASE;
    read_releases: concat!(
        "SELECT {clock} AS now, first.pool_release_at, first.location, first.sku FROM (VALUES (1)) AS one (n) LEFT JOIN (",
        read_any_release!(),
        ") AS first ON true ORDER BY first.pool_release_at, first.location, first.sku",
    );

    insert_items: "
        INSERT INTO stockhold.items (bucket, location, sku, mode, total_units, confirmed_sold, fulfilled, held,
            held_under_payment, active, sequence, decided_at, oversell_allowance, settings, version, paused, created_at,
            pools, pool_release_at)
        VALUES (unnest($1::smallint[]), unnest($2::text[]), unnest($3::text[]), unnest($4::smallint[]),
            unnest($5::bigint[]), unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]),
            unnest($9::bigint[]), unnest($10::bigint[]), unnest($11::bigint[]), unnest($12::bigint[]),
            unnest($13::bigint[]), unnest($14::bytea[]), unnest($15::bigint[]), unnest($16::boolean[]),
            unnest($17::bigint[]), unnest($18::bytea[]), unnest($19::bigint[]))";
    update_items: concat!(update_items!(), all_are_done!());
    // All of a batch have the same new entry in their histories.
    insert_holds: "
        INSERT INTO stockhold.holds (bucket, id, status, expires_at, owner_id, sku, body, history)
        VALUES (unnest($1::smallint[]), unnest($2::uuid[]), unnest($3::smallint[]), unnest($4::bigint[]),
            unnest($5::text[]), unnest($6::text[]), unnest($7::bytea[]), $8::bytea)";
    insert_hold_skus: "
        INSERT INTO stockhold.hold_skus (bucket, id, sku)
        VALUES (unnest($1::smallint[]), unnest($2::uuid[]), unnest($3::text[]))";
    insert_hold_orders: "
        INSERT INTO stockhold.hold_orders (bucket, id, order_id)
        VALUES (unnest($1::smallint[]), unnest($2::uuid[]), unnest($3::text[]))";
    update_holds: "
        WITH done AS (
            UPDATE stockhold.holds h
            SET status = n.status, expires_at = n.expires_at, body = n.body, history = h.history || $6::bytea
            FROM unnest($1::smallint[], $2::uuid[], $3::smallint[], $4::bigint[], $5::bytea[])
                AS n (bucket, id, status, expires_at, body)
            WHERE h.bucket = n.bucket AND h.id = n.id
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    due_payments: "SELECT id FROM stockhold.due_payments WHERE due_at <= $1::bigint ORDER BY due_at, id LIMIT $2";
    delete_due_payments: "DELETE FROM stockhold.due_payments WHERE id = ANY($1::uuid[])";
    set_due_payments: "
        INSERT INTO stockhold.due_payments (id, due_at) SELECT * FROM unnest($1::uuid[], $2::bigint[])
        ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at";
    move_histories: "
        WITH full_ones AS (
            SELECT h.bucket, h.id, h.history FROM unnest($1::smallint[], $2::uuid[]) AS n (bucket, id)
            JOIN stockhold.holds h ON h.bucket = n.bucket AND h.id = n.id
        ), moved AS (
            INSERT INTO stockhold.hold_histories (bucket, id, serial, history) SELECT bucket, id, $3::bigint, history FROM full_ones
        ), cleared AS (
            UPDATE stockhold.holds h SET history = '' FROM full_ones f WHERE h.bucket = f.bucket AND h.id = f.id RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM cleared";
    // What lists find a reservation by. It changes seldom, and `update_holds` leaves it alone, so that it changes no index.
    relist_holds: "
        WITH done AS (
            UPDATE stockhold.holds h SET owner_id = n.owner_id, sku = n.sku
            FROM unnest($1::smallint[], $2::uuid[], $3::text[], $4::text[]) AS n (bucket, id, owner_id, sku)
            WHERE h.bucket = n.bucket AND h.id = n.id
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    delete_hold_skus: "
        DELETE FROM stockhold.hold_skus s USING unnest($1::smallint[], $2::uuid[]) AS o (bucket, id)
        WHERE s.bucket = o.bucket AND s.id = o.id";
    delete_units: "
        WITH done AS (
            DELETE FROM stockhold.units u
            USING unnest($1::smallint[], $2::text[], $3::text[], $4::text[]) AS o (bucket, location, sku, id)
            WHERE u.bucket = o.bucket AND u.location = o.location AND u.sku = o.sku AND u.id = o.id
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    insert_units: "
        INSERT INTO stockhold.units (bucket, location, sku, id, position, section, seat_row, seat_number, attributes, status,
            reservation, version, pool, history)
        VALUES (unnest($1::smallint[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]),
            unnest($5::bigint[]), unnest($6::text[]), unnest($7::text[]), unnest($8::text[]), unnest($9::bytea[]),
            unnest($10::smallint[]), unnest($11::uuid[]), unnest($12::bigint[]), unnest($13::text[]), $14::bytea)";
    // Of what is longer than a history may be, the end.
    update_units: "
        WITH done AS (
            UPDATE stockhold.units u
            SET status = n.status, reservation = n.reservation, version = n.version, pool = n.pool,
                history = substring(u.history || $9::bytea FROM greatest(octet_length(u.history) - 503, 1))
            FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::uuid[], $7::bigint[],
                $8::text[]) AS n (bucket, location, sku, id, status, reservation, version, pool)
            WHERE u.bucket = n.bucket AND u.location = n.location AND u.sku = n.sku AND u.id = n.id
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    add_figures: "
        INSERT INTO stockhold.unit_counters AS f
            (bucket, location, sku, total_units, held, held_under_payment, confirmed_sold, fulfilled, active, decided_at,
            pool, counter_shard)
        VALUES (unnest($1::smallint[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bigint[]),
            unnest($5::bigint[]), unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]),
            unnest($9::bigint[]), unnest($10::bigint[]), unnest($11::text[]), $12::smallint)
        ON CONFLICT (bucket, location, sku, pool, counter_shard) DO UPDATE
        SET total_units = f.total_units + excluded.total_units, held = f.held + excluded.held,
            held_under_payment = f.held_under_payment + excluded.held_under_payment,
            confirmed_sold = f.confirmed_sold + excluded.confirmed_sold, fulfilled = f.fulfilled + excluded.fulfilled,
            active = f.active + excluded.active,
            decided_at = greatest(f.decided_at, excluded.decided_at)";
    close_sales: "
        WITH done AS (
            UPDATE stockhold.unit_sales s SET returned_at = n.returned_at
            FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::bigint[])
                AS n (bucket, location, sku, unit_id, reservation, returned_at)
            WHERE s.bucket = n.bucket AND s.location = n.location AND s.sku = n.sku AND s.unit_id = n.unit_id
              AND s.reservation = n.reservation AND s.returned_at IS NULL
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    insert_sales: "
        INSERT INTO stockhold.unit_sales (bucket, location, sku, unit_id, reservation, returned_at, sold_at)
        VALUES (unnest($1::smallint[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]),
            unnest($5::uuid[]), unnest($6::bigint[]), unnest($7::bigint[]))";
    delete_items: "
        WITH done AS (
            DELETE FROM stockhold.items i
            USING unnest($1::smallint[], $2::text[], $3::text[]) AS o (bucket, location, sku)
            WHERE i.bucket = o.bucket AND i.location = o.location AND i.sku = o.sku
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    move_release: "
        UPDATE stockhold.items SET pool_release_at = $5
        WHERE bucket = $1 AND location = $2 AND sku = $3 AND pool_release_at = $4";
    delete_figures: "
        DELETE FROM stockhold.unit_counters f
        USING unnest($1::smallint[], $2::text[], $3::text[]) AS o (bucket, location, sku)
        WHERE f.bucket = o.bucket AND f.location = o.location AND f.sku = o.sku";
    delete_lines: "
        WITH done AS (
            DELETE FROM stockhold.active_lines a
            USING unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::uuid[])
                AS o (bucket, location, sku, expires_at, id)
            WHERE a.bucket = o.bucket AND a.location = o.location AND a.sku = o.sku
              AND a.expires_at = o.expires_at AND a.id = o.id
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    update_lines: "
        WITH done AS (
            UPDATE stockhold.active_lines a SET quantity = n.quantity
            FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[])
                AS n (bucket, location, sku, expires_at, id, quantity)
            WHERE a.bucket = n.bucket AND a.location = n.location AND a.sku = n.sku
              AND a.expires_at = n.expires_at AND a.id = n.id
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    insert_lines: "
        INSERT INTO stockhold.active_lines (bucket, location, sku, expires_at, id, quantity, leads)
        VALUES (unnest($1::smallint[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bigint[]),
            unnest($5::uuid[]), unnest($6::bigint[]), unnest($7::boolean[]))";
    set_pauses: "
        INSERT INTO stockhold.pauses (location, paused) SELECT * FROM unnest($1::text[], $2::boolean[])
        ON CONFLICT (location) DO UPDATE SET paused = excluded.paused";
    set_limits: limit_statements::SET_LIMITS;
    raise_limits_version: limit_statements::RAISE_LIMITS_VERSION;
    insert_counters: limit_statements::INSERT_COUNTERS;
    update_counters: limit_statements::UPDATE_COUNTERS;
    delete_counters: limit_statements::DELETE_COUNTERS;
    delete_counted_holds: limit_statements::DELETE_COUNTED_HOLDS;
    insert_counted_holds: limit_statements::INSERT_COUNTED_HOLDS;
    insert_records: "
        INSERT INTO stockhold.records (kind, id, version, value)
        SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])";
    update_records: "
        WITH done AS (
            UPDATE stockhold.records r SET version = n.version, value = n.value
            FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) AS n (kind, id, version, value)
            WHERE r.kind = n.kind AND r.id = n.id
            RETURNING 1
        ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
    insert_keys: "
        INSERT INTO stockhold.keys (bucket, hash, used_at, body)
        VALUES (unnest($1::smallint[]), unnest($2::bytea[]), unnest($3::bigint[]), unnest($4::bytea[]))";
    insert_events: "INSERT INTO stockhold.events (bucket, serial, count, body) VALUES ($1, $2, $3, $4)";
    // What a batch of reserves writes, in one statement: on a hot item what statements cost beside their rows is a tenth of all.
    reserved: concat!(
        update_items!(),
        ", new_holds AS (
            INSERT INTO stockhold.holds (bucket, id, status, expires_at, owner_id, sku, body, history)
            SELECT n.*, $27::bytea FROM unnest($20::smallint[], $21::uuid[], $22::smallint[], $23::bigint[], $24::text[],
                $25::text[], $26::bytea[]) AS n
        ), new_lines AS (
            INSERT INTO stockhold.active_lines (bucket, location, sku, expires_at, id, quantity, leads)
            SELECT * FROM unnest($28::smallint[], $29::text[], $30::text[], $31::bigint[], $32::uuid[], $33::bigint[],
                $34::boolean[])
        ), new_events AS (
            INSERT INTO stockhold.events (bucket, serial, count, body) VALUES ($35, $36, $37, $38)
        ), new_keys AS (
            INSERT INTO stockhold.keys (bucket, hash, used_at, body)
            SELECT * FROM unnest($39::smallint[], $40::bytea[], $41::bigint[], $42::bytea[])
        )",
        all_are_done!()
    );
    forget_keys: "
        DELETE FROM stockhold.keys WHERE (bucket, hash) IN (
            SELECT bucket, hash FROM stockhold.keys WHERE used_at < $1 ORDER BY used_at LIMIT $2)";

    shelf: concat!(
        "SELECT ", item_columns!(), " FROM stockhold.items WHERE (location, sku) > ($1, $2) ORDER BY location, sku LIMIT $3"
    );
    shelf_at: concat!(
        "SELECT ", item_columns!(), " FROM stockhold.items WHERE location = $1 AND sku > $2 ORDER BY sku LIMIT $3"
    );
    paused: "SELECT location FROM stockhold.pauses WHERE paused ORDER BY location";
    scan_owner: SCAN_OWNER;
    scan_sku: SCAN_SKU;
    scan_order: SCAN_ORDER;
    scan_all: SCAN_ALL;
    read_history: READ_HISTORY;
    read_batches: "
        SELECT e.last_position, e.count, e.body
        FROM unnest($1::smallint[], $2::bigint[]) WITH ORDINALITY AS want (bucket, serial, number)
        JOIN stockhold.events e USING (bucket, serial)
        WHERE e.last_position IS NOT NULL ORDER BY want.number";
    read_events: READ_EVENTS;

    look_for_unnumbered: "
        SELECT position, EXISTS (SELECT FROM stockhold.events WHERE last_position IS NULL) AS unnumbered
        FROM stockhold.sequencer";
    look_for_mark: "SELECT unfinished FROM stockhold.schema_version WHERE one";
    lock_sequencer: "SELECT position FROM stockhold.sequencer FOR UPDATE";
    // Begins after the lock is held, so it sees the position that the sequencer before it had committed.
    number_events: "
        WITH fresh AS (
            SELECT serial, bucket,
                (SELECT position FROM stockhold.sequencer) + sum(count) OVER (ORDER BY serial) AS last_position
            FROM (
                SELECT serial, bucket, count FROM stockhold.events WHERE last_position IS NULL
                ORDER BY serial LIMIT $1
            ) AS unnumbered
        ), numbered AS (
            UPDATE stockhold.events e SET last_position = fresh.last_position FROM fresh
            WHERE e.bucket = fresh.bucket AND e.serial = fresh.serial AND e.last_position IS NULL
            RETURNING e.last_position
        )
        UPDATE stockhold.sequencer SET position = (SELECT max(last_position) FROM numbered)
        WHERE EXISTS (SELECT FROM numbered)
        RETURNING position, (SELECT count(*) FROM numbered) AS numbered";
}
