//! The statements that lock and read units with ids and what they come to.

macro_rules! unit_columns {
    () => {
        "id, position, section, seat_row, seat_number, attributes, status, reservation, version, pool"
    };
}

macro_rules! free_units {
    ($how:literal) => {
        concat!(
            "SELECT want.number, free.*
             FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
                 AS want (bucket, location, sku, most, number)
             CROSS JOIN LATERAL (
                 SELECT ",
            unit_columns!(),
            " FROM stockhold.units u
                 WHERE u.bucket = want.bucket AND u.location = want.location AND u.sku = want.sku AND u.status = 0
                 ORDER BY u.position, u.id LIMIT want.most ",
            $how,
            ") AS free"
        )
    };
}

macro_rules! pool_units {
    ($how:literal) => {
        concat!(
            "SELECT want.number, free.*
             FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])
                 AS want (bucket, location, sku, most, pool, number)
             CROSS JOIN LATERAL (
                 SELECT ",
            unit_columns!(),
            " FROM stockhold.units u
                 WHERE u.bucket = want.bucket AND u.location = want.location AND u.sku = want.sku AND u.status = 4
                     AND u.pool = want.pool
                 ORDER BY u.position, u.id LIMIT want.most ",
            $how,
            ") AS free"
        )
    };
}

macro_rules! units_page {
    ($status:literal) => {
        concat!(
            "(SELECT ",
            unit_columns!(),
            " FROM stockhold.units u
             WHERE u.bucket = $1 AND u.location = $2 AND u.sku = $3 AND u.status = ",
            $status,
            " AND (u.position, u.id) > ($4, $5) ORDER BY u.position, u.id LIMIT $6)"
        )
    };
}

macro_rules! lock_units {
    ($how:literal) => {
        concat!(
            "SELECT want.number, locked.*
             FROM unnest($1::smallint[], $2::text[], $3::text[], $4::text[], $5::bigint[])
                 AS want (bucket, location, sku, id, number)
             CROSS JOIN LATERAL (
                 SELECT ",
            unit_columns!(),
            " FROM stockhold.units u
                 WHERE u.bucket = want.bucket AND u.location = want.location AND u.sku = want.sku
                     AND u.id = want.id
                 FOR NO KEY UPDATE ",
            $how,
            ") AS locked"
        )
    };
}

pub(super) const LOCK_UNITS: &str = lock_units!("");
pub(super) const LOCK_NAMED_UNITS_THAT_ARE_FREE: &str = lock_units!("SKIP LOCKED");
/// The first ones in the order of claims that nobody has locked.
pub(super) const LOCK_FREE_UNITS: &str = free_units!("FOR NO KEY UPDATE SKIP LOCKED");
pub(super) const READ_FREE_UNITS: &str = free_units!("");
/// The same of pools.
pub(super) const LOCK_POOL_UNITS: &str = pool_units!("FOR NO KEY UPDATE SKIP LOCKED");
pub(super) const READ_POOL_UNITS: &str = pool_units!("");
/// One row for each item and one for each of its pools.
pub(super) const UNIT_FIGURES: &str = "
    SELECT want.number, f.pool, f.total, f.held, f.paying, f.sold, f.fulfilled, f.active, f.at
    FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) AS want (bucket, location, sku, number)
    CROSS JOIN LATERAL (
        SELECT pool, sum(total_units)::bigint AS total, sum(held)::bigint AS held,
            sum(held_under_payment)::bigint AS paying, sum(confirmed_sold)::bigint AS sold,
            sum(fulfilled)::bigint AS fulfilled, sum(active)::bigint AS active, max(decided_at) AS at
        FROM stockhold.unit_counters u
        WHERE u.bucket = want.bucket AND u.location = want.location AND u.sku = want.sku
        GROUP BY pool
    ) AS f";
pub(super) const READ_UNITS: &str = concat!(
    "SELECT want.number, found.*
     FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) AS want (bucket, location, sku, number)
     CROSS JOIN LATERAL (
         SELECT ",
    unit_columns!(),
    " FROM stockhold.units u
         WHERE u.bucket = want.bucket AND u.location = want.location AND u.sku = want.sku OFFSET 0
     ) AS found"
);
/// The last one of each status.
pub(super) const LAST_UNITS: &str = "
    SELECT want.number, coalesce(max(last.position), 0) AS position
    FROM unnest($1::smallint[], $2::text[], $3::text[], $4::bigint[]) AS want (bucket, location, sku, number)
    CROSS JOIN (VALUES (0::smallint), (1), (2), (3), (4)) AS statuses (status)
    LEFT JOIN LATERAL (
        SELECT u.position FROM stockhold.units u
        WHERE u.bucket = want.bucket AND u.location = want.location AND u.sku = want.sku AND u.status = statuses.status
        ORDER BY u.position DESC, u.id DESC LIMIT 1
    ) AS last ON true
    GROUP BY want.number";
/// Each status is a list in order.
pub(super) const UNITS_PAGE: &str = concat!(
    "SELECT * FROM (",
    units_page!("0"),
    " UNION ALL ",
    units_page!("1"),
    " UNION ALL ",
    units_page!("2"),
    " UNION ALL ",
    units_page!("3"),
    " UNION ALL ",
    units_page!("4"),
    ") AS found ORDER BY position, id LIMIT $6"
);
/// One unit, and where its events are.
pub(super) const READ_UNIT: &str = concat!(
    "SELECT ",
    unit_columns!(),
    ", history FROM stockhold.units u
     WHERE u.bucket = $1 AND u.location = $2 AND u.sku = $3 AND u.id = $4"
);
