//! The baseline of batches: one thread that parses the same JSON, updates maps, and writes and syncs the same rows. No
//! sockets, no answers and no index behind it: less than this can't be done. Its maps have as many holds and keys beforehand as
//! the server has.
//!
//! Its row is the log's: one per batch, in which every reserve takes the bytes that it takes there.

use super::base::Contents;
use super::lab::Lab;
use crate::load::commands::Template;
use crate::load::{Plan, Run, SERVER_CPU, histogram, pin};
use crate::rng::Rng;
use crate::{Outcome, fail};
use rusqlite::{Connection, params};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Batches that wait to be taken.
const WAITING: usize = 2;
/// Pages between two checkpoints, as in the server.
const CHECKPOINT_PAGES: i64 = 16_384;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    commands: Vec<Command<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Command<'a> {
    op: &'a str,
    idempotency_key: &'a str,
    owner_id: &'a str,
    #[serde(borrow)]
    lines: Vec<Line<'a>>,
    ttl_seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    sku: &'a str,
    quantity: u64,
}

#[derive(Default)]
struct Item {
    total: u64,
    held: u64,
    sequence: u64,
}

struct Hold {
    owner: Box<str>,
    quantity: u64,
    expires_at: u64,
}

/// Reserves per second of batches of `size`.
pub(super) fn measure(lab: &Lab, family: &str, size: usize, plan: Plan, seed: u64) -> Outcome<Run> {
    let folder = tempfile::tempdir_in(&lab.folder)?;
    let mut template = Template::reserves(size, family, 1_800, true);
    let mut rng = Rng::new(seed);
    let (bodies, waiting) = sync_channel::<Vec<u8>>(WAITING);
    let (file, beforehand) = (folder.path().join("minimal.db"), lab.scale.usual);
    let store = std::thread::spawn(move || -> Outcome<Run> {
        pin(SERVER_CPU)?;
        let mut store = MinimalStore::open(&file, rng_for_ids(seed))?;
        store.fill(beforehand);
        store.run(&waiting, plan)
    });
    loop {
        template.renew(size, &mut rng, 1, &mut 0);
        if bodies.send(template.body().to_vec()).is_err() {
            break;
        }
    }
    store.join().unwrap_or_else(|_| fail("the baseline of batches panicked"))
}

fn rng_for_ids(seed: u64) -> Rng {
    Rng::new(!seed)
}

struct MinimalStore {
    db: Connection,
    items: HashMap<String, Item>,
    holds: HashMap<u128, Hold>,
    keys: HashMap<Box<str>, u128>,
    /// Holds and keys that were there when it began.
    beforehand: [u64; 2],
    rng: Rng,
    row: Vec<u8>,
}

impl MinimalStore {
    fn open(file: &Path, rng: Rng) -> Outcome<Self> {
        let db = Connection::open(file)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        db.execute_batch(
            "CREATE TABLE batches (number INTEGER PRIMARY KEY, events INTEGER NOT NULL, data BLOB NOT NULL) STRICT",
        )?;
        let (items, holds, keys) = Default::default();
        Ok(Self { db, items, holds, keys, beforehand: [0; 2], rng, row: Vec::new() })
    }

    /// Puts holds and keys into its maps. (Of so many keys the server has the newest in memory, and the others in files.)
    fn fill(&mut self, beforehand: Contents) {
        for _ in 0..beforehand.active {
            let owner = self.text().into();
            self.holds.insert(self.rng.wide(), Hold { owner, quantity: 1, expires_at: u64::MAX });
        }
        for _ in 0..beforehand.keys {
            let (key, id) = (self.text().into(), self.rng.wide());
            self.keys.insert(key, id);
        }
        self.beforehand = [beforehand.active, beforehand.keys];
    }

    /// As long as a UUID.
    fn text(&mut self) -> String {
        format!("{:036x}", self.rng.wide())
    }

    fn run(mut self, bodies: &Receiver<Vec<u8>>, plan: Plan) -> Outcome<Run> {
        let begin = Instant::now() + plan.warm_up;
        let mut latency = histogram()?;
        let (mut answered, mut measured) = (0, 0);
        let mut spent = Duration::ZERO;
        while spent < plan.measure {
            let body = bodies.recv()?;
            let start = Instant::now();
            let done = self.batch(&body)?;
            let took = start.elapsed();
            answered += done;
            // The wait for a batch to be written down is not the store's.
            if start >= begin {
                measured += done;
                spent += took;
                latency.record(u64::try_from(took.as_nanos())?.max(1))?;
            }
        }
        self.audit(answered)?;
        let seconds = spent.as_secs_f64();
        Ok(Run {
            answered,
            rate: measured as f64 / seconds,
            seconds,
            latency,
            load_cpu: 0.0,
            server_cpu: 0.0,
            other_cpu: 0.0,
        })
    }

    fn batch(&mut self, body: &[u8]) -> Outcome<u64> {
        let Body { commands } = serde_json::from_slice(body)?;
        self.row.clear();
        let now = crate::clock::wall_millis();
        for command in &commands {
            if command.op != "reserve" || self.keys.contains_key(command.idempotency_key) {
                return fail("the store takes fresh reserves only");
            }
            let [line] = command.lines.as_slice() else { return fail("the store takes one line") };
            if !self.items.contains_key(line.sku) {
                self.items.insert(line.sku.to_owned(), Item { total: super::base::STOCK, ..Item::default() });
            }
            let item = self.items.get_mut(line.sku).ok_or("the item is gone")?;
            if item.total - item.held < line.quantity {
                return fail("the store has sold out");
            }
            item.held += line.quantity;
            item.sequence += 1;
            let id = self.rng.wide();
            let expires_at = now + command.ttl_seconds * 1_000;
            write(&mut self.row, id, command, line, item, [now, expires_at]);
            let owner = command.owner_id.into();
            self.holds.insert(id, Hold { owner, quantity: line.quantity, expires_at });
            self.keys.insert(command.idempotency_key.into(), id);
        }
        let insert = "INSERT INTO batches (events, data) VALUES (?1, ?2)";
        self.db.prepare_cached(insert)?.execute(params![commands.len(), self.row])?;
        Ok(commands.len() as u64)
    }

    fn audit(&self, answered: u64) -> Outcome<()> {
        let rows: u64 = self.db.query_row("SELECT sum(events) FROM batches", [], |row| row.get(0))?;
        let held: u64 = self.items.values().map(|item| item.held).sum();
        let in_holds: u64 = self.holds.values().map(|hold| hold.quantity).sum();
        let whole = self.holds.values().all(|hold| !hold.owner.is_empty() && hold.expires_at > 0);
        let [holds, keys] = self.beforehand;
        let made = [rows, held, in_holds - holds, self.keys.len() as u64 - keys];
        if whole && made == [answered; 4] {
            return Ok(());
        }
        fail(format!("void: the store did {answered}, and has {rows} rows, {held} held, {in_holds} in holds"))
    }
}

/// What a reserve takes in the log: its event with the hold and the item's figures, and its key's record.
fn write(row: &mut Vec<u8>, id: u128, command: &Command<'_>, line: &Line<'_>, item: &Item, times: [u64; 2]) {
    let [now, expires_at] = times;
    let text = |row: &mut Vec<u8>, text: &str| {
        row.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        row.extend_from_slice(text.as_bytes());
    };
    let number = |row: &mut Vec<u8>, number: u64| row.extend_from_slice(&number.to_le_bytes());
    // The event: its id, instant, actor and request.
    row.extend_from_slice(&(!id).to_be_bytes());
    number(row, now);
    text(row, "anonymous");
    row.extend_from_slice(&id.rotate_left(64).to_be_bytes());
    // The hold.
    row.extend_from_slice(&id.to_be_bytes());
    text(row, command.owner_id);
    text(row, "default");
    text(row, line.sku);
    for figure in [line.quantity, line.quantity, item.sequence, now, expires_at, expires_at] {
        number(row, figure);
    }
    // The item's figures.
    for figure in [item.held, 0, item.sequence, now] {
        number(row, figure);
    }
    // The key: as long as a hash, a fingerprint and an id.
    text(row, command.idempotency_key);
    row.extend_from_slice(&id.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_what_it_counts_and_takes_a_key_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = MinimalStore::open(&folder.path().join("minimal.db"), Rng::new(1)).unwrap();
        store.fill(Contents { active: 7, keys: 20, ..Contents::default() });
        let mut template = Template::reserves(3, "hot", 60, true);
        template.renew(3, &mut Rng::new(2), 1, &mut 0);
        assert_eq!(store.batch(template.body()).unwrap(), 3);
        store.audit(3).unwrap();
        assert!(store.audit(4).is_err());
        assert!(store.batch(template.body()).is_err());
    }
}
