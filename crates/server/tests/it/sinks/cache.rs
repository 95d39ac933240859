//! The sink `redis`: availability for listing pages.

use super::{sell, stock, wait_until_delivered};
use crate::access::redis::Redis;
use crate::ctl::done;
use crate::support::{Server, said, stockhold, wait_for};

fn fields(redis: &Redis, sku: &str) -> Option<(u64, u64)> {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let found: (Option<u64>, Option<u64>) = redis::cmd("HMGET")
        .arg(format!("stockhold:available:default:{sku}"))
        .arg(&["available", "sequence"])
        .query(&mut connection)
        .unwrap();
    found.0.zip(found.1)
}

#[test]
fn the_cache_shows_the_newest_state_and_is_filled_again_after_a_flush() {
    let (dir, redis) = (tempfile::tempdir().unwrap(), Redis::plain());
    let url = redis.url();
    let variables =
        [("STOCKHOLD_SINKS__CACHE__KIND", "redis"), ("STOCKHOLD_SINKS__CACHE__URL", url.as_str())];
    let server = Server::with_variables(dir.path(), "data", &variables);
    stock(&server, "tee", 100);
    stock(&server, "mug", 7);
    sell(&server, "tee", 30);
    let tee = server.item("tee").unwrap();
    wait_for("the newest state", || {
        (fields(&redis, "tee") == Some((70, tee.sequence.unwrap()))).then_some(())
    });
    assert_eq!(fields(&redis, "mug").unwrap().0, 7);

    redis.command("FLUSHALL");
    sell(&server, "tee", 1);
    wait_for("all items after a flush", || {
        let (tee, mug) = (fields(&redis, "tee")?, fields(&redis, "mug")?);
        (tee.0 == 69 && mug.0 == 7).then_some(())
    });
    wait_until_delivered(&server, "cache");

    done(&server, &["stock", "delete", "mug"]);
    wait_for("the deleted item to be gone", || fields(&redis, "mug").is_none().then_some(()));
}

/// A restored store has other figures at positions that Redis has seen already.
#[test]
fn a_store_that_was_restored_from_a_backup_and_a_replay_write_the_cache_anew() {
    let (dir, redis) = (tempfile::tempdir().unwrap(), Redis::plain());
    let url = redis.url();
    let variables =
        [("STOCKHOLD_SINKS__CACHE__KIND", "redis"), ("STOCKHOLD_SINKS__CACHE__URL", url.as_str())];
    let mut server = Server::with_variables(dir.path(), "data", &variables);
    stock(&server, "tee", 100);
    wait_for("the stock", || (fields(&redis, "tee")?.0 == 100).then_some(()));
    let backup =
        stockhold(dir.path()).args(["backup", "--data-dir", "data", "--to", "copy"]).output().unwrap();
    assert!(backup.status.success(), "{}", said(&backup));
    sell(&server, "tee", 60);
    stock(&server, "mug", 7);
    wait_for("the sales", || (fields(&redis, "tee")?.0 == 40 && fields(&redis, "mug")?.0 == 7).then_some(()));
    assert!(server.terminate().success());

    let restored = Server::with_variables(dir.path(), "copy", &variables);
    sell(&restored, "tee", 1);
    wait_for("the figures of the restored store", || {
        (fields(&redis, "tee")?.0 == 99 && fields(&redis, "mug").is_none()).then_some(())
    });
    wait_until_delivered(&restored, "cache");
    // Somebody writes into Redis, for example an older tool.
    redis.command("HSET stockhold:available:default:tee available 5 position 999999");
    redis.command("HSET stockhold:available:default:ghost available 5 sequence 1 position 999999");
    done(&restored, &["sinks", "replay", "cache", "--from-position", "1"]);
    wait_for("the replay", || {
        (fields(&redis, "tee")?.0 == 99 && fields(&redis, "ghost").is_none()).then_some(())
    });
}
