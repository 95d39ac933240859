//! Compares the wall clock with the clock of the embedded store. It tells operators of a difference, and moves the store's time forward
//! after the wall clock was, as soon as no deadline is shortened by it. The store's time never falls.
//!
//! A database decides by its own clock, which is not read here.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use stockhold_embedded::EmbeddedStore;
use stockhold_store::clock::{Clock, Clocks, SteadyClock, WallClock, in_words};

/// How often the clocks are compared.
const INTERVAL: Duration = Duration::from_secs(1);
/// The least difference that counts, in microseconds. Smaller ones are what clocks of a network differ by.
const STEP: i64 = 1_000_000;

const DIFFERENCE: &str = "stockhold_clock_difference_seconds";

/// The clocks that a server works by, and what compares them if the store is the embedded one.
pub(crate) fn start(
    embedded: Option<&Arc<EmbeddedStore>>,
    steady: Arc<SteadyClock>,
    accept_step: bool,
) -> (Clocks, Option<Arc<ClockWatch>>) {
    let Some(embedded) = embedded else { return (Clocks::of_database(), None) };
    let clocks = Clocks { wall: Arc::new(WallClock), store: Arc::<SteadyClock>::clone(&steady) };
    let watch = ClockWatch::start(Arc::clone(embedded), steady, Arc::clone(&clocks.wall), accept_step);
    (clocks, Some(Arc::new(watch)))
}

/// Compares the clocks for as long as the server runs. It does nothing without an embedded store.
pub(crate) async fn watch_clocks(watch: Option<Arc<ClockWatch>>) -> Infallible {
    match watch {
        Some(watch) => watch.run().await,
        None => pending().await,
    }
}

/// The two clocks.
pub(crate) struct ClockWatch {
    store: Arc<EmbeddedStore>,
    steady: Arc<SteadyClock>,
    wall: Arc<dyn Clock>,
}

/// How the clocks differ, where it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Difference {
    /// How far the wall clock was moved ahead of the store's clock, or behind it, in microseconds.
    step: i64,
    /// How long the store's time stands still yet.
    still: Duration,
}

impl ClockWatch {
    /// Sets the clock of a store that was just opened to no time before its newest commit: time stands still until the wall clock is
    /// there. If the step is accepted, time runs on from there instead.
    fn start(
        store: Arc<EmbeddedStore>,
        steady: Arc<SteadyClock>,
        wall: Arc<dyn Clock>,
        accept_step: bool,
    ) -> Self {
        metrics::describe_gauge!(
            DIFFERENCE,
            "The wall clock minus the time of the embedded store, in seconds: 0 but for a moment, unless the wall clock was corrected"
        );
        steady.stand_until(store.newest_instant());
        let behind = steady.stands_still_for();
        match (accept_step, behind.is_zero()) {
            (true, false) => {
                steady.advance(behind);
                let behind = in_words(behind);
                tracing::warn!(
                    "--accept-clock-step: the store's time begins {behind} ahead of the wall clock"
                );
            }
            (true, true) => {
                tracing::info!(
                    "--accept-clock-step: there is no step, the newest commit is not later than the wall clock"
                );
            }
            (false, _) => {}
        }
        Self { store, steady, wall }
    }

    /// Compares the clocks for as long as the server runs.
    async fn run(&self) -> Infallible {
        let mut told = Difference::default();
        loop {
            for line in self.look(&mut told) {
                tracing::warn!("{line}");
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// What operators have to know of the clocks now.
    pub(crate) fn text(&self) -> Option<String> {
        self.difference().text()
    }

    /// Sets the metric.
    #[expect(clippy::cast_precision_loss, reason = "a gauge")]
    pub(crate) fn gauge(&self) {
        let difference = self.wall.now().micros() - self.steady.now().micros();
        metrics::gauge!(DIFFERENCE).set(difference as f64 / 1e6);
    }

    /// Compares the clocks once. Returns what is new since what was told last, for the log.
    fn look(&self, told: &mut Difference) -> Vec<String> {
        let mut lines = Vec::new();
        let mut found = self.difference();
        if found.step > 0 && self.store.while_no_hold_is_open(|| self.steady.advance(length(found.step))) {
            let by = in_words(length(found.step));
            lines.push(format!(
                "the store's time was moved forward by {by}, to the wall clock: no hold is open"
            ));
            told.step = 0;
            found = self.difference();
        }
        let (step, told_step) = (found.step, told.step);
        let is_news = (step == 0) != (told_step == 0) || step.abs_diff(told_step) > STEP.unsigned_abs();
        if is_news || found.still.is_zero() != told.still.is_zero() {
            let agree = "the wall clock and the store's time agree again";
            lines.push(found.text().unwrap_or_else(|| agree.to_owned()));
            *told = found;
        }
        lines
    }

    fn difference(&self) -> Difference {
        let step = self.wall.now().micros() - self.steady.running().micros();
        let still = self.steady.stands_still_for();
        Difference {
            step: if step.abs() < STEP { 0 } else { step },
            still: if still < length(STEP) { Duration::ZERO } else { still },
        }
    }
}

impl Difference {
    fn text(self) -> Option<String> {
        let mut texts = Vec::new();
        if !self.still.is_zero() {
            texts.push(format!(
                "the store's time stands still for {}, because its newest commit is later than the wall clock: until then no hold \
                 expires, and no sale begins or ends. A restart with --accept-clock-step lets time run on",
                in_words(self.still)
            ));
        }
        let by = in_words(length(self.step));
        if self.step > 0 {
            texts.push(format!(
                "the wall clock is {by} ahead of the store's time: windows of sales open late by that much until no hold is open, or \
                 until a restart, which takes the wall time over at once"
            ));
        }
        if self.step < 0 {
            texts.push(format!(
                "the wall clock is {by} behind the store's time, which never falls: windows of sales open early by that much. After a \
                 restart time stands still until the wall clock has come to the newest commit"
            ));
        }
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

fn length(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_conformance::Maker;
    use stockhold_conformance::maker::{reserve, set_stock};
    use stockhold_domain::{Command, Instant, Outcome, Release, Reply};
    use stockhold_embedded::Options;
    use stockhold_store::clock::ManualClock;
    use stockhold_store::{Answer, Request};

    const HOUR: i64 = 3_600;

    struct World {
        wall: Arc<ManualClock>,
        watch: ClockWatch,
        told: Difference,
        maker: Maker,
        _dir: tempfile::TempDir,
    }

    impl World {
        /// A store whose newest commit was made so many seconds after now.
        async fn new(newest: i64, accept_step: bool) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let now = SteadyClock::start().now();
            let mut maker = Maker::new(1, "");
            let ahead = Arc::new(ManualClock::new(after(now, newest)));
            let store =
                EmbeddedStore::open(dir.path(), Options { clock: ahead, ..Options::default() }).unwrap();
            let shirt = maker.item("shirt");
            ask(&store, &mut maker, set_stock(&shirt, 10)).await;
            drop(store);
            let steady = Arc::new(SteadyClock::start());
            let options = Options { clock: Arc::<SteadyClock>::clone(&steady), ..Options::default() };
            let store = Arc::new(EmbeddedStore::open(dir.path(), options).unwrap());
            let wall = Arc::new(ManualClock::new(now));
            let watch = ClockWatch::start(store, steady, Arc::<ManualClock>::clone(&wall), accept_step);
            Self { wall, watch, told: Difference::default(), maker, _dir: dir }
        }

        /// Sets the wall clock so many seconds ahead of the store's clock, as that would be if it did not stand still. Returns what is
        /// told then.
        fn look(&mut self, ahead: i64) -> Vec<String> {
            self.wall.set(after(self.watch.steady.running(), ahead));
            self.watch.look(&mut self.told)
        }

        async fn ask(&mut self, command: Command) -> Reply {
            ask(&self.watch.store, &mut self.maker, command).await
        }
    }

    /// So many seconds after an instant, and a little more, because clocks run on while a test looks.
    fn after(instant: Instant, seconds: i64) -> Instant {
        Instant::from_micros(instant.micros() + seconds * STEP + STEP / 2)
    }

    async fn ask(store: &EmbeddedStore, maker: &mut Maker, command: Command) -> Reply {
        let request = Request::Command(Box::new(maker.wrap(command)));
        match stockhold_store::call(store, request).await.unwrap() {
            Answer::Outcome(Outcome::Done(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn assert_told(lines: &[String], words: &[&str]) {
        assert_eq!(lines.len(), words.len(), "{lines:?}");
        for (line, words) in lines.iter().zip(words) {
            assert!(line.contains(words), "{words:?} is not in {line:?}");
        }
    }

    #[tokio::test]
    async fn a_step_forward_waits_for_the_open_holds() {
        let mut world = World::new(-HOUR, false).await;
        assert_told(&world.look(0), &[]);
        let shirt = world.maker.item("shirt");
        let Reply::Reservation(hold) = world.ask(reserve(&[(&shirt, 1)])).await else { panic!("no hold") };
        assert_told(&world.look(2 * HOUR + 180), &["2 h 3 min ahead of the store's time"]);
        assert!(world.watch.text().unwrap().contains("2 h 3 min ahead"));
        assert_told(&world.look(2 * HOUR + 180), &[]);
        assert_told(&world.look(3 * HOUR), &["3 h ahead"]);
        assert!(world.watch.steady.now() < hold.expires_at);
        world.ask(Command::Release(Release { id: hold.id, reason: None })).await;
        assert_told(&world.look(3 * HOUR), &["moved forward by 3 h"]);
        assert_eq!(world.watch.text(), None);
        assert!(world.watch.steady.now() > hold.expires_at);
        assert_told(&world.look(60), &["moved forward by 1 min"]);
    }

    #[tokio::test]
    async fn time_never_falls() {
        let mut world = World::new(-HOUR, false).await;
        let before = world.watch.steady.now();
        assert_told(&world.look(-2 * HOUR), &["behind the store's time, which never falls"]);
        assert!(world.watch.steady.now() >= before);
        assert_told(&world.look(-2 * HOUR), &[]);
        assert_told(&world.look(0), &["agree again"]);
    }

    #[tokio::test]
    async fn time_stands_still_until_the_newest_commit() {
        // A minute more, which opening the store may take.
        let mut world = World::new(2 * HOUR + 60, false).await;
        let newest = world.watch.steady.now();
        assert_told(&world.look(0), &["stands still for 2 h"]);
        assert_eq!(world.watch.steady.now(), newest);
        assert_told(&world.look(0), &[]);
        // The clock was right when the newest commit was made.
        assert_told(&world.look(HOUR), &["moved forward by 1 h"]);
        assert!(world.watch.text().unwrap().contains("stands still for 1 h"), "{:?}", world.watch.text());
        assert_told(&world.look(HOUR + 60), &["moved forward by 1 h 1 min", "agree again"]);
        assert!(world.watch.steady.now() > newest);
    }

    #[tokio::test]
    async fn an_accepted_step_lets_time_run_on_from_the_newest_commit() {
        let mut world = World::new(2 * HOUR, true).await;
        let newest = world.watch.store.newest_instant();
        assert!(world.watch.steady.now() >= newest && world.watch.steady.now() < after(newest, 60));
        assert_eq!(world.watch.steady.stands_still_for(), Duration::ZERO);
        assert_told(&world.look(-2 * HOUR), &["behind the store's time"]);
    }
}
