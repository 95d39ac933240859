//! What a server holds before anything is measured: active holds, idempotency keys and closed reservations by the million.
//! Made once through `/v1/commands`, audited, and kept under the build folder for the next time, by the format of the files
//! and by what is in them.

use super::counter_audit::{COLD, GONE, HOT, PAST, SINGLE, figures};
use crate::clock::wall_millis;
use crate::http::{Connection, Request};
use crate::load::commands::{Commands, Keys};
use crate::load::http::{Script, sku};
use crate::load::reads::ItemCounters;
use crate::load::{Plan, SERVER_CPU, Traffic, closed, process_time};
use crate::rng::Rng;
use crate::spawn::{Launch, Readiness, Server, copy_dir, workspace};
use crate::{Outcome, fail};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a data directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// SKUs of the cold family.
    pub(crate) items: usize,
    /// Active holds: half of them on the hot SKU, the others over the cold ones.
    pub(crate) active: u64,
    /// Idempotency keys.
    pub(crate) keys: u64,
    /// Confirmed reservations.
    pub(crate) closed: u64,
}

/// Stock of every SKU: no run can exhaust it.
pub(crate) const STOCK: u64 = 1_000_000_000;
/// Longest hold of every SKU: the ceiling, 30 days.
const MAX_HOLD_SECONDS: u64 = 30 * 24 * 3_600;
/// How long the prepared holds last: less, since one that lasts as long as it may can't be extended, not even by nothing.
pub(super) const PREPARED_TTL_SECONDS: u64 = MAX_HOLD_SECONDS - 24 * 3_600;
/// Age past which prepared data is made anew: its holds and keys must outlast any run.
const KEPT_MILLIS: u64 = 20 * 24 * 3_600 * 1_000;
/// Hours that servers under measurement keep keys, so that those of prepared data are still there.
const KEY_RETENTION_HOURS: u32 = 720;

const BATCH: usize = 8_192;
const CONNECTIONS: usize = 2;
const STOCK_CONNECTIONS: usize = 64;
/// Holds that the keys without effect are put on.
const KEYED_HOLDS: usize = 100_000;
/// Generous room on the disk for a reservation or a key, while it is made and indexed.
const BYTES_EACH: u64 = 800;
/// Longest start, with everything to be read.
pub(super) const START: Duration = Duration::from_mins(5);
/// How long a server has to do nothing to be idle, how much that is, and the longest wait for it.
const IDLE: Duration = Duration::from_millis(500);
const NOTHING: Duration = Duration::from_millis(20);
const UNTIL_IDLE: Duration = Duration::from_mins(30);
const MADE: &str = "made";

/// Where prepared data is kept for the server's file format.
pub(crate) struct Bases {
    pub(crate) binary: PathBuf,
    root: PathBuf,
}

impl Bases {
    /// Asks the server for its file format by letting it write some.
    pub(crate) fn open(binary: &Path, folder: &Path) -> Outcome<Self> {
        let root = workspace().join("target").join("bench-data").join(format(binary, folder)?);
        Ok(Self { binary: binary.to_owned(), root })
    }

    /// A data directory with these contents, to be copied; made when it is not there, on top of another one if given.
    pub(crate) fn get(&self, want: Contents, on: Option<(&Path, Contents)>) -> Outcome<PathBuf> {
        let Contents { items, active, keys, closed } = want;
        let folder = self.root.join(format!("{items}-{active}-{keys}-{closed}"));
        let data = folder.join("data");
        prepared(&folder, || {
            println!("making {active} active holds, {keys} keys, {closed} closed reservations, {items} SKUs");
            if let Some((from, _)) = on {
                copy_dir(from, &data)?;
            }
            self.grow(&data, on.map(|(_, have)| have).unwrap_or_default(), want)
        })?;
        Ok(data)
    }

    /// A folder with what the baseline holds when the server holds this, made by `fill` when it is not there.
    pub(crate) fn redis(&self, want: Contents, fill: impl Fn(&Path) -> Outcome<()>) -> Outcome<PathBuf> {
        let Contents { items, active, keys, .. } = want;
        let folder = self.root.with_file_name(format!("redis-{items}-{active}-{keys}"));
        prepared(&folder, || {
            println!("making {active} holds and {keys} keys in Redis");
            fill(&folder)
        })?;
        Ok(folder)
    }

    /// Makes of one data directory another that holds more.
    pub(crate) fn grow(&self, data: &Path, have: Contents, want: Contents) -> Outcome<()> {
        enough_room(data.parent().unwrap_or(data), have, want)?;
        let server = start(&launch(&self.binary, data))?;
        fill(&server, have, want)?;
        until_idle(server.process.pid())?;
        server.stop()?;
        settle(data)
    }
}

/// Makes what is prepared in a folder, unless it is there and young enough.
fn prepared(folder: &Path, how: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    let made = folder.join(MADE);
    let age = std::fs::read_to_string(&made).ok().and_then(|text| text.trim().parse::<u64>().ok());
    if age.is_some_and(|age| wall_millis().saturating_sub(age) < KEPT_MILLIS) {
        return Ok(());
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let began = Instant::now();
    how()?;
    std::fs::write(made, wall_millis().to_string())?;
    println!("made in {:.0} s: {}", began.elapsed().as_secs_f64(), folder.display());
    Ok(())
}

/// Has a data directory written to the disk, so that this does not fall into what is measured next.
pub(super) fn settle(data: &Path) -> Outcome<()> {
    for entry in std::fs::read_dir(data)? {
        File::open(entry?.path())?.sync_all()?;
    }
    Ok(())
}

/// How a server is started on prepared data: on its core, keeping keys as long as the data is kept.
pub(crate) fn launch(binary: &Path, data: &Path) -> Launch {
    let mut launch = Launch::new(binary, data);
    launch.cpu = Some(SERVER_CPU);
    launch.env.push(("STOCKHOLD_KEY_RETENTION_HOURS".to_owned(), KEY_RETENTION_HOURS.to_string()));
    launch
}

/// Starts a server that may have much to read.
pub(crate) fn start(launch: &Launch) -> Outcome<Server> {
    let mut server = Server::spawn(launch)?;
    match server.until_ready(START)? {
        Readiness::Ready => Ok(server),
        Readiness::Ended(status) => fail(format!(
            "the server ended at its start on {}: {status}\n{}",
            launch.data.display(),
            server.process.log_tail()
        )),
    }
}

/// Adds to a server what it lacks, and audits it. Nothing is taken away: `want` has at least what `have` has.
pub(crate) fn fill(server: &Server, have: Contents, want: Contents) -> Outcome<()> {
    let every = |traffic: &mut dyn Traffic, connections| {
        closed(server.address, connections, Plan::ALL, None, traffic).map(|_| ())
    };
    let seed = want.active ^ want.closed.rotate_left(20) ^ (have.active + have.closed).rotate_left(40);
    let mut rng = Rng::new(seed);
    let fork = |rng: &mut Rng| Rng::new(rng.next());
    let mut before =
        [(HOT, ItemCounters::default()), (COLD, ItemCounters::default()), (PAST, ItemCounters::default())];
    if have.items == 0 {
        every(&mut stock(SINGLE.iter().map(|family| sku(family, 0))), 1)?;
    } else {
        for ((family, before), skus) in before.iter_mut().zip([1, have.items, 1]) {
            *before = figures(server.address, family, skus)?;
        }
    }
    if want.items > have.items {
        let skus = (have.items..want.items).map(|number| sku(COLD, number));
        every(&mut stock(skus), STOCK_CONNECTIONS)?;
    }

    let mut keys = have.keys;
    let batches = |family: &str, skus, rng| {
        Commands::new(BATCH, (family, skus), PREPARED_TTL_SECONDS, CONNECTIONS, rng).patient()
    };
    if want.closed > have.closed {
        let count = want.closed - have.closed;
        let mut sold = batches(PAST, 1, fork(&mut rng)).keyless().confirmed().first(count);
        every(&mut sold, CONNECTIONS)?;
    }
    let on_hot = |contents: Contents| contents.active / 2;
    let on_cold = |contents: Contents| contents.active - on_hot(contents);
    let mut holds = Vec::new();
    for (family, skus, count) in
        [(COLD, want.items, on_cold(want) - on_cold(have)), (HOT, 1, on_hot(want) - on_hot(have))]
    {
        if count == 0 {
            continue;
        }
        let mut reserves = batches(family, skus, fork(&mut rng)).first(count).keep(KEYED_HOLDS);
        if keys + count > want.keys {
            reserves = reserves.keyless();
        } else {
            keys += count;
        }
        every(&mut reserves, CONNECTIONS)?;
        holds = reserves.kept;
    }
    if want.keys > keys && !holds.is_empty() {
        every(&mut Keys::new(BATCH, want.keys - keys, holds, fork(&mut rng)), CONNECTIONS)?;
    }

    for ((family, before), (skus, held, sold)) in before.into_iter().zip([
        (1, on_hot(want) - on_hot(have), 0),
        (want.items, on_cold(want) - on_cold(have), 0),
        (1, 0, want.closed - have.closed),
    ]) {
        let found = figures(server.address, family, skus)?;
        let expected =
            ItemCounters { held: before.held + held, sold: before.sold + sold, active: before.active + held };
        if found != expected {
            return fail(format!("prepared {family}: {found:?} instead of {expected:?}"));
        }
    }
    Ok(())
}

/// Sets the stock of the SKU of a family.
pub(super) fn restock(address: SocketAddr, family: &str, units: u64) -> Outcome<()> {
    let body = Some(format!(r#"{{"total_units":{units}}}"#));
    let request = Request {
        method: "PUT",
        path: format!("/v1/inventory/{}", sku(family, 0)),
        key: None,
        if_match: None,
        body,
    };
    closed(address, 1, Plan::ALL, None, &mut Script::new(std::iter::once(request), &[200]))?;
    Ok(())
}

/// Requests that set the stock of these SKUs.
fn stock(skus: impl Iterator<Item = String>) -> Script<impl Iterator<Item = Request>> {
    let set = |sku: String| {
        let units = if sku.starts_with(GONE) { 0 } else { STOCK };
        Request {
            method: "PUT",
            path: format!("/v1/inventory/{sku}"),
            key: None,
            if_match: None,
            body: Some(format!(r#"{{"total_units":{units},"max_hold_seconds":{MAX_HOLD_SECONDS}}}"#)),
        }
    };
    Script::new(skus.map(set), &[201])
}

/// Waits until a server has nothing left to do behind what it has answered.
pub(crate) fn until_idle(pid: u32) -> Outcome<()> {
    let began = Instant::now();
    let mut before = process_time(pid)?;
    while began.elapsed() < UNTIL_IDLE {
        std::thread::sleep(IDLE);
        let now = process_time(pid)?;
        if now.saturating_sub(before) <= NOTHING {
            return Ok(());
        }
        before = now;
    }
    fail(format!("the server is still at work {UNTIL_IDLE:?} after the last request"))
}

/// Refuses what would fill the disk.
fn enough_room(folder: &Path, have: Contents, want: Contents) -> Outcome<()> {
    let more = |of: fn(Contents) -> u64| of(want).saturating_sub(of(have));
    let rows =
        more(|contents| contents.active) + more(|contents| contents.closed) + more(|contents| contents.keys);
    let disk = rustix::fs::statvfs(folder)?;
    let (needed, free) = (rows * BYTES_EACH, disk.f_bavail * disk.f_frsize);
    if free >= needed {
        return Ok(());
    }
    let (needed, free) = (needed >> 30, free >> 30);
    fail(format!("{} needs about {needed} GiB more, and {free} GiB are free", folder.display()))
}

/// A name for the file format of a server: what SQLite says of each file, and the lengths of three batches. Data that was
/// made by another format must not be taken.
fn format(binary: &Path, folder: &Path) -> Outcome<String> {
    let folder = tempfile::tempdir_in(folder)?;
    let data = folder.path().join("data");
    let server = Server::start(&launch(binary, &data))?;
    let mut client = Connection::open(server.address)?;
    let mut call = |method, path: String, body: Option<&str>| -> Outcome<serde_json::Value> {
        let answer = client.call(&Request {
            method,
            path,
            key: None,
            if_match: None,
            body: body.map(str::to_owned),
        })?;
        if answer.status < 300 { Ok(answer.json()) } else { fail(answer.brief()) }
    };
    let path = "/v1/inventory/format";
    call("PUT", path.to_owned(), Some(r#"{"total_units":1}"#))?;
    let made = call("POST", format!("{path}/reserve"), Some(r#"{"owner_id":"format","ttl_seconds":60}"#))?;
    let id = made["reservation_id"].as_str().unwrap_or_default();
    call("POST", format!("/v1/reservations/{id}/confirm"), None)?;
    server.stop()?;

    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&data)?.map(|entry| Ok(entry?.path())).collect::<Outcome<_>>()?;
    files.sort();
    let mut parts = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "db")) {
        let db = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
        parts.push(number("PRAGMA user_version")?);
        parts.push(number("PRAGMA page_size")?);
        parts.push(number("SELECT sum(length(sql)) FROM sqlite_schema")?);
        if number("SELECT count(*) FROM sqlite_schema WHERE name = 'batches'")? == 1 {
            let mut lengths = db.prepare("SELECT length(data) FROM batches ORDER BY number LIMIT 3")?;
            for length in lengths.query_map([], |row| row.get(0))? {
                parts.push(length?);
            }
        }
    }
    if parts.is_empty() {
        return fail(format!("{} has no file whose format is known", data.display()));
    }
    Ok(parts.iter().map(i64::to_string).collect::<Vec<_>>().join("-"))
}
