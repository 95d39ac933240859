//! Taking over what another store has, and what is left when that is cut off.

use super::{Shop, adds_up, every_command, newest};
use crate::fixture::{Bench, item, run};
use std::time::{Duration, Instant};
use stockhold_conformance::{Maker, maker};
use stockhold_domain::ItemKey;
use stockhold_sql::{
    AuditError, ExportChunk, ImportSource, ImportSummary, OpenError, export_to, import_from,
};
use stockhold_store::Failure;

/// Patience with a server that has to notice something.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a store of another database has, in pieces of a few events, and one of its items.
fn carried() -> (Vec<ExportChunk>, ItemKey) {
    let bench = Bench::new();
    let store = bench.connect();
    let traces = every_command(&store, &mut Maker::new(95, "carried-"), "");
    newest(&store);
    drop(store);
    let (sender, mut source) = tokio::sync::mpsc::channel(64);
    export_to(&bench.database.url, &Bench::options(), &sender).unwrap();
    drop(sender);
    let mut pieces = Vec::new();
    while let Ok(Ok(ExportChunk { mut events, keys, customers })) = source.try_recv() {
        while !events.is_empty() {
            let rest = events.split_off(events.len().min(3));
            pieces
                .push(ExportChunk { events: std::mem::replace(&mut events, rest), ..ExportChunk::default() });
        }
        pieces.push(ExportChunk { events, keys, customers });
    }
    assert!(pieces.len() > 4);
    (pieces, traces.items[0].clone())
}

/// Sends these, and then why there is no more.
fn source(pieces: Vec<ExportChunk>, cut: Option<&'static str>) -> ImportSource {
    let (sender, source) = tokio::sync::mpsc::channel(1);
    let all = pieces.into_iter().map(Ok).chain(cut.map(|why| Err(why.to_owned())));
    let all: Vec<_> = all.collect();
    std::thread::spawn(move || all.into_iter().all(|piece| sender.blocking_send(piece).is_ok()));
    source
}

fn take<S: Shop>(shop: &S, source: ImportSource) -> Result<ImportSummary, AuditError> {
    import_from(&shop.url(), &shop.options(), source, |_| ())
}

fn cut<S: Shop>(shop: &S) {
    let (mut pieces, _) = carried();
    pieces.truncate(3);
    let cut = take(shop, source(pieces, Some("cut off")));
    assert_eq!(cut, Err(AuditError::Source("cut off".to_owned())));
}

pub(crate) fn what_is_taken_over_adds_up_and_is_served<S: Shop>(shop: &mut S) {
    let (pieces, some_item) = carried();
    let events = pieces.iter().map(|piece| piece.events.len() as u64).sum();
    let taken = take(shop, source(pieces, None)).unwrap();
    assert_eq!((taken.events, taken.reservations), (events, 4));
    assert_eq!(adds_up(shop).events, events);
    let store = shop.store();
    assert_eq!(item(&*store, &some_item).unwrap().figures.held, 3);
}

pub(crate) fn what_was_cut_off_is_nobodys_store<S: Shop>(shop: &mut S) {
    cut(shop);
    let unfinished = AuditError::Open(OpenError::Unfinished);
    let (url, options) = (shop.url(), shop.options());
    assert_eq!(stockhold_sql::open(&url, options.clone()).err(), Some(OpenError::Unfinished));
    assert_eq!(stockhold_sql::migrate(&url, options.clone()), Err(OpenError::Unfinished));
    assert_eq!(stockhold_sql::verify(&url, &options, |_| ()), Err(unfinished.clone()));
    let (sender, _source) = tokio::sync::mpsc::channel(64);
    assert_eq!(export_to(&url, &options, &sender), Err(unfinished.clone()));
    assert_eq!(take(shop, source(carried().0, None)), Err(unfinished));
}

pub(crate) fn a_server_that_ran_before_does_not_go_on<S: Shop>(shop: &mut S) {
    let store = shop.store();
    cut(shop);
    let begun = Instant::now();
    while store.fatal_error().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it never noticed");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(store.fatal_error(), Some(OpenError::Unfinished.to_string()));
    let reserve = Maker::new(96, "late-").wrap(maker::pause(&stockhold_domain::Scope::Everything));
    let refused = run(&*store, reserve);
    assert!(matches!(&refused, Err(Failure::Unavailable(_))), "{refused:?}");
}

pub(super) fn what_does_not_add_up_is_nobodys_store<S: Shop + Send>(shop: &mut S) {
    let (pieces, _) = carried();
    let (url, options) = (shop.url(), shop.options());
    let mut meddled = false;
    let taken = import_from(&url, &options, source(pieces, None), |_| {
        if !std::mem::replace(&mut meddled, true) {
            // By a thread of its own: this one runs the copy.
            std::thread::scope(|scope| {
                scope.spawn(|| shop.sql("UPDATE {t}items SET oversell_allowance = 3"));
            });
        }
    });
    assert!(matches!(&taken, Err(AuditError::Refused(why)) if why.contains("other settings")), "{taken:?}");
    assert_eq!(stockhold_sql::open(&url, options).err(), Some(OpenError::Unfinished));
}
