//! Every parser of the files on bytes that are nearly right: made from the files of a store with something of everything.
//! The long form, guided by coverage, is in `fuzz/`.

use rusqlite::Connection;
use stockhold_conformance::Maker;
use stockhold_conformance::bench::{Bench, sell};
use stockhold_conformance::maker::{reserve, set_stock};
use stockhold_conformance::mutate::mutate;
use stockhold_embedded::files;
use stockhold_embedded::parsers::PARSERS;

const ROUNDS: u64 = 4_000;
/// Units that are sold, and reservations with keys.
const UNITS: u64 = 40;

fn blobs(db: &Connection, sql: &str) -> Vec<Vec<u8>> {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn files_are_read_or_refused() {
    let (mut bench, mut maker) = (Bench::new(), Maker::new(5, ""));
    sell(&mut bench, &mut maker, UNITS);
    let hat = maker.item("hat");
    bench.run(maker.wrap(set_stock(&hat, UNITS))).unwrap();
    for number in 0..UNITS {
        bench.run(maker.keyed(&number.to_string(), reserve(&[(&hat, 1)]))).unwrap();
    }
    let log = std::fs::read(bench.dir().join(format!("{}-wal", files::LOG))).unwrap();
    let mark = std::fs::read(bench.dir().join(files::SYNC_MARKER)).unwrap();
    bench.stop();
    let open = |name| Connection::open(bench.dir().join(name)).unwrap();
    let (batches, index) = (open(files::LOG), open(files::INDEX));
    for parser in PARSERS {
        let examples = match parser.0 {
            "batch" => blobs(&batches, "SELECT data FROM batches ORDER BY number DESC LIMIT 100"),
            "mark" => mark.chunks(4_096).map(|slot| slot[..20].to_vec()).collect(),
            // Some frames of it: each is checked against the one before.
            "write-ahead log" => vec![log[..32 + 6 * (24 + 4_096)].to_vec()],
            "reservation row" => {
                let ids = blobs(&index, "SELECT id FROM closed ORDER BY id");
                let data = blobs(&index, "SELECT data FROM closed ORDER BY id");
                ids.into_iter().zip(data).map(|(id, data)| [id, data].concat()).collect()
            }
            "page of a run" => {
                [blobs(&index, "SELECT data FROM key_pages"), blobs(&index, "SELECT data FROM posting_pages")]
                    .concat()
            }
            "filter" => blobs(&index, "SELECT filter FROM key_runs"),
            other => panic!("no examples of a {other}"),
        };
        assert!(!examples.is_empty(), "{}", parser.0);
        mutate(parser, &examples, ROUNDS);
    }
}
