//! What units with ids cost beside counted stock: microseconds a reserve, committed in batches, on a store in a temporary
//! directory. `cargo run --release -p stockhold-embedded --example units`

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant as Monotonic};
use stockhold_domain::{
    Access, AddUnits, Attributes, Basket, BestAvailable, Command, Envelope, Fulfilment, GeneratedIds,
    ItemKey, Label, Mode, NewUnit, Origin, Outcome, Patch, RequestId, RequestedLine, Reserve, ReserveTerms,
    SetStock, UnitSelection, bucket_of,
};
use stockhold_embedded::{EmbeddedStore, Options};
use stockhold_store::clock::{Clock, SteadyClock};
use stockhold_store::ids::IdSource;
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request, Store};

/// Units of the hall.
const UNITS: usize = 100_000;
/// Seats of a row.
const ROW: usize = 40;
/// Reserves of one measurement.
const RESERVES: u32 = 20_000;
/// Commands that are handed over together.
const TOGETHER: usize = 64;
/// Measurements of each kind, by turns.
const ROUNDS: usize = 5;

#[derive(Default)]
struct AnswerInbox {
    put: Mutex<(usize, usize)>,
    flushed: Condvar,
}

impl Inbox for AnswerInbox {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        let mut put = self.put.lock().unwrap();
        put.0 += 1;
        put.1 += usize::from(matches!(answer, Ok(Answer::Outcome(Outcome::Done(_)))));
    }

    fn flush(&self) {
        self.flushed.notify_all();
    }
}

struct Bench {
    store: EmbeddedStore,
    ids: IdSource,
    clock: SteadyClock,
}

impl Bench {
    fn envelope(&mut self, command: Command, item: &ItemKey) -> Envelope {
        let now = self.clock.now();
        let fresh: GeneratedIds = self.ids.generate(now, bucket_of(item));
        let request_id = RequestId::Made(self.ids.random());
        let origin = Origin { actor: label("bench"), key_id: None, request_id, trace: None };
        Envelope { command, key: None, fresh, origin, access: Access::Unrestricted }
    }

    /// Hands commands over in batches; how long it took until all were durable, and that all were done.
    fn run(&mut self, item: &ItemKey, commands: impl Iterator<Item = Command>) -> Duration {
        let commands: Vec<_> = commands.map(|command| self.envelope(command, item)).collect();
        let count = commands.len();
        let answers = Arc::new(AnswerInbox::default());
        let begun = Monotonic::now();
        let mut handed = 0;
        for batch in commands.chunks(TOGETHER) {
            for envelope in batch {
                let inbox: Arc<dyn Inbox> = answers.clone();
                let ask = Request::Command(Box::new(envelope.clone()));
                self.store.submit(Job { request: ask, reply: ReplyTo { inbox, ticket: 0 } });
            }
            self.store.flush();
            handed += batch.len();
            let mut put = answers.put.lock().unwrap();
            while put.0 < handed {
                put = answers.flushed.wait(put).unwrap();
            }
        }
        let took = begun.elapsed();
        assert_eq!(answers.put.lock().unwrap().1, count, "every command was done");
        took
    }
}

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn reserve(item: &ItemKey, quantity: u64, choice: Option<UnitSelection>) -> Command {
    Command::Reserve(Reserve {
        checkout: None,
        override_limits: false,
        basket: Basket::with_selections(vec![(RequestedLine { item: item.clone(), quantity }, choice)])
            .unwrap(),
        ttl: None,
        fulfilment: Fulfilment::All,
        terms: ReserveTerms { owner_id: label("owner-of-some-usual-length-of-36-bytes"), optional: None },
    })
}

fn set(item: &ItemKey, total_units: Option<u64>, mode: Mode) -> Command {
    Command::SetStock(SetStock {
        item: item.clone(),
        total_units,
        shelf: None,
        mode: Some(mode),
        safety_stock: None,
        oversell_allowance: None,
        gated: Patch::Keep,
        sale_starts_at: Patch::Keep,
        sale_ends_at: Patch::Keep,
        incoming: None,
        price: Patch::Keep,
        low_stock: Patch::Keep,
        stock_master: Patch::Keep,
        override_owner: false,
        default_ttl: Patch::Keep,
        max_hold: Patch::Keep,
        max_payment: Patch::Keep,
        metadata: Patch::Keep,
        expected: None,
    })
}

fn id(n: usize) -> Label {
    label(&format!("{}-{}", n / ROW, n % ROW))
}

/// A hall of its own for each measurement, so that each begins with an empty one.
fn hall(bench: &mut Bench, name: &str) -> ItemKey {
    let item = ItemKey::new(&label("default"), &label(name));
    bench.run(&item, std::iter::once(set(&item, None, Mode::Units)));
    let unit = |n: usize| NewUnit {
        id: id(n),
        // A gap behind every row.
        position: Some((n + n / ROW) as u64),
        section: Some(label(if n < UNITS / 2 { "stalls" } else { "balcony" })),
        row: Some(label(&(n / ROW).to_string())),
        number: None,
        attributes: Attributes::default(),
    };
    let begun = Monotonic::now();
    for first in (0..UNITS).step_by(10_000) {
        let units = (first..first + 10_000).map(unit).collect();
        bench.run(&item, std::iter::once(Command::AddUnits(AddUnits { item: item.clone(), units })));
    }
    println!("{UNITS} units added in {:?}", begun.elapsed());
    item
}

/// What everybody else waits for when a hall that sells gets one more seat in front of all, and the next wish for a pair
/// puts it in order.
fn one_more(bench: &mut Bench, item: &ItemKey) -> Duration {
    let unit = NewUnit {
        id: label("throne"),
        position: Some(0),
        section: None,
        row: None,
        number: None,
        attributes: Attributes::default(),
    };
    let together =
        Some(UnitSelection::BestAvailable(BestAvailable { adjacent: true, ..BestAvailable::default() }));
    let commands =
        [Command::AddUnits(AddUnits { item: item.clone(), units: vec![unit] }), reserve(item, 2, together)];
    bench.run(item, commands.into_iter())
}

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path(), Options::default()).unwrap();
    let mut bench = Bench { store, ids: IdSource::from_system().unwrap(), clock: SteadyClock::start() };
    let micros = |took: Duration| took.as_secs_f64() * 1e6 / f64::from(RESERVES);
    let (mut counted, mut any, mut named, mut best) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let shirts = ItemKey::new(&label("default"), &label("shirts"));
    bench.run(&shirts, std::iter::once(set(&shirts, Some(100_000_000), Mode::Counted)));
    for round in 0..ROUNDS {
        let item = hall(&mut bench, &format!("hall {round}"));
        counted.push(micros(bench.run(&shirts, (0..RESERVES).map(|_| reserve(&shirts, 1, None)))));
        any.push(micros(bench.run(&item, (0..RESERVES).map(|_| reserve(&item, 1, None)))));
        // Spread over what is left of the hall.
        let first = RESERVES as usize;
        let pick =
            |n: u32| Some(UnitSelection::Named(vec![id(first + n as usize * 7_919 % (UNITS - first))]));
        named.push(micros(bench.run(&item, (0..RESERVES).map(|n| reserve(&item, 1, pick(n))))));
        let together = || {
            Some(UnitSelection::BestAvailable(BestAvailable { adjacent: true, ..BestAvailable::default() }))
        };
        let pairs = RESERVES / 4;
        let took = bench.run(&item, (0..pairs).map(|_| reserve(&item, 2, together())));
        best.push(took.as_secs_f64() * 1e6 / f64::from(pairs));
        println!("one unit more in front of {UNITS}, and a pair: {:?}", one_more(&mut bench, &item));
    }
    let median = |figures: &mut Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let counted = median(&mut counted);
    println!("counted       {counted:6.2} µs a reserve");
    for (name, figures) in [("any one", &mut any), ("one by name", &mut named), ("a pair, best", &mut best)] {
        let figure = median(figures);
        println!("{name:13} {figure:6.2} µs a reserve, {:.2} x counted", figure / counted);
    }
}
