//! The texts of statements on Citus.

use std::borrow::Cow;

/// Those whose first line is of the SKU, and those that have another line of it.
const SCAN_SKU: &str = "
    SELECT id, status, CASE WHEN status = coalesce($1, status) THEN body END AS body FROM (
        SELECT bucket, id, status, body FROM stockhold.holds WHERE sku = $4 AND id < $2
        UNION ALL
        SELECT h.bucket, h.id, h.status, h.body FROM stockhold.hold_skus one
        JOIN stockhold.holds h ON h.bucket = one.bucket AND h.id = one.id
        WHERE one.sku = $4 AND one.id < $2
    ) AS found ORDER BY id DESC LIMIT $3";
const SCAN_ORDER: &str = "
    SELECT one.number, one.id, h.status, CASE WHEN h.status = coalesce($1, h.status) THEN h.body END AS body
    FROM stockhold.hold_orders one JOIN stockhold.holds h ON h.bucket = one.bucket AND h.id = one.id
    WHERE one.order_id = $4 AND one.number < $2 ORDER BY one.number DESC LIMIT $3";

/// On every shard: see [`super::key_bucket`].
const READ_KEYS: &str = "SELECT body FROM stockhold.keys WHERE hash = ANY ($1::bytea[])";

/// The text of a statement that is prepared ahead, from its name and its text on one server.
pub(in crate::postgres) fn text_of(name: &str, text: &'static str) -> Cow<'static, str> {
    match name {
        "scan_sku" => SCAN_SKU.into(),
        "scan_order" => SCAN_ORDER.into(),
        "read_keys" => READ_KEYS.into(),
        _ => for_one_bucket(text).into(),
    }
}

/// A statement over arrays, for arrays whose rows are of one bucket. Citus finds the shard only by a constant.
pub(in crate::postgres) fn for_one_bucket(text: &str) -> String {
    let mut text = text.replace("VALUES (unnest($1::smallint[])", "VALUES (($1::smallint[])[1]");
    for array in ["want", "n", "o", "gone"] {
        text = text.replace(&format!("= {array}.bucket"), "= ($1)[1]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_becomes_a_constant() {
        let text = "SELECT FROM unnest($1::smallint[]) AS o (bucket) JOIN t ON t.bucket = o.bucket AND t.b = moo.bucket";
        let expected = "SELECT FROM unnest($1::smallint[]) AS o (bucket) JOIN t ON t.bucket = ($1)[1] AND t.b = moo.bucket";
        assert_eq!(for_one_bucket(text), expected);
        let text = "INSERT INTO t VALUES (unnest($1::smallint[]), unnest($2::text[]))";
        assert_eq!(for_one_bucket(text), "INSERT INTO t VALUES (($1::smallint[])[1], unnest($2::text[]))");
    }
}
