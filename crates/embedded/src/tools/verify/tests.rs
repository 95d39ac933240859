//! Logs and indexes with inconsistent content and correct checksums. Every kind of finding is produced at least once.

use super::{FINDINGS, VerifyReport, verify};
use crate::bench::Bench;
use crate::error::OpenError;
use crate::files;
use crate::index::Index;
use crate::index::checksum::row_sum;
use crate::index::chunk::Chunk;
use crate::index::filter::BloomFilter;
use crate::index::runs;
use crate::index::units::UnitChange;
use crate::log::Log;
use crate::log::batch::Batch;
use crate::log::sync_marker::{SyncMarker, SyncedBatch};
use rusqlite::params;
use std::path::Path;
use stockhold_conformance::maker::{
    add_units, confirm, create_unit_item, label, pause, put_record, release, reserve, reserve_named,
    return_of, row, set_stock,
};
use stockhold_conformance::{Maker, World};
use stockhold_domain::{
    Closing, Disposition, Event, EventId, Fingerprint, Hold, HoldChange, Instant, Item, ItemKey, KeyHash,
    KeyRecord, KeyTarget, Line, LineUnit, LineUnits, MovedUnits, Outcome, Record, RecordChange, RecordKey,
    RecordKind, Reply, ReservationId, Scope, Status, StockChange, StockCounters, Transition, UnitStatus,
};

/// A valid store to forge from.
struct Shop {
    bench: Bench,
    origin: Event,
    tins: Item,
    hall: Item,
    /// Two reservations of the tins: one is active, and one is sold and partly returned.
    active: Hold,
    sold: Hold,
    /// Two reservations of the hall: seat `a` is held and seat `b` is sold. Seats `c` and `d` are free.
    seat: Hold,
    seat_sold: Hold,
    /// A record at its second version.
    record: RecordKey,
}

impl Shop {
    /// A stopped store whose index is complete.
    fn new() -> Self {
        let (mut bench, mut maker) = (Bench::new(), Maker::new(4, ""));
        let (tins, hall) = (maker.item("tins"), maker.item("hall"));
        let record = maker.record(RecordKind::ApiKey, "k");
        let mut keys = 0;
        let mut run = |command| {
            keys += 1;
            match bench.run(maker.keyed(&keys.to_string(), command)).unwrap() {
                Outcome::Done(Reply::Reservation(hold)) => Some(hold),
                Outcome::Done(_) => None,
                other => panic!("{other:?}"),
            }
        };
        run(set_stock(&tins, 100));
        run(create_unit_item(&hall));
        run(add_units(&hall, row("stalls", "A", &["a", "b", "c", "d"])));
        // Enough for several comparisons of postings.
        for n in 0..60 {
            let hold = run(reserve(&[(&tins, 30 + n % 2)])).unwrap();
            run(release(hold.id));
        }
        let active = run(reserve(&[(&tins, 2)])).unwrap();
        let sold = run(reserve(&[(&tins, 5)])).unwrap();
        run(confirm(sold.id));
        let sold = run(return_of(sold.id, &[(&tins, 1)])).unwrap();
        let seat = run(reserve_named(600, &hall, &["a"])).unwrap();
        let seat_sold = run(reserve_named(600, &hall, &["b"])).unwrap();
        let seat_sold = run(confirm(seat_sold.id)).unwrap();
        run(pause(&Scope::Everything));
        run(put_record(&record, 0, b"one"));
        run(put_record(&record, 1, b"two"));
        let [tins, hall] = [tins, hall].map(|key| bench.item(&key).unwrap());
        let origin = bench.events().remove(0).event;
        bench.stop();
        Self { bench, origin, tins, hall, active, sold, seat, seat_sold, record }
    }

    /// A copy of the files.
    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(self.bench.dir()).unwrap().map(|entry| entry.unwrap()) {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        copy
    }

    fn confirmed(&self) -> Forged {
        end(&self.active, &self.tins, HoldChange::Confirmed, Status::Confirmed)
    }

    fn seat_confirmed(&self) -> Forged {
        end(&self.seat, &self.hall, HoldChange::Confirmed, Status::Confirmed)
    }

    /// A valid return of one of the tins.
    fn returned(&self) -> Forged {
        let StockCounters { confirmed_sold, sequence, .. } = self.tins.figures;
        let (confirmed_sold, sequence) = (confirmed_sold - 1, sequence + 1);
        let line = &self.sold.lines[0];
        Forged {
            at: AT,
            previous: Some(self.sold.last_event),
            change: HoldChange::Returned {
                lines: [MovedUnits { quantity: 1, places: Box::default() }].into(),
                fulfilled: [0].into(),
                disposition: Disposition::Restock,
                reason: label("unwanted"),
            },
            figures: StockCounters { confirmed_sold, sequence, at: AT, ..self.tins.figures },
            line: Line { returned: line.returned + 1, sequence, ..line.clone() },
            hold: Hold { version: self.sold.version + 1, last_event: EVENT, ..self.sold.clone() },
        }
    }

    fn event(&self, transition: Transition) -> Event {
        Event { id: EVENT, at: AT, previous: None, transition, ..self.origin.clone() }
    }

    fn stock(&self, item: &Item, change: StockChange, turn: impl FnOnce(&mut Item)) -> Event {
        let mut item = item.clone();
        item.version += 1;
        item.figures.sequence += u64::from(item.key == self.tins.key);
        item.figures.at = AT;
        turn(&mut item);
        self.event(Transition::Stock { change, item })
    }
}

/// A valid end of a hold.
fn end(hold: &Hold, item: &Item, change: HoldChange, status: Status) -> Forged {
    let sold = u64::from(change == HoldChange::Confirmed) * hold.quantity();
    let sequence = item.figures.sequence + u64::from(hold.lines[0].units.is_none());
    let figures = StockCounters {
        held: item.figures.held - hold.quantity(),
        confirmed_sold: item.figures.confirmed_sold + sold,
        active: item.figures.active - 1,
        sequence,
        at: AT,
        ..item.figures
    };
    let units = hold.lines[0].units();
    let units: Vec<LineUnit> =
        units.iter().map(|unit| LineUnit { version: unit.version + 1, ..unit.clone() }).collect();
    let units = hold.lines[0].units.as_ref().map(|_| LineUnits::new(units).into());
    let line = Line { sequence, units, ..hold.lines[0].clone() };
    let closing = Some(Box::new(Closing { at: AT, reason: None, order_id: None }));
    Forged {
        at: AT,
        previous: Some(hold.last_event),
        change,
        figures,
        line,
        hold: Hold { status, closing, version: hold.version + 1, last_event: EVENT, ..hold.clone() },
    }
}

/// An event of a reservation in parts that a test can change.
struct Forged {
    at: Instant,
    previous: Option<EventId>,
    change: HoldChange,
    hold: Hold,
    line: Line,
    figures: StockCounters,
}

impl Forged {
    fn but(mut self, turn: impl FnOnce(&mut Self)) -> Self {
        turn(&mut self);
        self
    }

    fn event(self, shop: &Shop) -> Event {
        let Self { at, previous, change, hold, line, figures } = self;
        let hold = Hold { lines: [line].into(), ..hold };
        let figures = [figures].into();
        Event { at, previous, ..shop.event(Transition::Hold { limits: None, change, hold, figures }) }
    }
}

const EVENT: EventId = EventId::from_u128(77);
/// After everything in the store, and before any deadline.
const AT: Instant = Instant::from_micros(stockhold_conformance::START.micros() + 1_000_000);

fn recount(dir: &Path) -> VerifyReport {
    verify(dir, |_, _| ()).unwrap()
}

fn expect(dir: &Path, finding: &str) {
    let VerifyReport { findings, drift, .. } = recount(dir);
    assert!(findings.iter().any(|found| found.contains(finding)), "{finding:?} is not among {findings:#?}");
    assert!(drift >= findings.len() as u64 && findings.len() <= FINDINGS);
}

/// Appends a batch that follows the last one. Returns its number and checksum.
fn append(dir: &Path, events: Vec<Event>, turn: impl FnOnce(&mut Batch)) -> (u64, u32) {
    let mut log = Log::open(&dir.join(files::LOG)).unwrap();
    let (last, _) = log.last().unwrap().unwrap();
    let head = log.head(last).unwrap();
    let mut batch =
        Batch { number: last + 1, position: head.next_position, at: AT, events, keys: Vec::new() };
    turn(&mut batch);
    (batch.number, log.append(&batch, head.sum).unwrap())
}

#[test]
fn what_is_right_adds_up_before_and_after_what_the_index_has() {
    let shop = Shop::new();
    let copy = shop.copy();
    let events = [shop.confirmed(), shop.seat_confirmed()].map(|forged| forged.event(&shop));
    for events in [Vec::new(), events.to_vec()] {
        append(copy.path(), events, |_| ());
        let verdict = recount(copy.path());
        assert_eq!((verdict.findings, verdict.drift), (Vec::new(), 0));
    }
    let copy = shop.copy();
    append(copy.path(), vec![shop.returned().event(&shop)], |_| ());
    assert_eq!(recount(copy.path()).findings, Vec::<String>::new());
}

#[test]
fn an_item_that_the_index_took_in_the_middle_of_a_later_batch_adds_up() {
    let shop = Shop::new();
    let copy = shop.copy();
    let [first, last] = [1, 2].map(|adjusted| {
        let change = StockChange::Adjusted { delta: 1, reason: label("found"), supply_id: None };
        shop.stock(&shop.tins, change, |item| {
            item.version = shop.tins.version + adjusted;
            item.figures.sequence = shop.tins.figures.sequence + adjusted;
            item.figures.total_units += adjusted;
        })
    });
    let Transition::Stock { item: between, .. } = &first.transition else { panic!("{first:?}") };
    let mut index = Index::open_in_test(&copy.path().join(files::INDEX));
    let chunk = Chunk { items: vec![between.clone()], ..Chunk::default() };
    let at = (index.state.indexed, index.state.indexed_sum);
    index.write(&chunk, at, 0).unwrap();
    drop(index);
    append(copy.path(), vec![first.clone(), last], |_| ());
    assert_eq!(recount(copy.path()).findings, Vec::<String>::new());
}

type Forge = fn(&Shop) -> Event;

const IN_THE_LOG: [(&str, Forge); 18] = [
    ("was paused and is not there", |shop| {
        let scope = Scope::Item(ghost(shop));
        shop.event(Transition::Sale { scope, paused: true, reason: None })
    }),
    (": Confirmed does not follow from Some", |shop| {
        shop.confirmed().but(|it| it.previous = None).event(shop)
    }),
    ("expired before its deadline", |shop| {
        end(&shop.active, &shop.tins, HoldChange::Expired, Status::Expired).event(shop)
    }),
    ("which is not there", |shop| shop.confirmed().but(|it| it.line.item = ghost(shop)).event(shop)),
    ("leads from", |shop| shop.confirmed().but(|it| it.figures.sequence += 1).event(shop)),
    ("says held, active and under payment", |shop| {
        shop.confirmed().but(|it| it.figures.held += 1).event(shop)
    }),
    ("is oversold", |shop| shop.confirmed().but(|it| it.figures.confirmed_sold = 101).event(shop)),
    ("returned what it had not", |shop| shop.returned().but(|it| it.line.returned = 6).event(shop)),
    // Every step of the counters is valid, but the reservations disagree.
    ("says sold and fulfilled", |shop| shop.returned().but(|it| it.line.returned -= 1).event(shop)),
    ("Set does not follow from the item before it", |shop| {
        shop.stock(&shop.tins, StockChange::Set, |item| item.version += 1)
    }),
    ("Adjusted { delta: 5", |shop| {
        let change = StockChange::Adjusted { delta: 5, reason: label("found"), supply_id: None };
        shop.stock(&shop.tins, change, |item| item.figures.total_units += 6)
    }),
    ("says total, held and sold", |shop| {
        shop.stock(&shop.hall, StockChange::Set, |item| item.figures.total_units += 1)
    }),
    ("was added twice", |shop| {
        let Transition::Stock { change: change @ StockChange::UnitsAdded(_), .. } = shop.seats_added() else {
            panic!("no seats")
        };
        shop.stock(&shop.hall, change, |item| item.figures.total_units += 4)
    }),
    ("was retired as Some(Sold", |shop| {
        let change = StockChange::UnitsRetired([label("b")].into());
        shop.stock(&shop.hall, change, |item| item.figures.total_units -= 1)
    }),
    ("has other units of", |shop| shop.seat_confirmed().but(|it| it.line.quantity = 2).event(shop)),
    ("leads unit", |shop| {
        let wrong = |unit: &LineUnit| LineUnit { version: unit.version + 1, ..unit.clone() };
        let wrong = |line: &Line| LineUnits::new(line.units().iter().map(wrong).collect());
        shop.seat_confirmed().but(|it| it.line.units = Some(wrong(&it.line).into())).event(shop)
    }),
    ("version 2 does not follow from the record before it", |shop| {
        let record = Record { key: shop.record.clone(), version: 2, value: None };
        shop.event(Transition::Record { change: RecordChange::Silent, record })
    }),
    ("version 1 does not follow from the record before it", |shop| {
        let key = RecordKey { kind: RecordKind::SigningKey, ..shop.record.clone() };
        let record = Record { key, version: 1, value: None };
        shop.event(Transition::Record { change: RecordChange::Silent, record })
    }),
];

fn ghost(shop: &Shop) -> ItemKey {
    ItemKey::new(&label(shop.tins.key.location()), &label("ghost"))
}

impl Shop {
    fn seats_added(&self) -> Transition {
        let log = Log::open_reader(&self.bench.dir().join(files::LOG)).unwrap();
        let batches = log.read_range(1, log.last().unwrap().unwrap().0).unwrap();
        let mut all = batches.into_iter().flat_map(|batch| batch.events).map(|event| event.transition);
        all.find(|one| matches!(one, Transition::Stock { change: StockChange::UnitsAdded(_), .. })).unwrap()
    }
}

#[test]
fn what_does_not_follow_in_the_log_is_found() {
    let shop = Shop::new();
    for (finding, forge) in IN_THE_LOG {
        let copy = shop.copy();
        append(copy.path(), vec![forge(&shop)], |_| ());
        expect(copy.path(), finding);
    }
    let copy = shop.copy();
    append(copy.path(), Vec::new(), |batch| batch.position += 1);
    expect(copy.path(), "begins at position");
}

#[test]
fn a_mark_that_does_not_fit_is_found() {
    let shop = Shop::new();
    let copy = shop.copy();
    let file = copy.path().join(files::SYNC_MARKER);
    let (marker, mark) = SyncMarker::open(&file).unwrap();
    let mark = mark.unwrap().unwrap();
    marker.write(SyncedBatch { sum: mark.sum ^ 1, ..mark }).unwrap();
    expect(copy.path(), "is not the one that was synced");
    marker.write(SyncedBatch { batch: mark.batch + 2, ..mark }).unwrap();
    expect(copy.path(), "was synced");
    // A log that lost its end is not copied either.
    let elsewhere = tempfile::tempdir().unwrap();
    let backup = crate::backup(copy.path(), elsewhere.path(), |_, _| ()).unwrap_err();
    let carried = crate::export_log(copy.path(), |_, _, _| true).unwrap_err();
    for error in [backup, carried] {
        assert!(error.to_string().contains("was synced"), "{error}");
    }
    std::fs::write(&file, "no mark").unwrap();
    expect(copy.path(), "the mark of the last synced batch");
}

type Turn = fn(&Shop, &mut Index, &mut Chunk);

const IN_THE_INDEX: [(&str, Turn); 17] = [
    ("which it never was", |shop, _, chunk| {
        let mut item = shop.tins.clone();
        item.figures.held += 1;
        chunk.items.push(item);
    }),
    ("@\"default\" is missing", |_, index, _| {
        let sum =
            index.db.query_row("DELETE FROM items WHERE sku = 'tins' RETURNING sum", [], |row| row.get(0));
        index.state.items.replace(Some(sum.unwrap()), None);
    }),
    ("active reservation", |shop, _, chunk| chunk.ended.push(shop.active.id)),
    ("active reservation", |shop, _, chunk| {
        chunk.moved.push(Hold { expires_at: AT, ..shop.active.clone() });
    }),
    ("there are reservations that the log does not have", |shop, _, chunk| {
        chunk.opened.push(Hold { id: ReservationId::from_u128(9), ..shop.active.clone() });
    }),
    ("closed reservation", |shop, _, chunk| {
        chunk.closed.push(Hold { status: Status::Cancelled, ..shop.sold.clone() });
    }),
    ("closed reservation", |shop, index, _| {
        let id = shop.sold.id.as_u128().to_be_bytes();
        let sum =
            index.db.query_row("DELETE FROM closed WHERE id = ?1 RETURNING sum", [id], |row| row.get(0));
        index.state.closed.replace(Some(sum.unwrap()), None);
    }),
    ("there are reservations that the log does not have", |shop, _, chunk| {
        chunk.closed.push(Hold { id: ReservationId::from_u128(9), ..shop.seat_sold.clone() });
    }),
    ("the pauses differ", |_, _, chunk| chunk.pauses.push(("hub".to_owned(), true))),
    ("the records differ", |shop, _, chunk| {
        chunk.records.push(Record { key: shop.record.clone(), version: 2, value: None });
    }),
    ("the records differ", |_, index, _| {
        let sum = index.db.query_row("DELETE FROM records RETURNING sum", [], |row| row.get(0));
        index.state.records.replace(Some(sum.unwrap()), None);
    }),
    ("units of", |shop, _, chunk| {
        chunk.units.push(((shop.hall.key.clone(), label("c")), UnitChange::Removed));
    }),
    ("units of", |shop, _, chunk| {
        let moved = UnitChange::Moved(UnitStatus::Sold(shop.seat.id), 9, None);
        chunk.units.push(((shop.hall.key.clone(), label("c")), moved));
    }),
    ("units of", |shop, _, chunk| {
        let seat = shop.seat.lines[0].units()[0].clone();
        let moved = UnitChange::Moved(UnitStatus::Held(shop.seat.id), seat.version, Some(label("vip")));
        chunk.units.push(((shop.hall.key.clone(), seat.id), moved));
    }),
    ("idempotency keys", |shop, index, _| {
        let target = KeyTarget::Item(shop.tins.key.clone());
        let (hash, fingerprint) = (KeyHash(5), Fingerprint(5));
        let keyed = index.state.keyed;
        index.write_runs(&mut [KeyRecord { hash, fingerprint, target, at: AT }], &[], keyed).unwrap();
    }),
    ("it has 0 idempotency keys", |_, index, _| {
        index.db.execute_batch("DELETE FROM key_runs; DELETE FROM key_pages").unwrap();
    }),
    ("postings of owners", |_, index, _| {
        index.db.execute_batch("DELETE FROM posting_runs; DELETE FROM posting_pages").unwrap();
    }),
];

#[test]
fn what_the_index_has_otherwise_than_the_log_is_found() {
    let shop = Shop::new();
    for (finding, turn) in IN_THE_INDEX {
        let copy = shop.copy();
        // The index has wrong content for this batch.
        let at = append(copy.path(), Vec::new(), |_| ());
        let mut index = Index::open_in_test(&copy.path().join(files::INDEX));
        let mut chunk = Chunk::default();
        turn(&shop, &mut index, &mut chunk);
        index.write(&chunk, at, 0).unwrap();
        drop(index);
        expect(copy.path(), finding);
    }
    let copy = shop.copy();
    let mut index = Index::open_in_test(&copy.path().join(files::INDEX));
    let at = (index.state.indexed + 3, index.state.indexed_sum);
    index.write(&Chunk::default(), at, 0).unwrap();
    expect(copy.path(), "the log ends at");
}

type OnIndex = fn(&Index);

/// Rows whose content was replaced and whose checksum was updated.
const WITH_SUMS_THAT_FIT: [(&str, OnIndex); 3] = [
    ("rules out a record", |index| {
        let none = BloomFilter::with_capacity(1).to_bytes();
        let (run, numbers) = index
            .db
            .query_row("SELECT run, tier, records, bits, newest FROM key_runs", [], |row| {
                let numbers: [i64; 5] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
                Ok((numbers[0], numbers))
            })
            .unwrap();
        let numbers: Vec<u8> = numbers.into_iter().flat_map(i64::to_le_bytes).collect();
        let sql = "UPDATE key_runs SET filter = ?1, sum = ?2 WHERE run = ?3";
        index.db.execute(sql, params![none, row_sum(&numbers, &none), run]).unwrap();
    }),
    ("records where", |index| put_page(index, "key", |_| Vec::new())),
    ("does not end with a record", |index| {
        put_page(index, "posting", |data| [data, &[0]].concat());
    }),
];

/// Replaces every page of a kind.
fn put_page(index: &Index, kind: &str, turn: fn(&[u8]) -> Vec<u8>) {
    let sql = format!("SELECT id, data FROM {kind}_pages");
    let mut pages = index.db.prepare(&sql).unwrap();
    let pages = pages.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let pages: Vec<(i64, Vec<u8>)> = pages.collect::<Result<_, _>>().unwrap();
    assert!(!pages.is_empty());
    for (id, data) in pages {
        let data = turn(&data);
        let sum = row_sum(&id.to_le_bytes(), &data);
        let sql = format!("UPDATE {kind}_pages SET data = ?1, sum = ?2 WHERE id = ?3");
        index.db.execute(&sql, params![data, sum, id]).unwrap();
    }
}

const DAMAGE: [(&str, &str); 5] = [
    ("UPDATE key_pages SET data = zeroblob(length(data))", "the checksum of a key page does not fit"),
    ("DELETE FROM key_pages", "a key page is missing"),
    ("UPDATE posting_pages SET data = zeroblob(length(data))", "the checksum of a posting page does not fit"),
    ("DELETE FROM posting_pages", "a posting page is missing"),
    ("UPDATE key_runs SET records = records + 1", "does not fit its checksum"),
];

#[test]
fn pages_that_no_request_asks_for_are_read_all_the_same() {
    let shop = Shop::new();
    let expect = |forge: &dyn Fn(&Index), finding: &str| {
        let copy = shop.copy();
        let index = Index::open_in_test(&copy.path().join(files::INDEX));
        forge(&index);
        drop(index);
        let error = verify(copy.path(), |_, _| ()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(finding), "{finding:?} is not what it says: {error}");
    };
    for (sql, finding) in DAMAGE {
        expect(&|index| index.db.execute_batch(sql).unwrap(), finding);
    }
    for (finding, forge) in WITH_SUMS_THAT_FIT {
        expect(&forge, finding);
    }
}

#[test]
fn keys_that_were_forgotten_are_not_missed_and_those_that_were_not_are() {
    let shop = Shop::new();
    let copy = shop.copy();
    let file = copy.path().join(files::INDEX);
    let mut index = Index::open_in_test(&file);
    assert_eq!(index.state.dropped_before, Instant::default());
    let keys = runs::count::<crate::index::keys::KeyRuns>(&index.db);
    assert!(keys > 100, "{keys}");
    assert!(index.compact(AT.micros(), true, (0, 0)).unwrap(), "all of them are older");
    assert_eq!(runs::count::<crate::index::keys::KeyRuns>(&index.db), 0);
    assert_eq!(recount(copy.path()).findings, Vec::<String>::new());
    drop(index);
    // Without the time of dropped keys, the keys are missing.
    let mut index = Index::open_in_test(&file);
    assert!(index.state.dropped_before > Instant::default(), "it is kept");
    index.state.dropped_before = Instant::default();
    let at = (index.state.indexed, index.state.indexed_sum);
    index.write(&Chunk::default(), at, 0).unwrap();
    expect(copy.path(), "it has 0 idempotency keys");
}
