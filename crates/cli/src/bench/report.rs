//! The report of a bench: throughput and latency, what limited them, and the audit.

use super::BenchArgs;
use super::generator::{ThreadResult, to_f64};
use super::requests::Tally;
use crate::admin::{Scrape, ServerInfo};
use crate::latency::Percentiles;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;
use stockhold_api::wire::Item;

/// Share of a processor, or of time, from which on something counts as a limit.
const USED_UP: f64 = 0.85;
/// Share of refused requests from which on refusals are reported as a limit.
const MANY: f64 = 0.01;
/// Share of the requested rate that counts as reached.
const MET: f64 = 0.99;

/// What was measured during the run.
pub(super) struct Measurements {
    took: Duration,
    /// Processor time of the generator, in processors.
    own: f64,
    /// Processor time of all programs on the generator's machine, in processors.
    machine: Option<f64>,
    server: Option<ServerMetrics>,
    pub(super) not_sent: u64,
}

/// The server's metrics of the same time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ServerMetrics {
    /// Processor time that it used, in processors.
    processors: f64,
    /// Share of the time in which a commit ran (writing and syncing).
    committing: f64,
    commits_per_second: f64,
    mean_commit_ms: f64,
    answers_per_commit: f64,
    /// Most answers that waited for a commit.
    queue_depth: f64,
}

impl Measurements {
    pub(super) fn new(
        took: Duration,
        (own, machine): (Duration, Option<Duration>),
        scrapes: Option<(Scrape, Scrape)>,
        queue: f64,
    ) -> Self {
        let seconds = took.as_secs_f64().max(f64::EPSILON);
        let server = scrapes.map(|(before, after)| {
            let rise = |name: &str| (after.sum(name) - before.sum(name)).max(0.0);
            let (commits, busy) =
                (rise("stockhold_commit_seconds_count"), rise("stockhold_commit_seconds_sum"));
            ServerMetrics {
                processors: rise("process_cpu_seconds_total") / seconds,
                committing: busy / seconds,
                commits_per_second: commits / seconds,
                mean_commit_ms: 1_000.0 * busy / commits.max(1.0),
                answers_per_commit: rise("stockhold_batch_answers_sum")
                    / rise("stockhold_batch_answers_count").max(1.0),
                queue_depth: queue,
            }
        });
        let share = |used: Duration| used.as_secs_f64() / seconds;
        Self { took, own: share(own), machine: machine.map(share), server, not_sent: 0 }
    }
}

/// The audit of a run: the server's counters and the answers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BenchAudit {
    /// Whether the server's counters agree with the answers. Requests without an answer may have taken effect or not.
    pub(super) agree: bool,
    sku_prefix: String,
    skus: usize,
    /// Items that were deleted at the end. The others have sales or holds.
    pub(super) deleted: usize,
    told_reserved: u64,
    told_confirmed: u64,
    confirmed_sold: u64,
    held_units: u64,
    total_units: u64,
}

impl BenchAudit {
    pub(super) fn new(skus: &[String], told: &Tally) -> Self {
        let prefix = skus.first().and_then(|sku| sku.rsplit_once('-')).map_or("", |(prefix, _)| prefix);
        Self {
            agree: false,
            sku_prefix: format!("{prefix}-"),
            skus: skus.len(),
            deleted: 0,
            told_reserved: told.reserved.saturating_sub(told.given_back),
            told_confirmed: told.confirmed,
            confirmed_sold: 0,
            held_units: 0,
            total_units: 0,
        }
    }

    pub(super) fn add(&mut self, item: &Item) {
        self.confirmed_sold += item.confirmed_sold;
        self.held_units += item.held_units;
        self.total_units = self.total_units.saturating_add(item.total_units);
    }

    /// Every acknowledged unit must be held or sold, unless holds may have expired meanwhile (`run_out`). Units of requests without
    /// an answer may exist besides.
    pub(super) fn compare(&mut self, told: &Tally, run_out: bool) {
        let exact = told.unknown() == 0;
        let taken = self.confirmed_sold.saturating_add(self.held_units);
        let sold = self.confirmed_sold >= self.told_confirmed
            && !(exact && self.confirmed_sold > self.told_confirmed);
        let lost = !run_out && taken < self.told_reserved;
        let beyond = exact && taken > self.told_reserved;
        self.agree = sold && !lost && !beyond && taken <= self.total_units;
    }
}

/// The report. Field names are part of the interface.
#[derive(Serialize)]
pub(super) struct BenchReport {
    server: String,
    version: Option<String>,
    store: Option<String>,
    /// What the server guarantees for an answer. `synced`: it was on the disk before it was sent.
    durability: Option<String>,
    /// Why the server's metrics are missing.
    durability_unknown: Option<String>,
    mix: &'static str,
    /// `open` or `closed`.
    #[serde(rename = "loop")]
    kind: &'static str,
    asked_per_second: Option<f64>,
    connections: usize,
    threads: usize,
    seconds: f64,
    /// Commands and reads that succeeded during the measurement.
    pub(super) operations: u64,
    operations_per_second: f64,
    requests_per_second: f64,
    latency: Vec<Percentiles>,
    /// Of requests that are timed, like `failed`.
    refused: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    /// Requests that were due and found no free connection.
    not_sent: u64,
    /// Share of its threads' processors that the generator used.
    generator: f64,
    /// Processors that all programs on the generator's machine used.
    machine: Option<f64>,
    server_side: Option<ServerMetrics>,
    limited_by: Vec<String>,
    pub(super) books: BenchAudit,
    ttl_seconds: u64,
}

impl BenchReport {
    pub(super) fn new(
        args: &BenchArgs,
        url: &str,
        info: Result<ServerInfo, String>,
        seen: &ThreadResult,
        measured: &Measurements,
        books: BenchAudit,
    ) -> Self {
        let seconds = measured.took.as_secs_f64().max(f64::EPSILON);
        let threads = args.threads.min(args.connections);
        let (info, unknown) = match info {
            Ok(info) => (Some(info), None),
            Err(why) => (None, Some(why)),
        };
        let mut report = Self {
            server: url.to_owned(),
            version: info.as_ref().map(|info| info.version.clone()),
            store: info.as_ref().map(|info| info.store.clone()),
            durability: info.map(|info| info.durability),
            durability_unknown: unknown,
            mix: args.mix.name(),
            kind: if args.rate.is_some() { "open" } else { "closed" },
            asked_per_second: args.rate,
            connections: args.connections,
            threads,
            seconds,
            operations: seen.done,
            operations_per_second: to_f64(seen.done) / seconds,
            requests_per_second: to_f64(seen.requests) / seconds,
            latency: seen.latencies.percentiles(),
            refused: seen.warm.refused.clone(),
            failed: seen.warm.failed.clone(),
            not_sent: measured.not_sent,
            generator: measured.own / to_f64(threads as u64).max(1.0),
            machine: measured.machine,
            server_side: measured.server,
            limited_by: Vec::new(),
            books,
            ttl_seconds: args.ttl,
        };
        report.limited_by = report.limits(seen);
        report
    }

    /// What probably limited the result, the most likely first.
    fn limits(&self, seen: &ThreadResult) -> Vec<String> {
        let mut found = Vec::new();
        let refused: u64 = self.refused.values().sum();
        let failed: u64 = self.failed.values().sum();
        let tried = to_f64(seen.warm.done + refused + failed).max(1.0);
        if self.refused.contains_key("overloaded") {
            found.push("the server's queue: it was full, and requests were refused (overloaded)".to_owned());
        }
        if to_f64(refused) / tried > MANY {
            found.push(format!("refusals: {refused} of {tried:.0}; see their reasons"));
        }
        if failed > 0 {
            found.push(format!("lost connections: {failed} requests got no answer"));
        }
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = to_f64(processors as u64);
        let generator = self.generator * to_f64(self.threads as u64);
        if self.generator >= USED_UP {
            found.push(format!(
                "the generator: it used {:.0} % of its threads ({}); give it more with --threads, or run it on another \
                 machine",
                100.0 * self.generator,
                self.threads
            ));
        }
        if let Some(machine) = self.machine.filter(|machine| *machine >= USED_UP * processors) {
            let server = self.server_side.map_or(0.0, |side| side.processors);
            let others = (machine - generator - server).max(0.0);
            found.push(format!(
                "this machine's processors: {machine:.2} of {processors:.0} were used, {generator:.2} by the generator, \
                 {server:.2} by the server (if it runs here), {others:.2} by others"
            ));
        }
        if let Some(side) = self.server_side.filter(|side| side.committing >= USED_UP) {
            found.push(format!(
                "the disk: commits took {:.0} % of the time, {:.2} ms each for {:.0} answers",
                100.0 * side.committing,
                side.mean_commit_ms,
                side.answers_per_commit
            ));
        }
        match self.asked_per_second {
            Some(asked) if self.requests_per_second >= MET * asked => {
                found.insert(0, "nothing: the requested rate was reached; try a higher --rate".to_owned());
            }
            Some(_) if self.not_sent > 0 => found.push(format!(
                "the {} connections: all were busy, and {} due requests were never sent, so the latencies are too low; use a \
                 lower --rate or more --connections",
                self.connections, self.not_sent
            )),
            None if found.is_empty() => found.push(format!(
                "the {} connection{}, each of which waits for its answer; try more --connections",
                self.connections,
                plural(self.connections)
            )),
            _ => {}
        }
        found
    }
}

impl Display for BenchReport {
    #[expect(clippy::too_many_lines, reason = "one line of the report after the other")]
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.version, &self.store, &self.durability, &self.durability_unknown) {
            (Some(version), Some(store), Some(durability), _) => {
                let promise = match durability.as_str() {
                    "synced" => "every answer was synced to the disk before it was sent",
                    _ => "see the server's documentation",
                };
                writeln!(f, "Server     {}, version {version}, store {store}", self.server)?;
                writeln!(f, "Durability {durability}: {promise}")?;
            }
            (.., unknown) => {
                writeln!(f, "Server     {}", self.server)?;
                writeln!(f, "Durability not known: {}", unknown.as_deref().unwrap_or("not requested"))?;
            }
        }
        let pace = match self.asked_per_second {
            Some(rate) => format!("open loop, {rate} requests/s requested"),
            None => "closed loop".to_owned(),
        };
        writeln!(
            f,
            "Load       {}, {pace}, {} connection{}, {:.1} s measured",
            self.mix,
            self.connections,
            plural(self.connections),
            self.seconds
        )?;
        writeln!(
            f,
            "Done       {:.0} operations/s, {:.0} requests/s ({} operations)",
            self.operations_per_second, self.requests_per_second, self.operations
        )?;
        let from = if self.asked_per_second.is_some() {
            "from the planned time"
        } else {
            "from the time of sending"
        };
        writeln!(
            f,
            "\n{:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   ms {from}",
            "request", "answers", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for step in &self.latency {
            writeln!(
                f,
                "{:<10} {:>9} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
                step.step, step.count, step.p50_ms, step.p90_ms, step.p99_ms, step.p999_ms, step.max_ms
            )?;
        }
        writeln!(f)?;
        for (title, counts) in [("Refused", &self.refused), ("Failed", &self.failed)] {
            for (what, count) in counts {
                writeln!(f, "{title:<10} {count} × {what}")?;
            }
        }
        if let Some(side) = &self.server_side {
            writeln!(
                f,
                "Server     {:.2} processors, {:.0} commits/s of {:.2} ms with {:.1} answers each, queue up to {:.0}",
                side.processors,
                side.commits_per_second,
                side.mean_commit_ms,
                side.answers_per_commit,
                side.queue_depth
            )?;
        }
        writeln!(
            f,
            "Generator  {:.0} % of {} thread{}",
            100.0 * self.generator,
            self.threads,
            plural(self.threads)
        )?;
        for (number, limit) in self.limited_by.iter().enumerate() {
            writeln!(f, "{:<10} {limit}", if number == 0 { "Limited by" } else { "" })?;
        }
        let BenchAudit {
            agree,
            sku_prefix,
            skus,
            deleted,
            told_reserved,
            told_confirmed,
            confirmed_sold,
            held_units,
            ..
        } = &self.books;
        writeln!(
            f,
            "Stock      {skus} item{} {sku_prefix}… created, {deleted} deleted. Items with sales or holds stay: {told_reserved} units were held, {told_confirmed} of them sold; \
             {held_units} are held now and expire within {} s. Nothing else was changed",
            plural(*skus),
            self.ttl_seconds
        )?;
        if *agree {
            writeln!(f, "Audit      the server agrees with the answers: {confirmed_sold} sold")
        } else {
            writeln!(
                f,
                "Audit      the server does NOT agree with the answers: it has {confirmed_sold} sold and {held_units} held"
            )
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether these books agree with what was told, if holds last and if they may have run out.
    fn agree([reserved, confirmed]: [u64; 2], [held, sold]: [u64; 2], told: &Tally) -> (bool, bool) {
        let judge = |run_out| {
            let mut books = BenchAudit::new(&["bench-1-0".to_owned()], told);
            (books.told_reserved, books.told_confirmed) = (reserved, confirmed);
            (books.held_units, books.confirmed_sold, books.total_units) = (held, sold, 100);
            books.compare(told, run_out);
            books.agree
        };
        (judge(false), judge(true))
    }

    #[test]
    fn a_hold_that_was_told_and_is_not_there_is_noticed() {
        let all_answered = Tally::default();
        for (told, found, expected) in [
            ([10, 4], [6, 4], (true, true)),
            ([10, 4], [5, 4], (false, true)),
            ([10, 4], [0, 4], (false, true)),
            ([10, 4], [7, 4], (false, false)),
            ([10, 4], [6, 3], (false, false)),
            ([10, 4], [5, 5], (false, false)),
            ([101, 0], [101, 0], (false, false)),
        ] {
            assert_eq!(agree(told, found, &all_answered), expected, "{told:?} {found:?}");
        }
        let mut no_answer = Tally::default();
        no_answer.failed.insert("connection lost".to_owned(), 1);
        let mut cannot_say = Tally::default();
        cannot_say.refused.insert("outcome_unknown".to_owned(), 1);
        for unknown in [no_answer, cannot_say] {
            for (told, found, expected) in [
                ([10, 4], [7, 4], (true, true)),
                ([10, 4], [5, 5], (true, true)),
                ([10, 4], [5, 4], (false, true)),
                ([10, 4], [7, 3], (false, false)),
            ] {
                assert_eq!(agree(told, found, &unknown), expected, "{told:?} {found:?}");
            }
        }
        let mut refused = Tally::default();
        refused.refused.insert("insufficient_inventory".to_owned(), 9);
        assert_eq!(agree([10, 4], [7, 4], &refused), (false, false));
    }
}
