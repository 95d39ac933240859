//! Every statement of a batch, prepared once per connection. What is written here loads, locks and stores; it never
//! judges.
//!
//! Locks are taken row by row in the order of the arrays given: a subquery with a locking clause is never flattened, so
//! the plan is a loop over the array with a look-up by primary key inside, whatever the planner thinks of the tables.

use tokio_postgres::{Client, Error, Statement};

macro_rules! statements {
    ($($name:ident: $text:expr;)*) => {
        /// The statements of one connection.
        pub(super) struct Statements {
            /// The store's clock, in microseconds: a setting, so that tests can move it.
            pub(super) clock: Statement,
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            pub(super) async fn prepare(client: &Client, clock: &str) -> Result<Self, Error> {
                Ok(Self {
                    clock: client.prepare(clock).await?,
                    $($name: client.prepare($text).await?,)*
                })
            }
        }
    };
}

/// The statements that lock rows, and the primary key that each has to go through: for whoever looks at their plans.
pub const LOCK_STATEMENTS: [(&str, &str); 2] = [(LOCK_ITEMS, "items_pkey"), (LOCK_HOLDS, "holds_pkey")];

const LOCK_ITEMS: &str = "
    SELECT 1 FROM unnest($1::smallint[], $2::text[], $3::text[]) AS want (bucket, location, sku)
    CROSS JOIN LATERAL (
        SELECT FROM stockhold.items i
        WHERE i.bucket = want.bucket AND i.location = want.location AND i.sku = want.sku
        FOR NO KEY UPDATE
    ) AS locked";

const LOCK_HOLDS: &str = "
    SELECT 1 FROM unnest($1::smallint[], $2::uuid[]) AS want (bucket, id)
    CROSS JOIN LATERAL (
        SELECT FROM stockhold.holds h WHERE h.bucket = want.bucket AND h.id = want.id
        FOR NO KEY UPDATE
    ) AS locked";

statements! {
    lock_items: LOCK_ITEMS;
    lock_holds: LOCK_HOLDS;
    // Whoever only asks whether a sale is paused shares the row, so that a pause waits for those who asked before it.
    share_pauses: "
        SELECT 1 FROM unnest($1::text[]) AS want (location)
        CROSS JOIN LATERAL (
            SELECT FROM stockhold.pauses p WHERE p.location = want.location FOR SHARE
        ) AS locked";
    lock_pauses: "
        SELECT 1 FROM unnest($1::text[]) AS want (location)
        CROSS JOIN LATERAL (
            SELECT FROM stockhold.pauses p WHERE p.location = want.location FOR NO KEY UPDATE
        ) AS locked";
    make_pauses: "
        INSERT INTO stockhold.pauses SELECT location, false FROM unnest($1::text[]) AS new (location)
        ON CONFLICT DO NOTHING";

    read_pauses: "SELECT location, paused FROM stockhold.pauses WHERE location = ANY ($1::text[])";
    read_items: "
        SELECT i.location, i.sku, i.mode, i.total_units, i.confirmed_sold, i.held, i.active, i.sequence,
               i.decided_at, i.safety_stock::text, i.default_ttl, i.max_hold, i.metadata, i.version, i.paused, i.created_at
        FROM unnest($1::smallint[], $2::text[], $3::text[]) AS want (bucket, location, sku)
        JOIN stockhold.items i USING (bucket, location, sku)";
    read_holds: "
        SELECT h.body FROM unnest($1::smallint[], $2::uuid[]) AS want (bucket, id)
        JOIN stockhold.holds h USING (bucket, id)";
    read_keys: "
        SELECT k.body FROM unnest($1::smallint[], $2::bytea[]) AS want (bucket, hash)
        JOIN stockhold.keys k USING (bucket, hash)";
    read_due: "
        SELECT want.number, d.expires_at, d.id
        FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[])
            WITH ORDINALITY AS want (bucket, location, sku, depth, number)
        CROSS JOIN LATERAL (
            SELECT a.expires_at, a.id FROM stockhold.active_lines a
            WHERE a.bucket = want.bucket AND a.location = want.location AND a.sku = want.sku
            ORDER BY a.expires_at, a.id LIMIT want.depth
        ) AS d";
    read_any_due: "
        SELECT expires_at, id FROM stockhold.holds WHERE status = 0 ORDER BY expires_at, id LIMIT $1";

    insert_items: "
        INSERT INTO stockhold.items (bucket, location, sku, mode, total_units, confirmed_sold, held, active, sequence,
            decided_at, safety_stock, default_ttl, max_hold, metadata, version, paused, created_at)
        SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[]::numeric[], $12::bigint[], $13::bigint[],
            $14::bytea[], $15::bigint[], $16::boolean[], $17::bigint[])";
    update_items: "
        UPDATE stockhold.items i
        SET mode = n.mode, total_units = n.total_units, confirmed_sold = n.confirmed_sold, held = n.held,
            active = n.active, sequence = n.sequence, decided_at = n.decided_at, safety_stock = n.safety_stock,
            default_ttl = n.default_ttl, max_hold = n.max_hold, metadata = n.metadata, version = n.version,
            paused = n.paused, created_at = n.created_at
        FROM unnest($1::smallint[], $2::text[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[]::numeric[], $12::bigint[], $13::bigint[],
            $14::bytea[], $15::bigint[], $16::boolean[], $17::bigint[])
            AS n (bucket, location, sku, mode, total_units, confirmed_sold, held, active, sequence, decided_at,
                safety_stock, default_ttl, max_hold, metadata, version, paused, created_at)
        WHERE i.bucket = n.bucket AND i.location = n.location AND i.sku = n.sku";
    insert_holds: "
        INSERT INTO stockhold.holds (bucket, id, status, expires_at, body)
        SELECT * FROM unnest($1::smallint[], $2::uuid[], $3::smallint[], $4::bigint[], $5::bytea[])";
    update_holds: "
        UPDATE stockhold.holds h SET status = n.status, expires_at = n.expires_at, body = n.body
        FROM unnest($1::smallint[], $2::uuid[], $3::smallint[], $4::bigint[], $5::bytea[])
            AS n (bucket, id, status, expires_at, body)
        WHERE h.bucket = n.bucket AND h.id = n.id";
    delete_lines: "
        DELETE FROM stockhold.active_lines a
        USING unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::uuid[])
            AS o (bucket, location, sku, expires_at, id)
        WHERE a.bucket = o.bucket AND a.location = o.location AND a.sku = o.sku
          AND a.expires_at = o.expires_at AND a.id = o.id";
    insert_lines: "
        INSERT INTO stockhold.active_lines (bucket, location, sku, expires_at, id, quantity)
        SELECT * FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::uuid[], $6::bigint[])";
    update_pauses: "
        UPDATE stockhold.pauses p SET paused = n.paused
        FROM unnest($1::text[], $2::boolean[]) AS n (location, paused) WHERE p.location = n.location";
    insert_keys: "
        INSERT INTO stockhold.keys (bucket, hash, used_at, body)
        SELECT * FROM unnest($1::smallint[], $2::bytea[], $3::bigint[], $4::bytea[])";
    insert_events: "INSERT INTO stockhold.events (bucket, count, body) VALUES ($1, $2, $3)";

    lock_sequencer: "SELECT position FROM stockhold.sequencer FOR UPDATE";
    number_events: "
        WITH fresh AS (
            SELECT serial, bucket, $1::bigint + sum(count) OVER (ORDER BY serial) AS last_position
            FROM (
                SELECT serial, bucket, count FROM stockhold.events WHERE last_position IS NULL
                ORDER BY serial LIMIT $2
            ) AS unnumbered
        ), numbered AS (
            UPDATE stockhold.events e SET last_position = fresh.last_position FROM fresh
            WHERE e.bucket = fresh.bucket AND e.serial = fresh.serial
            RETURNING e.last_position
        )
        UPDATE stockhold.sequencer SET position = (SELECT max(last_position) FROM numbered)
        WHERE EXISTS (SELECT FROM numbered)";
    read_events: "
        SELECT last_position, count, body FROM stockhold.events WHERE last_position > $1
        ORDER BY last_position LIMIT $2";
}
