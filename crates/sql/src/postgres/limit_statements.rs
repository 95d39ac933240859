//! The statements about limits, their counters and the queues of these.

macro_rules! lock_counters {
    ($how:literal) => {
        concat!(
            "SELECT locked.* FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS want (limit_id, generation, subject)
             CROSS JOIN LATERAL (
                 SELECT c.limit_id, c.generation, c.subject, c.held, c.sold FROM stockhold.limit_counters c
                 WHERE c.limit_id = want.limit_id AND c.generation = want.generation AND c.subject = want.subject
                 FOR NO KEY UPDATE ",
            $how,
            ") AS locked"
        )
    };
}

pub(super) const LOCK_COUNTERS: &str = lock_counters!("");
pub(super) const LOCK_FREE_COUNTERS: &str = lock_counters!("SKIP LOCKED");
pub(super) const READ_COUNTERS: &str = "
    SELECT found.* FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS want (limit_id, generation, subject)
    CROSS JOIN LATERAL (
        SELECT c.limit_id, c.generation, c.subject, c.held, c.sold FROM stockhold.limit_counters c
        WHERE c.limit_id = want.limit_id AND c.generation = want.generation AND c.subject = want.subject OFFSET 0
    ) AS found";
pub(super) const READ_COUNTED_DUE: &str = "
    SELECT want.number, first.expires_at, first.id
    FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[]) WITH ORDINALITY
        AS want (limit_id, generation, subject, depth, number)
    CROSS JOIN LATERAL (
        SELECT a.expires_at, a.id FROM stockhold.counted_holds a
        WHERE a.limit_id = want.limit_id AND a.generation = want.generation AND a.subject = want.subject
        ORDER BY a.expires_at, a.id LIMIT want.depth
    ) AS first";
/// The counters of one generation of a limit in order of their subjects.
pub(super) const COUNTER_PAGE: &str = "
    SELECT subject, held, sold FROM stockhold.limit_counters
    WHERE limit_id = $1 AND generation = $2 AND subject > $3 ORDER BY subject LIMIT $4";
/// Some counters of the generations of a limit before one.
pub(super) const FORGET_COUNTERS: &str = "
    DELETE FROM stockhold.limit_counters c USING (
        SELECT limit_id, generation, subject FROM stockhold.limit_counters
        WHERE limit_id = $1 AND generation < $2 ORDER BY generation, subject LIMIT $3
    ) AS gone
    WHERE c.limit_id = gone.limit_id AND c.generation = gone.generation AND c.subject = gone.subject";
pub(super) const SET_LIMITS: &str = "
    INSERT INTO stockhold.limits (id, version, generation, body)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])
    ON CONFLICT (id) DO UPDATE
    SET version = excluded.version, generation = excluded.generation, body = excluded.body";
/// By the clock, because a database that has lost commits must not give their versions to other limits.
pub(super) const RAISE_LIMITS_VERSION: &str = "
    UPDATE stockhold.pauses SET limits_version = greatest(limits_version + 1, $1) WHERE location = ''";
pub(super) const INSERT_COUNTERS: &str = "
    INSERT INTO stockhold.limit_counters (limit_id, generation, subject, held, sold)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[])";
pub(super) const UPDATE_COUNTERS: &str = "
    WITH done AS (
        UPDATE stockhold.limit_counters c SET held = n.held, sold = n.sold
        FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[])
            AS n (limit_id, generation, subject, held, sold)
        WHERE c.limit_id = n.limit_id AND c.generation = n.generation AND c.subject = n.subject
        RETURNING 1
    ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
pub(super) const DELETE_COUNTERS: &str = "
    WITH done AS (
        DELETE FROM stockhold.limit_counters c
        USING unnest($1::text[], $2::bigint[], $3::bytea[]) AS o (limit_id, generation, subject)
        WHERE c.limit_id = o.limit_id AND c.generation = o.generation AND c.subject = o.subject
        RETURNING 1
    ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
pub(super) const DELETE_COUNTED_HOLDS: &str = "
    WITH done AS (
        DELETE FROM stockhold.counted_holds a
        USING unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::uuid[])
            AS o (limit_id, generation, subject, expires_at, id)
        WHERE a.limit_id = o.limit_id AND a.generation = o.generation AND a.subject = o.subject
          AND a.expires_at = o.expires_at AND a.id = o.id
        RETURNING 1
    ) SELECT 1 / (count(*) = cardinality($1))::integer FROM done";
pub(super) const INSERT_COUNTED_HOLDS: &str = "
    INSERT INTO stockhold.counted_holds (limit_id, generation, subject, expires_at, id)
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::uuid[])";
/// In one statement, so that the version is that of the limits.
pub(super) const READ_LIMITS: &str = "
    SELECT p.limits_version, l.body FROM stockhold.pauses p LEFT JOIN stockhold.limits l ON true
    WHERE p.location = ''";
